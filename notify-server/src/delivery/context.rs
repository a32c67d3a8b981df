//! State that every part of the engine shares.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use notify_core::{AppId, Platform, ProviderKind, Timestamp};
use tokio::sync::{Notify, RwLock, Semaphore, SemaphorePermit, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::EngineConfig;
use super::breaker_sync::DirtyLanes;
use super::device_tracker::DeviceTracker;
use super::dispatch::ActiveDispatch;
use super::engine::Starts;
use super::lane::Lane;
use super::membership::Membership;
use super::permits::ResizableSemaphore;
use crate::clock::SharedClock;
use crate::error_chain::error_chain;
use crate::providers::SharedProvider;
use crate::store::{
    AppNo, Change, ChangeListener, DeliveryChange, Dispatch, DispatchNo, InstanceId, Intervention,
    NotificationNo, PageNo, SharedStore, StoreError,
};
use crate::telemetry::DeliveryMetrics;

/// Pause after a storage error. It uses real time and not the engine's clock, because it only limits
/// the load on the machine.
const STORAGE_BACKOFF: Duration = Duration::from_millis(200);
/// Shortest time between two log lines about storage errors. Without it every page and every lane
/// would log the same failure.
const STORAGE_LOG_INTERVAL: Duration = Duration::from_secs(5);

/// The source of the engine's providers, with their secrets decrypted.
#[async_trait::async_trait]
pub trait ProviderSource: Send + Sync + 'static {
    /// The provider of an application; `None` if it is not configured.
    ///
    /// # Errors
    /// When the configuration cannot be read.
    async fn provider(
        &self,
        app: AppNo,
        provider: ProviderKind,
    ) -> Result<Option<Configured>, StoreError>;
}

/// A provider as an administrator configured it.
#[derive(Clone)]
pub struct Configured {
    /// The public id of the application.
    pub app: AppId,
    /// The provider.
    pub provider: SharedProvider,
    /// Most deliveries per second; `None` means no limit.
    pub rate_per_second: Option<u32>,
}

/// State that every part of the engine shares.
pub(crate) struct EngineContext {
    pub(crate) store: SharedStore,
    pub(crate) metrics: DeliveryMetrics,
    /// Canceled once the engine's thread has ended: it was stopped, or it failed.
    pub(crate) ended: CancellationToken,
    pub(crate) providers: Arc<dyn ProviderSource>,
    pub(crate) clock: SharedClock,
    /// Base of poll URLs.
    pub(crate) public_url: String,
    pub(crate) config: EngineConfig,
    pub(crate) instance: InstanceId,
    /// Permits for deliveries that are in flight, or answered but not committed (hazard 4 of
    /// docs/delivery.md).
    pub(crate) unacked: Arc<ResizableSemaphore>,
    /// Further permits, for those of these deliveries whose messages have no identity: those to Messenger and
    /// Telegram, and raw data messages.
    pub(crate) unacked_without_dedup: Arc<ResizableSemaphore>,
    /// Permits for reads of devices that meet a condition.
    pub(crate) searches: Semaphore,
    pub(crate) device_tracker: DeviceTracker,
    pub(crate) stop: CancellationToken,
    pub(crate) membership: Membership,
    /// Circuit breakers to publish to the other servers.
    pub(crate) dirty_lanes: Arc<DirtyLanes>,
    /// Notifications that were started in the commits that accepted them.
    pub(crate) starts: Starts,
    /// Wakes the engine, because work may be due that the engine has not read yet.
    pub(crate) wake: Notify,
    /// When the engine polls next unless it is woken; `None` while it polls, or if nothing is due.
    next_poll: Mutex<Option<Timestamp>>,
    /// Lanes of this process. Ordered, so that a change reaches them in a fixed order.
    pub(crate) lanes: Mutex<BTreeMap<(AppNo, Platform), Arc<Lane>>>,
    pub(crate) recovery_requested: AtomicBool,
    /// Counts the engine's commits.
    pub(crate) progress: watch::Sender<u64>,
    /// Kills the engine as a crash would.
    #[cfg(test)]
    pub(crate) killed: Notify,
    /// Number of single-device notifications that were started together with their page.
    #[cfg(test)]
    pub(crate) opened_with_start: std::sync::atomic::AtomicUsize,
    /// When the engine started. The intervals at which pages commit count from here.
    pub(crate) started_at: Instant,
    rng: Mutex<fastrand::Rng>,
    last_storage_log: Mutex<Option<Instant>>,
    /// Whether the last storage operation failed.
    storage_failing: AtomicBool,
    /// A lane holds this lock for reading from the claim of a page until it has recorded the page as
    /// open. Recovery holds it for writing while it reclaims open pages. Otherwise recovery could
    /// mistake a page that was just claimed for an abandoned one.
    pub(crate) recovery_lock: RwLock<()>,
    /// The dispatches in memory, which cancellations and pauses reach.
    dispatches: Mutex<Vec<Weak<ActiveDispatch>>>,
    /// Number of cancellations, pauses and resumptions so far. Changes only under the lock of
    /// `dispatches`.
    interventions: AtomicU64,
    /// The paused dispatches of which pages are left in the store, without being held in memory.
    parked: Mutex<BTreeMap<DispatchNo, Parked>>,
    open: Mutex<OpenWork>,
}

