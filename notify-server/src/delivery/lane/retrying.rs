//! Claiming the retries of a lane that are due.

use std::sync::Arc;

use super::hand::Hand;
use super::run::{Finished, LaneRun};
use crate::delivery::job::Job;
use crate::delivery::marks::Mark;
use crate::delivery::retries;
use crate::store::{
    ClaimedRetry, DeviceKey, RetryClaim, RetryNo, RetryOutcome, RetryStep, SEQUENCE_MAX, StoreError,
};

/// Dispatches whose rendered form is kept for retries.
const JOBS_KEPT_MAX: usize = 64;

impl LaneRun {
    /// Whether retries that are due may be claimed: none that was claimed waits for its start, and
    /// fewer than the bound are unsettled.
    pub(super) fn may_claim(&self) -> bool {
        !self.hands.values().any(|hand| hand.has_unstarted())
            && self.in_hand().len() < self.lane.shared.config.lane_retries_max as usize
    }

    fn in_hand(&self) -> Vec<RetryNo> {
        self.hands.values().flat_map(|hand| hand.unsettled()).collect()
    }

    /// Claims what is due and has it tried.
    pub(super) async fn start_retries(&mut self) -> Result<(), StoreError> {
        let shared = self.lane.shared.clone();
        let now = shared.clock.now();
        self.retries_due = false;
        // Ahead of the look at the gate: a change that comes in while this looks is not missed.
        self.gate_changes.mark_unchanged();
        self.retries_wait = self.lane.gate.awaits_word(now);
        if self.retries_wait {
            return Ok(());
        }
        // Nobody tells it again before the next look.
        self.count_retries().await.inspect_err(|_| self.retries_due = true)?;
        let first = DeviceKey::before_first(self.lane.app, self.lane.platform);
        let last = DeviceKey::new(self.lane.app, self.lane.platform, SEQUENCE_MAX);
        let mark = shared.marks.open(first, last);
        let tenure = shared.standing.tenure();
        let in_hand = self.in_hand();
        let limit = shared.config.lane_retries_max - in_hand.len() as u32;
        let claim = RetryClaim {
            app: self.lane.app,
            platform: self.lane.platform,
            limit,
            epoch: shared.epoch,
            lease_until: now.plus_ms(shared.config.retry_lease_ms()),
            now,
            in_hand,
            after_lost: self.claims_lost,
        };
        let claimed = shared.store.claim_retries(claim).await.inspect_err(|_| {
            // It may have been committed all the same, where the answer alone was lost.
            (self.retries_due, self.claims_lost) = (true, true);
        })?;
        self.claims_lost = false;
        if claimed.is_empty() {
            return Ok(());
        }
        self.retries_due |= claimed.len() >= limit as usize;
        self.spawn_retries(claimed, (mark, tenure)).await
    }

    async fn spawn_retries(
        &mut self,
        mut claimed: Vec<ClaimedRetry>,
        (mark, tenure): (Arc<Mark>, u64),
    ) -> Result<(), StoreError> {
        let keys = claimed.iter().map(|retry| retry.key);
        if let (Some(first), Some(last)) = (keys.clone().min(), keys.max()) {
            mark.narrow(DeviceKey(first.0 - 1), last);
        }
        let jobs = match self.jobs_of(&claimed).await {
            Ok(jobs) => jobs,
            Err(error) => {
                self.give_back(&claimed).await;
                return Err(error);
            }
        };
        // Those of an erased application are gone with it.
        claimed.retain(|retry| jobs.iter().any(|job| job.dispatch.no == retry.dispatch));
        let hand = Arc::new(Hand::new(claimed.iter().map(|retry| retry.no).collect()));
        let (lane, its) = (self.lane.clone(), hand.clone());
        let task = self.running.spawn(async move {
            retries::run(&lane, claimed, &jobs, (mark, its, tenure)).await;
            Finished::Retries
        });
        self.hands.insert(task.id(), hand);
        Ok(())
    }

    /// Gives claimed retries back untried; where storage fails for that as well, the next claim finds
    /// them.
    async fn give_back(&mut self, claimed: &[ClaimedRetry]) {
        let shared = self.lane.shared.clone();
        let now = shared.clock.now();
        let later = RetryStep::Later { due_at: now };
        let outcomes = claimed.iter().map(|retry| RetryOutcome::of(retry.no, later.clone()));
        let settled = shared.store.settle_retries(shared.epoch, outcomes.collect(), now).await;
        self.retries_due = true;
        self.claims_lost |= settled.is_err();
    }

    /// Counts the open retries where the number matters: at the start, and near the bound.
    pub(super) async fn count_retries(&mut self) -> Result<(), StoreError> {
        let (lane, shared) = (&self.lane, &self.lane.shared);
        if !self.begun || lane.may_have_retries_in_plenty() {
            let begun = lane.retries.begin();
            let open = shared.store.open_retries(lane.app, lane.platform).await?;
            lane.retries_counted(begun, open);
        }
        Ok(())
    }

    /// The dispatches that claimed retries belong to, from memory where they are there.
    async fn jobs_of(&mut self, claimed: &[ClaimedRetry]) -> Result<Vec<Arc<Job>>, StoreError> {
        let mut jobs: Vec<Arc<Job>> = Vec::new();
        for retry in claimed {
            if jobs.iter().any(|job| job.dispatch.no == retry.dispatch) {
                continue;
            }
            let known = self.jobs.iter().chain(&self.turns);
            let known = known.into_iter().find(|job| job.dispatch.no == retry.dispatch).cloned();
            if let Some(job) = known {
                jobs.push(job);
                continue;
            }
            match Job::read(&self.lane.shared, retry.dispatch).await {
                Ok(job) => jobs.push(self.keep(job)),
                Err(StoreError::NotFound) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(jobs)
    }

    fn keep(&mut self, job: Arc<Job>) -> Arc<Job> {
        self.jobs.push_back(job.clone());
        if self.jobs.len() > JOBS_KEPT_MAX {
            self.jobs.pop_front();
        }
        job
    }
}
