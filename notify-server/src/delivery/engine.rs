//! The delivery engine: starts notifications that are due, assigns their dispatches to lanes, and
//! sleeps until the next one is due.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use notify_core::{
    ChannelView, OTHER_SERVICES, Platform, ProviderKind, ProviderStatus, ServiceView, Timestamp,
};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

use crate::delivery::context::{EngineContext, EngineDeps};
use crate::delivery::device_tracker::RangeTracker;
use crate::delivery::dispatch::ActiveDispatch;
use crate::delivery::lane::{Lane, LaneTask, OpenSingle};
use crate::delivery::single_task::{Single, Singles};
use crate::delivery::{EngineConfig, breaker_sync, membership};
use crate::store::{
    Agenda, AppNo, DeviceKey, DispatchNo, OpenedDispatch, Opening, ReclaimRequest, SEQUENCE_MAX,
    StartDue, StartHook, StartInAccept, Started, StoreError,
};

/// How soon the engine polls again when retries are past due but were not claimed, because their
/// lane is held or has reached a limit, in milliseconds.
const POLL_INTERVAL_MS: i64 = 1_000;
/// Shortest time between two polls for due retries, in milliseconds. After an outage many retries
/// come due within moments. Each poll may claim some of them, and each claim is a commit.
pub(super) const RETRY_COALESCE_MS: i64 = 100;

/// Most dispatches of other servers that one read loads, the oldest first.
const UNSCANNED_PER_READ: u32 = 1_000;

/// A running delivery engine. Dropping it without [`Engine::stop`] leaves it running.
pub struct Engine {
    context: Arc<EngineContext>,
    thread: Option<JoinHandle<()>>,
    #[cfg(test)]
    runtime: tokio::runtime::RuntimeMetrics,
}

impl Engine {
    /// Starts the engine on a separate thread with a current-thread runtime. Sending costs a third
    /// less there than on a runtime that it shares with the rest of the server
    /// (`docs/decisions.md`).
    ///
    /// # Errors
    /// When the thread or its runtime cannot be created.
    pub fn start(deps: EngineDeps, config: EngineConfig) -> std::io::Result<Self> {
        let context = EngineContext::new(deps, config);
        subscribe(&context);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        #[cfg(test)]
        let metrics = runtime.metrics();
        let task = EngineTask::new(context.clone());
        let thread = std::thread::Builder::new().name("delivery".into()).spawn(move || {
            let _ended = task.context.ended.clone().drop_guard();
            #[cfg(test)]
            let killed = task.context.clone();
            runtime.block_on(async {
                #[cfg(test)]
                tokio::select! {
                    () = task.run() => {}
                    () = killed.killed.notified() => {}
                }
                #[cfg(not(test))]
                task.run().await;
            });
            // Dropping the runtime aborts the tasks that still run on it.
        })?;
        Ok(Self {
            context,
            thread: Some(thread),
            #[cfg(test)]
            runtime: metrics,
        })
    }

    /// A receiver that is notified of every commit of the engine. Its value is the number of commits
    /// so far; what they wrote is in the store.
    #[must_use]
    pub fn progress(&self) -> watch::Receiver<u64> {
        self.context.progress.subscribe()
    }

    /// A handle that reads the engine's state.
    #[must_use]
    pub fn handle(&self) -> EngineHandle {
        EngineHandle { context: self.context.clone() }
    }

    /// Stops the engine: no new work starts, and attempts in flight complete and are committed.
    /// Deliveries without an attempt stay in the store for the next start. Returns false if that took
    /// longer than `grace`.
    pub async fn stop(mut self, grace: Duration) -> bool {
        self.context.stop.cancel();
        self.context.wake.notify_one();
        let Some(thread) = self.thread.take() else { return true };
        let joined = tokio::task::spawn_blocking(move || thread.join().is_ok());
        matches!(tokio::time::timeout(grace, joined).await, Ok(Ok(true)))
    }
}

#[cfg(test)]
impl Engine {
    /// How often the engine's thread has begun or ended a wait. The number is odd while it waits.
    pub(super) fn begun_and_ended_waits(&self) -> u64 {
        self.runtime.worker_park_unpark_count(0)
    }

    /// Number of active dispatches that are not known to be canceled.
    pub(super) fn open_dispatches(&self) -> usize {
        self.context.active_dispatches().len()
    }

