//! The task of a lane: starts reclaimed pages, then retries, then the next pages of its dispatches
//! in turn.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use futures_util::future::join_all;
use notify_core::Timestamp;
use tokio::sync::mpsc::error::SendError;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::task::{Id, JoinError, JoinSet};

use crate::delivery::breaker::Admission;
use crate::delivery::context::EngineContext;
use crate::delivery::device_tracker::RangeTracker;
use crate::delivery::dispatch::{ActiveDispatch, DeliveryMode};
use crate::delivery::engine::StartContext;
use crate::delivery::lane::{Lane, LaneProvider};
use crate::delivery::pace::{Allowance, Granted, Pace};
use crate::delivery::page_task::{DeviceSnapshot, PageEnd, PageTask};
use crate::delivery::retry_task::{ClaimedRetries, RetryTask};
use crate::delivery::single_task::{LANE_SINGLES_MAX, Single, SingleTask, Singles};
use crate::signal::Waiter;
use crate::store::{
    AudienceDevice, ClaimedRetry, DeviceBatch, DeviceKey, DispatchNo, Intervention, OpenPage,
    PageClaim, PageNo, RetryClaim, RetryNo, RetryOutcome, RetryResult, SEQUENCE_MAX, Scan,
    SettledDevices, StoreError,
};

/// The task of a lane: which dispatches take turns, and which tasks run.
pub(crate) struct LaneTask {
    pub(super) lane: Arc<Lane>,
    /// Dispatches that wait for a turn, and are held in memory.
    pub(super) ready: VecDeque<Arc<ActiveDispatch>>,
    /// Dispatches that wait for a turn and are not held in memory.
    overflow: VecDeque<DispatchNo>,
    /// Dispatches that wait for the rate of their notification, by the time when they may continue. Some of
    /// them are held in memory.
    pacing: BTreeMap<(Timestamp, DispatchNo), Option<Arc<ActiveDispatch>>>,
    /// A cache of the dispatches whose retries were claimed last.
    pub(super) cached_dispatches: VecDeque<Arc<ActiveDispatch>>,
    pub(super) running: JoinSet<TaskEnd>,
    /// Number of devices that wait in each open page, by its task.
    pub(super) page_queue_lens: HashMap<Id, Arc<AtomicUsize>>,
    /// The retries that each retry task claimed.
    pub(super) retry_batches: HashMap<Id, Arc<RetryBatch>>,
    /// Channel to the task that sends single-device notifications. [`LANE_SINGLES_MAX`] limits how much
    /// it can hold.
    pub(super) singles: Option<UnboundedSender<Singles>>,
    pub(super) retries_due: bool,
    /// Whether due retries wait for a change of the circuit breaker.
    pub(super) retries_wait: bool,
    /// Whether the store may hold claimed retries that this task does not know of, because storage
    /// failed while it claimed retries or gave them back.
    pub(super) claims_lost: bool,
    pub(super) breaker_changes: Waiter,
    /// Whether the state from before this process was loaded.
    pub(super) is_initialized: bool,
}

/// How often a dispatch that waits for its rate has a turn anyway, in milliseconds.
const PACE_RECHECK_MS: i64 = 5_000;
/// How long a dispatch with a rate waits while it has too many open pages, in milliseconds.
const PACED_PAGES_RECHECK_MS: i64 = 500;
/// Most single-device notifications whose pages are opened concurrently.
const SINGLES_PER_TURN_MAX: usize = 64;

/// When a dispatch has its next turn.
enum NextTurn {
    /// After the others.
    Now,
    /// Not before the rate of its notification may admit attempts.
    NotBefore(Timestamp),
    /// Never: it has no more pages to open.
    None,
}

/// The next page of a dispatch, before it is claimed.
enum PageRead {
    /// The devices, and the first attempts that the rate of the notification admits.
    Ready { batch: DeviceBatch, allowance: Allowance },
    /// The rate admits no attempts before this time.
    NotBefore(Timestamp),
}

impl PageRead {
    /// A page that needs no grant.
    fn free(batch: DeviceBatch) -> Self {
        Self::Ready { batch, allowance: Allowance::default() }
    }
}

/// What came of the claim of a dispatch's next page.
struct Claimed {
    /// What sends the page; `None` if there is no page, or no device of it gets the notification.
    opened: Option<Opened>,
    next_turn: NextTurn,
}

impl Claimed {
    /// No page was opened.
    fn nothing(next_turn: NextTurn) -> Self {
        Self { opened: None, next_turn }
    }
}

/// What sends a page that was opened.
enum Opened {
    /// The task of single-device notifications.
    Single(Box<Single>),
    /// A task of its own.
    Page(Box<PageTask>),
}

/// Which task of a lane ended.
pub(super) enum TaskEnd {
    Page(PageEnd),
    Retries,
    Singles,
}

