//! Starting retries: what is not worth a try any more is settled, the rest waits for its place.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt};
use notify_core::Timestamp;

use super::{Flights, Landed, Retries};
use crate::delivery::attempt;
use crate::delivery::gate::Admission;
use crate::delivery::job::{Job, Mode};
use crate::delivery::lane::{InService, Lane};
use crate::providers::{Answer, Reason};
use crate::reasons;
use crate::store::{ClaimedRetry, RetryOutcome, RetryStep, Settled, StoreError};
use crate::telemetry::DeliveryMetrics;

/// Longest wait for a service that has all its streams in use, in milliseconds.
const SERVICE_FULL_MS: i64 = 250;
/// Longest wait for a service that is probed, in milliseconds: the answer opens it at once, but
/// tells no retry.
const SERVICE_PROBED_MS: i64 = 2_000;

impl Retries<'_> {
    /// Starts retries until none is left, or slots or credit are used up.
    pub(super) async fn start_what_may_start(
        &mut self,
        flights: &mut Flights,
    ) -> Result<(), StoreError> {
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
            if shared.stop.asked() || !standing.holds(now) || self.tenure != standing.tenure() {
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
                let until = if self.lane.gate.awaits_word(now) { now } else { until };
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
            Some(until) if service.gate.awaits_word(now) => {
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
