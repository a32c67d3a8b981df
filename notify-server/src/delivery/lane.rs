//! A lane: everything of one application on one platform. It has a gate, slots and a provider of
//! its own, so that one that is slow or refused does not slow another; dispatches of a lane take
//! turns page by page.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use notify_core::{Platform, Timestamp};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::gate::Gate;
use super::job::Job;
use super::page::{PageEnd, PageRun};
use super::retries;
use super::shared::Shared;
use super::slots::Slots;
use crate::providers::{Answer, Certainty, Reason, SharedProvider};
use crate::store::{
    AppNo, Change, ClaimedRetry, Dispatch, OpenPage, PageClaim, PageNo, RetryClaim, Slice,
    StoreError,
};

/// Streams assumed of a lane without a provider: what it settles does not go out.
const SLOTS_WITHOUT_PROVIDER: usize = 1;
/// Dispatches whose rendered form is kept for retries.
const JOBS_KEPT_MAX: usize = 64;

/// What a lane's provider is at the moment.
#[derive(Clone)]
pub(crate) enum LaneProvider {
    /// Not asked for yet, or changed since.
    Unknown,
    /// None is configured.
    Missing,
    /// This one.
    Ready(SharedProvider),
}

/// What the pages and retries of a lane share.
pub(crate) struct Lane {
    pub(crate) app: AppNo,
    pub(crate) platform: Platform,
    pub(crate) gate: Gate,
    pub(crate) slots: Arc<Slots>,
    pub(crate) shared: Arc<Shared>,
    provider: Mutex<LaneProvider>,
    inbox: Mutex<Inbox>,
    wake: Notify,
}

/// What the engine hands to a lane.
#[derive(Default)]
struct Inbox {
    dispatches: VecDeque<Dispatch>,
    pages: VecDeque<OpenPage>,
    retries_due: bool,
    provider_changed: bool,
}

impl Lane {
    pub(crate) fn new(app: AppNo, platform: Platform, shared: Arc<Shared>) -> Arc<Self> {
        Arc::new(Self {
            app,
            platform,
            gate: Gate::new(shared.config.retry.probe_every_ms),
            slots: Slots::new(SLOTS_WITHOUT_PROVIDER),
            shared,
            provider: Mutex::new(LaneProvider::Unknown),
            inbox: Mutex::default(),
            wake: Notify::new(),
        })
    }

    /// Gives the lane a dispatch whose scan is not done.
    pub(crate) fn add_dispatch(&self, dispatch: Dispatch) {
        self.tell(|inbox| inbox.dispatches.push_back(dispatch));
    }

    /// Gives the lane a page that another process left open.
    pub(crate) fn add_page(&self, page: OpenPage) {
        self.tell(|inbox| inbox.pages.push_back(page));
    }

    /// Tells the lane that retries of it are due.
    pub(crate) fn retries_due(&self) {
        self.tell(|inbox| inbox.retries_due = true);
    }

    /// Tells the lane that its provider was configured anew: what was held goes on at once.
    pub(crate) fn provider_changed(&self) {
        *self.provider.lock().expect("no holder panics") = LaneProvider::Unknown;
        self.tell(|inbox| inbox.provider_changed = true);
        self.gate.open();
    }

    fn tell(&self, note: impl FnOnce(&mut Inbox)) {
        note(&mut self.inbox.lock().expect("no holder panics"));
        self.wake.notify_one();
    }

    /// The provider, asked for when it is not known.
    pub(crate) async fn provider(&self) -> Result<LaneProvider, StoreError> {
        let known = self.provider.lock().expect("no holder panics").clone();
        if !matches!(known, LaneProvider::Unknown) {
            return Ok(known);
        }
        let found = self.shared.providers.provider(self.app, self.platform.provider()).await?;
        let found = found.map_or(LaneProvider::Missing, LaneProvider::Ready);
        *self.provider.lock().expect("no holder panics") = found.clone();
        Ok(found)
    }

    /// Takes note of what an answer says of the provider as a whole.
    pub(crate) fn heard(&self, answer: &Answer, now: Timestamp) {
        match answer {
            // The decision about it holds the gate.
            Answer::Config { .. } => {}
            Answer::Retry { outcome: Certainty::NotProcessed, .. } => self.gate.unreachable(now),
            Answer::Delivered { .. }
            | Answer::TokenDead { .. }
            | Answer::Retry { .. }
            | Answer::Throttle { .. }
            | Answer::BadMessage { .. }
            | Answer::Policy { .. }
            | Answer::Unknown { .. } => self.gate.answered(),
        }
    }

