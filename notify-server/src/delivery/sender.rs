//! One attempt at a delivery, from the permits that it needs to what happens to the delivery next. First
//! attempts and retries share this module. The tasks keep the queues and commit the results.
//!
//! ```text
//! try_acquire ──permits, admission──▶ start ──provider's answer──▶ complete ──▶ AttemptResult
//! ```
//!
//! Permits are values. The attempt owns the permit for its stream, which is released when the attempt
//! ends or is dropped. The permits for an unacknowledged delivery move into the result, and the task
//! holds them until the result is committed. Deliveries in flight and uncommitted results together
//! therefore never exceed the limits `max_unacked` and `max_unacked_without_dedup` (hazard 4 of
//! docs/delivery.md).

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use notify_core::Timestamp;
use tokio::time::Instant;

use crate::delivery::breaker::Admission;
use crate::delivery::decision::{AttemptContext, Decision};
use crate::delivery::device_tracker::RangeTracker;
use crate::delivery::dispatch::ActiveDispatch;
use crate::delivery::lane::{
    AnswerContext, AnswerEffects, Lane, UncommittedRetries, UnregisteredVerdict, UpstreamGuard,
};
#[cfg(test)]
use crate::delivery::permits::ResizableSemaphore;
use crate::delivery::permits::{Permit, PermitRequest};
use crate::failpoint::{self, Stage};
use crate::providers::{Address, Reason, RenderedMessage, SendResult, SharedProvider};
use crate::reasons;
use crate::store::{
    AudienceDevice, Checkpoint, DeadAddress, DeviceKey, DeviceOutcome, MovedAddress, NewRetry,
    OpenPage, Outcome, VerifiedAddress,
};
use crate::telemetry::{DeliveryMetrics, masked};

/// The attempts of one task that are in flight.
pub(crate) type InFlight<T> = FuturesUnordered<BoxFuture<'static, T>>;

/// Starts the attempts of one task.
pub(crate) struct Sender {
    lane: Arc<Lane>,
    stream: PermitRequest,
    unacked: PermitRequest,
    unacked_without_dedup: PermitRequest,
    /// The share of the lane in `unacked_without_dedup`.
    lane_share: PermitRequest,
}

/// The permits of an attempt.
pub(crate) struct AttemptPermits {
    stream: Permit,
    unacked: UnackedPermits,
    /// Set if the attempt is the probe of the circuit breaker and may still be given up.
    probe: Option<UnsentProbe>,
}

impl AttemptPermits {
    /// Gives up an attempt that does not start: releases its stream, and lets another one be the probe.
    pub(crate) fn into_unacked(self) -> UnackedPermits {
        self.unacked
    }

    /// Permits of semaphores that nothing else uses.
    #[cfg(test)]
    pub(crate) fn for_test() -> Self {
        let mut request = PermitRequest::new(&ResizableSemaphore::new(1));
        assert!(request.try_acquire_or_queue());
        Self { stream: request.take(), unacked: UnackedPermits::default(), probe: None }
    }
}

/// An attempt that is the probe of the circuit breaker and has not started. If the value is dropped before that,
/// the next delivery becomes the probe.
struct UnsentProbe {
    lane: Arc<Lane>,
    until: Timestamp,
    is_sent: bool,
}

impl Drop for UnsentProbe {
    fn drop(&mut self) {
        if !self.is_sent {
            self.lane.breaker.withdraw_probe(self.until);
        }
    }
}

/// The permits of deliveries that are in flight, or answered but not committed.
#[derive(Debug, Default)]
pub(crate) struct UnackedPermits {
    all: Option<Permit>,
    /// Those whose platform cannot recognise a repeated message.
    without_dedup: Option<Permit>,
    /// The same, of the share of the lane.
    lane_share: Option<Permit>,
}

impl UnackedPermits {
    /// Adds these permits to `total`, so that all are released together.
    pub(crate) fn merge_into(self, total: &mut Self) {
        for (permit, total) in [
            (self.all, &mut total.all),
            (self.without_dedup, &mut total.without_dedup),
            (self.lane_share, &mut total.lane_share),
        ] {
            if let Some(permit) = permit {
                permit.merge_into(total);
            }
        }
    }
}

