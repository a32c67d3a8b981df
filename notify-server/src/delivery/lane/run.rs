//! The work of a lane: adopted pages, then retries, then the next pages of its dispatches by turns.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::task::{Id, JoinError, JoinSet};

use super::Lane;
use crate::delivery::job::Job;
use crate::delivery::page::{PageEnd, PageRun, Reading};
use crate::delivery::retries;
use crate::store::{
    ClaimedRetry, DeviceKey, DispatchNo, OpenPage, PageClaim, PageNo, RetryClaim, SEQUENCE_MAX,
    Slice, StoreError,
};

/// Dispatches whose rendered form is kept for retries.
const JOBS_KEPT_MAX: usize = 64;

/// The work of a lane: which dispatches take turns, and what is open.
pub(crate) struct LaneRun {
    lane: Arc<Lane>,
    turns: VecDeque<Arc<Job>>,
    /// Dispatches that wait for a turn without being held in memory.
    later: VecDeque<DispatchNo>,
    jobs: VecDeque<Arc<Job>>,
    running: JoinSet<Finished>,
    /// How many devices of each open page wait, by its task.
    open: HashMap<Id, Arc<AtomicUsize>>,
    retries_running: bool,
    retries_due: bool,
}

/// A task of a lane that came to its end.
enum Finished {
    Page(PageEnd),
    Retries { more: bool },
}

impl LaneRun {
    pub(crate) fn new(lane: Arc<Lane>) -> Self {
        Self {
            lane,
            turns: VecDeque::new(),
            later: VecDeque::new(),
            jobs: VecDeque::new(),
            running: JoinSet::new(),
            open: HashMap::new(),
            retries_running: false,
            retries_due: false,
        }
    }

    /// Works until the engine stops, and then until what is in flight has ended.
    pub(crate) async fn run(mut self) {
        let shared = self.lane.shared.clone();
        loop {
            // Looked at once: a sign given while work is taken on must not go unheard below.
            let stopping = shared.stop.asked();
            if stopping && self.running.is_empty() {
                return;
            }
            if !stopping && let Err(error) = self.take_on().await {
                shared.storage_failed(&error).await;
                continue;
            }
            let lane = self.lane.clone();
            tokio::select! {
                Some(finished) = self.running.join_next_with_id() => self.finished(finished),
                () = lane.wake.notified() => {}
                () = shared.stop.told(), if !stopping => {}
            }
        }
    }

