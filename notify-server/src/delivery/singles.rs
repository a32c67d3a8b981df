//! Notifications to one device each, as many as came due together: sent by one task of their lane and
//! settled in few commits. The store opened their pages when it started them, so that nothing is read
//! again.
//!
//! What cannot go out at once, or has to wait after all, goes on as an ordinary page.

use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use notify_core::Timestamp;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::Instant;

use super::attempt::attempt;
use super::breaker::Admission;
use super::job::{Job, Mode};
use super::lane::{InService, Lane, OpenSingle};
use super::page::{Batch, Landed, settle};
use super::shared::Shared;
use super::slots::Claim;
use super::starts::StartContext;
use crate::providers::SharedProvider;
use crate::store::{AudienceDevice, Checkpoint, DeviceKey, OpenPage, StoreError};

/// How many notifications to one device a lane has in hand when it takes no more of them: further ones
/// wait for their turn as any dispatch does. One start adds at most `EngineConfig::start_batch`. With
/// some 3 kB each they bridge a second of a provider, or a disk, that stands still under full load.
pub(crate) const LANE_SINGLES_MAX: usize = 4_000;

/// A notification to one device.
pub(crate) struct Single {
    pub(crate) job: Arc<Job>,
    pub(crate) page: OpenPage,
    pub(crate) device: AudienceDevice,
    pub(crate) open: OpenSingle,
}

/// Notifications of one lane that were started together.
pub(crate) struct Singles {
    pub(crate) singles: Vec<Single>,
    pub(crate) context: StartContext,
}

/// One that waits to go out.
struct QueueEntry {
    job: Arc<Job>,
    device: AudienceDevice,
    page: PageGuard,
}

/// A page that is open, and whose mark shows that its device was sent to, until its outcome is committed.
struct PageGuard {
    page: OpenPage,
    open: OpenSingle,
    context: Arc<StartContext>,
}

/// One whose attempt came back.
struct Returned {
    job: Arc<Job>,
    page: PageGuard,
    landed: Landed,
}

/// Outcomes for one commit.
#[derive(Default)]
struct Outcomes {
    checkpoints: Vec<Checkpoint>,
    pages: Vec<PageGuard>,
    /// Retries that the checkpoints write.
    retries: u64,
}

/// Outcomes that were committed, and whether each page was this process's own still.
struct CommitResult {
    outcomes: Outcomes,
    finished: Vec<Result<OpenPage, StoreError>>,
}

type Flights = FuturesUnordered<BoxFuture<'static, Returned>>;

/// Sends what comes in and commits the outcomes, until nothing is left to do.
pub(crate) async fn run(lane: &Arc<Lane>, mut incoming: UnboundedReceiver<Singles>) {
    let mut run = Run {
        slot: Claim::new(&lane.slots),
        credit: Claim::new(&lane.shared.credit),
        lane: lane.clone(),
        queue: VecDeque::new(),
        outcomes: Outcomes::default(),
        retries: 0,
        in_flight: 0,
        credits: 0,
        since: Instant::now(),
    };
    let mut flights = Flights::new();
    let mut commit: Option<BoxFuture<'static, CommitResult>> = None;
    let config = &lane.shared.config;
    loop {
        if let Err(error) = run.start_what_may_start(&mut flights).await {
            lane.shared.storage_failed(&error).await;
            continue;
        }
        let is_idle = run.queue.is_empty() && flights.is_empty();
        let stopping = lane.shared.stop.is_cancelled();
        let waiting = run.outcomes.checkpoints.len();
        if commit.is_none() && waiting > 0 && (waiting >= config.checkpoint_outcomes || stopping) {
            commit = Some(run.commit());
        }
        if is_idle && waiting == 0 && commit.is_none() {
            match incoming.try_recv() {
                Ok(singles) => run.take(singles),
                Err(_) if incoming.is_closed() => return,
                // What comes from here on starts another run.
                Err(_) => incoming.close(),
            }
            continue;
        }
        // The last outcomes wait as well: a commit costs more CPU than the rest of a send.
        let due = run.since + config.checkpoint_every;
        tokio::select! {
            biased;
            Some(returned) = flights.next(), if !flights.is_empty() => {
                run.land(returned);
                while let Some(Some(returned)) = flights.next().now_or_never() {
                    run.land(returned);
                }
            }
            Some(singles) = incoming.recv() => run.take(singles),
            committed = async { commit.as_mut().expect("asked only then").await },
                if commit.is_some() =>
            {
                commit = None;
                run.committed(committed);
            }
            () = tokio::time::sleep_until(due), if waiting > 0 && commit.is_none() => {
                commit = Some(run.commit());
            }
            () = run.slot.turn() => {}
            () = run.credit.turn() => {}
            () = lane.shared.stop.cancelled(), if !stopping => {}
        }
    }
}

