//! A lane: everything of one application on one platform. It has a gate, slots and a provider of
//! its own, so that one that is slow or refused does not slow another; dispatches of a lane take
//! turns page by page.

mod run;

pub(crate) use run::LaneRun;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

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

/// What the pages and retries of a lane share.
pub(crate) struct Lane {
    pub(crate) app: AppNo,
    pub(crate) platform: Platform,
    pub(crate) gate: Gate,
    pace: Pace,
    pub(crate) slots: Arc<Slots>,
    pub(crate) shared: Arc<Shared>,
    provider: Mutex<LaneProvider>,
    /// How often the provider was configured anew; changes under the provider's lock.
    provider_changes: AtomicU64,
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
            provider: Mutex::new(LaneProvider::Unknown),
            provider_changes: AtomicU64::new(0),
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
        {
            let mut provider = self.provider.lock().expect("no holder panics");
            *provider = LaneProvider::Unknown;
            self.provider_changes.fetch_add(1, Ordering::AcqRel);
            // Under the same lock as `hold`, and before the lane wakes: it would find its retries
            // held still.
            self.gate.open();
        }
        self.tell(|inbox| inbox.provider_changed = true);
    }

    fn tell(&self, note: impl FnOnce(&mut Inbox)) {
        note(&mut self.inbox.lock().expect("no holder panics"));
        self.wake.notify_one();
    }

    /// The provider, asked for when it is not known.
    pub(crate) async fn provider(&self) -> Result<LaneProvider, StoreError> {
        let (known, changes) = {
            let provider = self.provider.lock().expect("no holder panics");
            (provider.clone(), self.provider_changes.load(Ordering::Acquire))
        };
        if !matches!(known, LaneProvider::Unknown) {
            return Ok(known);
        }
        let found = self.shared.providers.provider(self.app, self.platform.provider()).await?;
        let rate = found.as_ref().and_then(|found| found.rate_per_second);
        let found =
            found.map_or(LaneProvider::Missing, |found| LaneProvider::Ready(found.provider));
        let mut provider = self.provider.lock().expect("no holder panics");
        // What was read before a change may be what it was before.
        if self.provider_changes.load(Ordering::Acquire) == changes {
            self.pace.set_rate(rate);
            *provider = found.clone();
        }
        Ok(found)
    }

    /// Asks gate and pace for one delivery to go out.
    pub(crate) fn admit(&self, now: Timestamp) -> Admission {
        // The pace first: what it takes back is nothing, what the gate gives may be the probe.
        match self.pace.admit(now) {
            Ok(()) => self.gate.admit(now),
            Err(until) => Admission::Wait(until),
        }
    }

    /// Takes note of what an answer says of the provider as a whole.
    pub(crate) fn heard(&self, answer: &Answer, now: Timestamp) {
        match answer {
            // The decision about it holds the gate.
            Answer::Config { .. } => {}
            Answer::Retry { outcome: Certainty::NotProcessed, .. } => self.gate.unreachable(now),
            Answer::Delivered { .. }
            | Answer::TokenDead { .. }
            | Answer::Retry { .. }
            | Answer::Throttle { .. }
            | Answer::BadMessage { .. }
            | Answer::Policy { .. }
            | Answer::Unknown { .. } => self.gate.answered(),
        }
    }

    /// Holds the lane: the provider refuses our credentials (B40), unless these were `refused` as
    /// they were before: a late answer must not hold what was mended meanwhile.
    pub(crate) fn hold(&self, reason: &Reason, refused: &SharedProvider, now: Timestamp) {
        let provider = self.provider.lock().expect("no holder panics");
        let is_current = match &*provider {
            LaneProvider::Ready(current) => Arc::ptr_eq(current, refused),
            LaneProvider::Missing | LaneProvider::Unknown => false,
        };
        if is_current && self.gate.hold(reason, now) {
            tracing::warn!(
                app.no = self.app.0,
                platform = %self.platform,
                %reason,
                "the provider refuses our credentials; deliveries are held"
            );
        }
    }

    /// How many streams may be open now.
    pub(crate) fn slots_max(&self) -> usize {
        match &*self.provider.lock().expect("no holder panics") {
            LaneProvider::Ready(provider) => provider.slots().max(1),
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