/// Why no attempt can start now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Blocked {
    /// All streams of the lane are in use, or too many deliveries are unacknowledged.
    /// [`Sender::wait_for_permits`] returns when that changes.
    Permits,
    /// The circuit breaker or a rate limit admits no delivery before that time, unless the breaker
    /// changes earlier.
    Admission(Timestamp),
}

/// A delivery to one device that can be attempted.
pub(crate) struct Delivery {
    pub(crate) dispatch: Arc<ActiveDispatch>,
    pub(crate) device: AudienceDevice,
    pub(crate) history: History,
}

/// The earlier attempts of a delivery.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct History {
    /// Number of attempts that counted.
    pub(crate) attempts: u16,
    /// When the first attempt was made; `None` if there was none.
    pub(crate) first_attempt_at: Option<Timestamp>,
    /// Number of attempts with an unknown outcome.
    pub(crate) unknown_outcomes: u16,
}

/// The provider and the payload of an attempt.
pub(crate) struct Route {
    pub(crate) provider: SharedProvider,
    pub(crate) payload: Arc<RenderedMessage>,
    /// Version of the provider in its lane.
    pub(crate) version: u64,
}

impl Sender {
    pub(crate) fn new(lane: &Arc<Lane>) -> Self {
        Self {
            lane: lane.clone(),
            stream: PermitRequest::new(&lane.streams),
            unacked: PermitRequest::new(&lane.context.unacked),
            unacked_without_dedup: PermitRequest::new(&lane.context.unacked_without_dedup),
            lane_share: PermitRequest::new(&lane.unacked_without_dedup),
        }
    }

    /// Takes the permits for one attempt and asks the lane to admit it.
    ///
    /// # Errors
    /// When the attempt has to wait. Permits that were granted stay with the sender until
    /// [`Sender::release`].
    pub(crate) fn try_acquire(
        &mut self,
        dispatch: &ActiveDispatch,
        now: Timestamp,
    ) -> Result<(), Blocked> {
        self.try_acquire_permits(dispatch)?;
        // The admission comes last: it may make this attempt the probe of the circuit breaker, which
        // must then be sent.
        match self.lane.admit(now) {
            Admission::Go => Ok(()),
            Admission::Wait(until) => Err(Blocked::Admission(until)),
        }
    }

    /// Takes the permits for one attempt. Every task requests the stream first, so that no task holds a
    /// permit for an unacknowledged delivery while it waits for a stream; and the scarcer of these permits
    /// before the others.
    fn try_acquire_permits(&mut self, dispatch: &ActiveDispatch) -> Result<(), Blocked> {
        self.lane.streams.set_limit(self.lane.streams_max());
        if dispatch.supports_dedup() {
            // They may have been granted for another delivery.
            self.unacked_without_dedup.release();
            self.lane_share.release();
        }
        let is_granted = self.stream.try_acquire_or_queue()
            && (dispatch.supports_dedup()
                || self.lane_share.try_acquire_or_queue()
                    && self.unacked_without_dedup.try_acquire_or_queue())
            && self.unacked.try_acquire_or_queue();
        if is_granted { Ok(()) } else { Err(Blocked::Permits) }
    }

    /// Takes the permits that [`Sender::try_acquire`] got for an attempt of this dispatch.
    pub(crate) fn take_permits(&mut self, dispatch: &ActiveDispatch) -> AttemptPermits {
        let lacks_dedup = !dispatch.supports_dedup();
        let unacked = UnackedPermits {
            all: Some(self.unacked.take()),
            without_dedup: lacks_dedup.then(|| self.unacked_without_dedup.take()),
            lane_share: lacks_dedup.then(|| self.lane_share.take()),
        };
        AttemptPermits { stream: self.stream.take(), unacked, probe: None }
    }

    /// Takes the permits that [`Sender::try_acquire`] just got for an attempt that may be given up before it
    /// starts, because its intent has to be stored first.
    pub(crate) fn reserve(&mut self, dispatch: &ActiveDispatch) -> AttemptPermits {
        let probe = self.lane.breaker.probe_until().map(|until| UnsentProbe {
            lane: self.lane.clone(),
            until,
            is_sent: false,
        });
        AttemptPermits { probe, ..self.take_permits(dispatch) }
    }

