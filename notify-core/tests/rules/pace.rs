//! `per_minute` and `canary`.

use std::num::NonZeroU32;

use notify_core::{
    Canary, CanaryPlan, CanaryThen, CreateNotification, Platform, ReportNotification,
};
use serde_json::json;

use crate::notifications::{minimal, parse};
use crate::support::{check, errors_of};

#[test]
fn a_canary_has_defaults() {
    let mut body = minimal();
    body["canary"] = json!({"percent": 5});
    body["per_minute"] = json!(600);
    let notification = parse(&body);
    assert_eq!(
        notification.canary,
        Some(CanaryPlan {
            percent: 5,
            wait_seconds: 600,
            max_failed_percent: 5,
            then: CanaryThen::Continue,
        })
    );
    assert_eq!(notification.per_minute, NonZeroU32::new(600));
    let without = parse(&minimal());
    assert_eq!((without.canary, without.per_minute), (None, None));
    let all = json!({"percent": 50, "wait_seconds": 60, "max_failed_percent": 0, "then": "pause"});
    body["canary"] = all;
    assert_eq!(
        parse(&body).canary,
        Some(CanaryPlan {
            percent: 50,
            wait_seconds: 60,
            max_failed_percent: 0,
            then: CanaryThen::Pause,
        })
    );
}

#[test]
fn rates_and_canaries_are_checked() {
    const RATE: &str = "per_minute: must be from 1 to 1000000";
    const PERCENT: &str = "canary.percent: must be from 1 to 50";
    const WAIT: &str = "canary.wait_seconds: must be from 60 to 86400";
    const FAILED: &str = "canary.max_failed_percent: must be at most 100";
    const WHOLE: &str = "must be a whole number without sign, fraction or exponent";
    let mut base = minimal();
    base["per_minute"] = json!(60);
    base["canary"] = json!({"percent": 5, "wait_seconds": 60, "max_failed_percent": 5,
        "then": "continue"});
    check::<CreateNotification>(
        &base,
        &[
            ("/per_minute", "1", &[]),
            ("/per_minute", "null", &[]),
            ("/per_minute", "1000000", &[]),
            ("/per_minute", "0", &[RATE]),
            ("/per_minute", "1000001", &[RATE]),
            ("/per_minute", "-1", &[&format!("per_minute: {WHOLE}")]),
            ("/per_minute", "1.5", &[&format!("per_minute: {WHOLE}")]),
            ("/per_minute", "\"60\"", &["per_minute: expected a whole number"]),
            ("/canary", "null", &[]),
            ("/canary", "{}", &["canary.percent: is required"]),
            ("/canary", "5", &["canary: expected an object"]),
            ("/canary/percent", "1", &[]),
            ("/canary/percent", "50", &[]),
            ("/canary/percent", "0", &[PERCENT]),
            ("/canary/percent", "51", &[PERCENT]),
            ("/canary/percent", "null", &["canary.percent: is required"]),
            ("/canary/wait_seconds", "null", &[]),
            ("/canary/wait_seconds", "86400", &[]),
            ("/canary/wait_seconds", "59", &[WAIT]),
            ("/canary/wait_seconds", "86401", &[WAIT]),
            ("/canary/max_failed_percent", "0", &[]),
            ("/canary/max_failed_percent", "100", &[]),
            ("/canary/max_failed_percent", "101", &[FAILED]),
            ("/canary/then", "\"\"", &[]),
            ("/canary/then", "\"pause\"", &[]),
            ("/canary/then", "\"stop\"", &["canary.then: must be one of continue, pause"]),
            ("/canary/share", "5", &["canary.share: unknown field"]),
            ("/send_at_local", "\"\"", &[]),
            (
                "/send_at_local",
                "\"2026-01-02T09:00\"",
                &["canary: must not be combined with send_at_local"],
            ),
        ],
    );
}

#[test]
fn a_report_has_neither_rate_nor_canary() {
    let report = json!({"id": "own", "text": "hi", "platforms": ["ios"], "per_minute": 5,
        "canary": {"percent": 5}});
    assert_eq!(
        errors_of::<ReportNotification>(&report.to_string()),
        ["canary: unknown field", "per_minute: unknown field"]
    );
}

#[test]
fn builders_make_the_request() {
    let request = CreateNotification::to_platforms([Platform::Ios], "Hi")
        .per_minute(600)
        .canary(Canary { max_failed_percent: Some(1), ..Canary::percent(5) });
    assert_eq!(
        serde_json::to_value(&request).unwrap(),
        json!({"text": "Hi", "platforms": ["ios"], "per_minute": 600,
            "canary": {"percent": 5, "max_failed_percent": 1}})
    );
}
