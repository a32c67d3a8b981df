//! A lane: all deliveries of one application on one platform. It has its own circuit breaker,
//! streams and provider, so that a slow or failing provider does not slow down others. The
//! dispatches of a lane take turns page by page.

mod feedback;
mod task;
mod upstreams;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use notify_core::{AppId, Platform, Timestamp};
use tokio::sync::Notify;

pub(crate) use self::feedback::{AnswerContext, AnswerEffects, UnregisteredVerdict};
use self::feedback::{MassUnregisterGuard, ThrottleClassifier};
pub(crate) use self::task::{LaneTask, OpenSingle, RetryBatch};
pub(crate) use self::upstreams::{Candidate, Upstream, UpstreamGuard};
use self::upstreams::{UnregisteredInARow, Upstreams};
use crate::delivery::breaker::{Admission, CircuitBreaker};
use crate::delivery::breaker_sync::{LaneOutbox, PeerSync};
use crate::delivery::context::EngineContext;
use crate::delivery::decision::supports_dedup;
use crate::delivery::dispatch::ActiveDispatch;
use crate::delivery::permits::ResizableSemaphore;
use crate::delivery::rate_limiter::{PerChatLimiter, RateLimiter};
use crate::delivery::single_task::Singles;
use crate::providers::{ProviderLimit, SharedProvider};
use crate::store::{AppNo, DeviceKey, OpenPage, StoreError};

/// Number of streams of a lane without a provider. Its deliveries fail without being sent, so one stream
/// is enough.
const STREAMS_WITHOUT_PROVIDER: usize = 1;

/// The current provider of a lane.
#[derive(Clone)]
pub(crate) enum LaneProvider {
    /// The provider was not read yet, or changed since the last read.
    Unknown,
    /// No provider is configured.
    Missing,
    /// The provider, ready for use.
    Ready(SharedProvider),
}

/// The cached provider of a lane.
struct ProviderSlot {
    /// Counts the changes of the configuration, so that the result of an attempt with an earlier
    /// configuration is recognised.
    version: u64,
    provider: LaneProvider,
}

/// State that the pages and retries of a lane share.
pub(crate) struct Lane {
    pub(crate) app: AppNo,
    pub(crate) platform: Platform,
    pub(crate) breaker: CircuitBreaker,
    pub(crate) upstreams: Upstreams,
    /// The rate that an administrator configured.
    limiter: RateLimiter,
    /// The rate that the provider accepts.
    provider_limiter: RateLimiter,
    chat_limiter: PerChatLimiter,
    /// The guards against disabling an audience by mistake: one for the production host and one for
    /// the sandbox host.
    unregister_guards: Mutex<[MassUnregisterGuard; 2]>,
    /// Number of devices, over all pages, that are deferred until their upstream accepts messages.
    deferred: AtomicUsize,
    /// Number of open single-device notifications.
    singles: Arc<AtomicUsize>,
    /// Whether the lane has, or may have, work other than single-device notifications. If it has, new
    /// single-device notifications wait for their turn like any dispatch.
    has_other_work: AtomicBool,
    retries: RetryBacklog,
    /// Whether the lane has to count its open retries.
    retry_count_requested: AtomicBool,
    throttle_classifier: ThrottleClassifier,
    /// For a platform without upstreams.
    unregistered_in_a_row: UnregisteredInARow,
    pub(crate) streams: Arc<ResizableSemaphore>,
    /// The share of the lane in [`EngineContext::unacked_without_dedup`].
    pub(crate) unacked_without_dedup: Arc<ResizableSemaphore>,
    pub(crate) context: Arc<EngineContext>,
    provider: Mutex<ProviderSlot>,
    inbox: Mutex<Inbox>,
    wake: Notify,
    /// The application's id for the log. It is set when the provider is read for the first time.
    app_id: OnceLock<AppId>,
}

