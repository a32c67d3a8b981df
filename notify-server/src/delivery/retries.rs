//! Deliveries that are tried again: rows of their own, claimed when due, read anew at each try.

mod land;

use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use notify_core::Timestamp;
use tokio::time::Instant;

use super::attempt;
use super::gate::Admission;
use super::job::{Job, Mode};
use super::lane::{InService, Lane};
use super::marks::Mark;
use super::slots::Claim;
use crate::providers::{Answer, Reason};
use crate::store::{ClaimedRetry, RetryOutcome, RetryStep, Settled, StoreError};
use crate::telemetry::DeliveryMetrics;

/// Wait for a service that has all its streams in use, in milliseconds.
const SERVICE_FULL_MS: i64 = 250;

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
    mark: Arc<Mark>,
) {
    let mut work = Retries {
        lane: lane.clone(),
        jobs,
        mark,
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
            () = lane.shared.stop.told(), if !work.queue.is_empty() => {}
        }
    }
}

/// Retries at work. Dropped, it gives back every place that it holds.
struct Retries<'a> {
    lane: Arc<Lane>,
    jobs: &'a [Arc<Job>],
    mark: Arc<Mark>,
    queue: VecDeque<ClaimedRetry>,
    outcomes: Vec<RetryOutcome>,
    /// Credit that is owed until the outcomes are committed.
    credits: usize,
    in_flight: usize,
    since: Instant,
    slot: Claim,
    credit: Claim,
}

impl Retries<'_> {
    /// Starts retries until none is left, or slots or credit are used up.
    async fn start_what_may_start(&mut self, flights: &mut Flights) -> Result<(), StoreError> {
        while let Some(retry) = self.queue.front() {
            let now = self.lane.shared.clock.now();
            let job = self.job_of(retry);
            if self.mark.has_changed(retry.key) {
                // No address is used after an update of it was acknowledged (trap 8): claimed
                // again, at once, it comes with the device as it is now.
                let retry = self.queue.pop_front().expect("the front was just looked at");
                self.postpone(&retry, now);
                continue;
            }
            let version = self.lane.provider_version();
            let mode = job.mode(&self.lane).await?;
            let ends = match ends_without_trying(retry, &job, &mode, now) {
                None if reached_before(retry, &job, &self.lane).await? => {
                    Some((Settled::Failed, "sent_under_another_device".into()))
                }
                // A newer one is shown in its place: this one would overwrite it.
                None if is_overtaken(retry, &job, &self.lane).await? => {
                    Some((Settled::Expired, "overtaken".into()))
                }
                ends => ends,
            };
            if let Some((settled, reason)) = ends {
                let retry = self.queue.pop_front().expect("the front was just looked at");
                let attempts = retry.attempts;
                let reason = Some(reason);
                let step = RetryStep::Settled { settled, reason, attempts, message_id: None };
                self.note(RetryOutcome { no: retry.no, step, dead: None, moved: None });
                continue;
            }
            if let Some(until) = self.service_full_until(retry, &job, &mode, now) {
                let retry = self.queue.pop_front().expect("the front was just looked at");
                self.postpone(&retry, until);
                continue;
            }
            if self.lane.shared.stop.asked() {
                self.postpone_all(now);
                continue;
            }
            self.lane.slots.set_limit(self.lane.slots_max());
            if !self.slot.has_place() || !self.credit.has_place() {
                return Ok(());
            }
            if let Admission::Wait(until) = self.lane.admit(now) {
                // What is held stays due, so that it goes on at once when the credentials are
                // mended; the lane does not claim it before.
                let is_held = self.lane.gate.is_held(now);
                self.postpone_all(if is_held { now } else { until });
                continue;
            }
            if let Err(until) = self.lane.chat_pace(retry.key, now) {
                let retry = self.queue.pop_front().expect("the front was just looked at");
                self.postpone(&retry, until);
                continue;
            }
            self.slot.hand_over();
            self.credit.hand_over();
            self.in_flight += 1;
            let retry = self.queue.pop_front().expect("the front was just looked at");
            self.mark.started(retry.dispatch, retry.key);
            let service =
                retry.device.as_ref().and_then(|device| job.service_of(&self.lane, device));
            let service = service.map(|service| InService::start(service, now));
            flights.push(fly(
                retry,
                job,
                mode,
                (service, version, self.lane.shared.metrics.clone()),
            ));
        }
        // Places that nobody uses must not wait for the answers that are still to come.
        self.slot.let_go();
        self.credit.let_go();
        Ok(())
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
        let until = service.room(job.service_slots(provider, device), now).err()?;
        Some(until.unwrap_or_else(|| now.plus_ms(SERVICE_FULL_MS)))
    }

    /// Gives what is left back.
    fn postpone_all(&mut self, until: Timestamp) {
        for retry in std::mem::take(&mut self.queue) {
            self.postpone(&retry, until);
        }
    }

    /// Gives a retry back: a pause is no attempt (B39).
    fn postpone(&mut self, retry: &ClaimedRetry, until: Timestamp) {
        let until = self.job_of(retry).at_latest(until);
        let step = RetryStep::Later { due_at: until };
        self.note(RetryOutcome { no: retry.no, step, dead: None, moved: None });
    }
}

impl Drop for Retries<'_> {
    /// Also when the work broke off: a place that is not given back is lost for good.
    fn drop(&mut self) {
        self.lane.shared.credit.give_back(self.credits + self.in_flight);
        self.lane.slots.give_back(self.in_flight);
    }
}

/// How a retry ends that is not worth a try any more: the device is read again at each.
fn ends_without_trying(
    retry: &ClaimedRetry,
    job: &Job,
    mode: &Mode,
    now: Timestamp,
) -> Option<(Settled, Reason)> {
    let Some(device) = &retry.device else {
        return Some((Settled::Canceled, "device_deleted".into()));
    };
    if let Mode::Count { settled, reason } = mode {
        return Some((*settled, reason.clone()));
    }
    if job.expired(now) {
        return Some((Settled::Expired, "expired".into()));
    }
    if device.address.is_none() {
        return Some((Settled::Failed, "no_address".into()));
    }
    if !job.targets(device) {
        return Some((Settled::Failed, "device_disabled".into()));
    }
    None
}

async fn reached_before(retry: &ClaimedRetry, job: &Job, lane: &Lane) -> Result<bool, StoreError> {
    let Some(device) = &retry.device else { return Ok(false) };
    job.reached_before(device, &lane.shared).await
}

/// Whether a newer notification with the same `collapse_key` went to the device meanwhile.
async fn is_overtaken(retry: &ClaimedRetry, job: &Job, lane: &Lane) -> Result<bool, StoreError> {
    Ok(job.replaces_others() && lane.shared.store.overtaken(retry.dispatch, retry.key).await?)
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
                Answer::BadMessage { reason: "no_address".into() }
            }
        };
        Landed { retry, job, service, version, answer }
    }
    .boxed()
}
