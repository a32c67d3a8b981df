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

/// How soon the engine polls again for retries that are past due but were not claimed, because
/// their lane is held or at its limits. In milliseconds.
const POLL_INTERVAL_MS: i64 = 1_000;
/// Shortest time between two polls for due retries, in milliseconds. After an outage many retries
/// come due within moments, and each poll may cost a claim, which is a commit.
const RETRY_COALESCE_MS: i64 = 100;

/// Most dispatches of other servers that are loaded at a time, the oldest first.
const UNSCANNED_PER_READ: u32 = 1_000;

/// A running delivery engine. Dropping it without [`Engine::stop`] leaves it running.
pub struct Engine {
    context: Arc<EngineContext>,
    thread: Option<JoinHandle<()>>,
}

impl Engine {
    /// Starts the engine on a thread with a runtime of its own: sending on a current-thread
    /// runtime costs a third less than on a shared one (`docs/decisions.md`).
    ///
    /// # Errors
    /// When the thread or its runtime cannot be created.
    pub fn start(deps: EngineDeps, config: EngineConfig) -> std::io::Result<Self> {
        let context = EngineContext::new(deps, config);
        subscribe(&context);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
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
            // Dropping the runtime aborts the tasks that are left on it.
        })?;
        Ok(Self { context, thread: Some(thread) })
    }

    /// Notifies of every commit of the engine. The value counts the commits; the progress itself is
    /// in the store.
    #[must_use]
    pub fn progress(&self) -> watch::Receiver<u64> {
        self.context.progress.subscribe()
    }

    /// A handle that reads the engine's state.
    #[must_use]
    pub fn handle(&self) -> EngineHandle {
        EngineHandle { context: self.context.clone() }
    }

    /// Stops the engine: no new work starts, attempts in flight complete and are committed, and the
    /// rest stays for the next start. Returns false if that took longer than `grace`.
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
    /// Number of active dispatches that are not known to be canceled.
    pub(super) fn open_dispatches(&self) -> usize {
        self.context.active_dispatches().len()
    }

    /// Number of notifications that were started together with their page.
    pub(super) fn opened_with_start(&self) -> usize {
        self.context.opened_with_start.load(Ordering::Acquire)
    }

    /// The id of this engine among the servers of one database.
    pub(super) fn instance(&self) -> crate::store::InstanceId {
        self.context.instance
    }

    /// Whether its lease is valid at that time.
    pub(super) fn holds(&self, at: Timestamp) -> bool {
        self.context.membership.is_valid(at)
    }

    /// Kills the engine the way a crash of the process does: it sends and commits nothing more once
    /// this returns.
    pub(super) async fn abort(mut self) {
        self.context.killed.notify_one();
        let thread = self.thread.take().expect("the engine runs");
        tokio::task::spawn_blocking(move || thread.join()).await.unwrap().unwrap();
    }
}

/// The main task of the engine.
pub(super) struct EngineTask {
    context: Arc<EngineContext>,
    lanes: JoinSet<()>,
    /// Dispatches that no lane has yet: just created, or left behind by an earlier process.
    backlog: VecDeque<DispatchNo>,
}

