//! The task of claimed retries. A retry is a delivery with a row of its own, which a lane claims when it
//! is due. The claim reads the device as well. If the device changes after that, the retry is given
//! back and claimed again.
//!
//! Unlike the task of a page, this task waits while its outcomes are being committed, and so do the
//! retries that it has not started. This costs little, because a lane claims few retries at a time.

use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::{FutureExt, StreamExt};
use notify_core::Timestamp;
use tokio::time::Instant;

use crate::delivery::context::EngineContext;
use crate::delivery::device_tracker::RangeTracker;
use crate::delivery::dispatch::{ActiveDispatch, DeliveryMode};
use crate::delivery::lane::{Lane, RetryBatch};
use crate::delivery::pace::{Granted, Pace};
use crate::delivery::sender::{
    AttemptPermits, AttemptResult, Blocked, CompletedAttempt, Delivery, Disposition, History,
    InFlight, Route, Sender, UnackedPermits,
};
use crate::delivery::start::{Evidence, Lease, Verdict, Wait};
use crate::providers::Reason;
use crate::reasons;
use crate::store::{
    AudienceDevice, ClaimedRetry, DeviceKey, DeviceOutcome, Mismatch, NewRetry, Outcome, RetryNo,
    RetryOutcome, RetryResult, StoreError,
};

/// Longest wait for an upstream that has all its streams in use, in milliseconds.
const UPSTREAM_BUSY_MS: i64 = 250;
/// Longest wait for an upstream that is being probed, in milliseconds. The answer to the probe closes
/// the circuit breaker at once, but a retry that was given back waits for its due time.
const UPSTREAM_PROBE_WAIT_MS: i64 = 2_000;

/// How soon a retry of a paused notification is due again, in milliseconds. The store keeps it from being
/// claimed while the notification is paused, so this matters only if the pause has ended there, and this
/// server does not know it yet.
const PAUSE_RECHECK_MS: i64 = 1_000;

/// Retries that a lane claimed for one task.
pub(crate) struct ClaimedRetries {
    pub(crate) retries: Vec<ClaimedRetry>,
    /// The dispatches of the retries.
    pub(crate) dispatches: Vec<Arc<ActiveDispatch>>,
    /// Tracks changes of the devices. It was opened before the claim, which read the devices.
    pub(crate) tracker: Arc<RangeTracker>,
    pub(crate) batch: Arc<RetryBatch>,
    /// The server's lease generation before the claim.
    pub(crate) lease_generation: u64,
    /// When the claim began. The devices were read later.
    pub(crate) claimed_at: Timestamp,
}

/// The task of claimed retries.
pub(crate) struct RetryTask {
    lane: Arc<Lane>,
    dispatches: Vec<Arc<ActiveDispatch>>,
    tracker: Arc<RangeTracker>,
    batch: Arc<RetryBatch>,
    lease_generation: u64,
    claimed_at: Timestamp,
    queue: VecDeque<ClaimedRetry>,
    outcomes: Vec<RetryOutcome>,
    /// The permits of the attempts in `outcomes`, held until the outcomes are committed.
    unacked: UnackedPermits,
    /// The first retry of the queue, if its intent is recorded.
    recorded: Option<RecordedIntent>,
    /// When the first of the outcomes was added.
    since: Instant,
    sender: Sender,
}

/// A retry whose intent is recorded, with the permits of its attempt. The permits for an unacknowledged delivery
/// are held until a commit removes the intent.
struct RecordedIntent {
    no: RetryNo,
    permits: AttemptPermits,
}

/// A retry whose attempt completed.
struct CompletedRetry {
    no: RetryNo,
    attempt: CompletedAttempt,
}

impl RetryTask {
    pub(crate) fn new(lane: &Arc<Lane>, claim: ClaimedRetries) -> Self {
        let ClaimedRetries { retries, dispatches, tracker, batch, lease_generation, claimed_at } =
            claim;
        let (in_doubt, retries): (Vec<_>, Vec<_>) =
            retries.into_iter().partition(|retry| retry.is_in_doubt);
        Self {
            lane: lane.clone(),
            dispatches,
            tracker,
            batch,
            lease_generation,
            claimed_at,
            queue: retries.into(),
            outcomes: in_doubt.iter().filter_map(RetryOutcome::of_doubt).collect(),
            unacked: UnackedPermits::default(),
            recorded: None,
            since: Instant::now(),
            sender: Sender::new(lane),
        }
    }