    /// Waits until a queued request for a permit is granted. Never returns if no request is queued.
    pub(crate) async fn wait_for_permits(&mut self) {
        tokio::select! {
            biased;
            () = self.stream.wait() => {}
            () = self.unacked.wait() => {}
            () = self.lane_share.wait() => {}
            () = self.unacked_without_dedup.wait() => {}
        }
    }

    /// Releases unused permits and withdraws queued requests, so that other tasks get the permits.
    pub(crate) fn release(&mut self) {
        self.stream.release();
        self.unacked.release();
        self.unacked_without_dedup.release();
        self.lane_share.release();
    }

    /// Starts an attempt with the permits that [`Sender::try_acquire`] took.
    pub(crate) fn start(
        &mut self,
        delivery: Delivery,
        route: Route,
        tracker: &RangeTracker,
        now: Timestamp,
    ) -> impl Future<Output = CompletedAttempt> + Send + use<> {
        let permits = self.take_permits(&delivery.dispatch);
        self.start_with(permits, delivery, route, tracker, now)
    }

    /// Starts an attempt with these permits.
    pub(crate) fn start_with(
        &self,
        mut permits: AttemptPermits,
        delivery: Delivery,
        route: Route,
        tracker: &RangeTracker,
        now: Timestamp,
    ) -> impl Future<Output = CompletedAttempt> + Send + use<> {
        let Delivery { dispatch, device, .. } = &delivery;
        if let Some(probe) = &mut permits.probe {
            probe.is_sent = true;
        }
        self.lane.record_chat(device.key, now);
        tracker.mark_in_flight(dispatch.row.no, device.key);
        let upstream = dispatch.upstream_of(&self.lane, device);
        let stream = OpenStream {
            upstream: upstream.map(|upstream| UpstreamGuard::start(upstream, now)),
            permit: Some(permits.stream),
            lane: self.lane.clone(),
        };
        let unacked = permits.unacked;
        let address = dispatch.address(device);
        async move {
            let Route { provider, payload, version } = route;
            let metrics = &stream.lane.context.metrics;
            let answer = match address {
                Some(address) => attempt(metrics, &provider, &payload, &address).await,
                None => SendResult::InvalidMessage { reason: reasons::NO_ADDRESS.into() },
            };
            CompletedAttempt { delivery, version, answer, stream, unacked }
        }
    }
}

/// The stream of an attempt in flight. It is in use until this value is dropped.
struct OpenStream {
    lane: Arc<Lane>,
    permit: Option<Permit>,
    /// The upstream behind the address, if its platform has more than one.
    upstream: Option<UpstreamGuard>,
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        // The stream is released before the pages that may use it are woken.
        (self.permit, self.upstream) = (None, None);
        self.lane.wake_deferred();
    }
}

/// Makes one attempt. A panic counts as an unknown answer: the delivery is retried a few times and then
/// fails, and other deliveries are not affected.
async fn attempt(
    metrics: &DeliveryMetrics,
    provider: &SharedProvider,
    payload: &RenderedMessage,
    address: &Address,
) -> SendResult {
    let began = Instant::now();
    failpoint::reach(address.provider().as_str(), Stage::Unsent);
    let attempt = AssertUnwindSafe(provider.attempt(payload, address));
    let answer = attempt.catch_unwind().await.unwrap_or_else(|_| {
        tracing::error!("an attempt panicked");
        SendResult::Unknown { reason: reasons::INTERNAL_ERROR.into() }
    });
    failpoint::reach(address.provider().as_str(), Stage::Answered);
    metrics.attempted(address.provider(), began.elapsed());
    if let Some(reason) = failure_reason(&answer) {
        let provider = address.provider().as_str();
        tracing::debug!(provider, address = %masked(address.text()), %reason, "not delivered");
    }
    answer
}

