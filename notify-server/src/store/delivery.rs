//! What the delivery engine keeps: dispatches, pages, checkpoints and retries.
//!
//! ```text
//! accepted ──start──▶ dispatch ──open_page──▶ page ──checkpoint…──▶ done
//!                 │      │ cursor             ▲  │
//!                 │      └── scan_done        │  └──▶ retry ──settle──▶ done
//!                 └── to one device ──────────┘
//! ```

mod dispatch;
mod page;
mod retry;

use std::collections::BTreeSet;

use async_trait::async_trait;
use notify_core::{Platform, Timestamp};

pub use dispatch::*;
pub use page::*;
pub use retry::*;

use super::{AppNo, DeviceKey, DeviceOutcome, DispatchNo, StoreError};

/// How many answers back an address that looks dead counts for the guard (B40).
pub(crate) const GUARD_ANSWERS: u32 = 1_000;
/// Most addresses that look dead within that many answers: 2 % of them.
pub(crate) const GUARD_DEAD_MAX: usize = 20;

/// A process that works on pages: drawn at random at each start, so that no two are alike and one
/// that was relieved cannot pass for its successor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Epoch(pub i64);

/// How a process takes over open pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Adoption {
    /// Whose they are from now on.
    pub epoch: Epoch,
    /// The instant now.
    pub now: Timestamp,
    /// Until when they are.
    pub lease_until: Timestamp,
    /// Whether other servers may work on the same storage: what is held by one that is alive stays
    /// its own. Where a lock of the storage proves that there are none, everything is taken.
    pub beside_others: bool,
}

/// A server says that it lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heartbeat {
    /// Which.
    pub epoch: Epoch,
    /// The instant now.
    pub now: Timestamp,
    /// Until when it counts as alive.
    pub lease_until: Timestamp,
}

/// What a server learns of the others when it says that it lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Others {
    /// Servers alive, this one included.
    pub servers: u32,
    /// Whether pages or retries are held by one that is not.
    pub left_behind: bool,
}

/// What this process takes over.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Adopted {
    /// Pages that were open; they are this epoch's now.
    pub pages: Vec<OpenPage>,
    /// Dispatches whose scan is not done.
    pub dispatches: Vec<DispatchNo>,
}

/// Which due notifications are started.
#[derive(Debug, Clone)]
pub struct StartDue {
    /// Those due by then.
    pub now: Timestamp,
    /// At most so many.
    pub limit: u32,
    /// Opens the page of a notification to one device in the same transaction.
    pub opening: Option<Opening>,
}

/// Decides what to start in a commit that accepts a notification which is due; `None` leaves it to
/// [`DeliveryStore::start`]. Called on the writer's thread.
pub type StartHook = Box<dyn Fn() -> Option<StartWithAccept> + Send + Sync>;

/// A start in the commit that accepts a notification.
pub struct StartWithAccept {
    /// What to start.
    pub due: StartDue,
    /// Called with what was started, before anything else is written; with `None` when the commit failed
    /// or is in doubt. Dropped when the start failed.
    pub done: Box<dyn FnOnce(Option<Started>) + Send>,
}

/// Who gets the pages that a start opens.
#[derive(Debug, Clone)]
pub struct Opening {
    /// The process.
    pub epoch: Epoch,
    /// Until when the pages are its own.
    pub lease_until: Timestamp,
    /// Where it takes such pages; dispatches of other applications and platforms are made without.
    pub lanes: BTreeSet<(AppNo, Platform)>,
}

/// What a start made.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Started {
    /// Dispatches whose pages are yet to be opened.
    pub dispatches: Vec<DispatchNo>,
    /// Notifications to one device each, with their only page.
    pub opened: Vec<OpenedDispatch>,
    /// What is to be done after that.
    pub agenda: Agenda,
}

/// A dispatch to one device whose only page is open.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenedDispatch {
    /// The dispatch, with nothing left to claim.
    pub dispatch: Dispatch,
    /// Its page.
    pub page: OpenPage,
    /// The device, which can be sent to.
    pub device: AudienceDevice,
}

/// What is to be done, as of one instant.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Agenda {
    /// When the next notification is due.
    pub next_due: Option<Timestamp>,
    /// Applications and platforms with retries that are due.
    pub retry_lanes: Vec<(AppNo, Platform)>,
    /// When the next retry is due.
    pub next_retry_due: Option<Timestamp>,
}

/// Dispatches, pages, checkpoints and retries.
#[async_trait]
pub trait DeliveryStore {
    /// Takes over open pages, those of this epoch too, and frees the retries that other epochs had
    /// claimed: at the start, whenever something is in doubt, and when another server died.
    async fn adopt(&self, adoption: Adoption) -> Result<Adopted, StoreError>;

    /// Says that a server lives, and tells how the others are. Those that have been dead for a day
    /// are forgotten.
    async fn heartbeat(&self, beat: Heartbeat) -> Result<Others, StoreError>;

    /// A server has stopped: what it still holds may be taken at once.
    async fn leave(&self, epoch: Epoch) -> Result<(), StoreError>;

    /// Dispatches whose keys are not all claimed, the oldest first, at most `limit`.
    async fn unread_dispatches(&self, limit: u32) -> Result<Vec<DispatchNo>, StoreError>;

    /// Which of these dispatches are canceled.
    async fn canceled_among(
        &self,
        dispatches: Vec<DispatchNo>,
    ) -> Result<Vec<DispatchNo>, StoreError>;

