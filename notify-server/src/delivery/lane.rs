//! A lane: everything of one application on one platform. It has a circuit breaker, slots and a provider of
//! its own, so that one that is slow or refused does not slow another; dispatches of a lane take
//! turns page by page.

mod feedback;
mod run;
mod services;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use notify_core::{AppId, Platform, Timestamp};
use tokio::sync::Notify;

pub(crate) use self::feedback::{AnswerContext, UnregisteredVerdict};
use self::feedback::{MassUnregisterGuard, ThrottleScope};
pub(crate) use self::run::{Hand, LaneRun, OpenSingle};
use self::services::Services;
pub(crate) use self::services::{Candidate, InService, Service};
use crate::delivery::breaker::{Admission, CircuitBreaker};
use crate::delivery::breaker_sync::{LaneOutbox, PeerSync};
use crate::delivery::job::Job;
use crate::delivery::pace::{ChatPace, Pace};
use crate::delivery::shared::Shared;
use crate::delivery::singles::Singles;
use crate::delivery::slots::Slots;
use crate::providers::{Allowance, SharedProvider};
use crate::store::{AppNo, Change, DeviceKey, OpenPage, StoreError};

/// Streams assumed of a lane without a provider: what it settles does not go out.
const SLOTS_WITHOUT_PROVIDER: usize = 1;

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
struct Known {
    /// Counts the changes, so that what was read or sent before one is not taken for later.
    version: u64,
    provider: LaneProvider,
}

/// What the pages and retries of a lane share.
pub(crate) struct Lane {
    pub(crate) app: AppNo,
    pub(crate) platform: Platform,
    pub(crate) breaker: CircuitBreaker,
    pub(crate) services: Services,
    /// What an administrator set.
    pace: Pace,
    /// What the provider itself takes.
    own_pace: Pace,
    chats: ChatPace,
    /// Of production and of sandbox.
    unregister_guards: Mutex<[MassUnregisterGuard; 2]>,
    /// Devices of all pages that wait for a service.
    parked: AtomicUsize,
    /// Notifications to one device in hand.
    singles: Arc<AtomicUsize>,
    /// Whether anything but these is in hand, or may be: it takes turns with all others.
    has_others: AtomicBool,
    retries: RetryCount,
    throttle_scope: ThrottleScope,
    pub(crate) slots: Arc<Slots>,
    pub(crate) shared: Arc<Shared>,
    provider: Mutex<Known>,
    inbox: Mutex<Inbox>,
    wake: Notify,
    /// The application as the log names it: known with its provider.
    app_id: OnceLock<AppId>,
}

/// What the engine hands to a lane.
#[derive(Default)]
struct Inbox {
    dispatches: VecDeque<Arc<Job>>,
    pages: VecDeque<OpenPage>,
    singles: Vec<Singles>,
    retries_due: bool,
    provider_changed: bool,
}

impl Lane {
    pub(crate) fn new(app: AppNo, platform: Platform, shared: Arc<Shared>) -> Arc<Self> {
        let outbox = shared.config.among_others.then(|| LaneOutbox {
            dirty: shared.dirty_lanes.clone(),
            app,
            platform,
        });
        let probe_every_ms = shared.config.retry.probe_every_ms;
        let lane = Arc::new(Self {
            app,
            platform,
            breaker: CircuitBreaker::new(probe_every_ms, outbox.clone().map(PeerSync::new)),
            services: Services::new(probe_every_ms, outbox),
            pace: Pace::default(),
            own_pace: Pace::default(),
            chats: ChatPace::default(),
            unregister_guards: Mutex::default(),
            parked: AtomicUsize::new(0),
            singles: Arc::default(),
            has_others: AtomicBool::new(true),
            retries: RetryCount::default(),
            throttle_scope: ThrottleScope::default(),
            slots: Slots::new(SLOTS_WITHOUT_PROVIDER),
            shared,
            provider: Mutex::new(Known { version: 0, provider: LaneProvider::Unknown }),
            inbox: Mutex::default(),
            wake: Notify::new(),
            app_id: OnceLock::new(),
        });
        lane.share_among(lane.shared.standing.servers());
        lane
    }

    /// Takes a share of the rates: the provider counts what all servers send.
    pub(crate) fn share_among(&self, servers: u32) {
        self.pace.share_among(servers);
        self.own_pace.share_among(servers);
    }

    /// Gives the lane a dispatch whose scan is not done.
    pub(crate) fn add_dispatch(&self, job: Arc<Job>) {
        self.has_others(true);
        self.tell(|inbox| inbox.dispatches.push_back(job));
    }

