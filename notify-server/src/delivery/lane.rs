//! A lane: everything of one application on one platform. It has a circuit breaker, slots and a provider of
//! its own, so that one that is slow or refused does not slow another; dispatches of a lane take
//! turns page by page.

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

/// Streams assumed of a lane without a provider: what it settles does not go out.
const STREAMS_WITHOUT_PROVIDER: usize = 1;

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

/// What a lane knows of its provider.
struct ProviderSlot {
    /// Counts the changes, so that what was read or sent before one is not taken for later.
    version: u64,
    provider: LaneProvider,
}

/// What the pages and retries of a lane share.
pub(crate) struct Lane {
    pub(crate) app: AppNo,
    pub(crate) platform: Platform,
    pub(crate) breaker: CircuitBreaker,
    pub(crate) services: Upstreams,
    /// What an administrator set.
    limiter: RateLimiter,
    /// What the provider itself takes.
    provider_limiter: RateLimiter,
    chat_limiter: PerChatLimiter,
    /// Of production and of sandbox.
    unregister_guards: Mutex<[MassUnregisterGuard; 2]>,
    /// Devices of all pages that wait for a service.
    parked: AtomicUsize,
    /// Notifications to one device in hand.
    singles: Arc<AtomicUsize>,
    /// Whether anything but these is in hand, or may be: it takes turns with all others.
    has_others: AtomicBool,
    retries: RetryBacklog,
    throttle_scope: ThrottleScope,
    pub(crate) streams: Arc<ResizableSemaphore>,
    pub(crate) context: Arc<EngineContext>,
    provider: Mutex<ProviderSlot>,
    inbox: Mutex<Inbox>,
    wake: Notify,
    /// The application as the log names it: known with its provider.
    app_id: OnceLock<AppId>,
}

/// What the engine hands to a lane.
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
            services: Upstreams::new(probe_every_ms, outbox),
            limiter: RateLimiter::default(),
            provider_limiter: RateLimiter::default(),
            chat_limiter: PerChatLimiter::default(),
            unregister_guards: Mutex::default(),
            parked: AtomicUsize::new(0),
            singles: Arc::default(),
            has_others: AtomicBool::new(true),
            retries: RetryBacklog::default(),
            throttle_scope: ThrottleScope::default(),
            streams: ResizableSemaphore::new(STREAMS_WITHOUT_PROVIDER),
            context: context,
            provider: Mutex::new(ProviderSlot { version: 0, provider: LaneProvider::Unknown }),
            inbox: Mutex::default(),
            wake: Notify::new(),
            app_id: OnceLock::new(),
        });
        lane.set_replicas(lane.context.membership.servers());
        lane
    }

    /// Takes a share of the rates: the provider counts what all servers send.
    pub(crate) fn set_replicas(&self, servers: u32) {
        self.limiter.set_replicas(servers);
        self.provider_limiter.set_replicas(servers);
    }

    /// Gives the lane a dispatch whose scan is not done.
    pub(crate) fn add_dispatch(&self, dispatch: Arc<ActiveDispatch>) {
        self.has_others(true);
        self.post(|inbox| inbox.dispatches.push_back(dispatch));
    }

    /// Gives the lane a page that another process left open; it counts as open from here on.
    pub(crate) fn add_page(&self, page: OpenPage) {
        self.post(|inbox| inbox.pages.push_back(page));
    }

    /// Tells the lane that retries of it are due.
    pub(crate) fn retries_due(&self) {
        self.post(|inbox| inbox.retries_due = true);
    }

    /// Tells the lane that its application was changed or erased. Nothing of that blames or excuses
    /// the provider: what is held or stopped stays so.
    pub(crate) fn app_changed(&self) {
        let mut known = self.provider_slot();
        *known = ProviderSlot { version: known.version + 1, provider: LaneProvider::Unknown };
        drop(known);
        self.post(|inbox| inbox.provider_changed = true);
        self.breaker.wake_waiters();
    }

    /// Tells the lane that its provider was configured anew: what was held goes on at once.
    pub(crate) fn provider_changed(&self) {
        let mut known = self.provider_slot();
        *known = ProviderSlot { version: known.version + 1, provider: LaneProvider::Unknown };
        // Under the lock that `on_auth_failure` takes, and before the lane wakes: it would find its
        // retries held still.
        self.breaker.close();
        self.services.reset();
        *self.unregister_guards.lock().expect("no holder of the guards panics") =
            Default::default();
        drop(known);
        self.post(|inbox| inbox.provider_changed = true);
    }

    fn post(&self, note: impl FnOnce(&mut Inbox)) {
        note(&mut self.inbox.lock().expect("no holder panics"));
        self.wake.notify_one();
    }

    /// The provider, asked for when it is not known.
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
        // One that changed while it was read is read again by whoever asks next.
        if known.version == version {
            if let LaneProvider::Ready(_) = known.provider {
                // Somebody was first: what is rendered is rendered for one of them.
                return Ok(known.provider.clone());
            }
            known.provider = provider.clone();
            self.limiter.set_rate(rate);
        }
        Ok(provider)
    }

    /// Counts the changes of the provider.
    pub(crate) fn provider_version(&self) -> u64 {
        self.provider_slot().version
    }

    fn provider_slot(&self) -> MutexGuard<'_, ProviderSlot> {
        self.provider.lock().expect("no holder of the provider panics")
    }

    /// Asks circuit breaker, pace and the provider's own limits for one delivery to go out.
    pub(crate) fn admit(&self, now: Timestamp) -> Admission {
        // The breaker last: the delivery that it admits may be the probe.
        if let Admission::Wait(until) = self.breaker.peek(now) {
            return Admission::Wait(until);
        }
        match self.check_rate(now).and_then(|()| self.limiter.admit(now)) {
            Ok(()) => self.breaker.admit(now),
            Err(until) => Admission::Wait(until),
        }
    }

    /// What the provider's own limits say.
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

    /// Whether a device was not sent to so lately that the platform would refuse another message.
    ///
    /// # Errors
    /// When it was: until when.
    pub(crate) fn check_chat(&self, key: DeviceKey, now: Timestamp) -> Result<(), Timestamp> {
        if self.has_chats() { self.chat_limiter.check(key, now) } else { Ok(()) }
    }

    /// A device is sent to now.
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

    /// Devices are set aside until the service behind them takes some again.
    pub(crate) fn add_deferred(&self, devices: usize) {
        self.parked.fetch_add(devices, Ordering::AcqRel);
    }

    /// They are not any more.
    pub(crate) fn remove_deferred(&self, devices: usize) {
        let before = self.parked.fetch_sub(devices, Ordering::AcqRel);
        let most = self.context.config.lane_deferred_max;
        if before >= most && before - devices < most {
            self.wake();
        }
    }

    fn has_deferred(&self) -> bool {
        self.parked.load(Ordering::Acquire) > 0
    }

    /// Has the lane look for what it can take on.
    pub(crate) fn wake(&self) {
        self.wake.notify_one();
    }

    /// Wakes pages that deferred devices: the service behind them may have a stream for one.
    pub(crate) fn wake_deferred(&self) {
        if self.has_deferred() {
            self.breaker.wake_waiters();
        }
    }

    /// How many streams may be open now.
    pub(crate) fn streams_max(&self) -> usize {
        match &self.provider_slot().provider {
            LaneProvider::Ready(provider) => {
                provider.max_concurrency().clamp(1, self.context.config.lane_streams_max.max(1))
            }
            LaneProvider::Missing | LaneProvider::Unknown => STREAMS_WITHOUT_PROVIDER,
        }
    }
}

