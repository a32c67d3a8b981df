//! Circuit breakers and the records of other servers.

use std::sync::Arc;

use notify_core::Platform;

use super::*;
use crate::delivery::breaker::Admission;
use crate::providers::Processing;

const MINUTE_MS: i64 = 60_000;

const US: InstanceId = InstanceId(1);
const THEM: InstanceId = InstanceId(2);
const OTHERS: InstanceId = InstanceId(3);

const REASON: &str = "PERMISSION_DENIED";

fn time(ms: i64) -> Timestamp {
    Timestamp(ms)
}

fn breaker() -> CircuitBreaker {
    let outbox = LaneOutbox { dirty: Arc::default(), app: AppNo(1), platform: Platform::Android };
    CircuitBreaker::new(MINUTE_MS, Some(PeerSync::new(outbox)))
}

fn record(no: i64, status: ProviderStatus, by: Option<InstanceId>) -> BreakerRecord {
    let key = BreakerKey { app: AppNo(1), platform: Platform::Android, service: "".into() };
    BreakerRecord { no, key, status, by }
}

/// This server, one of two.
fn us(now: Timestamp) -> ApplyContext {
    ApplyContext { instance: US, servers: 2, now, jitter: 0.5 }
}

fn rejected(probe_at: i64) -> ProviderStatus {
    ProviderStatus::AuthRejected { reason: Some(REASON.to_owned()), probe_at: time(probe_at) }
}

fn unreachable(probe_at: i64) -> ProviderStatus {
    ProviderStatus::Unreachable { probe_at: time(probe_at) }
}

fn throttled(until: i64) -> ProviderStatus {
    ProviderStatus::Throttled { until: time(until) }
}

const CLOSED: BreakerState = BreakerState::Closed;
const SUSPECT: BreakerState = BreakerState::Suspect;
const THROTTLED: BreakerState = BreakerState::Throttled { until: Timestamp(500) };
const THROTTLED_LONGER: BreakerState = BreakerState::Throttled { until: Timestamp(9_001) };
const AUTH_REJECTED: BreakerState = BreakerState::AuthRejected {
    reason: std::borrow::Cow::Borrowed(REASON),
    probe_at: Timestamp(MINUTE_MS),
};
const UNREACHABLE: BreakerState = BreakerState::Unreachable { probe_at: Timestamp(1_000) };
const HALF_OPEN: BreakerState =
    BreakerState::HalfOpen { until: Timestamp(MINUTE_MS), tests_credentials: false };
const TRIPPED: BreakerState = BreakerState::Tripped;

/// Brings a breaker into a state by answers to this server's own requests.
fn in_state(state: &BreakerState) -> CircuitBreaker {
    let breaker = breaker();
    let reason = REASON.into();
    match state {
        BreakerState::Closed => {}
        BreakerState::Suspect => {
            breaker.on_auth_failure(&reason, time(0));
        }
        BreakerState::Throttled { until } => breaker.throttle(*until),
        BreakerState::AuthRejected { .. } => {
            breaker.reject_credentials(&reason, time(0));
        }
        BreakerState::Unreachable { .. } => {
            breaker.on_failure(Processing::NotProcessed, time(0));
        }
        BreakerState::HalfOpen { .. } => {
            breaker.on_failure(Processing::NotProcessed, time(-2_000));
            assert_eq!(breaker.admit(time(0)), Admission::Go);
        }
        BreakerState::Tripped => {
            breaker.trip();
        }
    }
    assert_eq!(breaker.state(), *state);
    breaker
}