fn failure_reason(answer: &SendResult) -> Option<&Reason> {
    match answer {
        SendResult::Delivered { .. } | SendResult::AddressChanged { .. } => None,
        SendResult::Unregistered { reason, .. }
        | SendResult::Retry { reason, .. }
        | SendResult::Throttle { reason, .. }
        | SendResult::AuthRejected { reason }
        | SendResult::ServiceRefused { reason }
        | SendResult::InvalidMessage { reason }
        | SendResult::NotPermitted { reason }
        | SendResult::Unknown { reason } => Some(reason),
    }
}

/// An attempt that the provider answered.
pub(crate) struct CompletedAttempt {
    delivery: Delivery,
    /// Version of the provider that made the attempt.
    version: u64,
    answer: SendResult,
    stream: OpenStream,
    unacked: UnackedPermits,
}

/// The result of an attempt.
pub(crate) struct AttemptResult {
    pub(crate) disposition: Disposition,
    /// The delivery counts as unacknowledged until these permits are dropped: after the commit of the
    /// result, or when the delivery goes back to its queue.
    pub(crate) unacked: UnackedPermits,
}

/// What happens to a delivery after an attempt.
pub(crate) enum Disposition {
    /// The delivery ended. `dead` is set if its address is dead; `verified` is set if its address took a
    /// message for the first time.
    Outcome { outcome: DeviceOutcome, dead: Option<DeadAddress>, verified: Option<VerifiedAddress> },
    /// The delivery is retried, as a row of its own. `moved` is set if the address changed.
    Retry { retry: NewRetry, moved: Option<MovedAddress> },
    /// The delivery waits, with all deliveries of its provider or upstream, and the attempt does not
    /// count.
    Postponed {
        device: AudienceDevice,
        history: History,
        until: Timestamp,
        /// Why the delivery waits; `None` if the answer may be wrong, so that nothing is recorded.
        reason: Option<Reason>,
    },
}

impl CompletedAttempt {
    /// The device.
    pub(crate) fn key(&self) -> DeviceKey {
        self.delivery.device.key
    }

    /// Records what the answer shows about the provider, and decides what happens to the delivery.
    /// `tracker` is the tracker that the attempt was started with.
    pub(crate) fn complete(self, tracker: &RangeTracker) -> AttemptResult {
        let Self { delivery, version, answer, stream, unacked } = self;
        let Delivery { dispatch, device, history } = &delivery;
        let lane = &stream.lane;
        let context = &lane.context;
        let now = context.clock.now();
        let attempt = AttemptContext {
            platform: lane.platform,
            attempts_before: history.attempts,
            first_attempt_at: history.first_attempt_at.unwrap_or(now),
            unknown_outcomes: history.unknown_outcomes,
            // `Lane::on_answer` sets these two fields, which depend on the upstream.
            service_refusals: 0,
            is_address_at_fault: false,
            expires_at: dispatch.expires_at,
            now,
            jitter: context.jitter(),
        };
        let message_id = context.config.message_id_to_store(&answer);
        let upstream = stream.upstream.as_ref();
        let (env, trust) = (device.ios_env, device.trust);
        let answer_context = AnswerContext { key: device.key, upstream, env, trust, version };
        let (decision, effects) = lane.on_answer(answer, &answer_context, attempt);
        // A device that got the message stays marked until its outcome is committed.
        if !matches!(decision, Decision::End { settled: Outcome::Sent, .. }) {
            tracker.clear_in_flight(dispatch.row.no, device.key);
        }
        if let Decision::Pause { until, scope } = decision {
            lane.throttle(until, scope, stream.upstream.as_deref(), version);
        }
        let disposition = delivery.into_disposition(decision, effects, message_id, now);
        // The answer may have changed the limit of streams. It is applied before this stream is
        // released, because the release grants a queued request without a check of the limit.
        lane.streams.set_limit(lane.streams_max());
        drop(stream);
        AttemptResult { disposition, unacked }
    }
}

