//! The gate of a lane: whether deliveries of one application through one provider may go out now.
//!
//! ```text
//!    throttled, unreachable          credentials refused
//! Paused ◀──────────── Open ────────────────────────────▶ Held ──probe due──▶ Probing
//!    └──── time over ───▶ ▲                                 ▲                   │ │
//!                         │                                 └──── refused ──────┘ │
//!                         └───────────── any other answer ───────────────────────┘
//! ```

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use notify_core::Timestamp;

use super::changes::{Changes, Heard};
use crate::providers::Reason;

/// State of a gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum GateState {
    /// Deliveries go out.
    Open,
    /// The provider asked to slow down.
    Paused {
        /// Until when.
        until: Timestamp,
    },
    /// The provider refuses our credentials.
    Held {
        /// Its word.
        reason: Reason,
        /// When one delivery is tried as a probe.
        probe_at: Timestamp,
    },
    /// One delivery is out as a probe.
    Probing {
        /// When the probe counts as lost, and another goes out.
        until: Timestamp,
    },
}

/// What a gate says to one delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admission {
    /// It may go out.
    Go,
    /// Not before that instant, or a change of the gate.
    Wait(Timestamp),
}

/// The gate of a lane.
#[derive(Debug)]
pub(crate) struct Gate {
    state: Mutex<GateState>,
    changed: Changes,
    probe_every_ms: i64,
    unreachable_in_a_row: AtomicU32,
}

/// First pause after the provider could not be reached, in milliseconds; it doubles.
const UNREACHABLE_PAUSE_MS: i64 = 1_000;
/// Most doublings of that pause: it stays at about a minute.
const UNREACHABLE_DOUBLINGS_MAX: u32 = 6;

impl Gate {
    pub(crate) fn new(probe_every_ms: i64) -> Self {
        Self {
            state: Mutex::new(GateState::Open),
            changed: Changes::default(),
            probe_every_ms,
            unreachable_in_a_row: AtomicU32::new(0),
        }
    }

    /// Asks for one delivery to go out. From [`GateState::Held`] this makes it the probe.
    pub(crate) fn admit(&self, now: Timestamp) -> Admission {
        let mut state = self.state.lock().expect("no holder of the gate panics");
        let wait_until = match *state {
            GateState::Open => return Admission::Go,
            GateState::Paused { until } if now >= until => {
                *state = GateState::Open;
                return Admission::Go;
            }
            GateState::Held { probe_at: due, .. } | GateState::Probing { until: due }
                if now >= due =>
            {
                *state = GateState::Probing { until: now.plus_ms(self.probe_every_ms) };
                return Admission::Go;
            }
            GateState::Paused { until }
            | GateState::Probing { until }
            | GateState::Held { probe_at: until, .. } => until,
        };
        Admission::Wait(wait_until)
    }

    /// Whether everything waits for credentials or for the probe that is out, at that instant.
    pub(crate) fn is_held(&self, now: Timestamp) -> bool {
        match *self.state.lock().expect("no holder of the gate panics") {
            GateState::Open | GateState::Paused { .. } => false,
            GateState::Held { probe_at: until, .. } | GateState::Probing { until } => now < until,
        }
    }

    /// The provider asked to slow down; a later instant stands.
    pub(crate) fn pause(&self, until: Timestamp) {
        self.change(|state| match state {
            GateState::Open | GateState::Probing { .. } => Some(GateState::Paused { until }),
            GateState::Paused { until: before } if *before < until => {
                Some(GateState::Paused { until })
            }
            GateState::Paused { .. } | GateState::Held { .. } => None,
        });
    }

    /// The provider refused our credentials. Answers whether that is news.
    pub(crate) fn hold(&self, reason: &Reason, now: Timestamp) -> bool {
        let probe_at = now.plus_ms(self.probe_every_ms);
        let mut news = false;
        self.change(|state| match state {
            GateState::Held { .. } => None,
            GateState::Open | GateState::Paused { .. } | GateState::Probing { .. } => {
                news = !matches!(state, GateState::Probing { .. });
                Some(GateState::Held { reason: reason.clone(), probe_at })
            }
        });
        news
    }