    /// Attempts the retries and commits the outcomes in small groups, until none is left.
    pub(crate) async fn run(mut self) {
        let context = self.lane.context.clone();
        let mut in_flight = InFlight::new();
        loop {
            if let Err(error) = self.start_ready(&mut in_flight).await {
                context.backoff_after_storage_error(&error).await;
                continue;
            }
            let is_finished = self.queue.is_empty() && in_flight.is_empty();
            if is_finished || self.outcomes.len() >= context.config.checkpoint_outcomes {
                self.commit().await;
            }
            if is_finished {
                return;
            }
            let due_at = self.since + context.config.checkpoint_every;
            tokio::select! {
                biased;
                Some(completed) = in_flight.next(), if !in_flight.is_empty() => {
                    self.on_completed(completed);
                }
                () = tokio::time::sleep_until(due_at), if !self.outcomes.is_empty() => {
                    self.commit().await;
                }
                () = self.sender.wait_for_permits() => {}
                () = context.stop.cancelled(), if !self.queue.is_empty() => {}
            }
        }
    }

    /// Whether the engine stops; or the lease expired since the claim, so that other servers may have
    /// claimed these retries; or this server has not read for long what requests changed, so that the
    /// notification may be paused.
    fn must_give_back(&self, now: Timestamp) -> bool {
        let context = &self.lane.context;
        context.stop.is_cancelled()
            || !context.membership.is_valid(now)
            || !context.membership.knows_interventions(now)
            || self.lease_generation != context.membership.lease_generation()
    }

    /// Whether the device may have changed since it was read. This server does not know of a change of the
    /// user or the fields until the database announces it, so what was read must not be older than in a page.
    fn is_outdated(&self, key: DeviceKey, dispatch: &ActiveDispatch, now: Timestamp) -> bool {
        let may_change = dispatch.has_changing_audience() || dispatch.depends_on_devices();
        let is_old = may_change
            && now.ms_since(self.claimed_at) > self.lane.context.config.address_age_ms_max;
        is_old || self.tracker.has_changed(key)
    }

    /// Starts retries until none is left or permits are missing.
    async fn start_ready(
        &mut self,
        in_flight: &mut InFlight<CompletedRetry>,
    ) -> Result<(), StoreError> {
        loop {
            // The reads below may take long. Answers that have arrived must become outcomes before the
            // lease can expire during them (hazard 5 of docs/delivery.md).
            self.take_completed(in_flight);
            let Some(retry) = self.queue.front() else { break };
            let dispatch = self.dispatch_of(retry);
            let Some(device) = retry.device.clone() else {
                self.settle_front(Outcome::Canceled, reasons::DEVICE_DELETED.into());
                continue;
            };
            let version = self.lane.provider_version();
            let key = std::iter::once(retry.key);
            let fields = dispatch.read_fields(&self.lane.context, key).await?;
            let mode = dispatch.mode(&self.lane).await?;
            let stored =
                StoredEvidence::read(retry, &dispatch, &device, &mode, &self.lane.context).await?;
            if let Some(until) = stored.paced_until {
                self.reschedule_front(until);
                continue;
            }
            // Nothing is awaited from here until the attempt starts. The checks below therefore see
            // every update of the device, cancellation and change of the provider that was acknowledged
            // before (hazard 8 of docs/delivery.md).
            let now = self.lane.context.clock.now();
            let evidence = Evidence::of(&dispatch, &self.lane, &mode, &device, now);
            let is_admitted = self.recorded.as_ref().is_some_and(|intent| intent.no == retry.no);
            let verdict = self.lane.may_start(Evidence {
                is_current: evidence.is_current
                    && !self.is_outdated(retry.key, &dispatch, now)
                    && version == self.lane.provider_version(),
                left: stored.left,
                is_overtaken: stored.is_overtaken,
                // It may itself be what tests the credentials.
                is_refused: evidence.is_refused && !is_admitted,
                lease: if self.must_give_back(now) { Lease::Expired } else { Lease::Valid },
                ..evidence
            });
            if verdict != Verdict::Start {
                self.put_off(verdict, &dispatch, &device, now);
                continue;
            }
            let DeliveryMode::Send(mode) = mode else { continue };
            let payload = match dispatch.message_for(retry.key, &mode, &fields) {
                Ok(payload) => payload,
                Err(reason) => {
                    self.settle_front(Outcome::Failed, reason);
                    continue;
                }
            };
            let provider = mode.provider;
            if !is_admitted {
                match self.sender.try_acquire(&dispatch, now) {
                    Ok(()) if dispatch.records_intents() => {
                        self.record_intent(&dispatch).await?;
                        continue;
                    }
                    Ok(()) => {}
                    Err(Blocked::Permits) => return Ok(()),
                    Err(Blocked::Admission(until)) => {
                        // Retries that wait for a probe or an administrator stay due, so that they
                        // continue as soon as the breaker changes. Until then the lane claims no retries.
                        let stays_due = self.lane.breaker.is_waiting_for_probe(now);
                        self.reschedule_all(if stays_due { now } else { until });
                        continue;
                    }
                }
            }
            self.start_front(in_flight, dispatch, Route { provider, payload, version }, now);
        }
        self.sender.release();
        if self.batch.mark_all_started() {
            self.lane.wake();
        }
        Ok(())
    }

