//! The results of first attempts that wait for a checkpoint.

use std::sync::Arc;
use std::time::Duration;

use notify_core::Timestamp;
use tokio::time::Instant;

use crate::delivery::lane::{Lane, UncommittedRetries};
use crate::delivery::permits::Permit;
use crate::delivery::sender::{AttemptResult, Disposition};
use crate::store::{
    AudienceDevice, Checkpoint, DeadAddress, DeviceOutcome, MovedAddress, NewRetry, OpenPage,
    VerifiedAddress,
};

/// Collects results until they are committed.
#[derive(Default)]
pub(crate) struct CheckpointBuilder {
    settled: Vec<DeviceOutcome>,
    retries: Vec<NewRetry>,
    dead: Vec<DeadAddress>,
    moved: Vec<MovedAddress>,
    verified: Vec<VerifiedAddress>,
    guard: CommitGuard,
    /// When the first result was added.
    since: Option<Instant>,
    is_forced: bool,
}

/// Permits and counts that uncommitted results hold. Dropping the value, after the commit or when
/// the results are given up, releases them.
#[derive(Default)]
pub(crate) struct CommitGuard {
    unacked: Option<Permit>,
    retries: Option<UncommittedRetries>,
}

impl CommitGuard {
    /// Adds what another result holds.
    pub(crate) fn merge(&mut self, other: Self) {
        if let Some(unacked) = other.unacked {
            unacked.merge_into(&mut self.unacked);
        }
        if let Some(retries) = other.retries {
            retries.merge_into(&mut self.retries);
        }
    }
}

impl CheckpointBuilder {
    /// Adds the result of an attempt. Returns the device if the delivery is postponed instead: it goes
    /// back to its queue and no longer counts as unacknowledged.
    pub(crate) fn record(
        &mut self,
        lane: &Arc<Lane>,
        result: AttemptResult,
    ) -> Option<AudienceDevice> {
        let AttemptResult { disposition, unacked } = result;
        match disposition {
            Disposition::Outcome { outcome, dead, verified } => {
                self.dead.extend(dead);
                self.verified.extend(verified);
                self.settle(outcome);
            }
            Disposition::Retry { retry, moved } => {
                self.moved.extend(moved);
                self.retry(lane, retry);
            }
            Disposition::Postponed { device, .. } => return Some(device),
        }
        unacked.merge_into(&mut self.guard.unacked);
        None
    }

    /// Adds a delivery that ended.
    pub(crate) fn settle(&mut self, outcome: DeviceOutcome) {
        self.note_time();
        self.settled.push(outcome);
    }

    /// Adds a delivery that becomes a retry. It counts from here on, not from the commit on: retries in
    /// flight must not exceed the limit either.
    pub(crate) fn retry(&mut self, lane: &Arc<Lane>, retry: NewRetry) {
        self.note_time();
        lane.uncommitted_retry().merge_into(&mut self.guard.retries);
        self.retries.push(retry);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.since.is_none()
    }

    /// When the first of its retries is due.
    pub(crate) fn next_retry(&self) -> Option<Timestamp> {
        self.retries.iter().map(|retry| retry.due_at).min()
    }

    /// Whether it holds `outcomes_max` results, or was forced.
    pub(crate) fn is_due(&self, outcomes_max: usize) -> bool {
        self.is_forced || self.settled.len() + self.retries.len() >= outcomes_max
    }

    /// Makes the checkpoint due, whatever its size.
    pub(crate) fn force(&mut self) {
        self.is_forced = true;
    }

    /// The time when its first result has waited for `delay`.
    pub(crate) fn due_at(&self, delay: Duration) -> Instant {
        self.since.map_or_else(Instant::now, |since| since + delay)
    }

    /// Builds the checkpoint, without the fields that only its page knows, and the guard to hold
    /// until it is committed.
    pub(crate) fn build(self, page: OpenPage) -> (Checkpoint, CommitGuard) {
        let checkpoint = Checkpoint {
            page,
            settled: self.settled,
            retries: self.retries,
            dead: self.dead,
            moved: self.moved,
            verified: self.verified,
            targeted: 0,
            excluded: 0,
            at: page.lease_until,
            lease_until: page.lease_until,
            finished: false,
        };
        (checkpoint, self.guard)
    }

    fn note_time(&mut self) {
        self.since.get_or_insert_with(Instant::now);
    }
}