// How many retries of a lane are open: counted in the store now and then, and followed meanwhile.

/// How many retries of a lane are open, as far as this process knows: rather too many than too few,
/// since what is in flight must not pass the bound (trap 12).
#[derive(Debug, Default)]
struct RetryBacklog(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    open: u64,
    /// Of those, what no commit has written yet: the store does not count it.
    unwritten: u64,
    /// Every one that was ever added.
    added: u64,
}

/// A count in the store that has begun.
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

    /// Deliveries are to become retries: known from here on, not from their commit on.
    fn more(&self, retries: u64) {
        let mut state = self.lock();
        state.open += retries;
        state.unwritten += retries;
        state.added += retries;
    }

    /// They were committed, or are fixtures up.
    fn written(&self, retries: u64) {
        let mut state = self.lock();
        state.unwritten = state.unwritten.saturating_sub(retries);
    }

    /// Retries ended.
    fn fewer(&self, retries: u64) {
        let mut state = self.lock();
        state.open = state.open.saturating_sub(retries);
    }

    /// Ahead of a count in the store.
    fn begin(&self) -> CountSnapshot {
        let state = self.lock();
        CountSnapshot { unwritten: state.unwritten, added: state.added }
    }

    /// The store counted so many. What was unwritten when the count began, and what came since, is
    /// added, whether or not the store saw it; what ended since is seen by the next count.
    fn counted(&self, begun: CountSnapshot, retries: u64) {
        let mut state = self.lock();
        state.open = retries + begun.unwritten + (state.added - begun.added);
    }
}

impl Lane {
    /// Whether so many deliveries are to be tried again that they go first.
    pub(crate) fn retry_backlog_full(&self) -> bool {
        self.retries.open() >= self.context.config.lane_retry_rows_max
    }

    /// Whether so many may be open that they have to be counted: some end without being tried.
    pub(crate) fn retry_backlog_near_full(&self) -> bool {
        self.retries.open() >= self.context.config.lane_retry_rows_max / 2
    }

    /// How many retries are open, counted in the store.
    fn retries_counted(&self, begun: CountSnapshot, retries: u64) {
        let before = self.retries.open();
        self.retries.counted(begun, retries);
        self.retries_went(before);
    }

    /// Retries ended.
    pub(crate) fn retries_fewer(&self, retries: u64) {
        let before = self.retries.open();
        self.retries.fewer(retries);
        self.retries_went(before);
    }

    /// Wakes pages that waited for retries to end.
    fn retries_went(&self, before: u64) {
        if before >= self.context.config.lane_retry_rows_max && !self.retry_backlog_full() {
            self.breaker.wake_waiters();
        }
    }

    /// Counts a delivery that becomes a retry.
    pub(crate) fn uncommitted_retry(self: &Arc<Self>) -> UncommittedRetries {
        self.retries.more(1);
        UncommittedRetries { lane: self.clone(), count: 1 }
    }
}

/// Retries that are counted, and that no commit has written yet. Dropped after the commit that writes them,
/// or when they are fixtures up.
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
        self.lane.retries.written(self.count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_written_yet_is_in_no_count_of_the_store_but_in_this_one() {
        let count = RetryBacklog::default();
        count.more(3);
        let begun = count.begin();
        count.counted(begun, 0);
        assert_eq!(count.open(), 3);
        count.written(3);
        count.counted(count.begin(), 3);
        assert_eq!(count.open(), 3);
        count.fewer(1);
        assert_eq!(count.open(), 2);
    }

    #[test]
    fn what_comes_while_the_store_counts_is_added() {
        let count = RetryBacklog::default();
        count.more(2);
        count.written(2);
        let begun = count.begin();
        count.more(5);
        count.written(5);
        count.counted(begun, 2);
        assert_eq!(count.open(), 7);
        count.counted(count.begin(), 7);
        assert_eq!(count.open(), 7, "one that was counted twice is not for long");
    }
}
