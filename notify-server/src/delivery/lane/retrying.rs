//! Claiming the retries of a lane that are due.

use std::sync::Arc;

use super::run::{Finished, LaneRun};
use crate::delivery::job::Job;
use crate::delivery::retries;
use crate::store::{ClaimedRetry, DeviceKey, RetryClaim, SEQUENCE_MAX, StoreError};

/// Dispatches whose rendered form is kept for retries.
const JOBS_KEPT_MAX: usize = 64;

impl LaneRun {
    /// Claims what is due and has it tried.
    pub(super) async fn start_retries(&mut self) -> Result<(), StoreError> {
        let shared = self.lane.shared.clone();
        let now = shared.clock.now();
        self.retries_due = false;
        // The engine tells the lane again and again meanwhile.
        if self.lane.gate.is_held(now) {
            return Ok(());
        }
        self.count_retries().await?;
        let first = DeviceKey::before_first(self.lane.app, self.lane.platform);
        let last = DeviceKey::new(self.lane.app, self.lane.platform, SEQUENCE_MAX);
        let mark = shared.marks.open(first, last);
        let claim = RetryClaim {
            app: self.lane.app,
            platform: self.lane.platform,
            limit: shared.config.lane_retries_max,
            epoch: shared.epoch,
            lease_until: now.plus_ms(shared.config.lease_ms),
            now,
        };
        let claimed = shared.store.claim_retries(claim).await.inspect_err(|_| {
            self.retries_due = true;
        })?;
        if claimed.is_empty() {
            return Ok(());
        }
        let keys = claimed.iter().map(|retry| retry.key);
        if let (Some(first), Some(last)) = (keys.clone().min(), keys.max()) {
            mark.narrow(DeviceKey(first.0 - 1), last);
        }
        let more = claimed.len() >= shared.config.lane_retries_max as usize;
        let mut claimed = claimed;
        let jobs = self.jobs_of(&claimed).await?;
        // Those of an erased application are gone with it.
        claimed.retain(|retry| jobs.iter().any(|job| job.dispatch.no == retry.dispatch));
        let lane = self.lane.clone();
        self.retries_running = true;
        self.running.spawn(async move {
            retries::run(&lane, claimed, &jobs, mark).await;
            Finished::Retries { more }
        });
        Ok(())
    }

    /// Counts the open retries where the number matters: at the start, and near the bound.
    pub(super) async fn count_retries(&mut self) -> Result<(), StoreError> {
        if !self.begun || self.lane.may_have_retries_in_plenty() {
            let rows =
                self.lane.shared.store.open_retries(self.lane.app, self.lane.platform).await?;
            self.lane.retries_counted(rows);
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