impl LaneTask {
    pub(crate) fn new(lane: Arc<Lane>) -> Self {
        Self {
            breaker_changes: lane.breaker.subscribe(),
            lane,
            ready: VecDeque::new(),
            overflow: VecDeque::new(),
            pacing: BTreeMap::new(),
            cached_dispatches: VecDeque::new(),
            running: JoinSet::new(),
            page_queue_lens: HashMap::new(),
            retry_batches: HashMap::new(),
            singles: None,
            retries_due: false,
            retries_wait: false,
            claims_lost: false,
            is_initialized: false,
        }
    }

    /// Runs until the engine stops, and then until attempts in flight have completed.
    pub(crate) async fn run(mut self) {
        let context = self.lane.context.clone();
        loop {
            // The flag is read once, before `load_work`. A stop during `load_work` then still ends the
            // `select!` below.
            let stopping = context.stop.is_cancelled();
            if stopping && self.running.is_empty() {
                return;
            }
            if !stopping && let Err(error) = self.load_work().await {
                context.backoff_after_storage_error(&error).await;
                continue;
            }
            let lane = self.lane.clone();
            let next_paced = self.pacing.first_key_value().map(|((until, _), _)| *until);
            tokio::select! {
                biased;
                Some(finished) = self.running.join_next_with_id() => self.on_task_end(finished),
                () = lane.wake.notified() => {}
                () = self.breaker_changes.changed(), if self.retries_wait => {
                    self.retries_due = true;
                }
                () = context.clock.sleep_until(next_paced.unwrap_or_default()),
                    if next_paced.is_some() && !stopping => {}
                () = context.stop.cancelled(), if !stopping => {}
            }
        }
    }

    fn on_task_end(&mut self, finished: Result<(Id, TaskEnd), JoinError>) {
        let task_id = match &finished {
            Ok((id, _)) => *id,
            Err(error) => error.id(),
        };
        self.page_queue_lens.remove(&task_id);
        // If the task panicked, the claims of its retries expire.
        self.retry_batches.remove(&task_id);
        match finished {
            Ok((
                _,
                TaskEnd::Page(PageEnd::Finished | PageEnd::Parked)
                | TaskEnd::Retries
                | TaskEnd::Singles,
            )) => {}
            Ok((_, TaskEnd::Page(PageEnd::Fenced))) => self.lane.context.request_recovery(),
            // A panic must not stop the lane. Recovery reclaims the work of the task.
            Err(error) => {
                tracing::error!(error = %error, "a delivery task panicked");
                self.lane.context.request_recovery();
            }
        }
    }

    /// Starts as much work as the limits allow: reclaimed pages, then retries, then the next pages
    /// in turn.
    async fn load_work(&mut self) -> Result<(), StoreError> {
        if !self.is_initialized {
            self.init().await?;
        }
        self.read_inbox().await?;
        self.resume_paced();
        // Some retries may have ended without an attempt: they were canceled, or erased with their
        // device.
        if self.lane.retry_backlog_full() {
            self.count_retries().await?;
        }
        if self.retries_due && self.may_claim_retries() {
            self.start_retries().await?;
        }
        while self.has_capacity() {
            self.fill_ready().await?;
            let turn = self.take_turn().await?;
            if turn.is_empty() {
                break;
            }
            let has_singles = turn.iter().any(|dispatch| dispatch.is_single());
            self.open_next_pages(turn).await?;
            // A page with few targets takes little capacity, so that a search for few devices opens all its
            // pages in this loop. New dispatches take turns with it, and a stop or due retries end it. So do
            // single-device notifications, which take no capacity.
            self.read_inbox().await?;
            if has_singles || self.retries_due || self.lane.context.stop.is_cancelled() {
                self.lane.wake();
                break;
            }
        }
        let has_other_work =
            !self.ready.is_empty() || !self.overflow.is_empty() || !self.page_queue_lens.is_empty();
        self.lane.set_other_work(has_other_work);
        Ok(())
    }

    /// Takes the dispatches that have the next turn: one, or several single-device notifications. The pages of
    /// several are opened concurrently, so that they share commits.
    async fn take_turn(&mut self) -> Result<Vec<Arc<ActiveDispatch>>, StoreError> {
        if self.ready.front().is_some_and(|dispatch| dispatch.is_single()) {
            // They are opened concurrently only if the provider is known.
            self.lane.provider().await?;
        }
        let may_group = self.lane.may_group_singles(self.lane.context.clock.now());
        let is_grouped = |dispatch: &Arc<ActiveDispatch>| may_group && dispatch.is_single();
        let mut turn: Vec<_> = self.ready.pop_front().into_iter().collect();
        if turn.first().is_some_and(is_grouped) {
            // Each of them may turn out to need a page task.
            let pages_max = self.lane.context.config.lane_pages_max - self.page_queue_lens.len();
            while turn.len() < pages_max.min(SINGLES_PER_TURN_MAX)
                && self.ready.front().is_some_and(is_grouped)
            {
                turn.extend(self.ready.pop_front());
            }
        }
        Ok(turn)
    }