/// Messages of the engine to a lane.
#[derive(Default)]
struct Inbox {
    dispatches: VecDeque<Arc<ActiveDispatch>>,
    pages: VecDeque<OpenPage>,
    singles: Vec<Singles>,
    retries_due: bool,
    provider_changed: bool,
}

impl Lane {
    pub(crate) fn new(app: AppNo, platform: Platform, context: Arc<EngineContext>) -> Arc<Self> {
        let outbox = context.config.clustered.then(|| LaneOutbox {
            dirty: context.dirty_lanes.clone(),
            app,
            platform,
        });
        let probe_every_ms = context.config.retry.probe_every_ms;
        let share_max = context.config.lane_unacked_without_dedup_max();
        let lane = Arc::new(Self {
            app,
            platform,
            breaker: CircuitBreaker::new(probe_every_ms, outbox.clone().map(PeerSync::new)),
            upstreams: Upstreams::new(probe_every_ms, outbox),
            limiter: RateLimiter::default(),
            provider_limiter: RateLimiter::default(),
            chat_limiter: PerChatLimiter::default(),
            unregister_guards: Mutex::default(),
            deferred: AtomicUsize::new(0),
            singles: Arc::default(),
            has_other_work: AtomicBool::new(true),
            retries: RetryBacklog::default(),
            retry_count_requested: AtomicBool::new(false),
            throttle_classifier: ThrottleClassifier::default(),
            unregistered_in_a_row: UnregisteredInARow::default(),
            streams: ResizableSemaphore::new(STREAMS_WITHOUT_PROVIDER),
            unacked_without_dedup: ResizableSemaphore::new(share_max),
            context,
            provider: Mutex::new(ProviderSlot { version: 0, provider: LaneProvider::Unknown }),
            inbox: Mutex::default(),
            wake: Notify::new(),
            app_id: OnceLock::new(),
        });
        lane.set_servers(lane.context.membership.servers());
        lane
    }

    /// Sets the number of servers that share the rates, because the provider counts the messages of
    /// all servers together.
    pub(crate) fn set_servers(&self, servers: u32) {
        self.limiter.set_servers(servers);
        self.provider_limiter.set_servers(servers);
    }

    /// Adds a dispatch whose scan is not done.
    pub(crate) fn add_dispatch(&self, dispatch: Arc<ActiveDispatch>) {
        self.set_other_work(true);
        self.post(|inbox| inbox.dispatches.push_back(dispatch));
    }

    /// Adds a page that another process or task left open. The caller has recorded the page as open.
    pub(crate) fn add_page(&self, page: OpenPage) {
        self.post(|inbox| inbox.pages.push_back(page));
    }

    /// Notifies the lane that retries are due.
    pub(crate) fn on_retries_due(&self) {
        self.post(|inbox| inbox.retries_due = true);
    }

    /// Notifies the lane that its application was changed or erased. Its credentials need not have
    /// changed, so a held or tripped circuit breaker keeps its state.
    pub(crate) fn on_app_change(&self) {
        let mut slot = self.provider_slot();
        *slot = ProviderSlot { version: slot.version + 1, provider: LaneProvider::Unknown };
        drop(slot);
        self.post(|inbox| inbox.provider_changed = true);
        self.breaker.wake_waiters();
    }

    /// Notifies the lane that its provider was reconfigured or released. Held deliveries resume at
    /// once.
    pub(crate) fn on_provider_change(&self) {
        let mut slot = self.provider_slot();
        *slot = ProviderSlot { version: slot.version + 1, provider: LaneProvider::Unknown };
        // The breakers are closed under the lock that `on_auth_failure` takes, so that an answer to
        // the earlier configuration cannot hold the new one. They are closed before the lane wakes,
        // because the lane would otherwise find its retries still held.
        self.breaker.close();
        self.upstreams.reset();
        *self.unregister_guards.lock().expect("no holder of the guards panics") =
            Default::default();
        drop(slot);
        self.post(|inbox| inbox.provider_changed = true);
    }

