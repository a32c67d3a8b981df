//! Deliveries that are tried again: rows of their own, claimed when due, read anew at each try.

use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use notify_core::{IosEnv, Timestamp};
use tokio::time::Instant;

use crate::delivery::attempt;
use crate::delivery::breaker::Admission;
use crate::delivery::decision::{Attempted, Next};
use crate::delivery::job::{Job, Mode};
use crate::delivery::lane::{AnswerContext, Hand, InService, Lane, UnregisteredVerdict};
use crate::delivery::marks::Mark;
use crate::delivery::slots::Claim;
use crate::providers::{Answer, Reason};
use crate::reasons;
use crate::store::{
    AddressTrust, ClaimedRetry, DeadAddress, MovedAddress, RetryOutcome, RetryStep, Settled,
    StoreError, VerifiedAddress,
};
use crate::telemetry::DeliveryMetrics;

/// A retry whose attempt came back.
struct Landed {
    retry: ClaimedRetry,
    job: Arc<Job>,
    /// What it went through, counted there until this is dropped.
    service: Option<InService>,
    /// Version of the provider that was asked.
    version: u64,
    answer: Answer,
}

type Flights = FuturesUnordered<BoxFuture<'static, Landed>>;

/// Tries claimed retries and commits what became of them, in small groups. The mark was opened
/// before they were claimed, and their devices read.
pub(super) async fn run(
    lane: &Arc<Lane>,
    claimed: Vec<ClaimedRetry>,
    jobs: &[Arc<Job>],
    (mark, hand, tenure): (Arc<Mark>, Arc<Hand>, u64),
) {
    let mut work = Retries {
        lane: lane.clone(),
        jobs,
        mark,
        hand,
        tenure,
        queue: claimed.into(),
        outcomes: Vec::new(),
        credits: 0,
        in_flight: 0,
        since: Instant::now(),
        slot: Claim::new(&lane.slots),
        credit: Claim::new(&lane.shared.credit),
    };
    let mut flights = Flights::new();
    loop {
        if let Err(error) = work.start_what_may_start(&mut flights).await {
            lane.shared.storage_failed(&error).await;
            continue;
        }
        if work.wants_commit() || (work.queue.is_empty() && flights.is_empty()) {
            work.commit().await;
        }
        if work.queue.is_empty() && flights.is_empty() {
            return;
        }
        tokio::select! {
            biased;
            Some(landed) = flights.next(), if !flights.is_empty() => work.land(landed),
            () = tokio::time::sleep_until(work.since + lane.shared.config.checkpoint_every),
                if !work.outcomes.is_empty() => work.commit().await,
            () = work.slot.turn() => {}
            () = work.credit.turn() => {}
            () = lane.shared.stop.cancelled(), if !work.queue.is_empty() => {}
        }
    }
}

/// Retries at work. Dropped, it gives back every place that it holds.
struct Retries<'a> {
    lane: Arc<Lane>,
    jobs: &'a [Arc<Job>],
    mark: Arc<Mark>,
    hand: Arc<Hand>,
    /// The server's tenure when they were claimed.
    tenure: u64,
    queue: VecDeque<ClaimedRetry>,
    outcomes: Vec<RetryOutcome>,
    /// Credit that is owed until the outcomes are committed.
    credits: usize,
    in_flight: usize,
    since: Instant,
    slot: Claim,
    credit: Claim,
}

impl Drop for Retries<'_> {
    /// Also when the work broke off: a place that is not given back is lost for good.
    fn drop(&mut self) {
        self.lane.shared.credit.give_back(self.credits + self.in_flight);
        self.lane.streams_dropped(self.in_flight);
    }
}

// Starting retries: what is not worth a try any more is settled, the rest waits for its place.

/// Longest wait for a service that has all its streams in use, in milliseconds.
const SERVICE_FULL_MS: i64 = 250;
/// Longest wait for a service that is probed, in milliseconds: the answer opens it at once, but
/// tells no retry.
const SERVICE_PROBED_MS: i64 = 2_000;