/// A paused dispatch that is not held in memory.
#[derive(Debug, Clone, Copy)]
struct Parked {
    notification: NotificationNo,
    /// Until when it is paused.
    until: Timestamp,
}

/// Dispatches and pages that this process works on.
#[derive(Default)]
struct OpenWork {
    dispatches: HashSet<DispatchNo>,
    pages: HashSet<PageNo>,
}

/// Dependencies of the engine.
pub struct EngineDeps {
    /// Storage.
    pub store: SharedStore,
    /// Providers.
    pub providers: Arc<dyn ProviderSource>,
    /// Clock.
    pub clock: SharedClock,
    /// Base of poll URLs.
    pub public_url: String,
    /// Metrics.
    pub metrics: DeliveryMetrics,
}

impl EngineContext {
    pub(crate) fn new(deps: EngineDeps, config: EngineConfig) -> Arc<Self> {
        let mut rng = config.seed.map_or_else(fastrand::Rng::new, fastrand::Rng::with_seed);
        let instance = InstanceId(rng.i64(1..));
        let unacked = ResizableSemaphore::new(config.max_unacked);
        let unacked_without_dedup = ResizableSemaphore::new(config.max_unacked_without_dedup);
        Arc::new(Self {
            unacked,
            unacked_without_dedup,
            searches: Semaphore::new(config.searches_max),
            store: deps.store,
            providers: deps.providers,
            clock: deps.clock,
            public_url: deps.public_url,
            metrics: deps.metrics,
            ended: CancellationToken::new(),
            membership: Membership::new(config.clustered),
            dirty_lanes: Arc::default(),
            config,
            instance,
            device_tracker: DeviceTracker::default(),
            stop: CancellationToken::new(),
            wake: Notify::new(),
            starts: Starts::default(),
            next_poll: Mutex::default(),
            lanes: Mutex::default(),
            recovery_requested: AtomicBool::new(true),
            progress: watch::Sender::new(0),
            #[cfg(test)]
            killed: Notify::new(),
            #[cfg(test)]
            opened_with_start: Default::default(),
            started_at: Instant::now(),
            rng: Mutex::new(rng),
            last_storage_log: Mutex::default(),
            storage_failing: AtomicBool::new(false),
            recovery_lock: RwLock::default(),
            dispatches: Mutex::default(),
            interventions: AtomicU64::new(0),
            parked: Mutex::default(),
            open: Mutex::default(),
        })
    }

