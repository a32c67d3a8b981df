//! Which rows name a device or an address that an earlier row of the file names. It keeps 8 bytes of
//! each, so that a file of millions of rows takes tens of megabytes.

use std::{collections::HashSet, hash::RandomState};

use super::record::{Keys, Record};

#[derive(Default)]
pub(super) struct Repeats {
    hasher: RandomState,
    seen: HashSet<u64>,
}

impl Repeats {
    /// Notes a row: what it shares with others, and whether an earlier row has any of it.
    pub(super) fn note(&mut self, record: &Record) -> (Keys, bool) {
        let keys = record.keys(&self.hasher);
        let mut is_repeated = false;
        for key in keys.into_iter().flatten() {
            is_repeated |= !self.seen.insert(key);
        }
        (keys, is_repeated)
    }
}