    /// Gives the lane a page that another process left open; it counts as open from here on.
    pub(crate) fn add_page(&self, page: OpenPage) {
        self.tell(|inbox| inbox.pages.push_back(page));
    }

    /// Tells the lane that retries of it are due.
    pub(crate) fn retries_due(&self) {
        self.tell(|inbox| inbox.retries_due = true);
    }

    /// Tells the lane that its application was changed or erased. Nothing of that blames or excuses
    /// the provider: what is held or stopped stays so.
    fn app_changed(&self) {
        let mut known = self.known();
        *known = Known { version: known.version + 1, provider: LaneProvider::Unknown };
        drop(known);
        self.tell(|inbox| inbox.provider_changed = true);
        self.breaker.wake_waiters();
    }

    /// Tells the lane that its provider was configured anew: what was held goes on at once.
    pub(crate) fn provider_changed(&self) {
        let mut known = self.known();
        *known = Known { version: known.version + 1, provider: LaneProvider::Unknown };
        // Under the lock that `on_auth_failure` takes, and before the lane wakes: it would find its
        // retries held still.
        self.breaker.close();
        self.services.reset();
        *self.unregister_guards.lock().expect("no holder of the guards panics") =
            Default::default();
        drop(known);
        self.tell(|inbox| inbox.provider_changed = true);
    }

    fn tell(&self, note: impl FnOnce(&mut Inbox)) {
        note(&mut self.inbox.lock().expect("no holder panics"));
        self.wake.notify_one();
    }

    /// The provider, asked for when it is not known.
    pub(crate) async fn provider(&self) -> Result<LaneProvider, StoreError> {
        let (version, provider) = {
            let known = self.known();
            (known.version, known.provider.clone())
        };
        if !matches!(provider, LaneProvider::Unknown) {
            return Ok(provider);
        }
        let found = self.shared.providers.provider(self.app, self.platform.provider()).await?;
        if let Some(found) = &found {
            self.app_id.get_or_init(|| found.app);
        }
        let rate = found.as_ref().and_then(|found| found.rate_per_second);
        let provider =
            found.map_or(LaneProvider::Missing, |found| LaneProvider::Ready(found.provider));
        let mut known = self.known();
        // One that changed while it was read is read again by whoever asks next.
        if known.version == version {
            if let LaneProvider::Ready(_) = known.provider {
                // Somebody was first: what is rendered is rendered for one of them.
                return Ok(known.provider.clone());
            }
            known.provider = provider.clone();
            self.pace.set_rate(rate);
        }
        Ok(provider)
    }

    /// Counts the changes of the provider.
    pub(crate) fn provider_version(&self) -> u64 {
        self.known().version
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.provider.lock().expect("no holder of the provider panics")
    }

    /// Asks circuit breaker, pace and the provider's own limits for one delivery to go out.
    pub(crate) fn admit(&self, now: Timestamp) -> Admission {
        // The breaker last: the delivery that it admits may be the probe.
        if let Admission::Wait(until) = self.breaker.peek(now) {
            return Admission::Wait(until);
        }
        match self.allowed(now).and_then(|()| self.pace.admit(now)) {
            Ok(()) => self.breaker.admit(now),
            Err(until) => Admission::Wait(until),
        }
    }

    /// What the provider's own limits say.
    fn allowed(&self, now: Timestamp) -> Result<(), Timestamp> {
        let allowance = match &self.known().provider {
            LaneProvider::Ready(provider) => provider.allowance(now),
            LaneProvider::Missing | LaneProvider::Unknown => Allowance::Unlimited,
        };
        match allowance {
            Allowance::Unlimited => Ok(()),
            Allowance::PerSecond(rate) => {
                self.own_pace.set_rate(Some(rate));
                self.own_pace.admit(now)
            }
            Allowance::Closed { until } => Err(until),
        }
    }

    /// Whether a device was not sent to so lately that the platform would refuse another message.
    ///
    /// # Errors
    /// When it was: until when.
    pub(crate) fn chat_free(&self, key: DeviceKey, now: Timestamp) -> Result<(), Timestamp> {
        if self.has_chats() { self.chats.free(key, now) } else { Ok(()) }
    }

    /// A device is sent to now.
    pub(crate) fn chat_started(&self, key: DeviceKey, now: Timestamp) {
        if self.has_chats() {
            self.chats.started(key, now);
        }
    }

    fn has_chats(&self) -> bool {
        match self.platform {
            Platform::ChatApp => true,
            Platform::Android | Platform::Ios | Platform::Web | Platform::FbMessenger => false,
        }
    }