    /// A permit to read a batch of a dispatch, if it has a condition. Such a batch looks at up to 20,000
    /// devices, so several at once would take all cores.
    pub(crate) async fn search_permit(&self, dispatch: &Dispatch) -> Option<SemaphorePermit<'_>> {
        match dispatch.condition {
            Some(_) => self.searches.acquire().await.ok(),
            None => None,
        }
    }

    /// A random fraction for jitter, 0 to 1.
    pub(crate) fn jitter(&self) -> f64 {
        self.rng.lock().expect("no holder of the generator panics").f64()
    }

    /// Records a commit of the engine.
    pub(crate) fn record_commit(&self) {
        self.progress.send_modify(|commits| *commits += 1);
        if self.storage_failing.swap(false, Ordering::AcqRel) {
            tracing::info!("storage is available again; delivery resumes");
        }
    }

    /// Wakes the engine unless it polls by that time anyway.
    pub(crate) fn wake_by(&self, due_at: Timestamp) {
        let next_poll = *self.next_poll.lock().expect("no holder panics");
        if next_poll.is_none_or(|next_poll| due_at < next_poll) {
            self.wake.notify_one();
        }
    }

    /// Sets when the engine polls next unless it is woken. With `None` it polls now, or only when it
    /// is woken. Work that comes due earlier wakes the engine.
    pub(crate) fn set_next_poll(&self, next: Option<Timestamp>) {
        *self.next_poll.lock().expect("no holder panics") = next;
    }

    /// Logs a storage error, at most once per interval, and waits a moment.
    pub(crate) async fn backoff_after_storage_error(&self, error: &StoreError) {
        let was_logged_recently = {
            let mut logged_at = self.last_storage_log.lock().expect("no holder panics");
            let was_recent = logged_at.is_some_and(|at| at.elapsed() < STORAGE_LOG_INTERVAL);
            if !was_recent {
                *logged_at = Some(Instant::now());
            }
            was_recent
        };
        self.storage_failing.store(true, Ordering::Release);
        if !was_logged_recently {
            tracing::error!(
                cause = error_chain(error),
                "storage failed; delivery waits and will retry"
            );
        }
        tokio::time::sleep(STORAGE_BACKOFF).await;
    }

    /// Makes the engine read all open pages and dispatches again, because it is unknown whether a
    /// commit succeeded or a task failed.
    pub(crate) fn request_recovery(&self) {
        self.recovery_requested.store(true, Ordering::Release);
        self.wake.notify_one();
    }

    /// Applies a changed number of servers, which changes this server's share of every rate.
    pub(crate) fn on_membership_change(&self) {
        let servers = self.membership.servers();
        for lane in self.lanes.lock().expect("no holder panics").values() {
            lane.set_servers(servers);
        }
    }

    /// Registers a dispatch, so that cancellations and pauses reach it.
    pub(crate) fn track(&self, dispatch: &Arc<ActiveDispatch>) {
        let mut dispatches = self.dispatches.lock().expect("no holder of the dispatches panics");
        // Scanned only when the vector is full, so that the cost per dispatch stays constant.
        if dispatches.len() == dispatches.capacity() {
            dispatches.retain(|dispatch| dispatch.strong_count() > 0);
        }
        dispatches.push(Arc::downgrade(dispatch));
    }

    /// Active dispatches that are not known to be canceled.
    pub(crate) fn active_dispatches(&self) -> Vec<DispatchNo> {
        let dispatches = self.dispatches.lock().expect("no holder of the dispatches panics");
        let active =
            dispatches.iter().filter_map(Weak::upgrade).filter(|dispatch| !dispatch.is_canceled());
        let distinct: HashSet<_> = active.map(|dispatch| dispatch.row.no).collect();
        distinct.into_iter().collect()
    }

    /// Paused dispatches that are not held in memory.
    pub(crate) fn parked_dispatches(&self) -> Vec<DispatchNo> {
        self.parked.lock().expect("no holder panics").keys().copied().collect()
    }

    /// Changes the dispatches of a notification that are in memory, after a request canceled, paused or
    /// resumed it.
    fn intervene(&self, notification: NotificationNo, change: impl Fn(&ActiveDispatch)) {
        let dispatches = self.dispatches.lock().expect("no holder of the dispatches panics");
        // `ActiveDispatch::read` compares the number before and after it registers a dispatch, for which it
        // takes the same lock.
        self.interventions.fetch_add(1, Ordering::AcqRel);
        let active = dispatches.iter().filter_map(Weak::upgrade);
        active
            .filter(|dispatch| dispatch.row.notification == notification)
            .for_each(|dispatch| change(&dispatch));
        drop(dispatches);
        self.wake_pages();
    }

    /// Applies the state of the dispatches in memory as it was read from the store, when the number of
    /// interventions was `read_at`. `rows` has those of the dispatches `read` that are canceled or paused.
    /// Returns false, and changes nothing, if an intervention came since then: the rows may be out of date.
    pub(crate) fn apply_interventions(
        &self,
        read_at: u64,
        read: &[DispatchNo],
        rows: &HashMap<DispatchNo, Intervention>,
    ) -> bool {
        let dispatches = self.dispatches.lock().expect("no holder of the dispatches panics");
        if self.interventions() != read_at {
            return false;
        }
        let read: HashSet<_> = read.iter().copied().collect();
        let active = dispatches.iter().filter_map(Weak::upgrade);
        let mut is_changed = false;
        for dispatch in active.filter(|dispatch| read.contains(&dispatch.row.no)) {
            is_changed |= dispatch.apply(rows.get(&dispatch.row.no));
        }
        if is_changed {
            self.interventions.fetch_add(1, Ordering::AcqRel);
        }
        drop(dispatches);
        let stays_paused =
            |no: &DispatchNo| rows.get(no).is_some_and(|row| row.paused_until.is_some());
        if self.unpark(|no, _| read.contains(no) && !stays_paused(no)) {
            self.request_recovery();
        }
        if is_changed {
            self.wake_pages();
        }
        true
    }

    /// Wakes the pages that wait for their provider, because their dispatch may have changed.
    fn wake_pages(&self) {
        for lane in self.lanes.lock().expect("no holder panics").values() {
            lane.breaker.wake_waiters();
        }
    }

    /// Records that pages of a paused dispatch are left in the store. Recovery continues with them once the
    /// pause ends. The caller no longer holds these pages, or the dispatch, as open.
    pub(crate) fn park(&self, dispatch: &ActiveDispatch) {
        if let Some(until) = dispatch.paused_until() {
            let parked = Parked { notification: dispatch.row.notification, until };
            self.parked.lock().expect("no holder panics").insert(dispatch.row.no, parked);
            self.wake_by(until);
        }
        // The pause may have ended before the dispatch was recorded here.
        if !dispatch.is_paused(self.clock.now()) {
            self.unpark(|no, _| *no == dispatch.row.no);
            self.request_recovery();
        }
    }

    /// Forgets the matching parked dispatches. Returns whether there were any, so that recovery has to find
    /// their pages.
    pub(crate) fn unpark(&self, matches: impl Fn(&DispatchNo, Timestamp) -> bool) -> bool {
        let mut parked = self.parked.lock().expect("no holder panics");
        let count = parked.len();
        parked.retain(|no, parked| !matches(no, parked.until));
        parked.len() < count
    }

    /// When the next parked dispatch expires.
    pub(crate) fn next_parked_expiry(&self) -> Option<Timestamp> {
        let parked = self.parked.lock().expect("no holder panics");
        parked.values().map(|parked| parked.until).min()
    }

    /// Lets recovery find the parked pages of a notification whose pause has ended. Wakes the engine.
    fn unpark_notification(&self, notification: NotificationNo) {
        let mut parked = self.parked.lock().expect("no holder panics");
        let count = parked.len();
        parked.retain(|_, parked| parked.notification != notification);
        if parked.len() < count {
            self.recovery_requested.store(true, Ordering::Release);
        }
        self.wake.notify_one();
    }

    #[cfg(test)]
    pub(crate) fn has_paused_dispatches(&self) -> bool {
        let dispatches = self.dispatches.lock().expect("no holder of the dispatches panics");
        let mut active = dispatches.iter().filter_map(Weak::upgrade);
        active.any(|dispatch| dispatch.paused_until().is_some())
            || !self.parked.lock().expect("no holder panics").is_empty()
    }

    /// The lane of an application and platform; `None` if it was not started.
    pub(super) fn lane_of(&self, app: AppNo, platform: Platform) -> Option<Arc<Lane>> {
        self.lanes.lock().expect("no holder panics").get(&(app, platform)).cloned()
    }

    /// Number of cancellations, pauses and resumptions so far.
    pub(crate) fn interventions(&self) -> u64 {
        self.interventions.load(Ordering::Acquire)
    }

    /// Records a dispatch as open. Returns false if it was open already.
    pub(crate) fn insert_dispatch(&self, no: DispatchNo) -> bool {
        self.open.lock().expect("no holder panics").dispatches.insert(no)
    }

    /// Records that no more pages of a dispatch have to be opened.
    pub(crate) fn remove_dispatch(&self, no: DispatchNo) {
        self.open.lock().expect("no holder panics").dispatches.remove(&no);
    }

    /// Records a page as open. Returns false if it was open already.
    pub(crate) fn insert_page(&self, no: PageNo) -> bool {
        self.open.lock().expect("no holder panics").pages.insert(no)
    }

    /// Records that a page is no longer open.
    pub(crate) fn remove_page(&self, no: PageNo) {
        self.open.lock().expect("no holder panics").pages.remove(&no);
    }
}