    /// Does what was decided about the first retry, which does not start now.
    fn put_off(
        &mut self,
        verdict: Verdict,
        dispatch: &ActiveDispatch,
        device: &AudienceDevice,
        now: Timestamp,
    ) {
        match verdict {
            Verdict::Settle { settled, reason } => self.settle_front(settled, reason),
            Verdict::Wait(Wait::Lease | Wait::ServerLease) => self.reschedule_all(now),
            Verdict::Wait(wait) => {
                self.reschedule_front(self.waits_until(wait, dispatch, device, now));
            }
            // The retry stays due, so the next claim follows at once and reads the new state of the device.
            Verdict::Reread if self.is_outdated(device.key, dispatch, now) => {
                self.reschedule_front(now);
            }
            // It is still the first, and everything else about it is read again.
            Verdict::Reread | Verdict::Start => {}
        }
    }

    /// Records that the message of the first retry is being sent from now on, after its permits were taken.
    async fn record_intent(&mut self, dispatch: &ActiveDispatch) -> Result<(), StoreError> {
        let Some(retry) = self.queue.front() else { return Ok(()) };
        let (context, no) = (self.lane.context.clone(), retry.no);
        let permits = self.sender.reserve(dispatch);
        if context.store.record_intent(context.instance, no).await? {
            self.recorded = Some(RecordedIntent { no, permits });
        } else {
            // The delivery has ended, or another server has claimed the retry. The store ignores the result.
            self.reschedule_front(context.clock.now());
        }
        Ok(())
    }

    /// Starts the attempt of the first retry, for which permits were taken.
    fn start_front(
        &mut self,
        in_flight: &mut InFlight<CompletedRetry>,
        dispatch: Arc<ActiveDispatch>,
        route: Route,
        now: Timestamp,
    ) {
        let Some(retry) = self.queue.pop_front() else { return };
        if let Some(pace) = first_attempt_pace(&retry, &dispatch, now) {
            pace.use_left();
        }
        let ClaimedRetry { no, device, attempts, first_attempt_at, unknown_outcomes, .. } = retry;
        let device = device.expect("a retry without a device was settled before");
        let history =
            History { attempts, first_attempt_at: Some(first_attempt_at), unknown_outcomes };
        let permits = match self.recorded.take() {
            Some(intent) => intent.permits,
            None => self.sender.take_permits(&dispatch),
        };
        let delivery = Delivery { dispatch, device, history };
        let attempt = self.sender.start_with(permits, delivery, route, &self.tracker, now);
        in_flight.push(async move { CompletedRetry { no, attempt: attempt.await } }.boxed());
    }

    fn dispatch_of(&self, retry: &ClaimedRetry) -> Arc<ActiveDispatch> {
        let dispatch = self.dispatches.iter().find(|dispatch| dispatch.row.no == retry.dispatch);
        dispatch.expect("the lane read the dispatch of every claimed retry").clone()
    }

