//! Taking in the answers of retries, and committing what they came to.

use notify_core::Timestamp;
use tokio::time::Instant;

use super::{Landed, Retries};
use crate::delivery::decision::{Attempted, Next, decide};
use crate::providers::Reason;
use crate::store::{ClaimedRetry, DeadAddress, RetryOutcome, RetryStep, Settled};

impl Retries<'_> {
    /// Takes in one answer.
    pub(super) fn land(&mut self, landed: Landed) {
        let shared = self.lane.shared.clone();
        let Landed { retry, job, version, answer } = landed;
        let now = shared.clock.now();
        self.in_flight -= 1;
        self.lane.stream_ended();
        self.lane.heard(&answer, version, now);
        let past = Attempted {
            platform: self.lane.platform,
            attempts_before: retry.attempts,
            first_attempt_at: retry.first_attempt_at,
            unknown_outcomes: retry.unknown_outcomes,
            expires_at: job.expires_at,
            now,
            jitter: shared.jitter(),
        };
        let made = retry.attempts.saturating_add(1);
        let next = decide(answer, &past, &shared.config.retry);
        if !matches!(next, Next::End { settled: Settled::Sent, .. }) {
            self.mark.not_sent(retry.dispatch, retry.key);
        }
        let outcome = match next {
            Next::End { settled, reason } => {
                let step = RetryStep::Settled { settled, reason, attempts: made };
                RetryOutcome { no: retry.no, step, dead: None }
            }
            Next::Disable { reason, since } => {
                let device = retry.device.expect("a retry that was sent has its device");
                let address = device.address.expect("a device that was sent to has an address");
                let dead = DeadAddress {
                    key: retry.key,
                    address,
                    ios_env: device.ios_env,
                    reason: reason.clone(),
                    since,
                    at: now,
                };
                let settled = Settled::Unregistered;
                let step = RetryStep::Settled { settled, reason: Some(reason), attempts: made };
                RetryOutcome { no: retry.no, step, dead: Some(dead) }
            }
            Next::Retry { due_at, reason, attempts, unknown_outcomes } => {
                again(&retry, attempts, due_at, (reason, unknown_outcomes))
            }
            Next::Pause { until } => {
                self.lane.pause(until, version);
                let until = job.at_latest(until);
                again(&retry, retry.attempts, until, ("throttled".into(), retry.unknown_outcomes))
            }
            Next::Hold { reason } => {
                self.lane.hold(&reason, version, now);
                again(&retry, retry.attempts, now, (reason, retry.unknown_outcomes))
            }
        };
        self.credits += 1;
        self.note(outcome);
    }

    pub(super) fn note(&mut self, outcome: RetryOutcome) {
        if self.outcomes.is_empty() {
            self.since = Instant::now();
        }
        self.outcomes.push(outcome);
    }

    pub(super) fn wants_commit(&self) -> bool {
        self.outcomes.len() >= self.lane.shared.config.checkpoint_outcomes
    }

    pub(super) async fn commit(&mut self) {
        let shared = self.lane.shared.clone();
        let outcomes = std::mem::take(&mut self.outcomes);
        while !outcomes.is_empty() {
            let now = shared.clock.now();
            match shared.store.settle_retries(shared.epoch, outcomes.clone(), now).await {
                Ok(()) => break,
                Err(error) => shared.storage_failed(&error).await,
            }
        }
        shared.credit.give_back(std::mem::take(&mut self.credits));
        shared.committed();
        // The next due time may have changed.
        shared.wake.notify_one();
    }
}

fn again(
    retry: &ClaimedRetry,
    attempts: u16,
    due_at: Timestamp,
    (reason, unknown_outcomes): (Reason, u16),
) -> RetryOutcome {
    let step = RetryStep::Again { attempts, due_at, reason, unknown_outcomes };
    RetryOutcome { no: retry.no, step, dead: None }
}
