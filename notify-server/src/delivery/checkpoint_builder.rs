//! What happened on a page since its last checkpoint.

use std::time::Duration;

use notify_core::Timestamp;
use tokio::time::Instant;

use crate::providers::Reason;
use crate::store::{
    Checkpoint, DeadAddress, DeviceKey, DeviceOutcome, MovedAddress, NewRetry, OpenPage, Settled,
    VerifiedAddress,
};

/// Outcomes that wait for a checkpoint.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    settled: Vec<DeviceOutcome>,
    retries: Vec<NewRetry>,
    dead: Vec<DeadAddress>,
    moved: Vec<MovedAddress>,
    verified: Vec<VerifiedAddress>,
    credits: usize,
    since: Option<Instant>,
    forced: bool,
}

impl Batch {
    pub(super) fn settle(
        &mut self,
        key: DeviceKey,
        settled: Settled,
        reason: Option<Reason>,
        attempts: u16,
    ) {
        self.end(DeviceOutcome { key, settled, reason, attempts, message_id: None });
    }

    /// The same with everything that is kept of an outcome.
    pub(super) fn end(&mut self, outcome: DeviceOutcome) {
        self.begin();
        self.settled.push(outcome);
    }

    pub(super) fn retry(&mut self, retry: NewRetry) {
        self.begin();
        self.retries.push(retry);
    }

    pub(super) fn bury(&mut self, dead: DeadAddress) {
        self.dead.push(dead);
    }

    pub(super) fn move_to(&mut self, moved: MovedAddress) {
        self.moved.push(moved);
    }

    /// The address of a delivery that was sent took its first message.
    pub(super) fn verify(&mut self, verified: VerifiedAddress) {
        self.verified.push(verified);
    }

    /// The delivery just added holds its credit until it is committed (trap 4).
    pub(super) fn owe_credit(&mut self) {
        self.credits += 1;
    }

    pub(super) fn credits(&self) -> usize {
        self.credits
    }

    pub(super) fn is_empty(&self) -> bool {
        self.since.is_none()
    }

    pub(crate) fn retries(&self) -> usize {
        self.retries.len()
    }

    /// When the first of its retries is due.
    pub(crate) fn next_retry(&self) -> Option<Timestamp> {
        self.retries.iter().map(|retry| retry.due_at).min()
    }

    /// Whether it is large or old enough to be committed.
    pub(super) fn is_due(&self, outcomes_max: usize) -> bool {
        self.forced || self.settled.len() + self.retries.len() >= outcomes_max
    }

    /// Its time is over: it is committed whatever its size.
    pub(super) fn force(&mut self) {
        self.forced = true;
    }

    /// When its time is over.
    pub(super) fn due_at(&self, every: Duration) -> Instant {
        self.since.map_or_else(Instant::now, |since| since + every)
    }

    /// The checkpoint that carries it; what it does not know is the page's to fill in.
    pub(crate) fn into_checkpoint(self, page: OpenPage) -> Checkpoint {
        Checkpoint {
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
        }
    }

    fn begin(&mut self) {
        self.since.get_or_insert_with(Instant::now);
    }
}