/// The table in the description of the module, row by row.
#[test]
fn a_record_changes_a_breaker_as_its_row_says() {
    use UpdateEffect::{Applied, Ignored, Release, Trip};

    let available = ProviderStatus::Available;
    let adopted_rejection =
        BreakerState::AuthRejected { reason: REASON.into(), probe_at: time(9_500) };
    let adopted_outage = BreakerState::Unreachable { probe_at: time(9_500) };
    let adopted_throttle = BreakerState::Throttled { until: time(9_000) };
    for (published, state, effect, expected) in [
        (available.clone(), CLOSED, Ignored, CLOSED),
        (available.clone(), SUSPECT, Applied, CLOSED),
        (available.clone(), THROTTLED, Applied, CLOSED),
        (available.clone(), AUTH_REJECTED, Applied, CLOSED),
        (available.clone(), UNREACHABLE, Applied, CLOSED),
        (available.clone(), HALF_OPEN, Applied, CLOSED),
        (available, TRIPPED, Ignored, TRIPPED),
        (throttled(9_000), CLOSED, Applied, adopted_throttle.clone()),
        (throttled(9_000), SUSPECT, Applied, adopted_throttle.clone()),
        (throttled(9_000), THROTTLED, Applied, adopted_throttle.clone()),
        (throttled(9_000), THROTTLED_LONGER, Ignored, THROTTLED_LONGER),
        (throttled(9_000), AUTH_REJECTED, Ignored, AUTH_REJECTED),
        (throttled(9_000), UNREACHABLE, Applied, adopted_throttle.clone()),
        (throttled(9_000), HALF_OPEN, Applied, adopted_throttle),
        (throttled(9_000), TRIPPED, Ignored, TRIPPED),
        (throttled(1), CLOSED, Ignored, CLOSED),
        (throttled(1), UNREACHABLE, Ignored, UNREACHABLE),
        (unreachable(9_000), CLOSED, Applied, adopted_outage.clone()),
        (unreachable(9_000), SUSPECT, Ignored, SUSPECT),
        (unreachable(9_000), THROTTLED, Ignored, THROTTLED),
        (unreachable(9_000), AUTH_REJECTED, Ignored, AUTH_REJECTED),
        (unreachable(9_000), UNREACHABLE, Applied, adopted_outage),
        (unreachable(9_000), HALF_OPEN, Ignored, HALF_OPEN),
        (unreachable(9_000), TRIPPED, Ignored, TRIPPED),
        (rejected(9_000), CLOSED, Applied, adopted_rejection.clone()),
        (rejected(9_000), SUSPECT, Applied, adopted_rejection.clone()),
        (rejected(9_000), THROTTLED, Applied, adopted_rejection.clone()),
        (rejected(9_000), AUTH_REJECTED, Applied, adopted_rejection.clone()),
        (rejected(9_000), UNREACHABLE, Applied, adopted_rejection),
        (rejected(9_000), HALF_OPEN, Ignored, HALF_OPEN),
        (rejected(9_000), TRIPPED, Ignored, TRIPPED),
        (ProviderStatus::Tripped, CLOSED, Trip, CLOSED),
        (ProviderStatus::Tripped, SUSPECT, Trip, SUSPECT),
        (ProviderStatus::Tripped, THROTTLED, Trip, THROTTLED),
        (ProviderStatus::Tripped, AUTH_REJECTED, Trip, AUTH_REJECTED),
        (ProviderStatus::Tripped, UNREACHABLE, Trip, UNREACHABLE),
        (ProviderStatus::Tripped, HALF_OPEN, Trip, HALF_OPEN),
        (ProviderStatus::Tripped, TRIPPED, Trip, TRIPPED),
    ] {
        let breaker = in_state(&state);
        let name = format!("{published:?} while {state:?}");
        let applied = breaker.apply_record(&record(1, published, Some(THEM)), us(time(1)));
        assert_eq!((applied, breaker.state()), (effect, expected), "{name}");
    }
    // Footnote 1: released after the store knew that it tripped.
    let breaker = in_state(&TRIPPED);
    breaker.apply_record(&record(1, ProviderStatus::Tripped, None), us(time(1)));
    let released = breaker.apply_record(&record(2, ProviderStatus::Available, None), us(time(1)));
    assert_eq!((released, breaker.state()), (Release, TRIPPED));
}

#[test]
fn the_reporter_of_a_rejection_probes_after_the_other_servers() {
    let (ours, theirs) = (breaker(), breaker());
    ours.reject_credentials(&REASON.into(), time(0));
    let update = ours.take_update(time(0)).unwrap();
    assert_eq!(update, PendingUpdate { status: rejected(MINUTE_MS), known_no: 0 });
    assert_eq!(ours.take_update(time(0)), None, "an update is taken only once");
    let latest = record(1, update.status, Some(US));
    ours.apply_record(&latest, us(time(0)));
    theirs.apply_record(&latest, ApplyContext { instance: THEM, ..us(time(0)) });
    assert_eq!(theirs.take_update(time(0)), None, "an applied status is not published again");
    assert_eq!(ours.admit(time(MINUTE_MS)), Admission::Wait(time(MINUTE_MS + 3_000)));
    assert_eq!(theirs.admit(time(MINUTE_MS)), Admission::Wait(time(MINUTE_MS + 500)));
    assert_eq!(theirs.admit(time(MINUTE_MS + 500)), Admission::Go, "the probe");
    theirs.on_success();
    let update = theirs.take_update(time(MINUTE_MS + 600)).unwrap();
    assert_eq!(update, PendingUpdate { status: ProviderStatus::Available, known_no: 1 });
    let latest = record(2, update.status, Some(THEM));
    assert_eq!(ours.apply_record(&latest, us(time(MINUTE_MS + 600))), UpdateEffect::Applied);
    assert_eq!(ours.admit(time(MINUTE_MS + 600)), Admission::Go);
}

