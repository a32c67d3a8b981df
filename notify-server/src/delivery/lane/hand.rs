//! What one task has claimed of a lane's retries.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};

use crate::store::RetryNo;

/// The retries that one task claimed and has not settled. Once all of them were started the next
/// ones are claimed: those that get no answer hold up nobody (trap 3).
#[derive(Debug)]
pub(crate) struct Hand {
    unsettled: Mutex<Vec<RetryNo>>,
    all_started: AtomicBool,
}

impl Hand {
    pub(super) fn new(claimed: Vec<RetryNo>) -> Self {
        Self { unsettled: Mutex::new(claimed), all_started: AtomicBool::new(false) }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<RetryNo>> {
        self.unsettled.lock().expect("no holder of the hand panics")
    }

    /// What is not settled.
    pub(super) fn unsettled(&self) -> Vec<RetryNo> {
        self.lock().clone()
    }

    /// A commit settled these, or gave them back.
    pub(crate) fn settled(&self, retries: impl Iterator<Item = RetryNo>) {
        let mut unsettled = self.lock();
        for no in retries {
            unsettled.retain(|known| *known != no);
        }
    }

    /// None waits for its start any more. Answers whether that is news.
    pub(crate) fn all_started(&self) -> bool {
        !self.all_started.swap(true, Ordering::AcqRel)
    }

    pub(super) fn has_unstarted(&self) -> bool {
        !self.all_started.load(Ordering::Acquire)
    }
}