    fn post(&self, message: impl FnOnce(&mut Inbox)) {
        message(&mut self.inbox.lock().expect("no holder panics"));
        self.wake.notify_one();
    }

    /// The provider, which is read from the store if it is not cached.
    pub(crate) async fn provider(&self) -> Result<LaneProvider, StoreError> {
        let (version, cached) = {
            let slot = self.provider_slot();
            (slot.version, slot.provider.clone())
        };
        if !matches!(cached, LaneProvider::Unknown) {
            return Ok(cached);
        }
        let configured =
            self.context.providers.provider(self.app, self.platform.provider()).await?;
        let (rate, provider) = match configured {
            Some(configured) => {
                self.app_id.get_or_init(|| configured.app);
                (configured.rate_per_second, LaneProvider::Ready(configured.provider))
            }
            None => (None, LaneProvider::Missing),
        };
        let mut slot = self.provider_slot();
        // If the configuration changed during the read, nothing is cached, and the next caller reads
        // it again.
        if slot.version == version {
            if let LaneProvider::Ready(_) = slot.provider {
                // Another caller was first. Both must use the same provider, because a dispatch
                // renders its payload again for each different provider.
                return Ok(slot.provider.clone());
            }
            slot.provider = provider.clone();
            self.limiter.set_rate(rate);
        }
        Ok(provider)
    }

    /// Number of changes of the provider.
    pub(crate) fn provider_version(&self) -> u64 {
        self.provider_slot().version
    }

    fn provider_slot(&self) -> MutexGuard<'_, ProviderSlot> {
        self.provider.lock().expect("no holder of the provider panics")
    }

    /// Checks the rate limiters, the provider's limits and the circuit breaker for one delivery.
    pub(crate) fn admit(&self, now: Timestamp) -> Admission {
        // `CircuitBreaker::admit` comes last, because the delivery that it admits may become the
        // probe, and a rate limiter must not reject the probe after that.
        if let Admission::Wait(until) = self.breaker.peek(now) {
            return Admission::Wait(until);
        }
        match self.admit_by_provider(now).and_then(|()| self.limiter.admit(now)) {
            Ok(()) => self.breaker.admit(now),
            Err(until) => Admission::Wait(until),
        }
    }

    /// Checks the rate limit of the provider itself, and counts the delivery if the limit admits it.
    ///
    /// # Errors
    /// The time to try again, if the limit admits no delivery now.
    fn admit_by_provider(&self, now: Timestamp) -> Result<(), Timestamp> {
        let limit = match &self.provider_slot().provider {
            LaneProvider::Ready(provider) => provider.limit(now),
            LaneProvider::Missing | LaneProvider::Unknown => ProviderLimit::Unlimited,
        };
        match limit {
            ProviderLimit::Unlimited => Ok(()),
            ProviderLimit::PerSecond(rate) => {
                self.provider_limiter.set_rate(Some(rate));
                self.provider_limiter.admit(now)
            }
            ProviderLimit::Exhausted { until } => Err(until),
        }
    }

    /// Checks that the last message to a device is old enough for the platform to accept another
    /// one.
    ///
    /// # Errors
    /// The time to try again, if the last message is too recent.
    pub(crate) fn check_chat(&self, key: DeviceKey, now: Timestamp) -> Result<(), Timestamp> {
        if self.limits_each_chat() { self.chat_limiter.check(key, now) } else { Ok(()) }
    }

    /// Records a message to a device, for [`Self::check_chat`].
    pub(crate) fn record_chat(&self, key: DeviceKey, now: Timestamp) {
        if self.limits_each_chat() {
            self.chat_limiter.record(key, now);
        }
    }

    /// Whether the platform limits the rate of messages to each device.
    fn limits_each_chat(&self) -> bool {
        match self.platform {
            Platform::ChatApp => true,
            Platform::Android | Platform::Ios | Platform::Web | Platform::FbMessenger => false,
        }
    }

    /// Records that devices are deferred until their upstream accepts messages.
    pub(crate) fn add_deferred(&self, devices: usize) {
        self.deferred.fetch_add(devices, Ordering::AcqRel);
    }

    /// Records that devices are no longer deferred.
    pub(crate) fn remove_deferred(&self, devices: usize) {
        let deferred_before = self.deferred.fetch_sub(devices, Ordering::AcqRel);
        let deferred_now = deferred_before - devices;
        let limit = self.context.config.lane_deferred_max;
        // The lane opens no pages while the limit is reached, so it is woken once that ends.
        if deferred_before >= limit && deferred_now < limit {
            self.wake();
        }
    }

    fn has_deferred(&self) -> bool {
        self.deferred.load(Ordering::Acquire) > 0
    }

    /// Wakes the lane, so that it starts work that has become possible.
    pub(crate) fn wake(&self) {
        self.wake.notify_one();
    }

    /// Wakes pages with deferred devices, because their upstream may have a free stream.
    pub(crate) fn wake_deferred(&self) {
        if self.has_deferred() {
            self.breaker.wake_waiters();
        }
    }

    /// Number of streams that may be open now.
    pub(crate) fn streams_max(&self) -> usize {
        match &self.provider_slot().provider {
            LaneProvider::Ready(provider) => {
                provider.max_concurrency().clamp(1, self.configured_streams_max().max(1))
            }
            LaneProvider::Missing | LaneProvider::Unknown => STREAMS_WITHOUT_PROVIDER,
        }
    }

    /// Most streams of the lane, even if its provider accepts more. All messages of a platform that cannot
    /// recognise a repeat need permits of which there are few, so such a platform gets a quarter of them.
    fn configured_streams_max(&self) -> usize {
        let config = &self.context.config;
        if supports_dedup(self.platform) {
            config.lane_streams_max
        } else {
            config.lane_streams_max.min((config.max_unacked_without_dedup / 4).max(1))
        }
    }
}