    /// Holds the lane: the provider refuses our credentials (B40).
    pub(crate) fn hold(&self, reason: &Reason, now: Timestamp) {
        if self.gate.hold(reason, now) {
            tracing::warn!(
                app.no = self.app.0,
                platform = %self.platform,
                %reason,
                "the provider refuses our credentials; deliveries are held"
            );
        }
    }

    /// How many streams may be open now.
    pub(crate) fn slots_max(&self) -> usize {
        match &*self.provider.lock().expect("no holder panics") {
            LaneProvider::Ready(provider) => provider.slots().max(1),
            LaneProvider::Missing | LaneProvider::Unknown => SLOTS_WITHOUT_PROVIDER,
        }
    }
}

/// The work of a lane: which dispatches take turns, and what is open.
pub(crate) struct LaneRun {
    lane: Arc<Lane>,
    turns: VecDeque<Arc<Job>>,
    jobs: VecDeque<Arc<Job>>,
    running: JoinSet<Finished>,
    devices_open: usize,
    pages_open: usize,
    retries_running: bool,
    retries_due: bool,
}

/// A task of a lane that came to its end.
enum Finished {
    Page { end: PageEnd, devices: usize },
    Retries { more: bool },
}

impl LaneRun {
    pub(crate) fn new(lane: Arc<Lane>) -> Self {
        Self {
            lane,
            turns: VecDeque::new(),
            jobs: VecDeque::new(),
            running: JoinSet::new(),
            devices_open: 0,
            pages_open: 0,
            retries_running: false,
            retries_due: false,
        }
    }

    /// Works until the engine stops, and then until what is in flight has ended.
    pub(crate) async fn run(mut self) {
        let shared = self.lane.shared.clone();
        loop {
            if !shared.stop.asked() {
                if let Err(error) = self.take_on().await {
                    shared.storage_failed(&error).await;
                    continue;
                }
            } else if self.running.is_empty() {
                return;
            }
            let lane = self.lane.clone();
            tokio::select! {
                Some(finished) = self.running.join_next() => self.finished(finished),
                () = lane.wake.notified() => {}
                () = shared.stop.told(), if !shared.stop.asked() => {}
            }
        }
    }

    fn finished(&mut self, finished: Result<Finished, tokio::task::JoinError>) {
        match finished {
            Ok(Finished::Page { end, devices }) => {
                self.devices_open -= devices;
                self.pages_open -= 1;
                if end == PageEnd::Fenced {
                    self.lane.shared.ask_for_adoption();
                }
            }
            Ok(Finished::Retries { more }) => {
                self.retries_running = false;
                self.retries_due |= more;
            }
            // A panic inside a page must not take the lane with it: the page is adopted again.
            Err(error) => {
                tracing::error!(error = %error, "a delivery task broke off");
                self.pages_open = self.pages_open.saturating_sub(1);
                self.retries_running = false;
                self.lane.shared.ask_for_adoption();
            }
        }
    }

