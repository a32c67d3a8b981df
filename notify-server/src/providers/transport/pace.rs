//! How often an origin that fails is tried: all pools of an origin share one pace, so that many
//! applications do not add up to a storm.

use std::sync::Mutex;

use tokio::time::Instant;

use super::RECONNECT_INTERVAL;

/// The pace of one origin.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// While the origin fails: when the next connection may begin.
    next: Mutex<Option<Instant>>,
}

impl Pace {
    /// When a connection may begin; that moment is then taken.
    pub(super) fn reserve(&self, now: Instant) -> Instant {
        let mut next = self.next.lock().expect("nothing panics under this lock");
        match *next {
            None => now,
            Some(at) => {
                let at = at.max(now);
                *next = Some(at + RECONNECT_INTERVAL);
                at
            }
        }
    }

    /// A connection failed, or did not live.
    pub(super) fn failed(&self, now: Instant) {
        let mut next = self.next.lock().expect("nothing panics under this lock");
        let earliest = now + RECONNECT_INTERVAL;
        *next = Some(next.map_or(earliest, |at| at.max(earliest)));
    }

    /// A connection stands.
    pub(super) fn succeeded(&self) {
        *self.next.lock().expect("nothing panics under this lock") = None;
    }
}