#[test]
fn a_single_server_does_not_delay_its_probe() {
    let breaker = breaker();
    breaker.reject_credentials(&REASON.into(), time(0));
    let PendingUpdate { status, .. } = breaker.take_update(time(0)).unwrap();
    let alone = ApplyContext { servers: 1, ..us(time(0)) };
    breaker.apply_record(&record(1, status, Some(US)), alone);
    assert_eq!(breaker.admit(time(MINUTE_MS)), Admission::Go);
}

#[test]
fn an_old_record_changes_nothing_and_a_failed_update_is_published_again() {
    let breaker = breaker();
    breaker.apply_record(&record(5, rejected(9_000), Some(THEM)), us(time(0)));
    let old = record(4, ProviderStatus::Available, Some(THEM));
    assert_eq!(breaker.apply_record(&old, us(time(0))), UpdateEffect::Ignored);
    assert_eq!(breaker.status(time(0)), rejected(9_500));
    breaker.close();
    let update = Some(PendingUpdate { status: ProviderStatus::Available, known_no: 5 });
    assert_eq!(breaker.take_update(time(1)), update);
    breaker.requeue_update();
    assert_eq!(breaker.take_update(time(1)), update);
}

#[test]
fn a_throttle_is_published_again_when_it_grows_by_a_second() {
    let breaker = breaker();
    breaker.throttle(time(10_000));
    let PendingUpdate { status, .. } = breaker.take_update(time(0)).unwrap();
    breaker.apply_record(&record(1, status, Some(US)), us(time(0)));
    for (until, is_published) in [(10_001, false), (10_999, false), (11_000, true)] {
        breaker.throttle(time(until));
        assert_eq!(breaker.take_update(time(0)).is_some(), is_published, "{until}");
    }
    // The end of a throttle is not published, because the other servers know when it expires.
    assert_eq!(breaker.admit(time(12_000)), Admission::Go);
    breaker.on_auth_failure(&"x".into(), time(12_000));
    breaker.on_success();
    assert_eq!(breaker.take_update(time(12_000)), None);
}

#[test]
fn reports_are_ignored_for_ten_minutes_after_a_contradiction() {
    let report = |breaker: &CircuitBreaker, no: i64, now: i64| {
        let record = record(no, rejected(now + MINUTE_MS), Some(THEM));
        breaker.apply_record(&record, us(time(now)));
        !breaker.is_closed()
    };
    // The others reported a rejection; here, who published a contradiction, and whether the next
    // report is applied.
    for (by, is_adopted) in
        [(Some(THEM), true), (Some(OTHERS), false), (Some(US), false), (None, true)]
    {
        let breaker = breaker();
        breaker.apply_record(&record(1, rejected(9_000), Some(THEM)), us(time(0)));
        if by == Some(US) {
            breaker.close();
        }
        breaker.apply_record(&record(2, ProviderStatus::Available, by), us(time(1)));
        assert!(breaker.is_closed());
        assert_eq!(report(&breaker, 3, 600_000), is_adopted, "{by:?}");
        assert!(report(&breaker, 4, 600_001), "{by:?}");
    }
}

#[test]
fn a_tripped_breaker_is_released_once_the_store_knew_that_it_tripped() {
    let breaker = breaker();
    let tripped = record(1, ProviderStatus::Tripped, None);
    assert_eq!(breaker.apply_record(&tripped, us(time(0))), UpdateEffect::Trip);
    breaker.trip();
    let released = record(2, ProviderStatus::Available, None);
    assert_eq!(breaker.apply_record(&released, us(time(1))), UpdateEffect::Release);
    breaker.close();
    // This server tripped, and the store has no record of that yet.
    breaker.trip();
    let earlier = record(3, ProviderStatus::Available, Some(THEM));
    assert_eq!(breaker.apply_record(&earlier, us(time(2))), UpdateEffect::Ignored);
    assert_eq!(breaker.status(time(2)), ProviderStatus::Tripped);
}