    /// Opens the next page of each of these dispatches, and starts to send it.
    async fn open_next_pages(&mut self, turn: Vec<Arc<ActiveDispatch>>) -> Result<(), StoreError> {
        let context = self.lane.context.clone();
        let now = context.clock.now();
        let (paused, turn): (Vec<_>, Vec<_>) =
            turn.into_iter().partition(|dispatch| dispatch.is_paused(now));
        for dispatch in paused {
            context.remove_dispatch(dispatch.row.no);
            context.park(&dispatch);
        }
        let from = turn.iter().map(|dispatch| dispatch.cursor()).min();
        let to = turn.iter().map(|dispatch| dispatch.row.until).max();
        let (Some(from), Some(to)) = (from, to) else { return Ok(()) };
        let start_context = StartContext::read(&context, from, to, now);
        let claims =
            turn.iter().map(|dispatch| self.lane.claim_next_page(dispatch, &start_context));
        let claimed = join_all(claims).await;
        let (mut singles, mut failed, mut error) = (Vec::new(), Vec::new(), None);
        for (dispatch, claimed) in turn.into_iter().zip(claimed) {
            let Claimed { opened, next_turn } = match claimed {
                Ok(claimed) => claimed,
                Err(first) => {
                    failed.push(dispatch);
                    error.get_or_insert(first);
                    continue;
                }
            };
            match opened {
                Some(Opened::Single(single)) => singles.push(*single),
                Some(Opened::Page(task)) => self.spawn_page(*task),
                None => {}
            }
            match next_turn {
                NextTurn::Now => self.ready.push_back(dispatch),
                NextTurn::NotBefore(until) => self.wait_for_pace(dispatch, until),
                NextTurn::None => context.remove_dispatch(dispatch.row.no),
            }
        }
        if !singles.is_empty() {
            self.send_singles(Singles { singles, start_context });
        }
        // They keep their order.
        for dispatch in failed.into_iter().rev() {
            self.ready.push_front(dispatch);
        }
        error.map_or(Ok(()), Err)
    }

    /// Loads the state from before this process: whether the lane is tripped, the statuses that
    /// servers published, and the number of open retries. This comes before any work, so that a
    /// tripped lane sends nothing.
    async fn init(&mut self) -> Result<(), StoreError> {
        let context = self.lane.context.clone();
        let version = self.lane.provider_version();
        let was_tripped = context.store.guard_tripped(self.lane.app, self.lane.platform).await?;
        // If the version changed, an administrator may have released the lane during the read.
        if was_tripped && version == self.lane.provider_version() {
            self.lane.trip_guard();
        }
        if context.config.clustered {
            self.lane.load_records().await?;
        }
        self.count_retries().await?;
        self.is_initialized = true;
        Ok(())
    }

    fn has_capacity(&self) -> bool {
        let config = &self.lane.context.config;
        self.page_queue_lens.len() < config.lane_pages_max
            && self.lane.deferred.load(Ordering::Acquire) < config.lane_deferred_max
            && self
                .page_queue_lens
                .values()
                .map(|queue_len| queue_len.load(Ordering::Acquire))
                .sum::<usize>()
                < config.lane_devices_max
    }