    /// Whether an active dispatch is paused, or one that was left in the store.
    pub(super) fn has_paused_dispatches(&self) -> bool {
        self.context.has_paused_dispatches()
    }

    /// Number of notifications that were started together with their page.
    pub(super) fn opened_with_start(&self) -> usize {
        self.context.opened_with_start.load(Ordering::Acquire)
    }

    /// The id of this engine among the servers of one database.
    pub(super) fn instance(&self) -> crate::store::InstanceId {
        self.context.instance
    }

    /// Whether this server's lease is valid at that time.
    pub(super) fn has_valid_lease(&self, at: Timestamp) -> bool {
        self.context.membership.is_valid(at)
    }

    /// Kills the engine as a crash of the process would. The engine sends and commits nothing more
    /// once this function returns.
    pub(super) async fn abort(mut self) {
        self.context.killed.notify_one();
        let thread = self.thread.take().expect("the engine runs");
        tokio::task::spawn_blocking(move || thread.join()).await.unwrap().unwrap();
    }
}

/// The main task of the engine.
pub(super) struct EngineTask {
    context: Arc<EngineContext>,
    /// The tasks of the lanes in [`EngineContext::lanes`].
    lane_tasks: JoinSet<()>,
    /// Dispatches that were not assigned to a lane yet. They were just created, or an earlier process
    /// left them behind.
    backlog: VecDeque<DispatchNo>,
}

