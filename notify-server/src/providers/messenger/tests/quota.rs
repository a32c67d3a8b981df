//! The usage headers, and the limits that follow from them.

use std::time::Duration;

use http::{HeaderMap, HeaderValue};
use notify_core::Timestamp;
use serde_json::json;

use super::NOW;
use crate::providers::ProviderLimit;
use crate::providers::messenger::{PER_SECOND, Quota, Usage, read_usage};

fn minutes(minutes: u64) -> Duration {
    Duration::from_secs(60 * minutes)
}

fn after(by: Duration) -> Timestamp {
    NOW.plus_ms(i64::try_from(by.as_millis()).unwrap())
}

fn full(percent: u32, regain: Option<u64>) -> Option<Usage> {
    Some(Usage { percent, regain: regain.map(minutes) })
}

#[test]
fn fullest_quota_of_both_headers_applies() {
    let case = |call_count: i64, regain: u64| {
        json!({
            "type": "messenger", "call_count": call_count, "total_cputime": 25, "total_time": 25,
            "estimated_time_to_regain_access": regain,
        })
    };
    let app = |calls: i64, time: i64, cpu: f64| {
        Some(json!({"call_count": calls, "total_time": time, "total_cputime": cpu}).to_string())
    };
    let cases = |cases: serde_json::Value| Some(cases.to_string());
    let rows = [
        (None, None, None),
        (app(28, 25, 26.9), None, full(28, None)),
        (app(28, 95, 26.0), None, full(95, None)),
        (app(0, 0, 83.5), None, full(83, None)),
        (app(180, 0, 0.0), None, full(100, None)),
        (app(-5, 0, 0.0), None, full(0, None)),
        (None, cases(json!({"1": [case(90, 0)]})), full(90, None)),
        (
            None,
            cases(json!({"1": [case(10, 0), case(100, 19)], "2": [case(3, 7)]})),
            full(100, Some(19)),
        ),
        (app(50, 0, 0.0), cases(json!({"1": [case(40, 0)]})), full(50, None)),
        (None, cases(json!({"1": [case(100, 1_000_000)]})), full(100, Some(24 * 60))),
        // A header that cannot be read is ignored.
        (Some("{".to_owned()), cases(json!([])), None),
        (
            Some("{\"call_count\": \"x\"}".to_owned()),
            cases(json!({"1": [case(30, 0)]})),
            full(30, None),
        ),
    ];
    for (app, cases, expected) in rows {
        let mut headers = HeaderMap::new();
        for (name, value) in [("x-app-usage", &app), ("x-business-use-case-usage", &cases)] {
            if let Some(value) = value {
                headers.insert(name, HeaderValue::from_str(value).unwrap());
            }
        }
        assert_eq!(read_usage(&headers), expected, "{app:?} {cases:?}");
    }
}

#[test]
fn a_page_slows_down_from_four_fifths_on_and_stops_when_its_quota_is_used_up() {
    let rows = [
        (None, ProviderLimit::PerSecond(30)),
        (full(79, None), ProviderLimit::PerSecond(30)),
        (full(80, None), ProviderLimit::PerSecond(28)),
        (full(90, None), ProviderLimit::PerSecond(14)),
        (full(99, None), ProviderLimit::PerSecond(1)),
        (full(100, Some(19)), ProviderLimit::Exhausted { until: after(minutes(19)) }),
        (full(100, None), ProviderLimit::Exhausted { until: after(minutes(1)) }),
    ];
    for (usage, expected) in rows {
        let quota = Quota::default();
        quota.record_usage(usage, NOW);
        assert_eq!(quota.limit(PER_SECOND, NOW), expected, "{usage:?}");
    }
}

#[test]
fn page_resumes_slowly_at_the_named_time_and_fully_after_an_hour() {
    let quota = Quota::default();
    quota.record_usage(full(100, Some(19)), NOW);
    let rows = [
        (
            minutes(19) - Duration::from_millis(1),
            ProviderLimit::Exhausted { until: after(minutes(19)) },
        ),
        (minutes(19), ProviderLimit::PerSecond(1)),
        (minutes(60), ProviderLimit::PerSecond(30)),
    ];
    for (later, expected) in rows {
        assert_eq!(quota.limit(PER_SECOND, after(later)), expected, "{later:?}");
    }
    quota.record_usage(full(100, None), after(minutes(61)));
    quota.record_usage(full(10, None), after(minutes(63)));
    assert_eq!(quota.limit(PER_SECOND, after(minutes(63))), ProviderLimit::PerSecond(30));
}

#[test]
fn a_throttle_without_a_time_waits_a_minute_doubling_to_an_hour() {
    let quota = Quota::default();
    let mut now = NOW;
    for expected in [1, 2, 4, 8, 16, 32, 60, 60] {
        assert_eq!(quota.record_throttle(None, now), minutes(expected));
        // Responses to requests in flight do not double the wait again.
        let soon = now.plus_ms(1_000);
        let left = minutes(expected) - Duration::from_secs(1);
        assert_eq!(quota.record_throttle(None, soon), left);
        let until = now.plus_ms(i64::try_from(minutes(expected).as_millis()).unwrap());
        assert_eq!(quota.limit(PER_SECOND, soon), ProviderLimit::Exhausted { until });
        now = until;
    }
    quota.record_delivery();
    assert_eq!(quota.record_throttle(None, now), minutes(1), "a success resets it");
    let named = quota.record_throttle(Some(minutes(45)), now);
    assert_eq!(named, minutes(45), "what Meta says counts");
}
