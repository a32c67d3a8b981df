//! Notifications to one device each, as many as came due together: sent by one task and settled in one
//! commit. The store opened their pages when it started them, so that nothing is read again.
//!
//! What cannot go out at once, or has to wait after all, goes on as an ordinary page.

use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use notify_core::Timestamp;
use tokio::time::Instant;

use super::attempt::attempt;
use super::gate::Admission;
use super::job::{Job, Mode};
use super::lane::{InService, Lane, OpenPages};
use super::marks::Mark;
use super::page::{Batch, Landed, settle};
use super::slots::Claim;
use crate::providers::SharedProvider;
use crate::store::{AudienceDevice, Checkpoint, DeviceKey, OpenPage, StoreError};

/// How many notifications to one device a lane has in hand when it takes no more of them: further ones
/// wait for their turn as any dispatch does. One start adds at most `EngineConfig::start_batch`.
pub(crate) const LANE_SINGLES_MAX: usize = 1_000;

/// A notification to one device.
pub(crate) struct Single {
    pub(crate) job: Arc<Job>,
    pub(crate) page: OpenPage,
    pub(crate) device: AudienceDevice,
}

/// Notifications of one lane that were started together.
pub(crate) struct Singles {
    pub(crate) singles: Vec<Single>,
    /// When their devices were read.
    pub(crate) read_at: Timestamp,
    /// Opened before that: it shows what changed since.
    pub(crate) mark: Arc<Mark>,
    /// The server's tenure when the pages were surely its own.
    pub(crate) tenure: u64,
}

/// One whose attempt came back.
struct Returned {
    job: Arc<Job>,
    page: OpenPage,
    landed: Landed,
}

type Flights = FuturesUnordered<BoxFuture<'static, Returned>>;

/// Sends all of them and commits what became of them.
pub(crate) async fn run(lane: &Arc<Lane>, singles: Singles, open: OpenPages) {
    let Singles { singles, read_at, mark, tenure } = singles;
    let mut run = Run {
        slot: Claim::new(&lane.slots),
        credit: Claim::new(&lane.shared.credit),
        lane: lane.clone(),
        queue: singles.into(),
        read_at,
        mark,
        tenure,
        open,
        finished: Vec::new(),
        retries: 0,
        in_flight: 0,
        credits: 0,
        since: Instant::now(),
    };
    let mut flights = Flights::new();
    let every = lane.shared.config.checkpoint_every;
    loop {
        if let Err(error) = run.start_what_may_start(&mut flights).await {
            lane.shared.storage_failed(&error).await;
            continue;
        }
        let is_over = run.queue.is_empty() && flights.is_empty();
        if is_over || run.finished.len() >= lane.shared.config.checkpoint_outcomes {
            run.commit().await;
        }
        if is_over {
            return;
        }
        tokio::select! {
            biased;
            Some(returned) = flights.next(), if !flights.is_empty() => {
                run.land(returned);
                while let Some(Some(returned)) = flights.next().now_or_never() {
                    run.land(returned);
                }
            }
            () = tokio::time::sleep_until(run.since + every), if !run.finished.is_empty() => {
                run.commit().await;
            }
            () = run.slot.turn() => {}
            () = run.credit.turn() => {}
            () = lane.shared.stop.told(), if !run.queue.is_empty() => {}
        }
    }
}

/// Singles at work. Dropped, it gives back every place that it holds.
struct Run {
    lane: Arc<Lane>,
    queue: VecDeque<Single>,
    read_at: Timestamp,
    mark: Arc<Mark>,
    tenure: u64,
    open: OpenPages,
    /// Checkpoints that wait for a commit.
    finished: Vec<Checkpoint>,
    /// Retries that these write.
    retries: u64,
    in_flight: usize,
    /// Credit that is owed until the checkpoints are committed.
    credits: usize,
    /// When the first of the checkpoints came.
    since: Instant,
    slot: Claim,
    credit: Claim,
}

impl Run {
    /// Starts what may go out, until none is left or the lane has no place.
    async fn start_what_may_start(&mut self, flights: &mut Flights) -> Result<(), StoreError> {
        while let Some(single) = self.queue.front() {
            let shared = self.lane.shared.clone();
            if shared.stop.asked() {
                // The next process takes up what is open.
                self.queue.clear();
                break;
            }
            let version = self.lane.provider_version();
            let mode = single.job.mode(&self.lane).await?;
            // Nothing is awaited from here on to the start: whatever was acknowledged before it, an
            // update of the device (trap 8), a cancellation or another provider, is seen.
            let now = shared.clock.now();
            let provider = match &mode {
                Mode::Send { provider, .. } => provider,
                Mode::Count { .. } => {
                    self.go_on_as_page();
                    continue;
                }
            };
            if version != self.lane.provider_version() || !self.may_go(single, provider, now) {
                self.go_on_as_page();
                continue;
            }
            self.lane.slots.set_limit(self.lane.slots_max());
            if !self.slot.has_place() || !self.credit.has_place() {
                return Ok(());
            }
            if let Admission::Wait(_) = self.lane.admit(now) {
                self.go_on_as_page();
                continue;
            }
            self.start(flights, (mode, version), now);
        }
        // Places that nobody uses must not wait for the answers that are still to come, and changes of
        // devices matter to nobody any more.
        self.slot.let_go();
        self.credit.let_go();
        self.mark.narrow(DeviceKey(0), DeviceKey(0));
        Ok(())
    }