    /// When to try a retry again that waits.
    fn waits_until(
        &self,
        wait: Wait,
        dispatch: &ActiveDispatch,
        device: &AudienceDevice,
        now: Timestamp,
    ) -> Timestamp {
        match wait {
            Wait::Pause => now.plus_ms(PAUSE_RECHECK_MS),
            Wait::Chat(until) => until,
            Wait::Upstream(None) => now.plus_ms(UPSTREAM_BUSY_MS),
            Wait::Upstream(Some(until)) => {
                let upstream = dispatch.upstream_of(&self.lane, device);
                if upstream.is_some_and(|upstream| upstream.breaker.is_waiting_for_probe(now)) {
                    until.min(now.plus_ms(UPSTREAM_PROBE_WAIT_MS))
                } else {
                    until
                }
            }
            Wait::ServerLease | Wait::Lease | Wait::Backlog => now,
        }
    }

    /// Ends the first retry without an attempt.
    fn settle_front(&mut self, settled: Outcome, reason: Reason) {
        let Some(retry) = self.pop_unsent() else { return };
        let (attempts, now) = (retry.attempts, self.lane.context.clock.now());
        let dispatch = self.dispatch_of(&retry);
        let dead =
            retry.device.as_ref().and_then(|device| dispatch.dead_address(device, settled, now));
        let result =
            RetryResult::Final { settled, reason: Some(reason), attempts, message_id: None };
        self.push(RetryOutcome { dead, ..RetryOutcome::of(retry.no, result) });
    }

    /// Removes the first retry of the queue, which is not sent. If its intent is recorded, the next commit removes
    /// the intent and releases its permits.
    fn pop_unsent(&mut self) -> Option<ClaimedRetry> {
        if let Some(intent) = self.recorded.take() {
            intent.permits.into_unacked().merge_into(&mut self.unacked);
        }
        self.queue.pop_front()
    }

    /// Gives all retries back that were not started. They are due at `until`.
    fn reschedule_all(&mut self, until: Timestamp) {
        while !self.queue.is_empty() {
            self.reschedule_front(until);
        }
    }

    /// Gives the first retry back. It is due at `until`, and this does not count as an attempt.
    fn reschedule_front(&mut self, until: Timestamp) {
        let Some(retry) = self.pop_unsent() else { return };
        let due_at = self.dispatch_of(&retry).capped_at_expiry(until);
        self.push(RetryOutcome::of(retry.no, RetryResult::Deferred { due_at }));
    }

    /// Records all attempts that have completed.
    fn take_completed(&mut self, in_flight: &mut InFlight<CompletedRetry>) {
        while let Some(Some(completed)) = in_flight.next().now_or_never() {
            self.on_completed(completed);
        }
    }

    fn on_completed(&mut self, completed: CompletedRetry) {
        let CompletedRetry { no, attempt } = completed;
        let AttemptResult { disposition, unacked } = attempt.complete(&self.tracker);
        let outcome = match disposition {
            Disposition::Outcome { outcome, dead, verified } => {
                let DeviceOutcome { settled, reason, attempts, message_id, key: _ } = outcome;
                let result = RetryResult::Final { settled, reason, attempts, message_id };
                RetryOutcome { dead, verified, ..RetryOutcome::of(no, result) }
            }
            Disposition::Retry { retry, moved } => {
                let NewRetry { attempts, due_at, reason, unknown_outcomes, .. } = retry;
                let result = RetryResult::Retry { attempts, due_at, reason, unknown_outcomes };
                RetryOutcome { moved, ..RetryOutcome::of(no, result) }
            }
            Disposition::Postponed { history, until: due_at, reason, device: _ } => {
                let History { attempts, unknown_outcomes, .. } = history;
                let result = match reason {
                    Some(reason) => {
                        RetryResult::Retry { attempts, due_at, reason, unknown_outcomes }
                    }
                    None => RetryResult::Deferred { due_at },
                };
                RetryOutcome::of(no, result)
            }
        };
        unacked.merge_into(&mut self.unacked);
        self.push(outcome);
    }

    fn push(&mut self, outcome: RetryOutcome) {
        if self.outcomes.is_empty() {
            self.since = Instant::now();
        }
        self.outcomes.push(outcome);
    }