    /// Devices are set aside until the service behind them takes some again.
    pub(crate) fn parked_more(&self, devices: usize) {
        self.parked.fetch_add(devices, Ordering::AcqRel);
    }

    /// They are not any more.
    pub(crate) fn parked_fewer(&self, devices: usize) {
        let before = self.parked.fetch_sub(devices, Ordering::AcqRel);
        let most = self.shared.config.lane_parked_max;
        if before >= most && before - devices < most {
            self.look_again();
        }
    }

    fn has_parked(&self) -> bool {
        self.parked.load(Ordering::Acquire) > 0
    }

    /// Has the lane look for what it can take on.
    pub(crate) fn look_again(&self) {
        self.wake.notify_one();
    }

    /// A stream came to its end: its place goes on, unless fewer are allowed by now. Looked at here,
    /// since whoever waits in line gets the place without looking.
    pub(crate) fn stream_ended(&self) {
        self.slots.set_limit(self.slots_max());
        self.slots.give_back(1);
        self.services_may_go();
    }

    /// Streams were given up with the work that they were part of.
    pub(crate) fn streams_dropped(&self, streams: usize) {
        if streams > 0 {
            self.slots.give_back(streams);
            self.services_may_go();
        }
    }

    /// Wakes pages that have set devices aside: the service behind them may take some.
    fn services_may_go(&self) {
        if self.has_parked() {
            self.breaker.wake_waiters();
        }
    }

    /// How many streams may be open now.
    pub(crate) fn slots_max(&self) -> usize {
        match &self.known().provider {
            LaneProvider::Ready(provider) => {
                provider.slots().clamp(1, self.shared.config.lane_streams_max.max(1))
            }
            LaneProvider::Missing | LaneProvider::Unknown => SLOTS_WITHOUT_PROVIDER,
        }
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
        Change::AppChanged(app) if app == lane.app => lane.app_changed(),
        // What it is configured with is read again; nothing is excused.
        Change::Everything => lane.app_changed(),
        Change::PurgeStopped(app, platform) if (app, platform) == (lane.app, lane.platform) => {
            lane.trip_guard();
        }
        Change::ProviderChanged(..)
        | Change::AppChanged(_)
        | Change::PurgeStopped(..)
        | Change::BreakerChanged(..)
        | Change::NotificationDue
        | Change::NotificationScheduled
        | Change::NotificationCanceled(_)
        | Change::DeviceChanged(_)
        | Change::EventsDue(_)
        | Change::CampaignChanged(_)
        | Change::FeedDue
        | Change::FeedChanged(_)
        | Change::KeyRevoked => {}
    }
}

// How many retries of a lane are open: counted in the store now and then, and followed meanwhile.

/// How many retries of a lane are open, as far as this process knows: rather too many than too few,
/// since what is in flight must not pass the bound (trap 12).
#[derive(Debug, Default)]
struct RetryCount(Mutex<State>);

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
struct Counting {
    unwritten: u64,
    added: u64,
}

impl RetryCount {
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

    /// They were committed, or are given up.
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
    fn begin(&self) -> Counting {
        let state = self.lock();
        Counting { unwritten: state.unwritten, added: state.added }
    }

    /// The store counted so many. What was unwritten when the count began, and what came since, is
    /// added, whether or not the store saw it; what ended since is seen by the next count.
    fn counted(&self, begun: Counting, retries: u64) {
        let mut state = self.lock();
        state.open = retries + begun.unwritten + (state.added - begun.added);
    }
}

impl Lane {
    /// Whether so many deliveries are to be tried again that they go first.
    pub(crate) fn has_retries_in_plenty(&self) -> bool {
        self.retries.open() >= self.shared.config.lane_retry_rows_max
    }

    /// Whether so many may be open that they have to be counted: some end without being tried.
    pub(crate) fn may_have_retries_in_plenty(&self) -> bool {
        self.retries.open() >= self.shared.config.lane_retry_rows_max / 2
    }

    /// How many retries are open, counted in the store.
    fn retries_counted(&self, begun: Counting, retries: u64) {
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
        if before >= self.shared.config.lane_retry_rows_max && !self.has_retries_in_plenty() {
            self.breaker.wake_waiters();
        }
    }

    /// Deliveries are to become rows of their own.
    pub(crate) fn retries_more(&self, retries: u64) {
        self.retries.more(retries);
    }

    /// They are, or the page that had them broke off.
    pub(crate) fn retries_written(&self, retries: u64) {
        self.retries.written(retries);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_written_yet_is_in_no_count_of_the_store_but_in_this_one() {
        let count = RetryCount::default();
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
        let count = RetryCount::default();
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
