//! A lane: everything of one application on one platform. It has a gate, slots and a provider of
//! its own, so that one that is slow or refused does not slow another; dispatches of a lane take
//! turns page by page.

mod hand;
mod hearing;
mod others;
mod pages;
mod purge;
mod retry_count;
mod retrying;
mod run;
mod services;
mod singles;
mod throttled;

pub(crate) use hand::Hand;
pub(crate) use hearing::Received;
pub(crate) use purge::Death;
pub(crate) use run::LaneRun;
pub(crate) use services::{Candidate, InService, Service};
pub(crate) use singles::OpenSingle;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use notify_core::{AppId, Platform, Timestamp};
use tokio::sync::Notify;

use self::purge::PurgeWindow;
use self::retry_count::RetryCount;
use self::services::Services;
use self::throttled::Throttled;
use super::gate::{Admission, Gate, Others};
use super::job::Job;
use super::pace::{ChatPace, Pace};
use super::shared::Shared;
use super::singles::Singles;
use super::slots::Slots;
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
    pub(crate) gate: Gate,
    pub(crate) services: Services,
    /// What an administrator set.
    pace: Pace,
    /// What the provider itself takes.
    own_pace: Pace,
    chats: ChatPace,
    /// Addresses that look dead, of production and sandbox.
    purge: Mutex<[PurgeWindow; 2]>,
    /// Devices of all pages that wait for a service.
    parked: AtomicUsize,
    /// Notifications to one device in hand.
    singles: Arc<AtomicUsize>,
    /// Whether anything but these is in hand, or may be: it takes turns with all others.
    has_others: AtomicBool,
    retries: RetryCount,
    throttled: Throttled,
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
        let among = shared.config.among_others.then(|| shared.news.clone());
        let others = among.clone().map(|news| Others::new(news, (app, platform)));
        let probe_every_ms = shared.config.retry.probe_every_ms;
        let lane = Arc::new(Self {
            app,
            platform,
            gate: Gate::new(probe_every_ms, others),
            services: Services::new(probe_every_ms, among.map(|news| (news, (app, platform)))),
            pace: Pace::default(),
            own_pace: Pace::default(),
            chats: ChatPace::default(),
            purge: Mutex::default(),
            parked: AtomicUsize::new(0),
            singles: Arc::default(),
            has_others: AtomicBool::new(true),
            retries: RetryCount::default(),
            throttled: Throttled::default(),
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
        self.gate.nudge();
    }

    /// Tells the lane that its provider was configured anew: what was held goes on at once.
    pub(crate) fn provider_changed(&self) {
        let mut known = self.known();
        *known = Known { version: known.version + 1, provider: LaneProvider::Unknown };
        // Under the lock that `refused` takes, and before the lane wakes: it would find its retries
        // held still.
        self.gate.open();
        self.services.open();
        *self.purge.lock().expect("no holder of the windows panics") = Default::default();
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

    /// Asks gate, pace and the provider's own limits for one delivery to go out.
    pub(crate) fn admit(&self, now: Timestamp) -> Admission {
        // The gate last: what it gives may be the probe.
        if let Admission::Wait(until) = self.gate.peek(now) {
            return Admission::Wait(until);
        }
        match self.allowed(now).and_then(|()| self.pace.admit(now)) {
            Ok(()) => self.gate.admit(now),
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
            self.gate.nudge();
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
            lane.stop_sending();
        }
        Change::ProviderChanged(..)
        | Change::AppChanged(_)
        | Change::PurgeStopped(..)
        | Change::ChannelTold(..)
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