    /// Commits the outcomes, and repeats the commit while storage fails. The deliveries stay
    /// unacknowledged in the meantime, so that the limit `max_unacked` stops the sending.
    async fn commit(&mut self) {
        let context = self.lane.context.clone();
        let outcomes = std::mem::take(&mut self.outcomes);
        while !outcomes.is_empty() {
            let now = context.clock.now();
            match context.store.settle_retries(context.instance, outcomes.clone(), now).await {
                Ok(()) => {
                    let is_settled = |outcome: &&RetryOutcome| {
                        matches!(outcome.result, RetryResult::Final { .. })
                    };
                    self.batch.remove(outcomes.iter().map(|outcome| outcome.no));
                    self.lane.remove_retries(outcomes.iter().filter(is_settled).count() as u64);
                    context.metrics.retried(self.lane.platform.provider(), &outcomes);
                    break;
                }
                Err(error) => context.backoff_after_storage_error(&error).await,
            }
        }
        self.unacked = UnackedPermits::default();
        context.record_commit();
        if let Some(due_at) = outcomes.iter().filter_map(RetryOutcome::due_at).min() {
            context.wake_by(due_at);
        }
        // The end of a zone may make the notification due for its next one.
        if self.dispatches.iter().any(|dispatch| dispatch.is_local()) {
            context.wake.notify_one();
        }
    }
}

/// The rate of a retry that may not have had an attempt, because it was postponed.
fn first_attempt_pace<'a>(
    retry: &ClaimedRetry,
    dispatch: &'a ActiveDispatch,
    now: Timestamp,
) -> Option<&'a Pace> {
    if retry.attempts == 0 { dispatch.pace(now) } else { None }
}

/// Requests a first attempt if a retry needs one and the rate of its notification limits them. Returns when
/// to try again if none is granted.
async fn paced_until(
    retry: &ClaimedRetry,
    dispatch: &ActiveDispatch,
    context: &EngineContext,
) -> Result<Option<Timestamp>, StoreError> {
    let now = context.clock.now();
    let Some(pace) = first_attempt_pace(retry, dispatch, now) else { return Ok(None) };
    if pace.has_left(now) {
        return Ok(None);
    }
    match pace.request(context, 1).await {
        Ok(Granted::Now(allowance)) => {
            pace.keep(allowance);
            Ok(None)
        }
        Ok(Granted::NotBefore(until)) => Ok(Some(until)),
        // The notification was erased with its application, and the retry with it.
        Err(StoreError::NotFound) => Ok(Some(now)),
        Err(error) => Err(error),
    }
}

/// What the store knows of a retry. It is not asked if the retry ends or waits for another reason.
#[derive(Debug, Default)]
struct StoredEvidence {
    /// Why the device is no longer in the audience.
    left: Option<&'static str>,
    /// Whether the device got a later notification with the same `collapse_key`.
    is_overtaken: bool,
    /// When the rate of the notification may admit the attempt, if it does not admit it now.
    paced_until: Option<Timestamp>,
}

impl StoredEvidence {
    async fn read(
        retry: &ClaimedRetry,
        dispatch: &ActiveDispatch,
        device: &AudienceDevice,
        mode: &DeliveryMode,
        context: &EngineContext,
    ) -> Result<Self, StoreError> {
        let now = context.clock.now();
        let is_decided = matches!(mode, DeliveryMode::Settle { .. })
            || dispatch.is_paused(now)
            || dispatch.has_expired(now)
            || dispatch.unsendable(device).is_some();
        if is_decided {
            return Ok(Self::default());
        }
        let left = match device.mismatch {
            Some(Mismatch::User) => Some(reasons::USER_CHANGED),
            Some(Mismatch::Condition) => Some(reasons::FAILS_AUDIENCE),
            None if !dispatch.targets(device) => Some(reasons::DEVICE_DISABLED),
            None => dispatch
                .was_delivered_to_previous_owner(device, context)
                .await?
                .then_some(reasons::SENT_UNDER_ANOTHER_DEVICE),
        };
        if left.is_some() {
            return Ok(Self { left, ..Self::default() });
        }
        let before = DeviceKey(device.key.0 - 1);
        if !dispatch.overtaken(context, before, device.key).await?.is_empty() {
            return Ok(Self { is_overtaken: true, ..Self::default() });
        }
        let paced_until = paced_until(retry, dispatch, context).await?;
        Ok(Self { paced_until, ..Self::default() })
    }
}
