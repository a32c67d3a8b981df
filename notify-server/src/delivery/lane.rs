//! A lane: everything of one application on one platform. It has a gate, slots and a provider of
//! its own, so that one that is slow or refused does not slow another; dispatches of a lane take
//! turns page by page.

mod pages;
mod retrying;
mod run;

pub(crate) use run::LaneRun;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use notify_core::{Platform, Timestamp};
use tokio::sync::Notify;

use super::gate::{Admission, Gate};
use super::job::Job;
use super::pace::Pace;
use super::shared::Shared;
use super::slots::Slots;
use crate::providers::{Answer, Certainty, Reason, SharedProvider};
use crate::store::{AppNo, Change, OpenPage, StoreError};

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
    pace: Pace,
    pub(crate) slots: Arc<Slots>,
    pub(crate) shared: Arc<Shared>,
    provider: Mutex<Known>,
    inbox: Mutex<Inbox>,
    wake: Notify,
}

/// What the engine hands to a lane.
#[derive(Default)]
struct Inbox {
    dispatches: VecDeque<Arc<Job>>,
    pages: VecDeque<OpenPage>,
    retries_due: bool,
    provider_changed: bool,
}

impl Lane {
    pub(crate) fn new(app: AppNo, platform: Platform, shared: Arc<Shared>) -> Arc<Self> {
        Arc::new(Self {
            app,
            platform,
            gate: Gate::new(shared.config.retry.probe_every_ms),
            pace: Pace::default(),
            slots: Slots::new(SLOTS_WITHOUT_PROVIDER),
            shared,
            provider: Mutex::new(Known { version: 0, provider: LaneProvider::Unknown }),
            inbox: Mutex::default(),
            wake: Notify::new(),
        })
    }

    /// Gives the lane a dispatch whose scan is not done.
    pub(crate) fn add_dispatch(&self, job: Arc<Job>) {
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

    /// Tells the lane that its provider was configured anew: what was held goes on at once.
    pub(crate) fn provider_changed(&self) {
        let mut known = self.known();
        *known = Known { version: known.version + 1, provider: LaneProvider::Unknown };
        // Under the lock that `hold` takes, and before the lane wakes: it would find its retries
        // held still.
        self.gate.open();
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
        let rate = found.as_ref().and_then(|found| found.rate_per_second);
        let provider =
            found.map_or(LaneProvider::Missing, |found| LaneProvider::Ready(found.provider));
        let mut known = self.known();
        // One that changed while it was read is read again by whoever asks next.
        if known.version == version {
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

    /// Asks gate and pace for one delivery to go out.
    pub(crate) fn admit(&self, now: Timestamp) -> Admission {
        // The pace first: what it takes back is nothing, what the gate gives may be the probe.
        match self.pace.admit(now) {
            Ok(()) => self.gate.admit(now),
            Err(until) => Admission::Wait(until),
        }
    }

    /// Takes note of what an answer says of the provider as a whole; that of a provider that was
    /// changed since says nothing of the one that is there now.
    pub(crate) fn heard(&self, answer: &Answer, version: u64, now: Timestamp) {
        if version != self.provider_version() {
            return;
        }
        match answer {
            // The decision about it holds the gate.
            Answer::Config { .. } => {}
            Answer::Retry { outcome: Certainty::NotProcessed, reason, .. } => {
                if self.gate.unreachable(now) {
                    tracing::warn!(
                        app.no = self.app.0,
                        platform = %self.platform,
                        %reason,
                        "the provider cannot be reached; deliveries wait and are tried again"
                    );
                }
            }
            Answer::Delivered { .. }
            | Answer::TokenDead { .. }
            | Answer::Retry { .. }
            | Answer::Throttle { .. }
            | Answer::BadMessage { .. }
            | Answer::Policy { .. }
            | Answer::ServiceRefused { .. }
            | Answer::Moved { .. }
            | Answer::Unknown { .. } => self.gate.answered(),
        }
    }

    /// Pauses the lane: the provider asks to slow down.
    pub(crate) fn pause(&self, until: Timestamp, version: u64) {
        if version == self.provider_version() {
            self.gate.pause(until);
        }
    }

    /// Holds the lane: the provider refuses our credentials (B40), unless they are others by now.
    pub(crate) fn hold(&self, reason: &Reason, version: u64, now: Timestamp) {
        // Locked until the gate is held: a change in between would be held for its predecessor.
        let known = self.known();
        if version == known.version && self.gate.hold(reason, now) {
            tracing::warn!(
                app.no = self.app.0,
                platform = %self.platform,
                %reason,
                "the provider refuses our credentials; deliveries are held"
            );
        }
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
        Change::AppChanged(app) if app == lane.app => lane.provider_changed(),
        Change::ProviderChanged(..)
        | Change::AppChanged(_)
        | Change::NotificationDue
        | Change::NotificationScheduled
        | Change::NotificationCanceled(_)
        | Change::DeviceChanged(_)
        | Change::KeyRevoked => {}
    }
}
