//! Taking in answers, and committing what they came to.

use super::batch::Batch;
use super::{Commit, Landed, Obstacle, PageRun};
use crate::delivery::decision::{Attempted, Next};
use crate::delivery::job::Job;
use crate::delivery::lane::{Death, Lane, Received};
use crate::delivery::marks::Mark;
use crate::delivery::shared::Shared;
use crate::reasons;
use crate::store::{
    AudienceDevice, Checkpoint, DeadAddress, DeviceOutcome, MovedAddress, NewRetry, OpenPage,
    Settled, StoreError, VerifiedAddress,
};
use futures_util::FutureExt;

/// Writes down what one first attempt came to. A device that has to wait again, since all of its
/// provider or service waits, comes back.
pub(crate) fn settle(
    (lane, job, mark): (&Lane, &Job, &Mark),
    landed: Landed,
    batch: &mut Batch,
) -> Option<AudienceDevice> {
    let shared = &lane.shared;
    let Landed { device, service, version, answer } = landed;
    let now = shared.clock.now();
    let past = Attempted {
        platform: job.dispatch.platform,
        attempts_before: 0,
        first_attempt_at: now,
        unknown_outcomes: 0,
        service_refusals: 0,
        is_address_at_fault: false,
        expires_at: job.expires_at,
        now,
        jitter: shared.jitter(),
    };
    let key = device.key;
    let message_id = shared.config.kept_message_id(&answer);
    let (env, trust) = (device.ios_env, device.trust);
    let received = Received { answer, key, service: service.as_ref(), env, trust, version };
    let (next, learned) = lane.judge(received, past);
    if !matches!(next, Next::End { settled: Settled::Sent, .. }) {
        mark.not_sent(job.dispatch.no, key);
    }
    let again = |due_at, reason, attempts, unknown_outcomes| {
        // Counted from here on, not from the commit on: what is in flight must not pass the bound.
        lane.retries_more(1);
        NewRetry { key, attempts, first_attempt_at: now, due_at, reason, unknown_outcomes }
    };
    match next {
        Next::End { settled, reason } => {
            if settled == Settled::Sent && !trust.is_verified() {
                batch.verify(VerifiedAddress { key, address: address_of(device) });
            }
            batch.end(DeviceOutcome { key, settled, reason, attempts: 1, message_id });
        }
        Next::Disable { .. } if learned.death == Some(Death::Doubted) => return Some(device),
        Next::Disable { reason, since } => {
            let (ios_env, ambiguous) = (device.ios_env, learned.reported());
            let address = address_of(device);
            batch.settle(key, Settled::Unregistered, Some(reason.clone()), 1);
            batch.bury(DeadAddress { key, address, ios_env, reason, since, at: now, ambiguous });
        }
        Next::Move { to, due_at, attempts } => {
            batch.move_to(MovedAddress { key, from: address_of(device), to, at: now });
            batch.retry(again(due_at, reasons::MOVED.into(), attempts, 0));
        }
        Next::Retry { due_at, reason, attempts, unknown_outcomes } => {
            batch.retry(again(due_at, reason, attempts, unknown_outcomes));
        }
        Next::Pause { until, scope } => {
            lane.pause(until, scope, service.as_deref(), version);
            return Some(device);
        }
        Next::Hold { .. } => return Some(device),
    }
    None
}

fn address_of(device: AudienceDevice) -> Box<str> {
    device.address.expect("a device that was sent to has an address")
}

impl PageRun {
    /// Takes in one answer.
    pub(super) fn land(&mut self, landed: Landed) {
        self.in_flight -= 1;
        self.lane.stream_ended();
        match settle((&self.lane, &self.job, &self.mark), landed, &mut self.batch) {
            Some(device) => self.wait_again(device),
            None => {
                self.batch.owe_credit();
                self.done += 1;
            }
        }
    }

    /// A delivery becomes a row of its own.
    pub(super) fn try_again(&mut self, retry: NewRetry) {
        // Counted from here on, not from the commit on: what is in flight must not pass the bound.
        self.lane.retries_more(1);
        self.batch.retry(retry);
    }

    /// Held and throttled devices go back to the queue; they never become rows.
    pub(super) fn wait_again(&mut self, device: AudienceDevice) {
        self.lane.shared.credit.give_back(1);
        self.queue.push_front(device);
        // After any pause addresses are read again (trap 8); the read sorts the queue as well.
        self.must_read();
    }

    pub(super) fn wants_commit(&self, obstacle: &Obstacle) -> bool {
        self.batch.is_due(self.lane.shared.config.checkpoint_outcomes)
            || matches!(obstacle, Obstacle::Lease)
            || matches!(obstacle, Obstacle::NoneLeft)
                && self.lane.shared.stop.asked()
                && !self.batch.is_empty()
    }

    /// Begins the next checkpoint with everything that waits for one.
    pub(super) fn commit(&mut self, finished: bool) -> Commit {
        let shared = self.lane.shared.clone();
        let now = shared.clock.now();
        self.tell_waiting();
        // Ahead of the commit, which shows that the page is still this server's.
        self.committing_in = shared.standing.tenure();
        let batch = std::mem::take(&mut self.batch);
        let waiting_targets =
            self.queue.iter().filter(|device| self.job.targets(device)).count() as u64;
        let waiting_excluded =
            if self.job.names_devices() { self.queue.len() as u64 - waiting_targets } else { 0 };
        let next_retry = batch.next_retry();
        let ends_zone = finished && self.job.is_local();
        let checkpoint = Checkpoint {
            page: self.page,
            targeted: self.done
                + self.in_flight as u64
                + waiting_targets
                + self.parked.len() as u64,
            excluded: self.skipped + waiting_excluded,
            at: now,
            lease_until: now.plus_ms(shared.config.lease_ms),
            finished,
            ..batch.into_checkpoint(self.page)
        };
        async move {
            let committed = commit_at_last(&shared, checkpoint).await;
            shared.committed();
            if let Some(due_at) = next_retry {
                shared.look_by(due_at);
            }
            // The end of a zone may be the time for the next look at the notification.
            if ends_zone {
                shared.wake.notify_one();
            }
            committed
        }
        .boxed()
    }

    pub(super) fn commit_at(&self) -> tokio::time::Instant {
        self.batch.due_at(self.lane.shared.config.checkpoint_every)
    }
}

/// Commits, as often as it takes: while storage is gone the credit stays owed, and sending stops.
async fn commit_at_last(shared: &Shared, checkpoint: Checkpoint) -> Result<OpenPage, StoreError> {
    loop {
        match shared.store.checkpoint(checkpoint.clone()).await {
            Ok(page) => {
                shared.metrics.settled(&checkpoint.settled, &checkpoint.dead);
                return Ok(page);
            }
            Err(error @ (StoreError::Fenced | StoreError::NotFound)) => return Err(error),
            Err(error) => shared.storage_failed(&error).await,
        }
    }
}

pub(super) async fn await_commit(commit: &mut Option<Commit>) -> Result<OpenPage, StoreError> {
    match commit {
        Some(commit) => commit.await,
        None => std::future::pending().await,
    }
}