impl Retries<'_> {
    /// Starts retries until none is left, or slots or credit are used up.
    async fn start_what_may_start(&mut self, flights: &mut Flights) -> Result<(), StoreError> {
        loop {
            // On its way before anything is awaited: what was decided under a lease must not lie here
            // until that is over (trap 5).
            while let Some(Some(landed)) = flights.next().now_or_never() {
                self.land(landed);
            }
            let Some(retry) = self.queue.front() else { break };
            let job = self.job_of(retry);
            let version = self.lane.provider_version();
            let mode = job.mode(&self.lane).await?;
            let ends = ends_without_trying(retry, &job, &mode, &self.lane).await?;
            // Nothing is awaited from here on to the start: whatever was acknowledged before it, an
            // update of the device (trap 8), a cancellation or another provider, is seen.
            let now = self.lane.shared.clock.now();
            if self.mark.has_changed(retry.key) {
                // Claimed again, at once, it comes with the device as it is now.
                self.postpone_front(now);
                continue;
            }
            let sends = matches!(mode, Mode::Send { .. });
            if version != self.lane.provider_version() || (sends && job.canceled()) {
                continue;
            }
            if let Some((settled, reason)) = ends {
                self.end_front(settled, reason);
                continue;
            }
            if let Some(until) = self.service_full_until(retry, &job, &mode, now) {
                self.postpone_front(until);
                continue;
            }
            let shared = &self.lane.shared;
            // What was claimed before it counted as dead may be others' by now.
            let standing = &shared.standing;
            if shared.stop.is_cancelled()
                || !standing.holds(now)
                || self.tenure != standing.tenure()
            {
                self.postpone_all(now);
                continue;
            }
            if let Err(until) = self.lane.chat_free(retry.key, now) {
                self.postpone_front(until);
                continue;
            }
            self.lane.slots.set_limit(self.lane.slots_max());
            if !self.slot.has_place() || !self.credit.has_place() {
                return Ok(());
            }
            if let Admission::Wait(until) = self.lane.admit(now) {
                // What waits for a word stays due, so that it goes on as soon as that is said; the
                // lane does not claim it before.
                let until = if self.lane.breaker.is_waiting_for_probe(now) { now } else { until };
                self.postpone_all(until);
                continue;
            }
            let Some(retry) = self.queue.pop_front() else { break };
            self.start(flights, (retry, job), (mode, version), now);
        }
        // Places that nobody uses must not wait for the answers that are still to come.
        self.slot.let_go();
        self.credit.let_go();
        if self.hand.all_started() {
            self.lane.look_again();
        }
        Ok(())
    }

    fn start(
        &mut self,
        flights: &mut Flights,
        (retry, job): (ClaimedRetry, Arc<Job>),
        (mode, version): (Mode, u64),
        now: Timestamp,
    ) {
        self.slot.hand_over();
        self.credit.hand_over();
        self.in_flight += 1;
        self.mark.started(retry.dispatch, retry.key);
        self.lane.chat_started(retry.key, now);
        let service = retry.device.as_ref().and_then(|device| job.service_of(&self.lane, device));
        let service = service.map(|service| InService::start(service, now));
        let metrics = self.lane.shared.metrics.clone();
        flights.push(fly(retry, job, mode, (service, version, metrics)));
    }

    fn job_of(&self, retry: &ClaimedRetry) -> Arc<Job> {
        let job = self.jobs.iter().find(|job| job.dispatch.no == retry.dispatch);
        job.expect("the lane read the dispatch of every claimed retry").clone()
    }

    /// Until when the service behind a retry takes nothing, if it does not.
    fn service_full_until(
        &self,
        retry: &ClaimedRetry,
        job: &Job,
        mode: &Mode,
        now: Timestamp,
    ) -> Option<Timestamp> {
        let (Mode::Send { provider, .. }, Some(device)) = (mode, &retry.device) else {
            return None;
        };
        let service = job.service_of(&self.lane, device)?;
        let until = service.room(job.candidate(&self.lane, provider, device), now).err()?;
        Some(match until {
            None => now.plus_ms(SERVICE_FULL_MS),
            Some(until) if service.breaker.is_waiting_for_probe(now) => {
                until.min(now.plus_ms(SERVICE_PROBED_MS))
            }
            Some(until) => until,
        })
    }

    /// The first one ends without being tried.
    fn end_front(&mut self, settled: Settled, reason: Reason) {
        let Some(retry) = self.queue.pop_front() else { return };
        let attempts = retry.attempts;
        let step = RetryStep::Settled { settled, reason: Some(reason), attempts, message_id: None };
        self.note(RetryOutcome::of(retry.no, step));
    }

    /// Gives what is left back.
    fn postpone_all(&mut self, until: Timestamp) {
        while !self.queue.is_empty() {
            self.postpone_front(until);
        }
    }

    /// Gives the first one back: a pause is no attempt (B39).
    fn postpone_front(&mut self, until: Timestamp) {
        let Some(retry) = self.queue.pop_front() else { return };
        let due_at = self.job_of(&retry).at_latest(until);
        self.note(RetryOutcome::of(retry.no, RetryStep::Later { due_at }));
    }
}