impl Delivery {
    /// Turns a decision about the delivery into a [`Disposition`]. `now` is the end of the attempt.
    fn into_disposition(
        self,
        decision: Decision,
        effects: AnswerEffects,
        message_id: Option<Box<str>>,
        now: Timestamp,
    ) -> Disposition {
        let Self { dispatch, device, history } = self;
        let key = device.key;
        let new_outcome = |settled, reason, message_id| DeviceOutcome {
            key,
            settled,
            reason,
            attempts: history.attempts.saturating_add(1),
            message_id,
        };
        let new_retry = |due_at, reason, attempts, unknown_outcomes| NewRetry {
            key,
            attempts,
            first_attempt_at: history.first_attempt_at.unwrap_or(now),
            due_at,
            reason,
            unknown_outcomes,
        };
        match decision {
            Decision::End { settled, reason } => {
                let is_first_message = settled == Outcome::Sent && !device.trust.is_verified();
                let verified =
                    is_first_message.then(|| VerifiedAddress { key, address: address_of(device) });
                let outcome = new_outcome(settled, reason, message_id);
                Disposition::Outcome { outcome, dead: None, verified }
            }
            Decision::Disable { .. }
                if effects.unregistered == Some(UnregisteredVerdict::Suspect) =>
            {
                Disposition::Postponed { device, history, until: now, reason: None }
            }
            Decision::Disable { reason, since } => {
                let outcome = new_outcome(Outcome::Unregistered, Some(reason.clone()), None);
                let (ios_env, ambiguous) = (device.ios_env, effects.answers_before());
                let address = address_of(device);
                let dead = DeadAddress { key, address, ios_env, reason, since, at: now, ambiguous };
                Disposition::Outcome { outcome, dead: Some(dead), verified: None }
            }
            Decision::Move { to, due_at, attempts } => Disposition::Retry {
                retry: new_retry(due_at, reasons::MOVED.into(), attempts, history.unknown_outcomes),
                moved: Some(MovedAddress { key, from: address_of(device), to, at: now }),
            },
            Decision::Retry { due_at, reason, attempts, unknown_outcomes } => Disposition::Retry {
                retry: new_retry(due_at, reason, attempts, unknown_outcomes),
                moved: None,
            },
            Decision::Pause { until, scope: _ } => Disposition::Postponed {
                device,
                history,
                until: dispatch.capped_at_expiry(until),
                reason: Some(reasons::THROTTLED.into()),
            },
            Decision::Hold { reason, scope: _ } => {
                Disposition::Postponed { device, history, until: now, reason: Some(reason) }
            }
        }
    }
}

fn address_of(device: AudienceDevice) -> Box<str> {
    device.address.expect("a device that was sent to has an address")
}

// The results of first attempts, until a checkpoint commits them.

/// Collects the results of first attempts for the next checkpoint.
#[derive(Default)]
pub(crate) struct CheckpointBuilder {
    settled: Vec<DeviceOutcome>,
    retries: Vec<NewRetry>,
    dead: Vec<DeadAddress>,
    moved: Vec<MovedAddress>,
    verified: Vec<VerifiedAddress>,
    permits: UncommittedPermits,
    /// When the first result was added.
    since: Option<Instant>,
    is_forced: bool,
}

/// The state of a page at a checkpoint, in addition to the results of its deliveries. The fields are those
/// of [`Checkpoint`].
pub(crate) struct PageProgress {
    pub(crate) targeted: u64,
    pub(crate) excluded: u64,
    pub(crate) at: Timestamp,
    pub(crate) lease_until: Timestamp,
    pub(crate) finished: bool,
    pub(crate) intents: Option<Vec<DeviceKey>>,
}

/// The permits and counts that uncommitted results hold. They are released when this value is dropped:
/// after the commit, or when the results are discarded.
#[derive(Default)]
pub(crate) struct UncommittedPermits {
    unacked: UnackedPermits,
    retries: Option<UncommittedRetries>,
}

impl UncommittedPermits {
    /// Adds the permits and counts of `other`.
    pub(crate) fn merge(&mut self, other: Self) {
        other.unacked.merge_into(&mut self.unacked);
        if let Some(retries) = other.retries {
            retries.merge_into(&mut self.retries);
        }
    }
}

