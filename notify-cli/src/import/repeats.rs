//! Which rows name a device or an address that an earlier row of the file names. It keeps 8 bytes of
//! each, so that a file of millions of rows takes tens of megabytes.

use std::{collections::HashSet, hash::RandomState};

use super::record::{Keys, Record};

/// What of a row an earlier row has.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Repeated {
    pub(super) device: bool,
    pub(super) address: bool,
}

#[derive(Default)]
pub(super) struct Repeats {
    hasher: RandomState,
    seen: HashSet<u64>,
}

impl Repeats {
    /// Notes a row: what it shares with others, and what of it an earlier row has.
    pub(super) fn note(&mut self, record: &Record) -> (Keys, Repeated) {
        let keys = record.keys(&self.hasher);
        let [device, address] = keys.map(|key| key.is_some_and(|key| !self.seen.insert(key)));
        (keys, Repeated { device, address })
    }
}
