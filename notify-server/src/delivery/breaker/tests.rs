//! The states of a breaker.

use super::*;

const MINUTE_MS: i64 = 60_000;

fn at(ms: i64) -> Timestamp {
    Timestamp(ms)
}

#[test]
fn rejected_credentials_are_probed_once_a_minute() {
    let breaker = CircuitBreaker::new(MINUTE_MS, None);
    assert_eq!(breaker.admit(at(0)), Admission::Go);
    let confirmed = |is_first: bool| AuthFailure::Confirmed { is_first };
    assert_eq!(breaker.reject_credentials(&"InvalidProviderToken".into(), at(0)), confirmed(true));
    assert_eq!(
        breaker.reject_credentials(&"InvalidProviderToken".into(), at(1)),
        confirmed(false),
        "the rejection was reported before"
    );
    assert_eq!(breaker.admit(at(59_999)), Admission::Wait(at(MINUTE_MS)));
    assert!(breaker.is_held(at(59_999)) && !breaker.is_held(at(MINUTE_MS)));
    assert_eq!(breaker.admit(at(MINUTE_MS)), Admission::Go, "the probe");
    assert!(breaker.is_held(at(MINUTE_MS)), "the probe is in flight");
    assert_eq!(
        breaker.admit(at(MINUTE_MS)),
        Admission::Wait(at(2 * MINUTE_MS)),
        "only one probe is in flight"
    );
    breaker.reject_credentials(&"InvalidProviderToken".into(), at(MINUTE_MS + 5));
    assert_eq!(breaker.admit(at(MINUTE_MS + 6)), Admission::Wait(at(2 * MINUTE_MS + 5)));
    assert_eq!(breaker.admit(at(2 * MINUTE_MS + 5)), Admission::Go);
    breaker.on_success();
    assert_eq!(breaker.admit(at(2 * MINUTE_MS + 6)), Admission::Go);
    assert_eq!(breaker.admit(at(2 * MINUTE_MS + 6)), Admission::Go);
}

/// A rejection that concerns one address alone must not hold all deliveries.
#[test]
fn the_first_auth_failure_is_suspected_and_the_second_confirms() {
    let reason = "PERMISSION_DENIED".into();
    let breaker = CircuitBreaker::new(MINUTE_MS, None);
    assert_eq!(breaker.on_auth_failure(&reason, at(0)), AuthFailure::Suspected);
    assert!(!breaker.is_held(at(0)));
    assert_eq!(breaker.admit(at(0)), Admission::Go, "the probe");
    assert_eq!(breaker.admit(at(0)), Admission::Wait(at(MINUTE_MS)), "only the probe is sent");
    breaker.on_success();
    assert_eq!(breaker.admit(at(0)), Admission::Go, "the first address was at fault");
    assert_eq!(breaker.on_auth_failure(&reason, at(1)), AuthFailure::Suspected);
    assert_eq!(breaker.admit(at(1)), Admission::Go);
    assert_eq!(breaker.on_auth_failure(&reason, at(2)), AuthFailure::Confirmed { is_first: true });
    assert!(breaker.is_held(at(2)));
    assert_eq!(
        breaker.on_auth_failure(&reason, at(3)),
        AuthFailure::Confirmed { is_first: false },
        "an answer that arrives late is not reported again"
    );
}

#[test]
fn a_late_success_does_not_end_an_auth_rejection() {
    let breaker = CircuitBreaker::new(MINUTE_MS, None);
    breaker.reject_credentials(&"InvalidProviderToken".into(), at(0));
    breaker.on_success();
    assert_eq!(breaker.admit(at(1)), Admission::Wait(at(MINUTE_MS)));
}

#[test]
fn a_lost_probe_is_followed_by_another() {
    let breaker = CircuitBreaker::new(MINUTE_MS, None);
    breaker.reject_credentials(&"invalid_grant".into(), at(0));
    assert_eq!(breaker.admit(at(MINUTE_MS)), Admission::Go);
    assert_eq!(breaker.admit(at(2 * MINUTE_MS)), Admission::Go);
}