    async fn read_inbox(&mut self) -> Result<(), StoreError> {
        let inbox = std::mem::take(&mut *self.lane.inbox.lock().expect("no holder panics"));
        self.retries_due |= inbox.retries_due || inbox.provider_changed;
        inbox.singles.into_iter().for_each(|singles| self.send_singles(singles));
        for dispatch in inbox.dispatches {
            if self.overflow.is_empty()
                && self.ready.len() < self.lane.context.config.lane_dispatches_max
            {
                self.ready.push_back(dispatch);
            } else {
                self.overflow.push_back(dispatch.row.no);
            }
        }
        let mut pages = inbox.pages;
        while let Some(page) = pages.front().copied() {
            match self.resume(page).await {
                Ok(()) => drop(pages.pop_front()),
                Err(error) => {
                    self.put_back(pages);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Reads waiting dispatches until `lane_dispatches_max` are in memory.
    async fn fill_ready(&mut self) -> Result<(), StoreError> {
        let context = self.lane.context.clone();
        while self.ready.len() < context.config.lane_dispatches_max
            && let Some(no) = self.overflow.front().copied()
        {
            match ActiveDispatch::read(&context, no).await {
                Ok(dispatch) => self.ready.push_back(dispatch),
                // Erased with its application.
                Err(StoreError::NotFound) => context.remove_dispatch(no),
                Err(error) => return Err(error),
            }
            self.overflow.pop_front();
        }
        Ok(())
    }

    /// Puts a dispatch aside until the rate of its notification may admit attempts. It has a turn earlier if
    /// that is long, since it may have been canceled.
    fn wait_for_pace(&mut self, dispatch: Arc<ActiveDispatch>, until: Timestamp) {
        let context = &self.lane.context;
        let now = context.clock.now();
        let (no, until) = (dispatch.row.no, dispatch.capped_at_expiry(until));
        // It does not matter which dispatches are held: the others are read again.
        if self.pacing.len() < context.config.lane_dispatches_max {
            let until = until.min(now.plus_ms(PACE_RECHECK_MS));
            self.pacing.insert((until, no), Some(dispatch));
        } else {
            self.pacing.insert((until, no), None);
        }
    }

    /// Puts the dispatches back into the turns whose notifications may admit attempts again.
    fn resume_paced(&mut self) {
        let now = self.lane.context.clock.now();
        while let Some(entry) = self.pacing.first_entry()
            && entry.key().0 <= now
        {
            let (_, no) = *entry.key();
            match entry.remove() {
                Some(dispatch) => self.ready.push_back(dispatch),
                None => self.overflow.push_back(no),
            }
        }
    }

    /// Puts pages back at the front of the inbox.
    fn put_back(&self, pages: VecDeque<OpenPage>) {
        let mut inbox = self.lane.inbox.lock().expect("no holder panics");
        for page in pages.into_iter().rev() {
            inbox.pages.push_front(page);
        }
    }
}

// Opening the next page of a dispatch.

impl Lane {
    /// Reads and claims the next page of a dispatch. `start_context` was read before.
    async fn claim_next_page(
        self: &Arc<Self>,
        dispatch: &Arc<ActiveDispatch>,
        start_context: &StartContext,
    ) -> Result<Claimed, StoreError> {
        let context = self.context.clone();
        if context.config.clustered && !self.sync_cursor(dispatch).await? {
            return Ok(Claimed::nothing(NextTurn::None));
        }
        if dispatch.is_paused(context.clock.now()) {
            // The next turn parks the dispatch.
            return Ok(Claimed::nothing(NextTurn::Now));
        }
        let (from, read_at) = (dispatch.cursor(), start_context.at);
        let (batch, allowance) = match self.read_page(dispatch, from, read_at).await {
            Ok(PageRead::Ready { batch, allowance }) => (batch, allowance),
            Ok(PageRead::NotBefore(until)) => {
                return Ok(Claimed::nothing(NextTurn::NotBefore(until)));
            }
            // The dispatch was erased with its application.
            Err(StoreError::NotFound) => return Ok(Claimed::nothing(NextTurn::None)),
            Err(error) => return Err(error),
        };
        let DeviceBatch { devices, to, end } = batch;
        let targeted = devices.iter().filter(|device| dispatch.targets(device)).count();
        let missing = dispatch.missing_named_devices(&devices, from, to).len();
        let claim = PageClaim {
            dispatch: dispatch.row.no,
            from,
            to,
            end,
            targeted: (targeted + missing) as u64,
            excluded: dispatch.count_excluded(&devices),
            instance: context.instance,
            lease_until: read_at.plus_ms(context.config.lease_ms),
            at: read_at,
        };
        let _claiming = context.recovery_lock.read().await;
        let page = match context.store.open_page(claim).await {
            Ok(page) => page,
            // Another server claimed the page first. The next turn of this dispatch continues where
            // that server left off.
            Err(StoreError::Fenced) if context.config.clustered => {
                if let Some(pace) = dispatch.pace(read_at) {
                    pace.keep(allowance);
                }
                return Ok(Claimed::nothing(NextTurn::Now));
            }
            // Another task of this process moved the cursor. Either that task opens the remaining pages,
            // or recovery finds the dispatch again.
            Err(StoreError::Fenced) => {
                context.request_recovery();
                return Ok(Claimed::nothing(NextTurn::None));
            }
            // The dispatch was erased with its application.
            Err(StoreError::NotFound) => return Ok(Claimed::nothing(NextTurn::None)),
            Err(error) => {
                // The commit may have succeeded although its acknowledgement was lost. Recovery then
                // finds the page.
                context.request_recovery();
                return Err(error);
            }
        };
        dispatch.move_cursor(to);
        context.record_commit();
        if end {
            context.wake.notify_one();
        }
        // If the page targets no device, the claim has already finished it. No task is started for
        // it: a device that becomes eligible now would be sent to without being counted.
        let opened = (claim.targeted > 0)
            .then(|| self.start_page(dispatch.clone(), page, devices, start_context, allowance));
        Ok(Claimed { opened, next_turn: if end { NextTurn::None } else { NextTurn::Now } })
    }

    /// Reads the cursor that all servers share, and moves the dispatch there. Returns false if no page
    /// is left to open.
    async fn sync_cursor(&self, dispatch: &ActiveDispatch) -> Result<bool, StoreError> {
        let (context, no) = (&self.context, dispatch.row.no);
        let interventions = context.interventions();
        let Some(scan) = context.store.scan(no).await? else {
            return Ok(false);
        };
        dispatch.move_cursor(scan.cursor);
        let Scan { canceled, paused_until, cursor: _ } = scan;
        if canceled || paused_until.is_some() {
            let row = Intervention { dispatch: no, canceled, paused_until };
            context.apply_interventions(interventions, &[no], &HashMap::from([(no, row)]));
        }
        Ok(true)
    }

    /// Records the page as open, and decides what sends it.
    fn start_page(
        self: &Arc<Self>,
        dispatch: Arc<ActiveDispatch>,
        page: OpenPage,
        mut devices: Vec<AudienceDevice>,
        start_context: &StartContext,
        allowance: Allowance,
    ) -> Opened {
        let (context, now) = (&self.context, start_context.at);
        let is_single = devices.len() == 1
            && self.may_group_singles(now)
            && dispatch.is_single()
            && !dispatch.is_canceled()
            && !dispatch.has_expired(now)
            && !dispatch.may_be_overtaken(context, now);
        if is_single && let Some(device) = devices.pop() {
            let open = self.open_single(page.no);
            return Opened::Single(Box::new(Single { dispatch, page, device, open }));
        }
        context.insert_page(page.no);
        let tracker = context.device_tracker.split(&start_context.tracker, page.from, page.to);
        let lease_generation = start_context.lease_generation;
        let snapshot = DeviceSnapshot { devices, read_at: now, tracker, lease_generation };
        let settled = SettledDevices::default();
        let task = PageTask::new(self.clone(), dispatch, page, snapshot, &settled, allowance);
        Opened::Page(Box::new(task))
    }

    /// Reads the devices of the next page. If its notification has a rate and the page needs attempts, the
    /// page has no more devices than attempts.
    async fn read_page(
        &self,
        dispatch: &ActiveDispatch,
        from: DeviceKey,
        now: Timestamp,
    ) -> Result<PageRead, StoreError> {
        let context = &self.context;
        let pace = dispatch.pace(now);
        if let Some(until) = pace.and_then(|pace| self.paced_until(dispatch, pace, from, now)) {
            return Ok(PageRead::NotBefore(until));
        }
        let search = context.search_permit(&dispatch.row).await;
        let rows = context.config.page_rows_of(dispatch.supports_dedup());
        let mut batch = context.store.read_batch(&dispatch.row, from, rows).await?;
        drop(search);
        let targets = |device: &AudienceDevice| dispatch.targets(device);
        let has_target = batch.devices.iter().any(targets);
        let Some(pace) = pace.filter(|_| has_target) else { return Ok(PageRead::free(batch)) };
        if !matches!(dispatch.mode(self).await?, DeliveryMode::Send(_)) {
            return Ok(PageRead::free(batch));
        }
        let left = pace.take_left();
        let grant = if left.attempts(now) > 0 {
            left
        } else {
            match pace.request(context, context.config.lane_devices_max).await? {
                Granted::Now(grant) => grant,
                Granted::NotBefore(until) => {
                    pace.wait_at(from);
                    return Ok(PageRead::NotBefore(until));
                }
            }
        };
        batch.keep_first(grant.attempts(now), targets);
        let targeted = batch.devices.iter().filter(|device| targets(device)).count();
        Ok(PageRead::Ready { batch, allowance: pace.split(grant, targeted) })
    }

    /// Until when the next page of a notification with a rate has to wait, as far as this is known without a
    /// request.
    fn paced_until(
        &self,
        dispatch: &ActiveDispatch,
        pace: &Pace,
        from: DeviceKey,
        now: Timestamp,
    ) -> Option<Timestamp> {
        let soon = now.plus_ms(PACED_PAGES_RECHECK_MS);
        if !pace.may_open_page() {
            return Some(soon);
        }
        // Attempts that the lane does not admit would be lost to the other platforms. Without a time of
        // expiry, deliveries end while the credentials are refused, so their pages must be opened.
        match self.breaker.peek(now) {
            Admission::Wait(until) if dispatch.expires_at.is_some() => Some(until.max(soon)),
            Admission::Wait(_) | Admission::Go => pace.waits_until(from, now),
        }
    }
}

// Resuming abandoned pages, and starting tasks.

impl LaneTask {
    /// Resumes a page that another process, or a panicked task of this one, left open.
    pub(super) async fn resume(&mut self, page: OpenPage) -> Result<(), StoreError> {
        let context = self.lane.context.clone();
        let dispatch = match ActiveDispatch::read(&context, page.dispatch).await {
            Ok(dispatch) => dispatch,
            // The dispatch was erased with its application.
            Err(StoreError::NotFound) => {
                context.remove_page(page.no);
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        if dispatch.is_paused(context.clock.now()) {
            context.remove_page(page.no);
            context.park(&dispatch);
            return Ok(());
        }
        let settled = context.store.settled_devices(&page).await?;
        let tracker = context.device_tracker.open(page.from, page.to);
        let read_at = context.clock.now();
        let devices = context.store.read_range(&dispatch.row, page.from, page.to).await?;
        // The page was claimed long ago, so it may belong to another server by now. Generation 0
        // equals no generation of a clustered server. The task therefore commits a checkpoint first,
        // which fails if the page was taken over.
        let snapshot = DeviceSnapshot { devices, read_at, tracker, lease_generation: 0 };
        let (lane, allowance) = (self.lane.clone(), Allowance::default());
        self.spawn_page(PageTask::new(lane, dispatch, page, snapshot, &settled, allowance));
        Ok(())
    }

    /// Passes single-device notifications to the task that sends them. Starts that task if it does not
    /// run.
    pub(super) fn send_singles(&mut self, singles: Singles) {
        let singles = match &self.singles {
            Some(sender) => match sender.send(singles) {
                Ok(()) => return,
                // The task has ended.
                Err(SendError(singles)) => singles,
            },
            None => singles,
        };
        let (sender, incoming) = unbounded_channel();
        // Cannot fail, because `incoming` is still open.
        let _ = sender.send(singles);
        self.singles = Some(sender);
        let task = SingleTask::new(&self.lane);
        self.running.spawn(async move {
            task.run(incoming).await;
            TaskEnd::Singles
        });
    }

    fn spawn_page(&mut self, task: PageTask) {
        let (page_no, queue_len) = (task.page_no(), task.shared_queue_len());
        let (lane, dispatch) = (self.lane.clone(), task.dispatch());
        let handle = self.running.spawn(async move {
            let open = OpenPageGuard(lane.clone(), page_no);
            let end = task.run().await;
            // This comes before the dispatch is parked: recovery takes over only pages that are not open.
            drop(open);
            if end == PageEnd::Parked {
                lane.context.park(&dispatch);
            }
            TaskEnd::Page(end)
        });
        self.page_queue_lens.insert(handle.id(), queue_len);
    }
}

/// Records that a page is no longer open when it is dropped, which also happens when the page's task
/// panics.
struct OpenPageGuard(Arc<Lane>, PageNo);

impl Drop for OpenPageGuard {
    fn drop(&mut self) {
        self.0.context.remove_page(self.1);
    }
}

// Claiming due retries.

/// Most dispatches whose rendered payload is cached for retries.
const CACHED_DISPATCHES_MAX: usize = 64;

impl LaneTask {
    /// Whether due retries may be claimed. This is so once all claimed retries were started, and while
    /// fewer than `lane_retries_max` of them are unsettled.
    pub(super) fn may_claim_retries(&self) -> bool {
        !self.retry_batches.values().any(|batch| batch.has_unstarted())
            && self.claimed_retries().len() < self.lane.context.config.lane_retries_max as usize
    }

    fn claimed_retries(&self) -> Vec<RetryNo> {
        self.retry_batches.values().flat_map(|batch| batch.unsettled()).collect()
    }

    /// Claims due retries and starts a task for them.
    pub(super) async fn start_retries(&mut self) -> Result<(), StoreError> {
        let context = self.lane.context.clone();
        let now = context.clock.now();
        self.retries_due = false;
        // This comes before the check of the breaker, so that a change during the check is not missed.
        self.breaker_changes.mark_unchanged();
        self.retries_wait = self.lane.breaker.is_waiting_for_probe(now);
        if self.retries_wait {
            return Ok(());
        }
        // If the count fails, the retries are still due. The engine notifies the lane of them only at
        // its next poll.
        self.count_retries().await.inspect_err(|_| self.retries_due = true)?;
        let first = DeviceKey::before_first(self.lane.app, self.lane.platform);
        let last = DeviceKey::new(self.lane.app, self.lane.platform, SEQUENCE_MAX);
        let tracker = context.device_tracker.open(first, last);
        let lease_generation = context.membership.lease_generation();
        let already_claimed = self.claimed_retries();
        let limit = context.config.lane_retries_max - already_claimed.len() as u32;
        let claim = RetryClaim {
            app: self.lane.app,
            platform: self.lane.platform,
            limit,
            instance: context.instance,
            lease_until: now.plus_ms(context.config.retry_lease_ms()),
            now,
            exclude: already_claimed,
            reclaim_own: self.claims_lost,
        };
        let claimed = context.store.claim_retries(claim).await.inspect_err(|_| {
            // The commit may have succeeded, and only its acknowledgement was lost.
            (self.retries_due, self.claims_lost) = (true, true);
        })?;
        self.claims_lost = false;
        if claimed.is_empty() {
            return Ok(());
        }
        self.retries_due |= claimed.len() >= limit as usize;
        self.spawn_retry_task(claimed, tracker, lease_generation, now).await
    }

    async fn spawn_retry_task(
        &mut self,
        mut claimed: Vec<ClaimedRetry>,
        tracker: Arc<RangeTracker>,
        lease_generation: u64,
        claimed_at: Timestamp,
    ) -> Result<(), StoreError> {
        let keys = claimed.iter().map(|retry| retry.key);
        if let (Some(first), Some(last)) = (keys.clone().min(), keys.max()) {
            tracker.shrink_to(DeviceKey(first.0 - 1), last);
        }
        let loaded = match self.load_dispatches(&claimed).await {
            Ok(dispatches) => {
                self.check_recipients(&mut claimed, &dispatches).await.map(|()| dispatches)
            }
            Err(error) => Err(error),
        };
        let dispatches = match loaded {
            Ok(dispatches) => dispatches,
            Err(error) => {
                self.unclaim(&claimed).await;
                return Err(error);
            }
        };
        // Retries whose application was erased in the meantime no longer exist.
        claimed.retain(|retry| dispatches.iter().any(|dispatch| dispatch.row.no == retry.dispatch));
        let batch = Arc::new(RetryBatch::new(claimed.iter().map(|retry| retry.no).collect()));
        let claim = ClaimedRetries {
            retries: claimed,
            dispatches,
            tracker,
            batch: batch.clone(),
            lease_generation,
            claimed_at,
        };
        let task = RetryTask::new(&self.lane, claim);
        let handle = self.running.spawn(async move {
            task.run().await;
            TaskEnd::Retries
        });
        self.retry_batches.insert(handle.id(), batch);
        Ok(())
    }

    /// Reads the devices of claimed retries again if their dispatch names users or has a condition. The claim
    /// checks neither.
    async fn check_recipients(
        &self,
        claimed: &mut [ClaimedRetry],
        dispatches: &[Arc<ActiveDispatch>],
    ) -> Result<(), StoreError> {
        for dispatch in dispatches.iter().filter(|dispatch| dispatch.has_changing_audience()) {
            let of_dispatch = |retry: &&mut ClaimedRetry| retry.dispatch == dispatch.row.no;
            let mut keys: Vec<DeviceKey> =
                claimed.iter_mut().filter(of_dispatch).map(|retry| retry.key).collect();
            keys.sort_unstable();
            let (Some(first), Some(last)) = (keys.first().copied(), keys.last().copied()) else {
                continue;
            };
            let row = dispatch.restricted_to(keys);
            let before = DeviceKey(first.0 - 1);
            let devices = self.lane.context.store.read_range(&row, before, last).await?;
            for retry in claimed.iter_mut().filter(of_dispatch) {
                let index = devices.binary_search_by_key(&retry.key, |device| device.key);
                retry.device = index.ok().and_then(|index| devices.get(index)).cloned();
            }
        }
        Ok(())
    }

    /// Gives claimed retries back without an attempt. If storage fails, the next claim also claims the
    /// retries that this server holds already.
    async fn unclaim(&mut self, claimed: &[ClaimedRetry]) {
        let context = self.lane.context.clone();
        let now = context.clock.now();
        let due_now = RetryResult::Deferred { due_at: now };
        let outcomes = claimed.iter().map(|retry| {
            RetryOutcome::of_doubt(retry)
                .unwrap_or_else(|| RetryOutcome::of(retry.no, due_now.clone()))
        });
        let result = context.store.settle_retries(context.instance, outcomes.collect(), now).await;
        self.retries_due = true;
        self.claims_lost |= result.is_err();
    }

    /// Counts the open retries in the store when the number matters: at the start of the lane, near the
    /// limit, and after a pause.
    pub(super) async fn count_retries(&mut self) -> Result<(), StoreError> {
        let (lane, context) = (&self.lane, &self.lane.context);
        let is_requested = lane.take_retry_count_request();
        if !self.is_initialized || is_requested || lane.retry_backlog_near_full() {
            let now = context.clock.now();
            let snapshot = lane.retries.begin_count();
            let open = context.store.open_retries(lane.app, lane.platform, now).await;
            let open = open.inspect_err(|_| lane.request_retry_count())?;
            lane.apply_retry_count(snapshot, open);
        }
        Ok(())
    }

    /// The dispatches of claimed retries. Those that are not in memory are read from the store.
    async fn load_dispatches(
        &mut self,
        claimed: &[ClaimedRetry],
    ) -> Result<Vec<Arc<ActiveDispatch>>, StoreError> {
        let mut dispatches: Vec<Arc<ActiveDispatch>> = Vec::new();
        for retry in claimed {
            if dispatches.iter().any(|dispatch| dispatch.row.no == retry.dispatch) {
                continue;
            }
            let mut in_memory = self.cached_dispatches.iter().chain(&self.ready);
            if let Some(dispatch) = in_memory.find(|dispatch| dispatch.row.no == retry.dispatch) {
                dispatches.push(dispatch.clone());
                continue;
            }
            match ActiveDispatch::read(&self.lane.context, retry.dispatch).await {
                Ok(dispatch) => dispatches.push(self.cache(dispatch)),
                Err(StoreError::NotFound) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(dispatches)
    }

    /// Adds a dispatch to the cache, and returns it.
    fn cache(&mut self, dispatch: Arc<ActiveDispatch>) -> Arc<ActiveDispatch> {
        self.cached_dispatches.push_back(dispatch.clone());
        if self.cached_dispatches.len() > CACHED_DISPATCHES_MAX {
            self.cached_dispatches.pop_front();
        }
        dispatch
    }
}

// The retries that one task claimed.

/// The retries that one task claimed and has not settled. Once the task has started all of them, the
/// lane claims more, so that retries without an answer do not hold up others (hazard 3 of
/// docs/delivery.md).
#[derive(Debug)]
pub(crate) struct RetryBatch {
    unsettled: Mutex<Vec<RetryNo>>,
    all_started: AtomicBool,
}

impl RetryBatch {
    pub(super) fn new(claimed: Vec<RetryNo>) -> Self {
        Self { unsettled: Mutex::new(claimed), all_started: AtomicBool::new(false) }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<RetryNo>> {
        self.unsettled.lock().expect("no holder of the batch panics")
    }

    /// The unsettled retries.
    pub(super) fn unsettled(&self) -> Vec<RetryNo> {
        self.lock().clone()
    }

    /// Removes retries that a commit settled or gave back.
    pub(crate) fn remove(&self, retries: impl Iterator<Item = RetryNo>) {
        let mut unsettled = self.lock();
        for no in retries {
            unsettled.retain(|other| *other != no);
        }
    }

    /// Records that all retries were started. Returns false if that was recorded before.
    pub(crate) fn mark_all_started(&self) -> bool {
        !self.all_started.swap(true, Ordering::AcqRel)
    }

    pub(super) fn has_unstarted(&self) -> bool {
        !self.all_started.load(Ordering::Acquire)
    }
}

// Single-device notifications.

impl Lane {
    /// Records the page of a single-device notification as open.
    pub(crate) fn open_single(&self, page: PageNo) -> OpenSingle {
        self.singles.fetch_add(1, Ordering::AcqRel);
        self.context.insert_page(page);
        let (context, singles) = (Arc::downgrade(&self.context), self.singles.clone());
        OpenSingle { context, singles, page: Some(page) }
    }

    /// Adds single-device notifications to the lane's inbox.
    pub(crate) fn add_singles(&self, singles: Singles) {
        self.post(|inbox| inbox.singles.push(singles));
    }

    /// Records whether the lane has other work than single-device notifications.
    pub(crate) fn set_other_work(&self, has_other_work: bool) {
        self.has_other_work.store(has_other_work, Ordering::Release);
    }

    /// Whether the transaction that starts a single-device notification may also open its page, so that
    /// the lane sends it without claiming the page. This is allowed only if the lane can send it at once,
    /// and if it does not overtake work that waits in the lane.
    pub(crate) fn accepts_singles(&self, now: Timestamp) -> bool {
        !self.has_other_work.load(Ordering::Acquire) && self.may_open_singles(now)
    }

    /// Whether the lane opens single-device notifications that wait in it concurrently. A breaker that is not
    /// closed admits few of them, and the others would each have to continue as a page.
    fn may_group_singles(&self, now: Timestamp) -> bool {
        self.breaker.is_closed() && self.may_open_singles(now)
    }

    /// Whether the lane can send further single-device notifications at once.
    fn may_open_singles(&self, now: Timestamp) -> bool {
        self.singles.load(Ordering::Acquire) < LANE_SINGLES_MAX
            && !self.retry_backlog_full()
            && matches!(self.breaker.peek(now), Admission::Go)
            && matches!(self.provider_slot().provider, LaneProvider::Ready(_))
    }
}

/// The open page of a single-device notification. The page counts as open until this value is dropped,
/// which also happens when a task panics.
pub(crate) struct OpenSingle {
    /// Weak, because the engine owns the queues that hold this.
    context: Weak<EngineContext>,
    singles: Arc<AtomicUsize>,
    /// `None` once another task has the page.
    page: Option<PageNo>,
}

impl OpenSingle {
    /// Drops this value and leaves the page open, because another task of this process continues it.
    pub(crate) fn hand_over(mut self) {
        self.page = None;
    }
}

impl Drop for OpenSingle {
    fn drop(&mut self) {
        self.singles.fetch_sub(1, Ordering::AcqRel);
        if let (Some(page), Some(context)) = (self.page, self.context.upgrade()) {
            context.remove_page(page);
        }
    }
}