// The number of open retries of a lane. The store counts them from time to time, and the lane tracks
// the changes in between.

/// An estimate of the number of open retries of a lane. It is never too low, because the retries must
/// not exceed their limit (hazard 12 of docs/delivery.md).
#[derive(Debug, Default)]
struct RetryBacklog(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    open: u64,
    /// The open retries that no commit has written yet, so that the store does not count them.
    uncommitted: u64,
    /// Total number of retries added.
    added: u64,
}

/// State at the start of a count in the store.
#[derive(Debug, Clone, Copy)]
struct CountSnapshot {
    uncommitted: u64,
    added: u64,
}

impl RetryBacklog {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no holder of the count panics")
    }

    fn open(&self) -> u64 {
        self.lock().open
    }

    /// Adds deliveries that become retries. They count from now on, before their commit.
    fn add(&self, retries: u64) {
        let mut state = self.lock();
        state.open += retries;
        state.uncommitted += retries;
        state.added += retries;
    }

    /// Records that retries are no longer uncommitted: a commit wrote them, or their results were
    /// discarded. They still count as open.
    fn remove_uncommitted(&self, retries: u64) {
        let mut state = self.lock();
        state.uncommitted = state.uncommitted.saturating_sub(retries);
    }

    /// Records that retries ended.
    fn remove(&self, retries: u64) {
        let mut state = self.lock();
        state.open = state.open.saturating_sub(retries);
    }

    /// Returns the state that [`Self::apply_count`] needs. The caller takes it before the store counts.
    fn begin_count(&self) -> CountSnapshot {
        let state = self.lock();
        CountSnapshot { uncommitted: state.uncommitted, added: state.added }
    }

    /// Replaces the estimate with `counted`, the number of open retries that the store counted. Retries
    /// that were uncommitted when the count began, and retries that were added since then, are added to
    /// it even if the store counted some of them. Retries that ended since then are still included; the
    /// next count corrects that.
    fn apply_count(&self, snapshot: CountSnapshot, counted: u64) {
        let mut state = self.lock();
        let added_since = state.added - snapshot.added;
        state.open = counted + snapshot.uncommitted + added_since;
    }
}

