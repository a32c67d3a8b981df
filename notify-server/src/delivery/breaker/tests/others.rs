//! A gate and the words of other servers.

use std::sync::Arc;

use notify_core::Platform;

use super::*;
use crate::delivery::breaker_sync::News;
use crate::store::{AppNo, ChannelPlace, ChannelTold, ChannelWord, Epoch};

const US: Epoch = Epoch(1);
const THEM: Epoch = Epoch(2);
const OTHERS: Epoch = Epoch(3);

fn gate() -> Gate {
    let of = (AppNo(1), Platform::Android);
    Gate::new(MINUTE_MS, Some(Others::new(Arc::<News>::default(), of)))
}

fn told(no: i64, word: ChannelWord, by: Option<Epoch>) -> ChannelTold {
    let place = ChannelPlace { app: AppNo(1), platform: Platform::Android, service: "".into() };
    ChannelTold { no, place, word, by }
}

fn by_us(now: Timestamp) -> Hearer {
    Hearer { epoch: US, servers: 2, now, jitter: 0.5 }
}

fn held_word(probe_at: i64) -> ChannelWord {
    ChannelWord::Held { reason: "PERMISSION_DENIED".into(), probe_at: at(probe_at) }
}

fn failing_word(probe_at: i64) -> ChannelWord {
    ChannelWord::Failing { probe_at: at(probe_at) }
}

fn paused_word(until: i64) -> ChannelWord {
    ChannelWord::Paused { until: at(until) }
}

/// Brings a gate into a state by what happens here.
fn in_state(name: &str) -> Gate {
    let gate = gate();
    let reason = "PERMISSION_DENIED".into();
    match name {
        "open" => {}
        "doubted" => drop(gate.refused(&reason, at(0))),
        "held" => drop(gate.hold(&reason, at(0))),
        "failing" => drop(gate.failed(Certainty::NotProcessed, at(0))),
        "paused" => gate.pause(at(500)),
        "stopped" => drop(gate.stop()),
        "probing" => {
            gate.failed(Certainty::NotProcessed, at(-2_000));
            assert_eq!(gate.admit(at(0)), Admission::Go);
        }
        name => panic!("no state: {name}"),
    }
    gate
}

fn name(state: &GateState) -> &'static str {
    match state {
        GateState::Open => "open",
        GateState::Paused { .. } => "paused",
        GateState::Doubted => "doubted",
        GateState::Held { .. } => "held",
        GateState::Failing { .. } => "failing",
        GateState::Probing { .. } => "probing",
        GateState::Stopped => "stopped",
    }
}

#[test]
fn every_word_does_what_its_row_says_in_every_state() {
    let states = ["open", "doubted", "held", "failing", "paused", "stopped", "probing"];
    let rows = [
        (ChannelWord::Open, ["open", "open", "open", "open", "open", "stopped", "open"]),
        (paused_word(9_000), ["paused", "paused", "held", "paused", "paused", "stopped", "paused"]),
        (held_word(9_000), ["held", "held", "held", "held", "held", "stopped", "probing"]),
        (
            failing_word(9_000),
            ["failing", "doubted", "held", "failing", "paused", "stopped", "probing"],
        ),
        (ChannelWord::Stopped, states),
    ];
    for (word, expected) in rows {
        for (state, expected) in states.into_iter().zip(expected) {
            let gate = in_state(state);
            let heard = gate.heard(&told(1, word.clone(), Some(THEM)), by_us(at(1)));
            assert_eq!(name(&gate.state()), expected, "{word:?} while {state}");
            let stops = heard == Heard::Stop;
            assert_eq!(stops, word == ChannelWord::Stopped, "{word:?} while {state}");
        }
    }
}

