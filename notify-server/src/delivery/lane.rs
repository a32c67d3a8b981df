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
use self::feedback::{MassUnregisterGuard, ThrottleScope};
pub(crate) use self::task::{LaneTask, OpenSingle, RetryBatch};
use self::upstreams::Upstreams;
pub(crate) use self::upstreams::{Candidate, Upstream, UpstreamGuard};
use crate::delivery::breaker::{Admission, CircuitBreaker};
use crate::delivery::breaker_sync::{LaneOutbox, PeerSync};
use crate::delivery::context::EngineContext;
use crate::delivery::dispatch::ActiveDispatch;
use crate::delivery::permits::ResizableSemaphore;
use crate::delivery::rate_limiter::{PerChatLimiter, RateLimiter};
use crate::delivery::single_task::Singles;
use crate::providers::{ProviderLimit, SharedProvider};
use crate::store::{AppNo, DeviceKey, OpenPage, StoreError};

/// Streams of a lane without a provider: its deliveries are settled without being sent.
const STREAMS_WITHOUT_PROVIDER: usize = 1;

/// The current provider of a lane.
#[derive(Clone)]
pub(crate) enum LaneProvider {
    /// Not read yet, or changed since.
    Unknown,
    /// None is configured.
    Missing,
    /// This one.
    Ready(SharedProvider),
}