impl Lane {
    /// Whether the number of open retries has reached its limit, so that no first attempt may start.
    pub(crate) fn retry_backlog_full(&self) -> bool {
        self.retries.open() >= self.context.config.lane_retry_rows_max
    }

    /// Whether the estimate is so close to the limit that the store has to count the open retries. The
    /// estimate grows too high over time, because it misses retries that end without an attempt.
    pub(crate) fn retry_backlog_near_full(&self) -> bool {
        self.retries.open() >= self.context.config.lane_retry_rows_max / 2
    }

    /// Makes the lane count the open retries before it claims the next ones.
    pub(crate) fn request_retry_count(&self) {
        self.retry_count_requested.store(true, Ordering::Release);
    }

    /// Clears the request for a count. Returns whether there was one.
    fn take_retry_count_request(&self) -> bool {
        self.retry_count_requested.swap(false, Ordering::AcqRel)
    }

    /// Applies the number of open retries that the store counted.
    fn apply_retry_count(&self, snapshot: CountSnapshot, counted: u64) {
        let open_before = self.retries.open();
        self.retries.apply_count(snapshot, counted);
        self.wake_if_below_limit_again(open_before);
    }

    /// Records that retries ended.
    pub(crate) fn remove_retries(&self, retries: u64) {
        let open_before = self.retries.open();
        self.retries.remove(retries);
        self.wake_if_below_limit_again(open_before);
    }

    /// Wakes the pages that wait for open retries to end, if the number of open retries has fallen below
    /// its limit. `open_before` is the number before the change.
    fn wake_if_below_limit_again(&self, open_before: u64) {
        let was_full = open_before >= self.context.config.lane_retry_rows_max;
        if was_full && !self.retry_backlog_full() {
            self.breaker.wake_waiters();
        }
    }

    /// Counts a delivery that becomes a retry. It counts as uncommitted until the returned value is
    /// dropped.
    pub(crate) fn add_uncommitted_retry(self: &Arc<Self>) -> UncommittedRetries {
        self.retries.add(1);
        UncommittedRetries { lane: self.clone(), count: 1 }
    }
}

/// Retries that are counted but not committed. This value is dropped after the commit that writes
/// them, or when their results are discarded.
pub(crate) struct UncommittedRetries {
    lane: Arc<Lane>,
    count: u64,
}

impl UncommittedRetries {
    /// Adds these retries to `total`, the retries that the same commit writes.
    pub(crate) fn merge_into(mut self, total: &mut Option<Self>) {
        match total {
            // `self` is dropped with a count of 0, so that its retries stay uncommitted.
            Some(others) => others.count += std::mem::take(&mut self.count),
            None => *total = Some(self),
        }
    }
}

impl Drop for UncommittedRetries {
    fn drop(&mut self) {
        self.lane.retries.remove_uncommitted(self.count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uncommitted_retries_are_added_to_the_count_of_the_store() {
        let count = RetryBacklog::default();
        count.add(3);
        let snapshot = count.begin_count();
        count.apply_count(snapshot, 0);
        assert_eq!(count.open(), 3);
        count.remove_uncommitted(3);
        count.apply_count(count.begin_count(), 3);
        assert_eq!(count.open(), 3);
        count.remove(1);
        assert_eq!(count.open(), 2);
    }

    #[test]
    fn retries_added_during_a_count_of_the_store_are_kept() {
        let count = RetryBacklog::default();
        count.add(2);
        count.remove_uncommitted(2);
        let snapshot = count.begin_count();
        count.add(5);
        count.remove_uncommitted(5);
        count.apply_count(snapshot, 2);
        assert_eq!(count.open(), 7);
        count.apply_count(count.begin_count(), 7);
        assert_eq!(count.open(), 7, "a later count without changes keeps the number");
    }
}