#[test]
fn a_probe_that_is_not_sent_is_followed_by_another_at_once() {
    let breaker = CircuitBreaker::new(MINUTE_MS, None);
    assert_eq!(breaker.probe_until(), None);
    breaker.reject_credentials(&"InvalidProviderToken".into(), at(0));
    assert_eq!(breaker.admit(at(MINUTE_MS)), Admission::Go);
    let probe_until = breaker.probe_until().unwrap();
    breaker.withdraw_probe(probe_until);
    assert_eq!(breaker.admit(at(MINUTE_MS + 5)), Admission::Go, "the next probe");
    breaker.withdraw_probe(probe_until);
    assert_eq!(
        breaker.admit(at(MINUTE_MS + 5)),
        Admission::Wait(at(2 * MINUTE_MS + 5)),
        "the probe in flight is not the one that is withdrawn"
    );
}

#[test]
fn an_outage_is_probed_with_backoff_until_a_success() {
    let breaker = CircuitBreaker::new(MINUTE_MS, None);
    assert!(breaker.on_failure(Processing::NotProcessed, at(0)));
    assert!(
        !breaker.on_failure(Processing::NotProcessed, at(0)),
        "failures of attempts that were in flight together count once"
    );
    assert_eq!(breaker.admit(at(0)), Admission::Wait(at(1_000)));
    assert_eq!(breaker.admit(at(1_000)), Admission::Go, "the probe");
    assert_eq!(breaker.admit(at(1_000)), Admission::Wait(at(61_000)), "only the probe is sent");
    assert!(!breaker.is_held(at(1_000)), "credentials are not in question");
    assert!(!breaker.on_failure(Processing::NotProcessed, at(1_000)), "the outage continues");
    assert_eq!(breaker.admit(at(1_000)), Admission::Wait(at(3_000)));
    assert_eq!(breaker.admit(at(3_000)), Admission::Go);
    breaker.on_success();
    assert_eq!(breaker.admit(at(3_000)), Admission::Go);
    breaker.on_failure(Processing::NotProcessed, at(4_000));
    assert_eq!(breaker.admit(at(4_000)), Admission::Wait(at(5_000)), "the backoff starts again");
}

#[test]
fn many_consecutive_failures_are_an_outage() {
    let breaker = CircuitBreaker::new(MINUTE_MS, None);
    for nth in 1..CONSECUTIVE_FAILURES_MAX {
        assert!(!breaker.on_failure(Processing::Failed, at(0)), "{nth}");
    }
    breaker.on_success();
    for nth in 1..CONSECUTIVE_FAILURES_MAX {
        assert!(!breaker.on_failure(Processing::Failed, at(0)), "{nth} after an answer");
    }
    assert_eq!(breaker.admit(at(0)), Admission::Go);
    assert!(breaker.on_failure(Processing::Failed, at(0)));
    assert_eq!(breaker.admit(at(0)), Admission::Wait(at(1_000)));
}

#[test]
fn a_lost_connection_is_no_outage_and_ends_a_probe() {
    let breaker = CircuitBreaker::new(60_000, None);
    for _ in 0..1_000 {
        assert!(!breaker.on_failure(Processing::Unknown, at(0)));
    }
    assert_eq!(breaker.admit(at(0)), Admission::Go);

    breaker.on_failure(Processing::NotProcessed, at(0));
    assert_eq!(breaker.admit(at(1_000)), Admission::Go, "the probe");
    breaker.on_failure(Processing::Unknown, at(1_000));
    assert_eq!(
        breaker.admit(at(3_000)),
        Admission::Go,
        "the next probe is sent before the first counts as lost"
    );
}

#[test]
fn only_an_administrator_ends_a_trip() {
    let breaker = CircuitBreaker::new(MINUTE_MS, None);
    assert!(breaker.trip() && !breaker.trip());
    breaker.on_success();
    breaker.throttle(at(5));
    breaker.reject_credentials(&"invalid_grant".into(), at(5));
    assert!(matches!(breaker.admit(at(10 * MINUTE_MS)), Admission::Wait(_)));
    assert!(breaker.is_held(at(10 * MINUTE_MS)));
    breaker.close();
    assert_eq!(breaker.admit(at(0)), Admission::Go);
}

#[test]
fn a_throttle_expires_and_the_longer_one_counts() {
    let breaker = CircuitBreaker::new(MINUTE_MS, None);
    breaker.throttle(at(5_000));
    breaker.throttle(at(3_000));
    assert_eq!(breaker.admit(at(4_999)), Admission::Wait(at(5_000)));
    assert_eq!(breaker.admit(at(5_000)), Admission::Go);
}