    /// Makes dispatches of notifications that are due, oldest due first: resolves named ids (and
    /// counts the unknown), fixes the audience of those that were scheduled, and ends at once those
    /// whose audience is empty of platforms. One that names a single device which can be sent to has
    /// its page opened with it, where that is asked for.
    async fn start(&self, start: StartDue) -> Result<Started, StoreError>;

    /// Has notifications that are due when they are accepted started in the same commit from now on.
    fn start_with_accept(&self, hook: StartHook);

    /// The same, opening no page: the new dispatches, and whether more are due.
    #[cfg(any(test, feature = "testing"))]
    async fn start_due(
        &self,
        now: Timestamp,
        limit: u32,
    ) -> Result<(Vec<DispatchNo>, bool), StoreError> {
        let started = self.start(StartDue { now, limit, opening: None }).await?;
        Ok((started.dispatches, started.agenda.next_due.is_some_and(|due| due <= now)))
    }

    /// What is to be done at that instant, and when there is more.
    async fn agenda(&self, now: Timestamp) -> Result<Agenda, StoreError>;

    /// Reads a dispatch.
    async fn dispatch(&self, no: DispatchNo) -> Result<Dispatch, StoreError>;

    /// How far the pages of a dispatch have come; `None` once every key is claimed, or it is gone.
    async fn scan(&self, no: DispatchNo) -> Result<Option<Scan>, StoreError>;

    /// Reads the devices after `after`, at most `rows_max` rows.
    async fn read_slice(
        &self,
        dispatch: &Dispatch,
        after: DeviceKey,
        rows_max: u32,
    ) -> Result<Slice, StoreError>;

    /// Reads the devices of `(from, to]` again, as they are now.
    async fn read_range(
        &self,
        dispatch: &Dispatch,
        from: DeviceKey,
        to: DeviceKey,
    ) -> Result<Vec<AudienceDevice>, StoreError>;

    /// Claims `(cursor, to]` as a page and moves the cursor; `end` ends the scan, and a dispatch
    /// without open pages and retries with it. [`StoreError::Fenced`] when the cursor is not at
    /// `from` any more. `targeted` and `excluded` are what the slice showed.
    async fn open_page(&self, claim: PageClaim) -> Result<OpenPage, StoreError>;

    /// The devices of an adopted page that have an outcome or a retry, sorted: what a process that
    /// adopts it must skip.
    async fn page_done(&self, page: &OpenPage) -> Result<Vec<DeviceKey>, StoreError>;

    /// Commits what happened on a page: a compare-and-set on epoch and checkpoint number.
    /// Answers the page as it is now. The last checkpoint of the last page ends the dispatch, and
    /// the last dispatch the notification.
    async fn checkpoint(&self, checkpoint: Checkpoint) -> Result<OpenPage, StoreError>;

    /// Commits the last checkpoints of several pages as one; of each, whether it was still to be had
    /// ([`StoreError::Fenced`] where not). Any other error concerns all of them.
    async fn finish_pages(
        &self,
        checkpoints: Vec<Checkpoint>,
    ) -> Result<Vec<Result<OpenPage, StoreError>>, StoreError>;

    /// How many retries of that application and platform are open.
    async fn open_retries(&self, app: AppNo, platform: Platform) -> Result<u64, StoreError>;

    /// Takes at most `limit` due retries of one application and platform, the longest due first;
    /// until `lease_until` nobody else gets them. `in_hand` are left out.
    /// With `after_lost` those come too that the same claimer got without hearing of it.
    async fn claim_retries(&self, claim: RetryClaim) -> Result<Vec<ClaimedRetry>, StoreError>;

    /// Commits what became of claimed retries. Those that this epoch does not hold any more, or
    /// that were ended meanwhile (canceled, erased), are left as they are.
    async fn settle_retries(
        &self,
        epoch: Epoch,
        outcomes: Vec<RetryOutcome>,
        at: Timestamp,
    ) -> Result<(), StoreError>;

    /// Whether a device has an outcome, or waits to be tried again, in another zone of the same
    /// notification: it changed its zone meanwhile (B19).
    async fn had_in_another_zone(
        &self,
        dispatch: DispatchNo,
        key: DeviceKey,
    ) -> Result<bool, StoreError>;

    /// The other dispatches of the same notification on the same platform.
    async fn other_zones(&self, dispatch: DispatchNo) -> Result<Vec<DispatchNo>, StoreError>;

    /// Whether a newer notification with the same `collapse_key` went to that device: a retry of
    /// this one would overwrite it.
    async fn overtaken(&self, dispatch: DispatchNo, key: DeviceKey) -> Result<bool, StoreError>;

    /// Whether so many addresses of an application looked dead at once that nothing is sent before
    /// an administrator says so (B40).
    async fn purge_stopped(&self, app: AppNo, platform: Platform) -> Result<bool, StoreError>;

    /// The platforms of an application of which that is so.
    async fn platforms_stopped(&self, app: AppNo) -> Result<Vec<Platform>, StoreError>;

    /// How the delivery of a dispatch to one device ended or stands: its outcome, if it has one.
    async fn delivery_outcome(
        &self,
        dispatch: DispatchNo,
        key: DeviceKey,
    ) -> Result<Option<DeviceOutcome>, StoreError>;
}