/// A task that is aborted when this is dropped.
struct AbortOnDrop(tokio::task::JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl EngineTask {
    pub(super) fn new(context: Arc<EngineContext>) -> Self {
        Self { context, lanes: JoinSet::new(), backlog: VecDeque::new() }
    }

    /// Runs until the engine stops, and then until every lane has ended.
    pub(super) async fn run(mut self) {
        let heartbeat = self.context.config.clustered.then(|| {
            // A task of its own, because a slow poll must not cost the server its lease.
            AbortOnDrop(tokio::spawn(membership::run_heartbeat(self.context.clone())))
        });
        let _sync = self.context.config.clustered.then(|| {
            // A task of its own, because changes of circuit breakers are published while the lanes
            // end, too.
            AbortOnDrop(tokio::spawn(breaker_sync::run(self.context.clone())))
        });
        while !self.context.stop.is_cancelled() {
            // Before the poll, which may miss what is committed from here on.
            self.context.set_next_wake(None);
            let next = match self.poll().await {
                Ok(next) => next,
                Err(error) => {
                    self.context.backoff_after_storage_error(&error).await;
                    continue;
                }
            };
            let context = self.context.clone();
            context.set_next_wake(next);
            loop {
                tokio::select! {
                    biased;
                    () = context.wake.notified() => {}
                    Some(ended) = self.lanes.join_next(), if !self.lanes.is_empty() => {
                        if let Err(error) = ended {
                            // Otherwise the lane would send nothing more without anyone noticing.
                            tracing::error!(%error, "a lane failed; stopping the engine");
                            context.stop.cancel();
                        }
                    }
                    () = context.clock.sleep_until(next.unwrap_or_default()), if next.is_some() => {}
                    () = context.stop.cancelled() => {}
                    // Last, so that a steady flow of accepted notifications does not starve the
                    // others.
                    () = context.starts.arrived() => match self.assign_starts().await {
                        Ok(()) if self.backlog.is_empty() => continue,
                        Ok(()) => {}
                        Err(error) => context.backoff_after_storage_error(&error).await,
                    },
                }
                break;
            }
        }
        while self.lanes.join_next().await.is_some() {}
        if let Some(heartbeat) = heartbeat {
            drop(heartbeat);
            // If this fails, the lease expires instead.
            let _ = self.context.store.leave(self.context.instance).await;
        }
    }

    /// Starts due work. Returns when to poll next.
    async fn poll(&mut self) -> Result<Option<Timestamp>, StoreError> {
        if self.context.recovery_requested.swap(false, Ordering::AcqRel)
            && let Err(error) = self.reclaim().await
        {
            self.context.recovery_requested.store(true, Ordering::Release);
            return Err(error);
        }
        if self.context.membership.take_resync_request() {
            self.resync().await.inspect_err(|_| self.context.membership.request_resync())?;
        }
        // Before the poll, because under load there is always more to poll for, and these must not
        // wait.
        self.assign_starts().await?;
        // One time for the whole poll: work that comes due during it is found by the next one.
        let now = self.context.clock.now();
        // Reading comes first, because a write without work would queue behind writes that have
        // some.
        let mut agenda = self.context.store.agenda(now).await?;
        if agenda.next_due.is_some_and(|due| due <= now) {
            agenda = self.start_due(now).await?;
        }
        self.assign_backlog().await?;
        for (app, platform) in agenda.retry_lanes {
            self.lane(app, platform).retries_due();
        }
        if !self.backlog.is_empty() {
            return Ok(Some(now));
        }
        // The lane of a retry that is past due was notified just now.
        let retry_due = agenda.next_retry_due.map(|due| match due > now {
            true => due.max(now.plus_ms(RETRY_COALESCE_MS)),
            false => now.plus_ms(POLL_INTERVAL_MS),
        });
        Ok(agenda.next_due.into_iter().chain(retry_due).min())
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

    /// Reads what other servers did, whether or not a notification of it arrived.
    async fn resync(&mut self) -> Result<(), StoreError> {
        self.load_unscanned().await?;
        self.refresh_cancellations().await
    }

    /// Loads dispatches that other servers created: every server opens pages of every dispatch.
    async fn load_unscanned(&mut self) -> Result<(), StoreError> {
        let unread = self.context.store.unscanned_dispatches(UNSCANNED_PER_READ).await?;
        let known: HashSet<_> = self.backlog.iter().copied().collect();
        self.backlog.extend(unread.into_iter().filter(|no| !known.contains(no)));
        Ok(())
    }

    /// Applies cancellations of which no notification arrived: from another server while the
    /// connection was down, or of a commit whose acknowledgement was lost.
    async fn refresh_cancellations(&self) -> Result<(), StoreError> {
        let active = self.context.active_dispatches();
        if active.is_empty() {
            return Ok(());
        }
        let canceled = self.context.store.which_canceled(active).await?;
        let canceled: HashSet<_> = canceled.into_iter().collect();
        if !canceled.is_empty() {
            self.context.cancel(|dispatch| canceled.contains(&dispatch.row.no));
        }
        Ok(())
    }

    /// Starts the next notifications that are due. Returns the agenda after the start.
    async fn start_due(&mut self, now: Timestamp) -> Result<Agenda, StoreError> {
        let context = self.context.clone();
        let (start_context, due) = StartContext::new(&context, now);
        let started = context.store.start(due).await.inspect_err(|_| {
            // The commit may have succeeded: recovery finds what it created.
            self.context.recovery_requested.store(true, Ordering::Release);
        })?;
        let agenda = started.agenda.clone();
        self.assign_start(start_context.commit(&context, started)).await?;
        Ok(agenda)
    }

    /// Assigns notifications that were started in the commits that accepted them.
    async fn assign_starts(&mut self) -> Result<(), StoreError> {
        while let Some(start) = self.context.starts.next() {
            self.assign_start(start).await?;
        }
        self.assign_backlog().await
    }

    /// Assigns a start to its lanes. Notifications to one device pass the backlog.
    async fn assign_start(&mut self, start: PendingStart) -> Result<(), StoreError> {
        let PendingStart { start_context, dispatches, pages } = start;
        let context = self.context.clone();
        context.committed();
        self.backlog.extend(dispatches);
        let mut by_lane: BTreeMap<_, Vec<Single>> = BTreeMap::new();
        for PendingPage { opened: OpenedDispatch { dispatch, page, device }, open } in pages {
            let of = (dispatch.app, dispatch.platform);
            let dispatch = ActiveDispatch::new(dispatch, &context);
            by_lane.entry(of).or_default().push(Single { dispatch, page, device, open });
        }
        // A cancellation may have arrived before the dispatches were tracked. If it cannot be read,
        // the pages are no longer open here, and recovery reclaims them.
        if !by_lane.is_empty() && context.cancellations() != start_context.cancellations {
            let refreshed = self.refresh_cancellations().await;
            refreshed.inspect_err(|_| context.request_recovery())?;
        }
        for ((app, platform), singles) in by_lane {
            let from = DeviceKey::before_first(app, platform);
            let to = DeviceKey::new(app, platform, SEQUENCE_MAX);
            let tracker = context.devices.split(&start_context.tracker, from, to);
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

    async fn assign(&mut self, no: DispatchNo) -> Result<(), StoreError> {
        if !self.context.insert_dispatch(no) {
            return Ok(());
        }
        match ActiveDispatch::read(&self.context, no).await {
            Ok(dispatch) if !dispatch.row.scan_done => {
                self.lane(dispatch.row.app, dispatch.row.platform).add_dispatch(dispatch);
                Ok(())
            }
            // It has ended already, or was erased with its application.
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

    fn lane(&mut self, app: AppNo, platform: Platform) -> Arc<Lane> {
        let mut lanes = self.context.lanes.lock().expect("no holder of the lanes panics");
        let lane = lanes.entry((app, platform)).or_insert_with(|| {
            let lane = Lane::new(app, platform, self.context.clone());
            self.lanes.spawn(LaneTask::new(lane.clone()).run());
            lane
        });
        lane.clone()
    }
}

// Starts of due notifications. The engine starts them when it polls; a server that is alone also starts
// a notification in the commit that accepts it, which saves a commit and a poll for each notification
// that is sent at once.

/// Most starts that wait for the engine. Beyond that, accepted notifications are started by the
/// next poll.
const STARTS_WAITING_MAX: usize = 16;

/// State read before a start.
pub(crate) struct StartContext {
    pub(crate) at: Timestamp,
    /// Opened before the devices are read with the start, so that it holds what changed since
    /// (hazard 8 of docs/delivery.md).
    pub(crate) tracker: Arc<RangeTracker>,
    /// The server's lease generation when the pages were known to be its own.
    pub(crate) lease_generation: u64,
    /// Number of cancellations so far.
    pub(crate) cancellations: u64,
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
    /// The state before a start, and the request to the store.
    pub(crate) fn new(context: &EngineContext, now: Timestamp) -> (Self, StartDue) {
        let lanes = {
            let lanes = context.lanes.lock().expect("no holder of the lanes panics");
            let taking = lanes.iter().filter(|(_, lane)| lane.takes_singles(now));
            taking.map(|(of, _)| *of).collect()
        };
        let start_context = Self {
            at: now,
            tracker: context.devices.open(DeviceKey(0), DeviceKey(i64::MAX)),
            lease_generation: context.membership.lease_generation(),
            cancellations: context.cancellations(),
        };
        let lease_until = now.plus_ms(context.config.lease_ms);
        let opening = Some(Opening { instance: context.instance, lease_until, lanes });
        (start_context, StartDue { now, limit: context.config.start_batch, opening })
    }

    /// Records the committed start. Called before anything else is written, so that recovery does
    /// not reclaim its pages as abandoned.
    pub(crate) fn commit(self, context: &Arc<EngineContext>, started: Started) -> PendingStart {
        let Started { dispatches, opened, agenda: _ } = started;
        #[cfg(test)]
        context.opened_with_start.fetch_add(opened.len(), std::sync::atomic::Ordering::AcqRel);
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

/// Starts from commits that accepted notifications, until the engine assigns them.
#[derive(Default)]
pub(crate) struct Starts {
    waiting: Mutex<VecDeque<PendingStart>>,
    arrived: Notify,
}

impl Starts {
    /// Returns when a start is waiting, or was added since the last call.
    pub(crate) async fn arrived(&self) {
        self.arrived.notified().await;
    }

    /// Takes the next start.
    pub(crate) fn next(&self) -> Option<PendingStart> {
        self.waiting.lock().expect("no holder panics").pop_front()
    }
}

/// Subscribes the engine to changes, and starts notifications in the commit that accepts them.
pub(crate) fn subscribe(context: &Arc<EngineContext>) {
    context.store.subscribe(context.clone());
    // With several servers, any of them may start what one accepted, so that they share the load.
    if !context.config.clustered {
        context.store.start_with_accept(hook(Arc::downgrade(context)));
    }
}

fn hook(context: Weak<EngineContext>) -> StartHook {
    Box::new(move || {
        let context = context.upgrade()?;
        let waiting = context.starts.waiting.lock().expect("no holder panics").len();
        if context.stop.is_cancelled()
            || context.ended.is_cancelled()
            || waiting >= STARTS_WAITING_MAX
        {
            return None;
        }
        let (start_context, due) = StartContext::new(&context, context.clock.now());
        let done = Box::new(move |started: Option<Started>| match started {
            Some(started) => {
                let next_due = started.agenda.next_due;
                let start = start_context.commit(&context, started);
                context.starts.waiting.lock().expect("no holder panics").push_back(start);
                context.starts.arrived.notify_one();
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

/// How long an unavailable service with an overdue probe is still reported, in milliseconds. The
/// probe goes out with the next delivery, so one that is overdue for longer means that no delivery
/// waits.
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

    /// Number of servers alive on the same database, this one included, as of the last heartbeat.
    pub(crate) fn servers(&self) -> u32 {
        self.context.membership.servers()
    }

    /// Whether this server sends deliveries of an application on a platform.
    pub(crate) fn provider_status(&self, app: AppNo, platform: Platform) -> ProviderStatus {
        let lane = self.context.lane_of(app, platform);
        let now = self.context.clock.now();
        lane.map_or(ProviderStatus::Available, |lane| lane.breaker.status(now))
    }

    /// The push services, or APNs hosts, of a platform that get no deliveries now, by name.
    pub(crate) fn unavailable_services(&self, app: AppNo, platform: Platform) -> Vec<ServiceView> {
        let Some(lane) = self.context.lane_of(app, platform) else { return Vec::new() };
        let now = self.context.clock.now();
        let statuses = lane.upstreams.statuses(now).into_iter();
        statuses
            .filter(|(_, status)| is_current(status, now))
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

/// Whether deliveries wait for a service of that status.
fn is_current(status: &ProviderStatus, now: Timestamp) -> bool {
    match status {
        ProviderStatus::AuthRejected { probe_at, .. }
        | ProviderStatus::Unreachable { probe_at } => now.ms_since(*probe_at) < PROBE_OVERDUE_MS,
        ProviderStatus::Throttled { .. } | ProviderStatus::Tripped => true,
        ProviderStatus::Available => false,
    }
}