    /// The provider could not be reached: a short pause, so that an outage turns few deliveries
    /// into rows of their own. Answers whether that is news: the first time in a row.
    pub(crate) fn unreachable(&self, now: Timestamp) -> bool {
        let open = *self.state.lock().expect("no holder of the gate panics") == GateState::Open;
        if !open {
            return false;
        }
        let doublings = self.unreachable_in_a_row.fetch_add(1, Ordering::AcqRel);
        let pause_ms = UNREACHABLE_PAUSE_MS << doublings.min(UNREACHABLE_DOUBLINGS_MAX);
        self.pause(now.plus_ms(pause_ms));
        doublings == 0
    }

    /// The provider answered something that does not blame our credentials: a probe went well.
    pub(crate) fn answered(&self) {
        self.unreachable_in_a_row.store(0, Ordering::Release);
        self.change(|state| match state {
            GateState::Probing { .. } => Some(GateState::Open),
            GateState::Open | GateState::Paused { .. } | GateState::Held { .. } => None,
        });
    }

    /// Opens whatever the state: the provider was configured anew.
    pub(crate) fn open(&self) {
        self.change(|_| Some(GateState::Open));
    }

    /// Wakes whoever waits at the gate, to look again at something else.
    pub(crate) fn nudge(&self) {
        self.changed.tell();
    }

    /// Hears of every change.
    pub(crate) fn subscribe(&self) -> Heard {
        self.changed.subscribe()
    }

    fn change(&self, next: impl FnOnce(&GateState) -> Option<GateState>) {
        let mut state = self.state.lock().expect("no holder of the gate panics");
        if let Some(next) = next(&state) {
            *state = next;
            drop(state);
            self.changed.tell();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE_MS: i64 = 60_000;

    fn at(ms: i64) -> Timestamp {
        Timestamp(ms)
    }

    #[test]
    fn a_held_gate_lets_one_probe_out_a_minute() {
        let gate = Gate::new(MINUTE_MS);
        assert_eq!(gate.admit(at(0)), Admission::Go);
        assert!(gate.hold(&"InvalidProviderToken".into(), at(0)));
        assert!(!gate.hold(&"InvalidProviderToken".into(), at(1)), "the second is no news");
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

    #[test]
    fn a_late_good_answer_does_not_open_a_held_gate() {
        let gate = Gate::new(MINUTE_MS);
        gate.hold(&"InvalidProviderToken".into(), at(0));
        gate.answered();
        assert_eq!(gate.admit(at(1)), Admission::Wait(at(MINUTE_MS)));
    }

    #[test]
    fn a_lost_probe_is_followed_by_another() {
        let gate = Gate::new(MINUTE_MS);
        gate.hold(&"invalid_grant".into(), at(0));
        assert_eq!(gate.admit(at(MINUTE_MS)), Admission::Go);
        assert_eq!(gate.admit(at(2 * MINUTE_MS)), Admission::Go);
    }

    #[test]
    fn an_outage_pauses_longer_each_time_until_an_answer_comes() {
        let gate = Gate::new(MINUTE_MS);
        gate.unreachable(at(0));
        gate.unreachable(at(0));
        assert_eq!(
            gate.admit(at(0)),
            Admission::Wait(at(1_000)),
            "failures of one wave count once"
        );
        assert_eq!(gate.admit(at(1_000)), Admission::Go);
        gate.unreachable(at(1_000));
        assert_eq!(gate.admit(at(1_000)), Admission::Wait(at(3_000)));
        assert_eq!(gate.admit(at(3_000)), Admission::Go);
        gate.answered();
        gate.unreachable(at(4_000));
        assert_eq!(gate.admit(at(4_000)), Admission::Wait(at(5_000)));
    }

    #[test]
    fn a_pause_ends_with_its_time_and_the_longer_one_stands() {
        let gate = Gate::new(MINUTE_MS);
        gate.pause(at(5_000));
        gate.pause(at(3_000));
        assert_eq!(gate.admit(at(4_999)), Admission::Wait(at(5_000)));
        assert_eq!(gate.admit(at(5_000)), Admission::Go);
    }
}