/// How a retry ends that is not worth a try any more: the device is read again at each.
async fn ends_without_trying(
    retry: &ClaimedRetry,
    job: &Job,
    mode: &Mode,
    lane: &Lane,
) -> Result<Option<(Settled, Reason)>, StoreError> {
    let Some(device) = &retry.device else {
        return Ok(Some((Settled::Canceled, reasons::DEVICE_DELETED.into())));
    };
    if let Mode::Count { settled, reason } = mode {
        return Ok(Some((*settled, reason.clone())));
    }
    if job.expired(lane.shared.clock.now()) {
        return Ok(Some((Settled::Expired, reasons::EXPIRED.into())));
    }
    if !job.reaches(device) {
        return Ok(Some((Settled::Failed, reasons::NO_ADDRESS.into())));
    }
    if !job.targets(device) {
        return Ok(Some((Settled::Failed, reasons::DEVICE_DISABLED.into())));
    }
    if job.reached_before(device, &lane.shared).await? {
        return Ok(Some((Settled::Failed, reasons::SENT_UNDER_ANOTHER_DEVICE.into())));
    }
    // A newer one is shown in its place: this one would overwrite it.
    if job.replaces_others() && lane.shared.store.overtaken(retry.dispatch, retry.key).await? {
        return Ok(Some((Settled::Expired, reasons::OVERTAKEN.into())));
    }
    Ok(None)
}

fn fly(
    retry: ClaimedRetry,
    job: Arc<Job>,
    mode: Mode,
    (service, version, metrics): (Option<InService>, u64, DeliveryMetrics),
) -> BoxFuture<'static, Landed> {
    async move {
        let address = retry.device.as_ref().and_then(|device| job.address(device));
        let answer = match (mode, address) {
            (Mode::Send { provider, payload }, Some(address)) => {
                attempt::attempt(&metrics, &provider, &payload, &address).await
            }
            (Mode::Send { .. } | Mode::Count { .. }, _) => {
                Answer::BadMessage { reason: reasons::NO_ADDRESS.into() }
            }
        };
        Landed { retry, job, service, version, answer }
    }
    .boxed()
}

// Taking in the answers of retries, and committing what they came to.

impl Retries<'_> {
    /// Takes in one answer.
    fn land(&mut self, landed: Landed) {
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
        let context =
            AnswerContext { key: retry.key, service: service.as_ref(), env, trust, version };
        let (next, effects) = self.lane.on_answer(answer, &context, past);
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
            Next::Disable { .. } if effects.unregistered == Some(UnregisteredVerdict::Suspect) => {
                let step = RetryStep::Later { due_at: now };
                RetryOutcome::of(retry.no, step)
            }
            Next::Disable { reason, since } => {
                let dead = dead_of(&retry, reason.clone(), (since, now), effects.counted());
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
                self.lane.throttle(until, scope, service.as_deref(), version);
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

    fn note(&mut self, outcome: RetryOutcome) {
        if self.outcomes.is_empty() {
            self.since = Instant::now();
        }
        self.outcomes.push(outcome);
    }

    fn wants_commit(&self) -> bool {
        self.outcomes.len() >= self.lane.shared.config.checkpoint_outcomes
    }

    async fn commit(&mut self) {
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