    /// Whether one can go out as it was read, as far as its lane lets anything out.
    fn may_go(&self, single: &Single, provider: &SharedProvider, now: Timestamp) -> bool {
        let (shared, Single { job, page, device }) = (&self.lane.shared, single);
        let is_current = now.ms_since(self.read_at) <= shared.config.address_age_ms_max
            && !self.mark.has_changed(device.key)
            && device.taken_from.is_none_or(|(_, since)| since < job.dispatch.due_at);
        let is_own = shared.standing.holds(now)
            && self.tenure == shared.standing.tenure()
            && now < page.lease_until;
        let service_has_room = || {
            let service = job.service_of(&self.lane, device);
            let candidate = job.candidate(&self.lane, provider, device);
            service.is_none_or(|service| service.room(candidate, now).is_ok())
        };
        is_current
            && is_own
            && !job.canceled()
            && !job.expired(now)
            && job.reaches(device)
            && !self.lane.has_retries_in_plenty()
            && self.lane.chat_free(device.key, now).is_ok()
            && service_has_room()
    }

    fn start(&mut self, flights: &mut Flights, (mode, version): (Mode, u64), now: Timestamp) {
        let (Some(single), Mode::Send { provider, payload }) = (self.queue.pop_front(), mode)
        else {
            return;
        };
        let Single { job, page, device } = single;
        let address = job.address(&device).expect("it was looked at just now");
        self.lane.chat_started(device.key, now);
        self.slot.hand_over();
        self.credit.hand_over();
        self.in_flight += 1;
        self.mark.started(job.dispatch.no, device.key);
        let service = job.service_of(&self.lane, &device);
        let service = service.map(|service| InService::start(service, now));
        let metrics = self.lane.shared.metrics.clone();
        flights.push(
            async move {
                let answer = attempt(&metrics, &provider, &payload, &address).await;
                Returned { job, page, landed: Landed { device, service, version, answer } }
            }
            .boxed(),
        );
    }

    fn land(&mut self, returned: Returned) {
        let Returned { job, page, landed } = returned;
        self.in_flight -= 1;
        self.lane.stream_ended();
        let mut batch = Batch::default();
        match settle((&self.lane, &job, &self.mark), landed, &mut batch) {
            Some(_) => {
                self.lane.shared.credit.give_back(1);
                self.give_to_lane(page);
            }
            None => {
                self.credits += 1;
                self.finish(page, batch);
            }
        }
    }

    fn finish(&mut self, page: OpenPage, batch: Batch) {
        if self.finished.is_empty() {
            self.since = Instant::now();
        }
        self.retries += batch.retries() as u64;
        let checkpoint = batch.into_checkpoint(page);
        let now = self.lane.shared.clock.now();
        self.finished.push(Checkpoint { targeted: 1, finished: true, at: now, ..checkpoint });
    }

    fn go_on_as_page(&mut self) {
        let Some(single) = self.queue.pop_front() else { return };
        self.give_to_lane(single.page);
    }

    /// Its device is read again before it is used.
    fn give_to_lane(&mut self, page: OpenPage) {
        self.open.give(page.no);
        self.lane.add_page(page);
    }

    /// Commits, as often as it takes: while storage is gone the credit stays owed, and sending stops.
    async fn commit(&mut self) {
        let shared = self.lane.shared.clone();
        let checkpoints = std::mem::take(&mut self.finished);
        if checkpoints.is_empty() {
            return;
        }
        let finished = loop {
            match shared.store.finish_pages(checkpoints.clone()).await {
                Ok(finished) => break finished,
                Err(error) => shared.storage_failed(&error).await,
            }
        };
        shared.committed();
        shared.credit.give_back(std::mem::take(&mut self.credits));
        self.lane.retries_written(std::mem::take(&mut self.retries));
        for (checkpoint, finished) in checkpoints.iter().zip(finished) {
            match finished {
                Ok(_) => shared.metrics.settled(&checkpoint.settled, &checkpoint.dead),
                Err(_) => shared.ask_for_adoption(),
            }
        }
        let retries = checkpoints.iter().flat_map(|checkpoint| &checkpoint.retries);
        if let Some(due_at) = retries.map(|retry| retry.due_at).min() {
            shared.look_by(due_at);
        }
        for checkpoint in &checkpoints {
            self.open.close(checkpoint.page.no);
        }
    }
}

impl Drop for Run {
    /// Also when the work broke off: a place that is not given back is lost for good.
    fn drop(&mut self) {
        self.lane.shared.credit.give_back(self.credits + self.in_flight);
        self.lane.retries_written(self.retries);
        self.lane.streams_dropped(self.in_flight);
    }
}
