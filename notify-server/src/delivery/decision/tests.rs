//! One row for each class of answer and each limit of the retry policy.

use std::time::Duration;

use super::*;

const SECOND_MS: i64 = 1_000;
const HOUR_MS: i64 = 3_600 * SECOND_MS;
const NOW: Timestamp = Timestamp(1_000_000_000_000);

fn first_attempt() -> AttemptContext {
    AttemptContext {
        platform: Platform::Ios,
        attempts_before: 0,
        first_attempt_at: NOW,
        unknown_outcomes: 0,
        service_refusals: 0,
        is_address_at_fault: false,
        expires_at: Some(NOW.plus_ms(28 * 24 * HOUR_MS)),
        now: NOW,
        jitter: 0.0,
    }
}

fn retry(after: Option<Duration>, outcome: Processing) -> SendResult {
    SendResult::Retry { reason: "ServiceUnavailable".into(), after, outcome }
}

fn due_in_ms(next: &Decision) -> i64 {
    match next {
        Decision::Retry { due_at, .. } | Decision::Pause { until: due_at, .. } => {
            due_at.ms_since(NOW)
        }
        other => panic!("not retried: {other:?}"),
    }
}

#[test]
fn each_class_of_answer_has_its_decision() {
    let failed = |reason: &'static str| Decision::End {
        settled: Outcome::Failed,
        reason: Some(reason.into()),
    };
    let rows = [
        (
            SendResult::Delivered { message_id: None },
            Decision::End { settled: Outcome::Sent, reason: None },
        ),
        (
            SendResult::Unregistered {
                reason: "Unregistered".into(),
                ambiguous: false,
                since: Some(Timestamp(5)),
            },
            Decision::Disable { reason: "Unregistered".into(), since: Some(Timestamp(5)) },
        ),
        (SendResult::InvalidMessage { reason: "BadPriority".into() }, failed("BadPriority")),
        (SendResult::NotPermitted { reason: "outside window".into() }, failed("outside window")),
        (
            SendResult::AuthRejected { reason: "InvalidProviderToken".into() },
            Decision::Hold { reason: "InvalidProviderToken".into(), scope: Scope::Provider },
        ),
        (
            SendResult::Throttle {
                reason: "QUOTA_EXCEEDED".into(),
                after: None,
                scope: Scope::Provider,
            },
            Decision::Pause { until: NOW.plus_ms(60 * SECOND_MS), scope: Scope::Provider },
        ),
        (
            SendResult::Throttle {
                reason: "TooManyRequests".into(),
                after: None,
                scope: Scope::Address,
            },
            Decision::Retry {
                due_at: NOW.plus_ms(60 * SECOND_MS),
                reason: "TooManyRequests".into(),
                attempts: 0,
                unknown_outcomes: 0,
            },
        ),
        (
            retry(None, Processing::Unknown),
            Decision::Retry {
                due_at: NOW.plus_ms(2 * SECOND_MS),
                reason: "ServiceUnavailable".into(),
                attempts: 1,
                unknown_outcomes: 1,
            },
        ),
        (
            SendResult::Unknown { reason: "HTTP 418".into() },
            Decision::Retry {
                due_at: NOW.plus_ms(2 * SECOND_MS),
                reason: "HTTP 418".into(),
                attempts: 1,
                unknown_outcomes: 0,
            },
        ),
    ];
    for (answer, expected) in rows {
        let shown = format!("{answer:?}");
        assert_eq!(decide(answer, &first_attempt(), &RetryPolicy::default()), expected, "{shown}");
    }
}

#[test]
fn the_delay_doubles_from_two_seconds_to_fifteen_minutes_and_jitter_halves_it_at_most() {
    let policy = RetryPolicy::default();
    for (attempts_before, whole_s) in [(0, 2), (1, 4), (2, 8), (8, 512), (9, 900), (40, 900)] {
        let mut past = AttemptContext { attempts_before, ..first_attempt() };
        let next = decide(retry(None, Processing::Failed), &past, &policy);
        assert_eq!(due_in_ms(&next), whole_s * SECOND_MS, "attempt {attempts_before}");
        past.jitter = 1.0;
        let next = decide(retry(None, Processing::Failed), &past, &policy);
        assert_eq!(due_in_ms(&next), whole_s * SECOND_MS / 2, "attempt {attempts_before}");
    }
}