/// Singles at work. Dropped, it gives back every place that it holds.
struct Run {
    lane: Arc<Lane>,
    queue: VecDeque<QueueEntry>,
    /// Outcomes that wait for a commit.
    outcomes: Outcomes,
    /// Retries that are written with outcomes not committed yet.
    retries: u64,
    in_flight: usize,
    /// Credit that is owed until outcomes are committed.
    credits: usize,
    /// When the first of the outcomes came.
    since: Instant,
    slot: Claim,
    credit: Claim,
}

impl Run {
    fn take(&mut self, singles: Singles) {
        let context = Arc::new(singles.context);
        self.queue.extend(singles.singles.into_iter().map(|single| {
            let Single { job, page, device, open } = single;
            QueueEntry { job, device, page: PageGuard { page, open, context: context.clone() } }
        }));
    }

    /// Takes the next one off the queue. After the last one of a start, its mark no longer needs changes
    /// of devices.
    fn next(&mut self) -> Option<QueueEntry> {
        let next = self.queue.pop_front()?;
        let context = &next.page.context;
        let follows = |entry: &QueueEntry| Arc::ptr_eq(&entry.page.context, context);
        if !self.queue.front().is_some_and(follows) {
            context.mark.narrow(DeviceKey(0), DeviceKey(0));
        }
        Some(next)
    }

    /// Starts what may go out, until none is left or the lane has no place.
    async fn start_what_may_start(&mut self, flights: &mut Flights) -> Result<(), StoreError> {
        while let Some(entry) = self.queue.front() {
            let shared = self.lane.shared.clone();
            if shared.stop.is_cancelled() {
                // The next process takes up what is open.
                self.queue.clear();
                break;
            }
            let version = self.lane.provider_version();
            let mode = entry.job.mode(&self.lane).await?;
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
            if version != self.lane.provider_version() || !self.may_go(entry, provider, now) {
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
        // Places that nobody uses must not wait for the answers that are still to come.
        self.slot.let_go();
        self.credit.let_go();
        Ok(())
    }

    /// Whether one can go out as it was read, as far as its lane lets anything out.
    fn may_go(&self, entry: &QueueEntry, provider: &SharedProvider, now: Timestamp) -> bool {
        let QueueEntry { job, device, page: PageGuard { page, context, .. } } = entry;
        let shared = &self.lane.shared;
        let is_current = now.ms_since(context.at) <= shared.config.address_age_ms_max
            && !context.mark.has_changed(device.key)
            && device.taken_from.is_none_or(|(_, since)| since < job.dispatch.due_at);
        let is_own = shared.standing.holds(now)
            && context.tenure == shared.standing.tenure()
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
        let (Some(entry), Mode::Send { provider, payload }) = (self.next(), mode) else { return };
        let QueueEntry { job, device, page } = entry;
        let address = job.address(&device).expect("it was looked at just now");
        self.lane.chat_started(device.key, now);
        self.slot.hand_over();
        self.credit.hand_over();
        self.in_flight += 1;
        page.context.mark.started(job.dispatch.no, device.key);
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
        match settle((&self.lane, &job, &page.context.mark), landed, &mut batch) {
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

    fn finish(&mut self, page: PageGuard, batch: Batch) {
        if self.outcomes.checkpoints.is_empty() {
            self.since = Instant::now();
        }
        let retries = batch.retries() as u64;
        self.retries += retries;
        self.outcomes.retries += retries;
        let checkpoint = batch.into_checkpoint(page.page);
        let now = self.lane.shared.clock.now();
        let checkpoint = Checkpoint { targeted: 1, finished: true, at: now, ..checkpoint };
        self.outcomes.checkpoints.push(checkpoint);
        self.outcomes.pages.push(page);
    }

    fn go_on_as_page(&mut self) {
        let Some(entry) = self.next() else { return };
        self.give_to_lane(entry.page);
    }

    /// Its device is read again before it is used.
    fn give_to_lane(&self, page: PageGuard) {
        page.open.give();
        self.lane.add_page(page.page);
    }

    /// Commits the outcomes that wait, as often as it takes: while storage is gone the credit stays
    /// owed, and sending stops.
    fn commit(&mut self) -> BoxFuture<'static, CommitResult> {
        let outcomes = std::mem::take(&mut self.outcomes);
        let shared = self.lane.shared.clone();
        async move {
            loop {
                match shared.store.finish_pages(outcomes.checkpoints.clone()).await {
                    Ok(finished) => break CommitResult { outcomes, finished },
                    Err(error) => shared.storage_failed(&error).await,
                }
            }
        }
        .boxed()
    }

    fn committed(&mut self, result: CommitResult) {
        let CommitResult { outcomes: Outcomes { checkpoints, pages, retries }, finished } = result;
        let shared: &Arc<Shared> = &self.lane.shared;
        shared.committed();
        self.credits -= checkpoints.len();
        shared.credit.give_back(checkpoints.len());
        self.retries -= retries;
        self.lane.retries_written(retries);
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
        // From here on they are not open any more.
        drop(pages);
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