    fn finished(&mut self, finished: Result<(Id, Finished), JoinError>) {
        let task = finished.as_ref().map_or_else(JoinError::id, |(task, _)| *task);
        let was_page = self.open.remove(&task).is_some();
        match finished {
            Ok((_, Finished::Page(PageEnd::Over))) => {}
            Ok((_, Finished::Page(PageEnd::Fenced))) => self.lane.shared.ask_for_adoption(),
            Ok((_, Finished::Retries { more })) => {
                self.retries_running = false;
                self.retries_due |= more;
            }
            // A panic must not take the lane with it: what the task held is adopted again.
            Err(error) => {
                tracing::error!(error = %error, "a delivery task broke off");
                self.retries_running &= was_page;
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
            self.fill_turns().await?;
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
        self.open.len() < config.lane_pages_max
            && self.open.values().map(|page| page.load(Ordering::Acquire)).sum::<usize>()
                < config.lane_devices_max
    }

    async fn read_inbox(&mut self) -> Result<(), StoreError> {
        let inbox = std::mem::take(&mut *self.lane.inbox.lock().expect("no holder panics"));
        self.retries_due |= inbox.retries_due || inbox.provider_changed;
        for job in inbox.dispatches {
            if self.later.is_empty()
                && self.turns.len() < self.lane.shared.config.lane_dispatches_max
            {
                self.turns.push_back(job);
            } else {
                self.later.push_back(job.dispatch.no);
            }
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

    /// Reads dispatches that wait, as far as they find a place.
    async fn fill_turns(&mut self) -> Result<(), StoreError> {
        let shared = self.lane.shared.clone();
        while self.turns.len() < shared.config.lane_dispatches_max
            && let Some(no) = self.later.front().copied()
        {
            match Job::read(&shared, no).await {
                Ok(job) => self.turns.push_back(job),
                // Erased with its application.
                Err(StoreError::NotFound) => shared.dispatch_scanned(no),
                Err(error) => return Err(error),
            }
            self.later.pop_front();
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
        let mark = shared.marks.open(from, job.dispatch.until);
        let read_at = shared.clock.now();
        let slice = shared.store.read_slice(&job.dispatch, from, shared.config.page_rows).await?;
        let Slice { devices, to, end } = slice;
        mark.narrow(from, to);
        let claim = PageClaim {
            dispatch: job.dispatch.no,
            from,
            to,
            end,
            targeted: (devices.iter().filter(|device| job.targets(device)).count()
                + job.gone(&devices, from, to).len()) as u64,
            excluded: job.count_excluded(&devices),
            epoch: shared.epoch,
            lease_until: read_at.plus_ms(shared.config.lease_ms),
            at: read_at,
        };
        let _claiming = shared.claims.read().await;
        let page = match shared.store.open_page(claim).await {
            Ok(page) => page,
            // Somebody else moved the cursor: what is left is theirs, or is adopted.
            Err(StoreError::Fenced) => {
                shared.ask_for_adoption();
                return Ok(false);
            }
            // Erased with its application.
            Err(StoreError::NotFound) => return Ok(false),
            Err(error) => return Err(error),
        };
        job.move_cursor(to);
        shared.committed();
        // One without anybody to send to was finished when it was claimed: whoever becomes eligible
        // afterwards could be sent to but not counted.
        if claim.targeted > 0 {
            shared.page_opened(page.no);
            let reading = Reading { devices, read_at, mark };
            self.spawn_page(PageRun::fresh(self.lane.clone(), job.clone(), page, reading));
        }
        Ok(!end)
    }

    async fn resume(&mut self, page: OpenPage) -> Result<(), StoreError> {
        let shared = self.lane.shared.clone();
        let job = match Job::read(&shared, page.dispatch).await {
            Ok(job) => job,
            // Erased with its application.
            Err(StoreError::NotFound) => {
                shared.page_closed(page.no);
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let done = shared.store.page_done(&page).await?;
        let mark = shared.marks.open(page.from, page.to);
        let read_at = shared.clock.now();
        let devices = shared.store.read_range(&job.dispatch, page.from, page.to).await?;
        let reading = Reading { devices, read_at, mark };
        let run = PageRun::resumed(self.lane.clone(), job, page, reading, &done);
        self.spawn_page(run);
        Ok(())
    }

    fn spawn_page(&mut self, run: PageRun) {
        let (no, waiting) = (run.page_no(), run.waiting());
        let lane = self.lane.clone();
        let task = self.running.spawn(async move {
            let _open = PageOpen(lane, no);
            Finished::Page(run.run().await)
        });
        self.open.insert(task.id(), waiting);
    }

    async fn start_retries(&mut self) -> Result<(), StoreError> {
        let shared = self.lane.shared.clone();
        let now = shared.clock.now();
        self.retries_due = false;
        // The engine tells the lane again and again meanwhile.
        if self.lane.gate.is_held(now) {
            return Ok(());
        }
        let first = DeviceKey::before_first(self.lane.app, self.lane.platform);
        let last = DeviceKey::new(self.lane.app, self.lane.platform, SEQUENCE_MAX);
        let mark = shared.marks.open(first, last);
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
        let keys = claimed.iter().map(|retry| retry.key);
        if let (Some(first), Some(last)) = (keys.clone().min(), keys.max()) {
            mark.narrow(DeviceKey(first.0 - 1), last);
        }
        let more = claimed.len() >= shared.config.lane_retries_max as usize;
        let mut claimed = claimed;
        let jobs = self.jobs_of(&claimed).await?;
        // Those of an erased application are gone with it.
        claimed.retain(|retry| jobs.iter().any(|job| job.dispatch.no == retry.dispatch));
        let lane = self.lane.clone();
        self.retries_running = true;
        self.running.spawn(async move {
            retries::run(&lane, claimed, &jobs, mark).await;
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
            if let Some(job) = known {
                jobs.push(job);
                continue;
            }
            match Job::read(&self.lane.shared, retry.dispatch).await {
                Ok(job) => jobs.push(self.keep(job)),
                Err(StoreError::NotFound) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(jobs)
    }

    fn keep(&mut self, job: Arc<Job>) -> Arc<Job> {
        self.jobs.push_back(job.clone());
        if self.jobs.len() > JOBS_KEPT_MAX {
            self.jobs.pop_front();
        }
        job
    }
}

/// Tells the engine that a page is not worked on any more, also when its task panicked.
struct PageOpen(Arc<Lane>, PageNo);

impl Drop for PageOpen {
    fn drop(&mut self) {
        self.0.shared.page_closed(self.1);
    }
}
