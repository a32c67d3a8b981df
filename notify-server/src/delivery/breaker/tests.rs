//! The states of a gate.

mod others;

use super::*;

const MINUTE_MS: i64 = 60_000;

fn at(ms: i64) -> Timestamp {
    Timestamp(ms)
}

#[test]
fn a_held_gate_lets_one_probe_out_a_minute() {
    let gate = Gate::new(MINUTE_MS, None);
    assert_eq!(gate.admit(at(0)), Admission::Go);
    let held = |news| Refusal::Held { news };
    assert_eq!(gate.hold(&"InvalidProviderToken".into(), at(0)), held(true));
    assert_eq!(gate.hold(&"InvalidProviderToken".into(), at(1)), held(false), "no news");
    assert_eq!(gate.admit(at(59_999)), Admission::Wait(at(MINUTE_MS)));
    assert!(gate.is_held(at(59_999)) && !gate.is_held(at(MINUTE_MS)));
    assert_eq!(gate.admit(at(MINUTE_MS)), Admission::Go, "the probe");
    assert!(gate.is_held(at(MINUTE_MS)), "the probe is out");
    assert_eq!(gate.admit(at(MINUTE_MS)), Admission::Wait(at(2 * MINUTE_MS)), "only one");
    gate.hold(&"InvalidProviderToken".into(), at(MINUTE_MS + 5));
    assert_eq!(gate.admit(at(MINUTE_MS + 6)), Admission::Wait(at(2 * MINUTE_MS + 5)));
    assert_eq!(gate.admit(at(2 * MINUTE_MS + 5)), Admission::Go);
    gate.answered();
    assert_eq!(gate.admit(at(2 * MINUTE_MS + 6)), Admission::Go);
    assert_eq!(gate.admit(at(2 * MINUTE_MS + 6)), Admission::Go);
}

/// B40: held after one probe, so that one address alone holds nothing.
#[test]
fn the_first_refusal_is_doubted_and_the_second_holds() {
    let reason = "PERMISSION_DENIED".into();
    let gate = Gate::new(MINUTE_MS, None);
    assert_eq!(gate.refused(&reason, at(0)), Refusal::Doubted);
    assert!(!gate.is_held(at(0)));
    assert_eq!(gate.admit(at(0)), Admission::Go, "the probe");
    assert_eq!(gate.admit(at(0)), Admission::Wait(at(MINUTE_MS)), "alone");
    gate.answered();
    assert_eq!(gate.admit(at(0)), Admission::Go, "it was that address");
    assert_eq!(gate.refused(&reason, at(1)), Refusal::Doubted);
    assert_eq!(gate.admit(at(1)), Admission::Go);
    assert_eq!(gate.refused(&reason, at(2)), Refusal::Held { news: true });
    assert!(gate.is_held(at(2)));
    assert_eq!(gate.refused(&reason, at(3)), Refusal::Held { news: false }, "late ones");
}

#[test]
fn a_late_good_answer_does_not_open_a_held_gate() {
    let gate = Gate::new(MINUTE_MS, None);
    gate.hold(&"InvalidProviderToken".into(), at(0));
    gate.answered();
    assert_eq!(gate.admit(at(1)), Admission::Wait(at(MINUTE_MS)));
}

#[test]
fn a_lost_probe_is_followed_by_another() {
    let gate = Gate::new(MINUTE_MS, None);
    gate.hold(&"invalid_grant".into(), at(0));
    assert_eq!(gate.admit(at(MINUTE_MS)), Admission::Go);
    assert_eq!(gate.admit(at(2 * MINUTE_MS)), Admission::Go);
}

#[test]
fn an_outage_is_probed_more_seldom_each_time_until_an_answer_comes() {
    let gate = Gate::new(MINUTE_MS, None);
    assert!(gate.failed(Certainty::NotProcessed, at(0)));
    assert!(!gate.failed(Certainty::NotProcessed, at(0)), "failures of one wave count once");
    assert_eq!(gate.admit(at(0)), Admission::Wait(at(1_000)));
    assert_eq!(gate.admit(at(1_000)), Admission::Go, "the probe");
    assert_eq!(gate.admit(at(1_000)), Admission::Wait(at(61_000)), "alone");
    assert!(!gate.is_held(at(1_000)), "credentials are not in question");
    assert!(!gate.failed(Certainty::NotProcessed, at(1_000)), "no news");
    assert_eq!(gate.admit(at(1_000)), Admission::Wait(at(3_000)));
    assert_eq!(gate.admit(at(3_000)), Admission::Go);
    gate.answered();
    assert_eq!(gate.admit(at(3_000)), Admission::Go);
    gate.failed(Certainty::NotProcessed, at(4_000));
    assert_eq!(gate.admit(at(4_000)), Admission::Wait(at(5_000)), "from the beginning");
}

#[test]
fn failures_count_when_many_come_in_a_row() {
    let gate = Gate::new(MINUTE_MS, None);
    for nth in 1..FAILURES_IN_A_ROW_MAX {
        assert!(!gate.failed(Certainty::Failed, at(0)), "{nth}");
    }
    gate.answered();
    for nth in 1..FAILURES_IN_A_ROW_MAX {
        assert!(!gate.failed(Certainty::Failed, at(0)), "{nth} after an answer");
    }
    assert_eq!(gate.admit(at(0)), Admission::Go);
    assert!(gate.failed(Certainty::Failed, at(0)));
    assert_eq!(gate.admit(at(0)), Admission::Wait(at(1_000)));
}

#[test]
fn a_cut_connection_closes_no_gate_and_ends_a_probe() {
    let gate = Gate::new(60_000, None);
    for _ in 0..1_000 {
        assert!(!gate.failed(Certainty::Unknown, at(0)));
    }
    assert_eq!(gate.admit(at(0)), Admission::Go);

    gate.failed(Certainty::NotProcessed, at(0));
    assert_eq!(gate.admit(at(1_000)), Admission::Go, "the probe");
    gate.failed(Certainty::Unknown, at(1_000));
    assert_eq!(
        gate.admit(at(3_000)),
        Admission::Go,
        "the next one, before the first counts as lost"
    );
}

#[test]
fn what_is_stopped_opens_for_an_administrator_alone() {
    let gate = Gate::new(MINUTE_MS, None);
    assert!(gate.stop() && !gate.stop());
    gate.answered();
    gate.pause(at(5));
    gate.hold(&"invalid_grant".into(), at(5));
    assert!(matches!(gate.admit(at(10 * MINUTE_MS)), Admission::Wait(_)));
    assert!(gate.is_held(at(10 * MINUTE_MS)));
    gate.open();
    assert_eq!(gate.admit(at(0)), Admission::Go);
}

#[test]
fn a_pause_ends_with_its_time_and_the_longer_one_stands() {
    let gate = Gate::new(MINUTE_MS, None);
    gate.pause(at(5_000));
    gate.pause(at(3_000));
    assert_eq!(gate.admit(at(4_999)), Admission::Wait(at(5_000)));
    assert_eq!(gate.admit(at(5_000)), Admission::Go);
}