/// The cached provider of a lane.
struct ProviderSlot {
    /// Counts the changes, so that results from before a change are not applied after it.
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
    /// The rate that the provider itself accepts.
    provider_limiter: RateLimiter,
    chat_limiter: PerChatLimiter,
    /// One for the production host and one for the sandbox host.
    unregister_guards: Mutex<[MassUnregisterGuard; 2]>,
    /// Number of devices, over all pages, that are deferred until their upstream accepts messages.
    deferred: AtomicUsize,
    /// Number of open notifications to one device.
    singles: Arc<AtomicUsize>,
    /// Whether the lane has, or may have, other work. If it has, these take turns with it.
    has_other_work: AtomicBool,
    retries: RetryBacklog,
    throttle_scope: ThrottleScope,
    pub(crate) streams: Arc<ResizableSemaphore>,
    pub(crate) context: Arc<EngineContext>,
    provider: Mutex<ProviderSlot>,
    inbox: Mutex<Inbox>,
    wake: Notify,
    /// The application's id for the log: known once its provider was read.
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
            throttle_scope: ThrottleScope::default(),
            streams: ResizableSemaphore::new(STREAMS_WITHOUT_PROVIDER),
            context,
            provider: Mutex::new(ProviderSlot { version: 0, provider: LaneProvider::Unknown }),
            inbox: Mutex::default(),
            wake: Notify::new(),
            app_id: OnceLock::new(),
        });
        lane.set_replicas(lane.context.membership.servers());
        lane
    }

    /// Sets how many servers share the rates: the provider counts what all servers send.
    pub(crate) fn set_replicas(&self, servers: u32) {
        self.limiter.set_replicas(servers);
        self.provider_limiter.set_replicas(servers);
    }

    /// Adds a dispatch whose scan is not done.
    pub(crate) fn add_dispatch(&self, dispatch: Arc<ActiveDispatch>) {
        self.set_other_work(true);
        self.post(|inbox| inbox.dispatches.push_back(dispatch));
    }

    /// Adds a page that another process left open. The page counts as open from here on.
    pub(crate) fn add_page(&self, page: OpenPage) {
        self.post(|inbox| inbox.pages.push_back(page));
    }

    /// Notifies the lane that retries are due.
    pub(crate) fn retries_due(&self) {
        self.post(|inbox| inbox.retries_due = true);
    }

    /// Notifies the lane that its application was changed or erased. This says nothing about the
    /// provider: a held or tripped circuit breaker keeps its state.
    pub(crate) fn app_changed(&self) {
        let mut known = self.provider_slot();
        *known = ProviderSlot { version: known.version + 1, provider: LaneProvider::Unknown };
        drop(known);
        self.post(|inbox| inbox.provider_changed = true);
        self.breaker.wake_waiters();
    }

    /// Notifies the lane that its provider was reconfigured: held deliveries resume at once.
    pub(crate) fn provider_changed(&self) {
        let mut known = self.provider_slot();
        *known = ProviderSlot { version: known.version + 1, provider: LaneProvider::Unknown };
        // Under the lock that `on_auth_failure` takes, and before the lane wakes. Otherwise it
        // would find its retries still held.
        self.breaker.close();
        self.upstreams.reset();
        *self.unregister_guards.lock().expect("no holder of the guards panics") =
            Default::default();
        drop(known);
        self.post(|inbox| inbox.provider_changed = true);
    }

    fn post(&self, message: impl FnOnce(&mut Inbox)) {
        message(&mut self.inbox.lock().expect("no holder panics"));
        self.wake.notify_one();
    }

    /// The provider, read if it is not cached.
    pub(crate) async fn provider(&self) -> Result<LaneProvider, StoreError> {
        let (version, provider) = {
            let known = self.provider_slot();
            (known.version, known.provider.clone())
        };
        if !matches!(provider, LaneProvider::Unknown) {
            return Ok(provider);
        }
        let found = self.context.providers.provider(self.app, self.platform.provider()).await?;
        if let Some(found) = &found {
            self.app_id.get_or_init(|| found.app);
        }
        let rate = found.as_ref().and_then(|found| found.rate_per_second);
        let provider =
            found.map_or(LaneProvider::Missing, |found| LaneProvider::Ready(found.provider));
        let mut known = self.provider_slot();
        // If the provider changed during the read, the next caller reads it again.
        if known.version == version {
            if let LaneProvider::Ready(_) = known.provider {
                // Another caller was first. Both must get the same provider, since payloads are
                // rendered for one of them.
                return Ok(known.provider.clone());
            }
            known.provider = provider.clone();
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

    /// Checks rate limiters, the provider's own limits and the circuit breaker for one delivery.
    pub(crate) fn admit(&self, now: Timestamp) -> Admission {
        // The breaker comes last: the delivery that it admits may be the probe.
        if let Admission::Wait(until) = self.breaker.peek(now) {
            return Admission::Wait(until);
        }
        match self.check_rate(now).and_then(|()| self.limiter.admit(now)) {
            Ok(()) => self.breaker.admit(now),
            Err(until) => Admission::Wait(until),
        }
    }

    /// Checks the provider's own limits.
    fn check_rate(&self, now: Timestamp) -> Result<(), Timestamp> {
        let allowance = match &self.provider_slot().provider {
            LaneProvider::Ready(provider) => provider.limit(now),
            LaneProvider::Missing | LaneProvider::Unknown => ProviderLimit::Unlimited,
        };
        match allowance {
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
    /// When to try again.
    pub(crate) fn check_chat(&self, key: DeviceKey, now: Timestamp) -> Result<(), Timestamp> {
        if self.has_chats() { self.chat_limiter.check(key, now) } else { Ok(()) }
    }

    /// Records a message to a device.
    pub(crate) fn record_chat(&self, key: DeviceKey, now: Timestamp) {
        if self.has_chats() {
            self.chat_limiter.record(key, now);
        }
    }

    fn has_chats(&self) -> bool {
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
        let before = self.deferred.fetch_sub(devices, Ordering::AcqRel);
        let most = self.context.config.lane_deferred_max;
        if before >= most && before - devices < most {
            self.wake();
        }
    }

    fn has_deferred(&self) -> bool {
        self.deferred.load(Ordering::Acquire) > 0
    }

    /// Wakes the lane to check for work that it can start.
    pub(crate) fn wake(&self) {
        self.wake.notify_one();
    }

    /// Wakes pages with deferred devices: the upstream may have a free stream.
    pub(crate) fn wake_deferred(&self) {
        if self.has_deferred() {
            self.breaker.wake_waiters();
        }
    }

    /// Number of streams that may be open now.
    pub(crate) fn streams_max(&self) -> usize {
        match &self.provider_slot().provider {
            LaneProvider::Ready(provider) => {
                provider.max_concurrency().clamp(1, self.context.config.lane_streams_max.max(1))
            }
            LaneProvider::Missing | LaneProvider::Unknown => STREAMS_WITHOUT_PROVIDER,
        }
    }
}

// The number of open retries of a lane: counted in the store from time to time, and tracked in
// between.

/// The number of open retries of a lane, as far as this process knows. It errs on the high side,
/// because retries in flight must not exceed the limit (hazard 12 of docs/delivery.md).
#[derive(Debug, Default)]
struct RetryBacklog(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    open: u64,
    /// Those of them that no commit has written yet. The store does not count them.
    unwritten: u64,
    /// Total number of retries added.
    added: u64,
}

/// State at the start of a count in the store.
#[derive(Debug, Clone, Copy)]
struct CountSnapshot {
    unwritten: u64,
    added: u64,
}

impl RetryBacklog {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no holder of the count panics")
    }

    fn open(&self) -> u64 {
        self.lock().open
    }

    /// Adds deliveries that become retries. They count from here on, not from their commit on.
    fn add(&self, retries: u64) {
        let mut state = self.lock();
        state.open += retries;
        state.unwritten += retries;
        state.added += retries;
    }

    /// Records that retries were committed or given up.
    fn mark_written(&self, retries: u64) {
        let mut state = self.lock();
        state.unwritten = state.unwritten.saturating_sub(retries);
    }

    /// Records that retries ended.
    fn remove(&self, retries: u64) {
        let mut state = self.lock();
        state.open = state.open.saturating_sub(retries);
    }

    /// Begins a count in the store.
    fn begin_count(&self) -> CountSnapshot {
        let state = self.lock();
        CountSnapshot { unwritten: state.unwritten, added: state.added }
    }

    /// Applies the count of the store. Retries that were unwritten when the count began, and those
    /// added since, come on top, whether or not the store saw them. Retries that ended since are
    /// corrected by the next count.
    fn apply_count(&self, snapshot: CountSnapshot, retries: u64) {
        let mut state = self.lock();
        state.open = retries + snapshot.unwritten + (state.added - snapshot.added);
    }
}

impl Lane {
    /// Whether the backlog of retries is full, so that retries go first.
    pub(crate) fn retry_backlog_full(&self) -> bool {
        self.retries.open() >= self.context.config.lane_retry_rows_max
    }

    /// Whether the backlog may be large enough to need an exact count: some retries end without an
    /// attempt.
    pub(crate) fn retry_backlog_near_full(&self) -> bool {
        self.retries.open() >= self.context.config.lane_retry_rows_max / 2
    }

    /// Applies the number of open retries that the store counted.
    fn apply_retry_count(&self, snapshot: CountSnapshot, retries: u64) {
        let before = self.retries.open();
        self.retries.apply_count(snapshot, retries);
        self.wake_after_retries_ended(before);
    }

    /// Records that retries ended.
    pub(crate) fn remove_retries(&self, retries: u64) {
        let before = self.retries.open();
        self.retries.remove(retries);
        self.wake_after_retries_ended(before);
    }

    /// Wakes pages that wait for the backlog to shrink.
    fn wake_after_retries_ended(&self, before: u64) {
        if before >= self.context.config.lane_retry_rows_max && !self.retry_backlog_full() {
            self.breaker.wake_waiters();
        }
    }

    /// Counts a delivery that becomes a retry.
    pub(crate) fn uncommitted_retry(self: &Arc<Self>) -> UncommittedRetries {
        self.retries.add(1);
        UncommittedRetries { lane: self.clone(), count: 1 }
    }
}

/// Retries that are counted but not committed. Dropped after the commit that writes them, or when
/// they are given up.
pub(crate) struct UncommittedRetries {
    lane: Arc<Lane>,
    count: u64,
}

impl UncommittedRetries {
    /// Adds these to `held`, which the same commit writes.
    pub(crate) fn merge_into(mut self, held: &mut Option<Self>) {
        match held {
            Some(held) => held.count += std::mem::take(&mut self.count),
            None => *held = Some(self),
        }
    }
}

impl Drop for UncommittedRetries {
    fn drop(&mut self) {
        self.lane.retries.mark_written(self.count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uncommitted_retries_are_added_to_the_count_of_the_store() {
        let count = RetryBacklog::default();
        count.add(3);
        let begun = count.begin_count();
        count.apply_count(begun, 0);
        assert_eq!(count.open(), 3);
        count.mark_written(3);
        count.apply_count(count.begin_count(), 3);
        assert_eq!(count.open(), 3);
        count.remove(1);
        assert_eq!(count.open(), 2);
    }

    #[test]
    fn retries_added_during_a_count_of_the_store_are_kept() {
        let count = RetryBacklog::default();
        count.add(2);
        count.mark_written(2);
        let begun = count.begin_count();
        count.add(5);
        count.mark_written(5);
        count.apply_count(begun, 2);
        assert_eq!(count.open(), 7);
        count.apply_count(count.begin_count(), 7);
        assert_eq!(count.open(), 7, "the next count corrects retries counted twice");
    }
}