impl EngineContext {
    /// Calls `act` for each lane that matches.
    fn for_each_lane(&self, matches: impl Fn(&Lane) -> bool, act: impl Fn(&Lane)) {
        let lanes = self.lanes.lock().expect("no holder panics");
        lanes.values().filter(|lane| matches(lane)).for_each(|lane| act(lane));
    }
}

impl ChangeListener for EngineContext {
    fn on_change(&self, change: Change) {
        match change {
            Change::Delivery(
                DeliveryChange::NotificationDue | DeliveryChange::NotificationScheduled,
            ) => self.wake.notify_one(),
            Change::Delivery(DeliveryChange::NotificationCanceled(notification)) => {
                self.intervene(notification, ActiveDispatch::cancel);
                self.unpark_notification(notification);
            }
            Change::Delivery(DeliveryChange::NotificationPaused(notification)) => {
                self.intervene(notification, ActiveDispatch::pause);
            }
            Change::Delivery(DeliveryChange::NotificationResumed(notification)) => {
                self.intervene(notification, ActiveDispatch::resume);
                // The retries that the pause kept from being claimed count again.
                self.for_each_lane(|_| true, Lane::request_retry_count);
                self.unpark_notification(notification);
            }
            Change::Delivery(DeliveryChange::Device(key)) => self.device_tracker.record_change(key),
            Change::Delivery(DeliveryChange::Provider(app, provider)) => self.for_each_lane(
                |lane| lane.app == app && lane.platform.provider() == provider,
                Lane::on_provider_change,
            ),
            Change::Delivery(DeliveryChange::GuardTripped(app, platform)) => self.for_each_lane(
                |lane| (lane.app, lane.platform) == (app, platform),
                Lane::trip_guard,
            ),
            Change::Delivery(DeliveryChange::Breaker(..)) => self.dirty_lanes.request_pull(),
            Change::App(app) => self.for_each_lane(|lane| lane.app == app, Lane::on_app_change),
            Change::Resync => {
                self.dirty_lanes.request_pull();
                self.membership.request_resync();
                self.wake.notify_one();
                // The lanes read their configuration again, and their circuit breakers keep their
                // state.
                self.for_each_lane(|_| true, Lane::on_app_change);
            }
            Change::Events(_) | Change::Enrichment(_) | Change::Keys => {}
        }
    }
}
