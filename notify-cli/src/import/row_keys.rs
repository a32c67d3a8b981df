//! Rows that share a key, which is the hash of a device id or of an address: they are executed in the
//! order of the file, so that the last one wins, and counted as duplicates. A key takes 8 bytes, so that
//! a file of millions of rows takes tens of megabytes.

use std::collections::{HashMap, HashSet};
use std::hash::RandomState;

use tokio::sync::watch;

use super::operation::{Keys, Operation};

/// Least number of keys before those of finished rows are removed.
const SWEEP_KEYS_MIN: usize = 1_024;

/// Makes each row wait for the previous row with one of its keys.
#[derive(Default)]
pub(super) struct RowOrder {
    last: HashMap<u64, watch::Receiver<()>>,
    /// The number of keys after the last sweep.
    swept: usize,
}

/// The place of a row in the order; later rows wait until it is dropped.
pub(super) struct Ticket {
    predecessors: Vec<watch::Receiver<()>>,
    _done: watch::Sender<()>,
}

impl RowOrder {
    /// Issues the ticket of the next row of the file.
    pub(super) fn ticket(&mut self, keys: Keys) -> Ticket {
        let (done, wait) = watch::channel(());
        let keys = keys.into_iter().flatten();
        let predecessors = keys.filter_map(|key| self.last.insert(key, wait.clone())).collect();
        if self.last.len() > 2 * self.swept.max(SWEEP_KEYS_MIN) {
            self.last.retain(|_, wait| wait.has_changed().is_ok());
            self.swept = self.last.len();
        }
        Ticket { predecessors, _done: done }
    }
}

impl Ticket {
    /// Waits until the previous rows are finished.
    pub(super) async fn wait(&mut self) {
        for predecessor in &mut self.predecessors {
            // Nothing is ever sent: the wait ends when the sender is dropped.
            while predecessor.changed().await.is_ok() {}
        }
    }
}

/// Which keys of a row an earlier row has.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Duplicate {
    pub(super) device: bool,
    pub(super) address: bool,
}

#[derive(Default)]
pub(super) struct DuplicateDetector {
    hasher: RandomState,
    seen: HashSet<u64>,
}

impl DuplicateDetector {
    /// Records the keys of a row.
    pub(super) fn add(&mut self, operation: &Operation) -> (Keys, Duplicate) {
        let keys = operation.keys(&self.hasher);
        let [device, address] = keys.map(|key| key.is_some_and(|key| !self.seen.insert(key)));
        (keys, Duplicate { device, address })
    }
}