/// A task that is aborted when this value is dropped.
struct AbortOnDrop(tokio::task::JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl EngineTask {
    pub(super) fn new(context: Arc<EngineContext>) -> Self {
        Self { context, lane_tasks: JoinSet::new(), backlog: VecDeque::new() }
    }

    /// Runs until the engine stops, and then until every lane has ended.
    pub(super) async fn run(mut self) {
        let heartbeat = self.context.config.clustered.then(|| {
            // A separate task: otherwise a slow poll could delay the heartbeat until the lease
            // expires.
            AbortOnDrop(tokio::spawn(membership::run_heartbeat(self.context.clone())))
        });
        let _sync = self.context.config.clustered.then(|| {
            // A separate task, because circuit breakers still change, and are published, after this
            // loop has ended and while the lanes end.
            AbortOnDrop(tokio::spawn(breaker_sync::run(self.context.clone())))
        });
        while !self.context.stop.is_cancelled() {
            // This comes before the poll, because the poll may miss work that is committed from here on.
            // Such work wakes the engine while no next poll is set.
            self.context.set_next_poll(None);
            let next = match self.poll().await {
                Ok(next) => next,
                Err(error) => {
                    self.context.backoff_after_storage_error(&error).await;
                    continue;
                }
            };
            let context = self.context.clone();
            context.set_next_poll(next);
            loop {
                tokio::select! {
                    biased;
                    () = context.wake.notified() => {}
                    Some(ended) = self.lane_tasks.join_next(), if !self.lane_tasks.is_empty() => {
                        if let Err(error) = ended {
                            // A lane that ended sends nothing more. Stopping the engine makes the
                            // failure visible.
                            tracing::error!(%error, "a lane failed; stopping the engine");
                            context.stop.cancel();
                        }
                    }
                    () = context.clock.sleep_until(next.unwrap_or_default()), if next.is_some() => {}
                    () = context.stop.cancelled() => {}
                    // The last branch of a biased `select!`, so that a steady flow of accepted
                    // notifications does not starve the other branches.
                    () = context.starts.wait() => match self.assign_starts().await {
                        Ok(()) if self.backlog.is_empty() => continue,
                        Ok(()) => {}
                        Err(error) => context.backoff_after_storage_error(&error).await,
                    },
                }
                break;
            }
        }
        while self.lane_tasks.join_next().await.is_some() {}
        if let Some(heartbeat) = heartbeat {
            drop(heartbeat);
            // If leaving fails, the other servers notice when the lease expires.
            let _ = self.context.store.leave(self.context.instance).await;
        }
    }

    /// Starts due work. Returns when to poll next; `None` if nothing is due.
    async fn poll(&mut self) -> Result<Option<Timestamp>, StoreError> {
        let now = self.context.clock.now();
        // The pauses of these dispatches ended, because they expired. Recovery finds their pages.
        if self.context.unpark(|_, until| until <= now) {
            self.context.recovery_requested.store(true, Ordering::Release);
        }
        if self.context.recovery_requested.swap(false, Ordering::AcqRel)
            && let Err(error) = self.reclaim().await
        {
            self.context.recovery_requested.store(true, Ordering::Release);
            return Err(error);
        }
        if self.context.membership.take_resync_request() {
            self.resync().await.inspect_err(|_| self.context.membership.request_resync())?;
        }
        // Starts that were made in accepting commits come first: under load every poll finds more work,
        // and these starts must not wait for that work.
        self.assign_starts().await?;
        // The whole poll uses one time. Work that comes due during the poll is found by the next one.
        let now = self.context.clock.now();
        // The agenda is read before anything is started: a start is a write, which waits for other
        // writes, and it would often find nothing to start.
        let mut agenda = self.context.store.agenda(now).await?;
        if agenda.next_due.is_some_and(|due| due <= now) {
            agenda = self.start_due(now).await?;
        }
        self.assign_backlog().await?;
        for (app, platform) in agenda.retry_lanes {
            self.lane(app, platform).on_retries_due();
        }
        if !self.backlog.is_empty() {
            return Ok(Some(now));
        }
        // If the next retry is past due, its lane was notified just now, and the poll interval gives
        // the lane time to claim it.
        let retry_due = agenda.next_retry_due.map(|due| {
            if due > now {
                due.max(now.plus_ms(RETRY_COALESCE_MS))
            } else {
                now.plus_ms(POLL_INTERVAL_MS)
            }
        });
        let parked_expiry = self.context.next_parked_expiry();
        Ok(agenda.next_due.into_iter().chain(retry_due).chain(parked_expiry).min())
    }

    /// Takes over the pages and dispatches that other processes, or panicked tasks of this one,
    /// left open.
    async fn reclaim(&mut self) -> Result<(), StoreError> {
        let context = self.context.clone();
        let _no_claims = context.recovery_lock.write().await;
        let now = context.clock.now();
        let request = ReclaimRequest {
            instance: context.instance,
            now,
            lease_until: now.plus_ms(context.config.lease_ms),
            clustered: context.config.clustered,
        };
        let reclaimed = context.store.reclaim(request).await?;
        for page in reclaimed.pages {
            if context.insert_page(page.no) {
                self.lane(page.to.app(), page.to.platform()).add_page(page);
            }
        }
        self.backlog = reclaimed.dispatches.into();
        Ok(())
    }

    /// Reads the dispatches that other servers created, and which notifications they canceled, paused and
    /// resumed, in case a change notification was lost.
    async fn resync(&mut self) -> Result<(), StoreError> {
        let now = self.context.clock.now();
        self.load_unscanned(now).await?;
        self.refresh_interventions().await?;
        self.context.membership.record_interventions_read(now);
        Ok(())
    }

    /// Loads dispatches that other servers created, because every server opens pages of every
    /// dispatch.
    async fn load_unscanned(&mut self, now: Timestamp) -> Result<(), StoreError> {
        let unscanned = self.context.store.unscanned_dispatches(UNSCANNED_PER_READ, now).await?;
        let in_backlog: HashSet<_> = self.backlog.iter().copied().collect();
        self.backlog.extend(unscanned.into_iter().filter(|no| !in_backlog.contains(no)));
        Ok(())
    }

    /// Applies cancellations, pauses and resumptions that this process was not notified of: another server
    /// made them while the connection was down, or the acknowledgement of their commit was lost.
    async fn refresh_interventions(&self) -> Result<(), StoreError> {
        loop {
            let read_at = self.context.interventions();
            let mut dispatches = self.context.active_dispatches();
            dispatches.extend(self.context.parked_dispatches());
            if dispatches.is_empty() {
                return Ok(());
            }
            let rows = self.context.store.interventions(dispatches.clone()).await?;
            let rows = rows.into_iter().map(|row| (row.dispatch, row)).collect();
            if self.context.apply_interventions(read_at, &dispatches, &rows) {
                return Ok(());
            }
        }
    }

    /// Starts the next notifications that are due. Returns the agenda after the start.
    async fn start_due(&mut self, now: Timestamp) -> Result<Agenda, StoreError> {
        let context = self.context.clone();
        let (start_context, due) = StartContext::new(&context, now);
        let started = context.store.start(due).await.inspect_err(|_| {
            // The commit may have succeeded although its acknowledgement was lost. Recovery finds the
            // dispatches and pages that it created.
            self.context.recovery_requested.store(true, Ordering::Release);
        })?;
        let agenda = started.agenda.clone();
        self.assign_start(start_context.commit(&context, started)).await?;
        Ok(agenda)
    }

    /// Assigns the notifications that were started in the commits that accepted them, and then the
    /// next dispatches of the backlog.
    async fn assign_starts(&mut self) -> Result<(), StoreError> {
        while let Some(start) = self.context.starts.pop() {
            self.assign_start(start).await?;
        }
        self.assign_backlog().await
    }

    /// Assigns a start to its lanes. Single-device notifications go to their lanes at once; other
    /// dispatches wait in the backlog.
    async fn assign_start(&mut self, start: PendingStart) -> Result<(), StoreError> {
        let PendingStart { start_context, dispatches, pages } = start;
        let context = self.context.clone();
        context.record_commit();
        self.backlog.extend(dispatches);
        let mut by_lane: BTreeMap<_, Vec<Single>> = BTreeMap::new();
        for PendingPage { opened: OpenedDispatch { dispatch, page, device }, open } in pages {
            let lane_key = (dispatch.app, dispatch.platform);
            let dispatch = ActiveDispatch::new(dispatch, &context);
            by_lane.entry(lane_key).or_default().push(Single { dispatch, page, device, open });
        }
        // A cancellation or pause may have arrived after the start and before the dispatches were tracked.
        // If reading them fails, this function returns and drops the pages. They are then no longer open
        // in this process, and recovery reclaims them.
        if !by_lane.is_empty() && context.interventions() != start_context.interventions {
            let refreshed = self.refresh_interventions().await;
            refreshed.inspect_err(|_| context.request_recovery())?;
        }
        for ((app, platform), singles) in by_lane {
            let from = DeviceKey::before_first(app, platform);
            let to = DeviceKey::new(app, platform, SEQUENCE_MAX);
            let tracker = context.device_tracker.split(&start_context.tracker, from, to);
            let start_context = StartContext { tracker, ..start_context };
            self.lane(app, platform).add_singles(Singles { singles, start_context });
        }
        Ok(())
    }

    /// Assigns the next dispatches of the backlog to their lanes.
    async fn assign_backlog(&mut self) -> Result<(), StoreError> {
        for _ in 0..self.context.config.start_batch {
            let Some(no) = self.backlog.front().copied() else { break };
            self.assign(no).await?;
            self.backlog.pop_front();
        }
        Ok(())
    }

    /// Assigns a dispatch to its lane, unless this process has it already or its scan is done.
    async fn assign(&mut self, no: DispatchNo) -> Result<(), StoreError> {
        if !self.context.insert_dispatch(no) {
            return Ok(());
        }
        match ActiveDispatch::read(&self.context, no).await {
            Ok(dispatch) if !dispatch.row.scan_done => {
                self.lane(dispatch.row.app, dispatch.row.platform).add_dispatch(dispatch);
                Ok(())
            }
            // The scan of the dispatch is done, or the dispatch was erased with its application.
            Ok(_) | Err(StoreError::NotFound) => {
                self.context.remove_dispatch(no);
                Ok(())
            }
            Err(error) => {
                self.context.remove_dispatch(no);
                Err(error)
            }
        }
    }

    /// The lane of an application and platform, which is started if it does not run.
    fn lane(&mut self, app: AppNo, platform: Platform) -> Arc<Lane> {
        let mut lanes = self.context.lanes.lock().expect("no holder of the lanes panics");
        let lane = lanes.entry((app, platform)).or_insert_with(|| {
            let lane = Lane::new(app, platform, self.context.clone());
            self.lane_tasks.spawn(LaneTask::new(lane.clone()).run());
            lane
        });
        lane.clone()
    }
}

// Starts of due notifications. The engine starts them when it polls. A single server also starts a
// notification in the commit that accepts it, which saves a commit and a poll for each notification
// that is sent at once.

/// Most committed starts that wait for the engine. When the limit is reached, accepted notifications
/// are started by the next poll.
const STARTS_WAITING_MAX: usize = 16;

/// State that was read before a start, or before the claims of a lane's turn.
pub(crate) struct StartContext {
    pub(crate) at: Timestamp,
    /// Tracks changes of devices. It was opened before the devices were read, so that no change since then
    /// is missed (hazard 8 of docs/delivery.md).
    pub(crate) tracker: Arc<RangeTracker>,
    /// The server's lease generation before the pages were opened.
    pub(crate) lease_generation: u64,
    /// Number of cancellations, pauses and resumptions before the start.
    pub(crate) interventions: u64,
}

/// A committed start that waits for the engine.
pub(crate) struct PendingStart {
    pub(crate) start_context: StartContext,
    pub(crate) dispatches: Vec<DispatchNo>,
    pub(crate) pages: Vec<PendingPage>,
}

/// A page that was opened with its start.
pub(crate) struct PendingPage {
    pub(crate) opened: OpenedDispatch,
    pub(crate) open: OpenSingle,
}

impl StartContext {
    /// Reads the state, and tracks the devices with keys in `(from, to]`.
    pub(crate) fn read(
        context: &EngineContext,
        from: DeviceKey,
        to: DeviceKey,
        now: Timestamp,
    ) -> Self {
        Self {
            at: now,
            tracker: context.device_tracker.open(from, to),
            lease_generation: context.membership.lease_generation(),
            interventions: context.interventions(),
        }
    }

    /// Reads the state before a start, and builds the request to the store.
    pub(crate) fn new(context: &EngineContext, now: Timestamp) -> (Self, StartDue) {
        let lanes = {
            let lanes = context.lanes.lock().expect("no holder of the lanes panics");
            let accepting = lanes.iter().filter(|(_, lane)| lane.accepts_singles(now));
            accepting.map(|(key, _)| *key).collect()
        };
        let start_context = Self::read(context, DeviceKey(0), DeviceKey(i64::MAX), now);
        let lease_until = now.plus_ms(context.config.lease_ms);
        let opening = Some(Opening { instance: context.instance, lease_until, lanes });
        (start_context, StartDue { now, limit: context.config.start_batch, opening })
    }

    /// Records the pages of the committed start as open. The caller does this before the store commits
    /// anything else: otherwise recovery could mistake the pages for abandoned ones.
    pub(crate) fn commit(self, context: &Arc<EngineContext>, started: Started) -> PendingStart {
        let Started { dispatches, opened, agenda: _ } = started;
        #[cfg(test)]
        context.opened_with_start.fetch_add(opened.len(), Ordering::AcqRel);
        let lanes = context.lanes.lock().expect("no holder of the lanes panics");
        let pages = opened.into_iter().filter_map(|opened| {
            let lane = lanes.get(&(opened.dispatch.app, opened.dispatch.platform));
            debug_assert!(lane.is_some(), "pages are opened only for known lanes");
            let open = lane?.open_single(opened.page.no);
            Some(PendingPage { opened, open })
        });
        PendingStart { start_context: self, dispatches, pages: pages.collect() }
    }
}

/// The queue of starts that were made in accepting commits and that the engine has not assigned yet.
#[derive(Default)]
pub(crate) struct Starts {
    waiting: Mutex<VecDeque<PendingStart>>,
    added: Notify,
}

impl Starts {
    /// Returns when a start was added since the last call. The queue may be empty by then.
    pub(crate) async fn wait(&self) {
        self.added.notified().await;
    }

    /// Takes the next start.
    pub(crate) fn pop(&self) -> Option<PendingStart> {
        self.waiting.lock().expect("no holder panics").pop_front()
    }
}

/// Subscribes the engine to changes, and on a single server has the store start notifications in the
/// commits that accept them.
pub(crate) fn subscribe(context: &Arc<EngineContext>) {
    context.store.subscribe(context.clone());
    // Several servers do not do this: any of them may start a notification that another one accepted,
    // so that they share the load.
    if !context.config.clustered {
        context.store.start_with_accept(start_hook(Arc::downgrade(context)));
    }
}

/// The function that the store calls before each accepting commit. It returns `None` if the commit
/// must not start its notifications.
fn start_hook(context: Weak<EngineContext>) -> StartHook {
    Box::new(move || {
        let context = context.upgrade()?;
        let starts_waiting = context.starts.waiting.lock().expect("no holder panics").len();
        if context.stop.is_cancelled()
            || context.ended.is_cancelled()
            || starts_waiting >= STARTS_WAITING_MAX
        {
            return None;
        }
        let (start_context, due) = StartContext::new(&context, context.clock.now());
        let done = Box::new(move |started: Option<Started>| match started {
            Some(started) => {
                let next_due = started.agenda.next_due;
                let start = start_context.commit(&context, started);
                context.starts.waiting.lock().expect("no holder panics").push_back(start);
                context.starts.added.notify_one();
                if let Some(due) = next_due {
                    context.wake_by(due);
                }
            }
            None => context.request_recovery(),
        });
        Some(StartInAccept { due, done })
    })
}

// The state of the engine, for the rest of the server.

/// How long an unavailable upstream with an overdue probe is still reported, in milliseconds. The
/// next delivery is the probe, so a probe that is overdue for longer means that no delivery waits.
const PROBE_OVERDUE_MS: i64 = 600_000;

/// Reads the engine's state: whether it runs, and why deliveries wait. The handle outlives the
/// engine.
#[derive(Clone)]
pub struct EngineHandle {
    context: Arc<EngineContext>,
}

impl EngineHandle {
    /// Whether the engine's thread runs.
    #[must_use]
    pub fn is_running(&self) -> bool {
        !self.context.ended.is_cancelled()
    }

    /// Returns once the engine's thread has ended, because it was stopped or because it failed.
    pub async fn ended(&self) {
        self.context.ended.cancelled().await;
    }

    /// Begins to stop the engine, as [`Engine::stop`] does, and does not wait.
    #[cfg(feature = "sandbox")]
    pub(crate) fn begin_stop(&self) {
        self.context.stop.cancel();
        self.context.wake.notify_one();
    }

    /// The id of this run of the server.
    #[cfg(feature = "sandbox")]
    pub(crate) fn instance(&self) -> crate::store::InstanceId {
        self.context.instance
    }

    /// Number of servers alive on the same database, this one included, as of the last heartbeat.
    pub(crate) fn servers(&self) -> u32 {
        self.context.membership.servers()
    }

    /// The status of an application's provider on a platform: whether this server sends deliveries through
    /// it, and if not, why.
    pub(crate) fn provider_status(&self, app: AppNo, platform: Platform) -> ProviderStatus {
        let lane = self.context.lane_of(app, platform);
        let now = self.context.clock.now();
        lane.map_or(ProviderStatus::Available, |lane| lane.breaker.status(now))
    }

    /// The push services, or APNs hosts, of a platform that get no deliveries now, sorted by name.
    pub(crate) fn unavailable_services(&self, app: AppNo, platform: Platform) -> Vec<ServiceView> {
        let Some(lane) = self.context.lane_of(app, platform) else { return Vec::new() };
        let now = self.context.clock.now();
        let statuses = lane.upstreams.statuses(now).into_iter();
        statuses
            .filter(|(_, status)| blocks_deliveries(status, now))
            .map(|(name, status)| {
                let service = if name.is_empty() { OTHER_SERVICES.into() } else { name.into() };
                ServiceView { service, status }
            })
            .collect()
    }

    /// The status of the provider and of its upstream services.
    pub(crate) fn channel(&self, app: AppNo, platform: Platform) -> ChannelView {
        ChannelView {
            status: self.provider_status(app, platform),
            services: self.unavailable_services(app, platform),
        }
    }

    /// The status of each lane: the provider's, or the worst of its upstream services.
    pub(crate) fn lane_statuses(&self) -> Vec<(ProviderKind, ProviderStatus)> {
        let now = self.context.clock.now();
        let lanes = self.context.lanes.lock().expect("no holder of the lanes panics");
        let status = |lane: &Lane| match lane.breaker.status(now) {
            ProviderStatus::Available => lane.upstreams.worst_status(now),
            status => status,
        };
        lanes.values().map(|lane| (lane.platform.provider(), status(lane))).collect()
    }
}

/// Whether deliveries wait for an upstream with that status.
fn blocks_deliveries(status: &ProviderStatus, now: Timestamp) -> bool {
    match status {
        ProviderStatus::AuthRejected { probe_at, .. }
        | ProviderStatus::Unreachable { probe_at } => now.ms_since(*probe_at) < PROBE_OVERDUE_MS,
        ProviderStatus::Throttled { .. } | ProviderStatus::Tripped => true,
        ProviderStatus::Available => false,
    }
}