    /// Takes on what the bounds allow: adopted pages, then retries, then the next pages by turns.
    async fn take_on(&mut self) -> Result<(), StoreError> {
        self.read_inbox().await?;
        if self.retries_due && !self.retries_running {
            self.start_retries().await?;
        }
        while self.room() {
            let Some(job) = self.turns.pop_front() else { break };
            match self.open_next_page(&job).await {
                Ok(true) => self.turns.push_back(job),
                Ok(false) => self.lane.shared.dispatch_scanned(job.dispatch.no),
                Err(error) => {
                    self.turns.push_front(job);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    fn room(&self) -> bool {
        let config = &self.lane.shared.config;
        self.devices_open < config.lane_devices_max && self.pages_open < config.lane_pages_max
    }

    async fn read_inbox(&mut self) -> Result<(), StoreError> {
        let inbox = std::mem::take(&mut *self.lane.inbox.lock().expect("no holder panics"));
        self.retries_due |= inbox.retries_due || inbox.provider_changed;
        for dispatch in inbox.dispatches {
            self.turns.push_back(Job::new(dispatch, &self.lane.shared));
        }
        let mut pages = inbox.pages;
        while let Some(page) = pages.front().copied() {
            match self.resume(page).await {
                Ok(()) => drop(pages.pop_front()),
                Err(error) => return Err(self.put_back(pages, error)),
            }
        }
        Ok(())
    }

    fn put_back(&self, pages: VecDeque<OpenPage>, error: StoreError) -> StoreError {
        let mut inbox = self.lane.inbox.lock().expect("no holder panics");
        for page in pages.into_iter().rev() {
            inbox.pages.push_front(page);
        }
        error
    }

    /// Reads and claims the next page of a dispatch. Answers whether more is to come.
    async fn open_next_page(&mut self, job: &Arc<Job>) -> Result<bool, StoreError> {
        let shared = self.lane.shared.clone();
        let from = job.cursor();
        let read_at = shared.clock.now();
        let slice = shared.store.read_slice(&job.dispatch, from, shared.config.page_rows).await?;
        let Slice { devices, to, end } = slice;
        let claim = PageClaim {
            dispatch: job.dispatch.no,
            from,
            to,
            end,
            targeted: devices.iter().filter(|device| job.targets(device)).count() as u64,
            excluded: job.count_excluded(&devices),
            epoch: shared.epoch,
            lease_until: read_at.plus_ms(shared.config.lease_ms),
            at: read_at,
        };
        let page = match shared.store.open_page(claim).await {
            Ok(page) => page,
            // Somebody else moved the cursor: what is left is theirs, or is adopted.
            Err(StoreError::Fenced) => {
                shared.ask_for_adoption();
                return Ok(false);
            }
            Err(error) => return Err(error),
        };
        job.move_cursor(to);
        self.spawn_page(PageRun::fresh(self.lane.clone(), job.clone(), page, (devices, read_at)));
        Ok(!end)
    }

    async fn resume(&mut self, page: OpenPage) -> Result<(), StoreError> {
        let shared = self.lane.shared.clone();
        let dispatch = shared.store.dispatch(page.dispatch).await?;
        let progress = shared.store.page_progress(&page).await?;
        let job = Job::new(dispatch, &self.lane.shared);
        let read_at = shared.clock.now();
        let devices = shared.store.read_range(&job.dispatch, page.from, page.to).await?;
        let run = PageRun::resumed(self.lane.clone(), job, page, (devices, read_at), &progress);
        self.spawn_page(run);
        Ok(())
    }

    fn spawn_page(&mut self, run: PageRun) {
        let (no, devices) = (run.page_no(), run.devices().max(1));
        self.devices_open += devices;
        self.pages_open += 1;
        self.lane.shared.page_opened(no);
        let lane = self.lane.clone();
        self.running.spawn(async move {
            let _open = PageOpen(lane, no);
            Finished::Page { end: run.run().await, devices }
        });
    }

    async fn start_retries(&mut self) -> Result<(), StoreError> {
        let shared = self.lane.shared.clone();
        let now = shared.clock.now();
        self.retries_due = false;
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
        let more = claimed.len() >= shared.config.lane_retries_max as usize;
        let jobs = self.jobs_of(&claimed).await?;
        let lane = self.lane.clone();
        self.retries_running = true;
        self.running.spawn(async move {
            retries::run(&lane, claimed, &jobs).await;
            Finished::Retries { more }
        });
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
            let job = match known {
                Some(job) => job,
                None => {
                    let dispatch = self.lane.shared.store.dispatch(retry.dispatch).await?;
                    let job = Job::new(dispatch, &self.lane.shared);
                    self.jobs.push_back(job.clone());
                    if self.jobs.len() > JOBS_KEPT_MAX {
                        self.jobs.pop_front();
                    }
                    job
                }
            };
            jobs.push(job);
        }
        Ok(jobs)
    }
}

/// Whether a change concerns this lane, and what it then does.
pub(crate) fn hear(lane: &Lane, change: Change) {
    match change {
        Change::ProviderChanged(app, provider)
            if app == lane.app && provider == lane.platform.provider() =>
        {
            lane.provider_changed();
        }
        Change::AppChanged(app) if app == lane.app => lane.provider_changed(),
        Change::ProviderChanged(..)
        | Change::AppChanged(_)
        | Change::NotificationDue
        | Change::NotificationScheduled
        | Change::NotificationCanceled(_)
        | Change::DeviceChanged(_)
        | Change::KeyRevoked => {}
    }
}

/// Tells the engine that a page is not worked on any more, also when its task panicked.
struct PageOpen(Arc<Lane>, PageNo);

impl Drop for PageOpen {
    fn drop(&mut self) {
        self.0.shared.page_closed(self.1);
    }
}