#[test]
fn the_delay_a_provider_requests_is_respected_up_to_a_day() {
    let policy = RetryPolicy::default();
    let day = Duration::from_secs(24 * 3_600);
    let rows = [
        (Duration::from_secs(1), SECOND_MS),
        (Duration::from_secs(3_600), HOUR_MS),
        (Duration::MAX, 24 * HOUR_MS),
        (day, 24 * HOUR_MS),
    ];
    for (asked, expected_ms) in rows {
        for jitter in [0.0, 0.5, 1.0] {
            let past = AttemptContext { jitter, ..first_attempt() };
            let throttle = SendResult::Throttle {
                reason: "QUOTA_EXCEEDED".into(),
                after: Some(asked),
                scope: Scope::Provider,
            };
            assert_eq!(due_in_ms(&decide(throttle, &past, &policy)), expected_ms);
            if expected_ms < policy.age_ms_max {
                let next = decide(retry(Some(asked), Processing::Failed), &past, &policy);
                assert_eq!(due_in_ms(&next), expected_ms);
            }
        }
    }
}

#[test]
fn expiry_and_age_end_a_delivery() {
    let policy = RetryPolicy::default();
    let one_try = AttemptContext { expires_at: None, ..first_attempt() };
    let soon_over = AttemptContext { expires_at: Some(NOW.plus_ms(SECOND_MS)), ..first_attempt() };
    let old = AttemptContext { first_attempt_at: NOW.plus_ms(-24 * HOUR_MS), ..first_attempt() };
    for (past, expected) in
        [(one_try, Outcome::Expired), (soon_over, Outcome::Expired), (old, Outcome::Failed)]
    {
        let next = decide(retry(None, Processing::Failed), &past, &policy);
        let reason = Some("ServiceUnavailable".into());
        assert_eq!(next, Decision::End { settled: expected, reason });
    }
}

#[test]
fn an_unknown_outcome_is_retried_once_where_repeats_are_not_recognised() {
    let policy = RetryPolicy::default();
    for (platform, repeats) in [
        (Platform::Android, true),
        (Platform::Ios, true),
        (Platform::Web, true),
        (Platform::FbMessenger, false),
        (Platform::ChatApp, false),
    ] {
        let first = AttemptContext { platform, ..first_attempt() };
        let next = decide(retry(None, Processing::Unknown), &first, &policy);
        assert!(matches!(next, Decision::Retry { unknown_outcomes: 1, .. }), "{platform}");
        let second = AttemptContext { unknown_outcomes: 1, attempts_before: 1, ..first };
        let next = decide(retry(None, Processing::Unknown), &second, &policy);
        assert_eq!(matches!(next, Decision::Retry { .. }), repeats, "{platform}");
        let failed = decide(retry(None, Processing::Failed), &second, &policy);
        assert!(
            matches!(failed, Decision::Retry { .. }),
            "a reported failure is not an unknown outcome"
        );
    }
}

#[test]
fn unknown_answers_have_a_low_limit_of_attempts() {
    let policy = RetryPolicy::default();
    let past =
        AttemptContext { attempts_before: policy.unknown_attempts_max - 1, ..first_attempt() };
    let next = decide(SendResult::Unknown { reason: "HTTP 418".into() }, &past, &policy);
    assert_eq!(next, Decision::End { settled: Outcome::Failed, reason: Some("HTTP 418".into()) });
}

/// A single 401 or 403 of a push service is retried. Many consecutive ones hold the push service.
#[test]
fn consecutive_rejections_hold_a_push_service() {
    let refused = || SendResult::ServiceRefused { reason: "http_403".into() };
    let policy = RetryPolicy::default();
    for service_refusals in 1..policy.service_refusals_max {
        let past = AttemptContext { service_refusals, ..first_attempt() };
        let next = decide(refused(), &past, &policy);
        assert!(
            matches!(next, Decision::Retry { attempts: 1, .. }),
            "{service_refusals}: {next:?}"
        );
    }
    let past = AttemptContext { service_refusals: policy.service_refusals_max, ..first_attempt() };
    let held = Decision::Hold { reason: "http_403".into(), scope: Scope::Service };
    assert_eq!(decide(refused(), &past, &policy), held);
    let last = AttemptContext {
        service_refusals: 1,
        attempts_before: policy.unknown_attempts_max - 1,
        ..first_attempt()
    };
    let failed = Decision::End { settled: Outcome::Failed, reason: Some("http_403".into()) };
    assert_eq!(decide(refused(), &last, &policy), failed, "an old subscription ends");
}
