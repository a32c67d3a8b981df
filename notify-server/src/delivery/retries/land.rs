//! Taking in the answers of retries, and committing what they came to.

use notify_core::{IosEnv, Timestamp};
use tokio::time::Instant;

use super::{Landed, Retries};
use crate::delivery::decision::{Attempted, Next};
use crate::delivery::lane::{Death, Received};
use crate::providers::Reason;
use crate::reasons;
use crate::store::{
    AddressTrust, ClaimedRetry, DeadAddress, MovedAddress, RetryOutcome, RetryStep, Settled,
    VerifiedAddress,
};

impl Retries<'_> {
    /// Takes in one answer.
    pub(super) fn land(&mut self, landed: Landed) {
        let shared = self.lane.shared.clone();
        let Landed { retry, job, service, version, answer } = landed;
        let now = shared.clock.now();
        self.in_flight -= 1;
        self.lane.stream_ended();
        let env = retry.device.as_ref().map_or_else(IosEnv::default, |device| device.ios_env);
        let trust = retry.device.as_ref().map_or_else(AddressTrust::default, |device| device.trust);
        let past = Attempted {
            platform: self.lane.platform,
            attempts_before: retry.attempts,
            first_attempt_at: retry.first_attempt_at,
            unknown_outcomes: retry.unknown_outcomes,
            service_refusals: 0,
            is_address_at_fault: false,
            expires_at: job.expires_at,
            now,
            jitter: shared.jitter(),
        };
        let message_id = shared.config.kept_message_id(&answer);
        let made = retry.attempts.saturating_add(1);
        let received =
            Received { answer, key: retry.key, service: service.as_ref(), env, trust, version };
        let (next, learned) = self.lane.judge(received, past);
        if !matches!(next, Next::End { settled: Settled::Sent, .. }) {
            self.mark.not_sent(retry.dispatch, retry.key);
        }
        let outcome = match next {
            Next::End { settled, reason } => {
                let verified = (settled == Settled::Sent && !trust.is_verified())
                    .then(|| VerifiedAddress { key: retry.key, address: address_of(&retry) });
                let step = RetryStep::Settled { settled, reason, attempts: made, message_id };
                RetryOutcome { verified, ..RetryOutcome::of(retry.no, step) }
            }
            Next::Disable { .. } if learned.death == Some(Death::Doubted) => {
                let step = RetryStep::Later { due_at: now };
                RetryOutcome::of(retry.no, step)
            }
            Next::Disable { reason, since } => {
                let dead = dead_of(&retry, reason.clone(), (since, now), learned.reported());
                let (settled, reason) = (Settled::Unregistered, Some(reason));
                let step = RetryStep::Settled { settled, reason, attempts: made, message_id: None };
                RetryOutcome { dead: Some(dead), ..RetryOutcome::of(retry.no, step) }
            }
            Next::Move { to, due_at, attempts } => {
                let from = address_of(&retry);
                let moved = MovedAddress { key: retry.key, from, to, at: now };
                let past = (reasons::MOVED.into(), retry.unknown_outcomes);
                RetryOutcome { moved: Some(moved), ..again(&retry, attempts, due_at, past) }
            }
            Next::Retry { due_at, reason, attempts, unknown_outcomes } => {
                again(&retry, attempts, due_at, (reason, unknown_outcomes))
            }
            Next::Pause { until, scope } => {
                self.lane.pause(until, scope, service.as_deref(), version);
                let until = job.at_latest(until);
                again(
                    &retry,
                    retry.attempts,
                    until,
                    (reasons::THROTTLED.into(), retry.unknown_outcomes),
                )
            }
            Next::Hold { reason, .. } => {
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
                Ok(()) => {
                    let is_over =
                        |outcome: &&RetryOutcome| matches!(outcome.step, RetryStep::Settled { .. });
                    self.hand.settled(outcomes.iter().map(|outcome| outcome.no));
                    self.lane.retries_fewer(outcomes.iter().filter(is_over).count() as u64);
                    shared.metrics.retried(self.lane.platform.provider(), &outcomes);
                    break;
                }
                Err(error) => shared.storage_failed(&error).await,
            }
        }
        shared.credit.give_back(std::mem::take(&mut self.credits));
        shared.committed();
        if let Some(due_at) = outcomes.iter().filter_map(RetryOutcome::due_at).min() {
            shared.look_by(due_at);
        }
        // The end of a zone may be the time for the next look at the notification.
        if self.jobs.iter().any(|job| job.is_local()) {
            shared.wake.notify_one();
        }
    }
}

fn address_of(retry: &ClaimedRetry) -> Box<str> {
    let device = retry.device.as_ref().expect("a retry that was sent has its device");
    device.address.clone().expect("a device that was sent to has an address")
}

fn dead_of(
    retry: &ClaimedRetry,
    reason: Reason,
    (since, at): (Option<Timestamp>, Timestamp),
    ambiguous: Option<u32>,
) -> DeadAddress {
    let ios_env = retry.device.as_ref().map_or_else(IosEnv::default, |device| device.ios_env);
    DeadAddress {
        key: retry.key,
        address: address_of(retry),
        ios_env,
        reason,
        since,
        at,
        ambiguous,
    }
}

fn again(
    retry: &ClaimedRetry,
    attempts: u16,
    due_at: Timestamp,
    (reason, unknown_outcomes): (Reason, u16),
) -> RetryOutcome {
    let step = RetryStep::Again { attempts, due_at, reason, unknown_outcomes };
    RetryOutcome::of(retry.no, step)
}
