//! The trace of a run, with a hash over every event. Two runs of a seed are equal if their hashes
//! are.

use std::collections::VecDeque;

use notify_core::Timestamp;

/// Start of the simulated time.
pub(super) const START: Timestamp = Timestamp(1_780_000_000_000);
/// FNV-1a, 64 bits.
const HASH_START: u64 = 0xcbf2_9ce4_8422_2325;
const HASH_PRIME: u64 = 0x0100_0000_01b3;

/// The events of a run, in order.
pub(super) struct Trace {
    hash: u64,
    events: u64,
    lines: VecDeque<String>,
    lines_max: usize,
}

impl Trace {
    /// A trace that keeps the last `lines_max` lines.
    pub(super) fn new(lines_max: usize) -> Self {
        Self { hash: HASH_START, events: 0, lines: VecDeque::new(), lines_max }
    }

    /// Records an event.
    pub(super) fn record(&mut self, at: Timestamp, what: &str) {
        let line = format!("{:>10} {what}", at.ms_since(START));
        for byte in line.bytes() {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(HASH_PRIME);
        }
        self.events += 1;
        if self.lines_max == 0 {
            return;
        }
        if self.lines.len() == self.lines_max {
            self.lines.pop_front();
        }
        self.lines.push_back(line);
    }

    /// The hash over all events so far, and their times.
    pub(super) fn hash(&self) -> u64 {
        self.hash
    }

    pub(super) fn events(&self) -> u64 {
        self.events
    }

    pub(super) fn into_lines(self) -> Vec<String> {
        self.lines.into()
    }
}