impl CheckpointBuilder {
    /// Adds the result of an attempt. If the delivery is postponed, nothing is added, and the device is returned
    /// with its permits: it goes back to its queue.
    pub(crate) fn record(
        &mut self,
        lane: &Arc<Lane>,
        result: AttemptResult,
    ) -> Option<(AudienceDevice, UnackedPermits)> {
        let AttemptResult { disposition, unacked } = result;
        match disposition {
            Disposition::Outcome { outcome, dead, verified } => {
                self.dead.extend(dead);
                self.verified.extend(verified);
                self.add_outcome(outcome);
            }
            Disposition::Retry { retry, moved } => {
                self.moved.extend(moved);
                self.add_retry(lane, retry);
            }
            Disposition::Postponed { device, .. } => return Some((device, unacked)),
        }
        unacked.merge_into(&mut self.permits.unacked);
        None
    }

    /// Holds permits until the commit.
    pub(crate) fn hold(&mut self, unacked: UnackedPermits) {
        unacked.merge_into(&mut self.permits.unacked);
    }

    /// Adds a delivery that ended.
    pub(crate) fn add_outcome(&mut self, outcome: DeviceOutcome) {
        self.record_first_time();
        self.settled.push(outcome);
    }

    /// Adds an address to disable, if there is one. The outcome of its delivery must follow.
    pub(crate) fn add_dead(&mut self, dead: Option<DeadAddress>) {
        self.dead.extend(dead);
    }

    /// Adds a delivery that becomes a retry. It counts as an open retry from now on, before its commit, so
    /// that uncommitted retries cannot exceed the limit.
    pub(crate) fn add_retry(&mut self, lane: &Arc<Lane>, retry: NewRetry) {
        self.record_first_time();
        lane.add_uncommitted_retry().merge_into(&mut self.permits.retries);
        self.retries.push(retry);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.since.is_none()
    }

    /// When the first of the retries is due.
    pub(crate) fn next_retry_due_at(&self) -> Option<Timestamp> {
        self.retries.iter().map(|retry| retry.due_at).min()
    }

    /// Whether the checkpoint should be committed: it holds `outcomes_max` results, or was forced.
    pub(crate) fn is_due(&self, outcomes_max: usize) -> bool {
        self.is_forced || self.settled.len() + self.retries.len() >= outcomes_max
    }

    /// Makes the checkpoint due regardless of its size.
    pub(crate) fn force(&mut self) {
        self.is_forced = true;
    }

    /// When the batch is due: at the first multiple of `interval` after `start` at which its first result has
    /// waited for at least half an interval. Without results, the current time counts as that of the first.
    pub(crate) fn due_at(&self, start: Instant, interval: Duration) -> Instant {
        let earliest = self.since.unwrap_or_else(Instant::now) + interval / 2;
        let intervals = earliest.duration_since(start).as_nanos().div_ceil(interval.as_nanos());
        start + interval * u32::try_from(intervals).unwrap_or(u32::MAX)
    }

    /// Builds the checkpoint, and returns it with the permits to hold until it is committed.
    pub(crate) fn build(
        self,
        page: OpenPage,
        progress: PageProgress,
    ) -> (Checkpoint, UncommittedPermits) {
        let PageProgress { targeted, excluded, at, lease_until, finished, intents } = progress;
        let checkpoint = Checkpoint {
            page,
            settled: self.settled,
            retries: self.retries,
            dead: self.dead,
            moved: self.moved,
            verified: self.verified,
            targeted,
            excluded,
            at,
            lease_until,
            finished,
            intents,
        };
        (checkpoint, self.permits)
    }

    /// Records the current time if no result was added yet.
    fn record_first_time(&mut self) {
        self.since.get_or_insert_with(Instant::now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_pages_commit_at_the_same_times() {
        let start = Instant::now();
        let ms = Duration::from_millis;
        for (first_result, due) in
            [(0, 100), (1, 100), (50, 100), (51, 200), (149, 200), (150, 200), (151, 300)]
        {
            let since = Some(start + ms(first_result));
            let batch = CheckpointBuilder { since, ..CheckpointBuilder::default() };
            assert_eq!(batch.due_at(start, ms(100)) - start, ms(due), "{first_result}");
        }
    }
}