#[test]
fn who_takes_a_word_probes_ahead_of_who_said_it() {
    let (ours, theirs) = (gate(), gate());
    ours.hold(&"PERMISSION_DENIED".into(), at(0));
    let (word, known) = ours.to_tell(at(0)).unwrap();
    assert_eq!((&word, known), (&held_word(MINUTE_MS), 0));
    assert_eq!(ours.to_tell(at(0)), None, "told once");
    let latest = told(1, word, Some(US));
    ours.heard(&latest, by_us(at(0)));
    theirs.heard(&latest, Hearer { epoch: THEM, ..by_us(at(0)) });
    assert_eq!(theirs.to_tell(at(0)), None, "it is no news of its own");
    assert_eq!(ours.admit(at(MINUTE_MS)), Admission::Wait(at(MINUTE_MS + 3_000)));
    assert_eq!(theirs.admit(at(MINUTE_MS)), Admission::Wait(at(MINUTE_MS + 500)));
    assert_eq!(theirs.admit(at(MINUTE_MS + 500)), Admission::Go, "the probe");
    theirs.answered();
    let (word, known) = theirs.to_tell(at(MINUTE_MS + 600)).unwrap();
    assert_eq!((&word, known), (&ChannelWord::Open, 1));
    assert_eq!(ours.heard(&told(2, word, Some(THEM)), by_us(at(MINUTE_MS + 600))), Heard::Taken);
    assert_eq!(ours.admit(at(MINUTE_MS + 600)), Admission::Go);
}

#[test]
fn alone_nobody_waits_for_the_others() {
    let gate = gate();
    gate.hold(&"PERMISSION_DENIED".into(), at(0));
    let (word, _) = gate.to_tell(at(0)).unwrap();
    gate.heard(&told(1, word, Some(US)), Hearer { servers: 1, ..by_us(at(0)) });
    assert_eq!(gate.admit(at(MINUTE_MS)), Admission::Go);
}

#[test]
fn an_old_word_changes_nothing_and_a_lost_one_is_told_again() {
    let gate = gate();
    gate.heard(&told(5, held_word(9_000), Some(THEM)), by_us(at(0)));
    assert_eq!(gate.heard(&told(4, ChannelWord::Open, Some(THEM)), by_us(at(0))), Heard::Nothing);
    assert_eq!(name(&gate.state()), "held");
    gate.open();
    assert_eq!(gate.to_tell(at(1)), Some((ChannelWord::Open, 5)));
    gate.not_told();
    assert_eq!(gate.to_tell(at(1)), Some((ChannelWord::Open, 5)));
}

#[test]
fn a_pause_is_news_when_it_grows_by_a_second() {
    let gate = gate();
    gate.pause(at(10_000));
    let (word, _) = gate.to_tell(at(0)).unwrap();
    gate.heard(&told(1, word, Some(US)), by_us(at(0)));
    for (until, is_news) in [(10_001, false), (10_999, false), (11_000, true)] {
        gate.pause(at(until));
        assert_eq!(gate.to_tell(at(0)).is_some(), is_news, "{until}");
    }
    // Whose time is over is open, which everybody knows.
    assert_eq!(gate.admit(at(12_000)), Admission::Go);
    gate.refused(&"x".into(), at(12_000));
    gate.answered();
    assert_eq!(gate.to_tell(at(12_000)), None);
}

#[test]
fn after_a_contradiction_closing_words_are_not_taken_for_ten_minutes() {
    let late = |gate: &Gate, no: i64, now: i64| {
        gate.heard(&told(no, held_word(now + MINUTE_MS), Some(THEM)), by_us(at(now)));
        name(&gate.state())
    };
    // They said held, and who said otherwise.
    for (by, taken) in [(Some(THEM), true), (Some(OTHERS), false), (Some(US), false), (None, true)]
    {
        let gate = gate();
        gate.heard(&told(1, held_word(9_000), Some(THEM)), by_us(at(0)));
        if by == Some(US) {
            gate.open();
        }
        gate.heard(&told(2, ChannelWord::Open, by), by_us(at(1)));
        assert_eq!(name(&gate.state()), "open");
        assert_eq!(late(&gate, 3, 600_000) == "held", taken, "{by:?}");
        assert_eq!(late(&gate, 4, 600_001), "held", "{by:?}");
    }
}

#[test]
fn what_the_guard_stopped_goes_on_when_the_store_says_so() {
    let gate = gate();
    assert_eq!(gate.heard(&told(1, ChannelWord::Stopped, None), by_us(at(0))), Heard::Stop);
    gate.stop();
    assert_eq!(gate.heard(&told(2, ChannelWord::Open, None), by_us(at(1))), Heard::Release);
    gate.open();
    // Stopped here, and the store does not know yet.
    gate.stop();
    assert_eq!(gate.heard(&told(3, ChannelWord::Open, Some(THEM)), by_us(at(2))), Heard::Nothing);
    assert_eq!(name(&gate.state()), "stopped");
}
