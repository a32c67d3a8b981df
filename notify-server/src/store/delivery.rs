//! What the delivery engine keeps: dispatches, pages, checkpoints and retries.
//!
//! ```text
//! accepted ──start_due──▶ dispatch ──open_page──▶ page ──checkpoint…──▶ done
//!                            │ cursor                │
//!                            └── scan_done           └──▶ retry ──settle──▶ done
//! ```

use std::borrow::Cow;

use async_trait::async_trait;
use notify_core::{AppId, IosEnv, NotificationId, Platform, Timestamp};

use super::{
    AppNo, DeviceKey, DeviceOutcome, DispatchNo, NotificationNo, PageNo, RetryNo, Settled,
    StoreError,
};

/// A process that works on pages: drawn at random at each start, so that no two are alike and one
/// that was relieved cannot pass for its successor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Epoch(pub i64);

/// One notification on one platform.
#[derive(Debug, Clone, PartialEq)]
pub struct Dispatch {
    /// Number.
    pub no: DispatchNo,
    /// Its notification.
    pub notification: NotificationNo,
    /// Its notification's id.
    pub notification_id: NotificationId,
    /// Its application.
    pub app: AppNo,
    /// Its application's id.
    pub app_id: AppId,
    /// Its application's name, the title of what names none (B34).
    pub app_name: String,
    /// Platform.
    pub platform: Platform,
    /// The body of the request, from which the payload is rendered.
    pub request: String,
    /// Public address of its poll.
    pub poll_public_id: Option<uuid::Uuid>,
    /// What its devices are drawn from.
    pub source: Source,
    /// The last key claimed by a page.
    pub cursor: DeviceKey,
    /// The last key of the audience: who registers later is not in it, whatever the clock says.
    pub until: DeviceKey,
    /// Whether every key up to `until` is claimed.
    pub scan_done: bool,
    /// Whether it was canceled by request: what is left is counted, not sent.
    pub canceled: bool,
    /// When it was due.
    pub due_at: Timestamp,
    /// `ttl_seconds` of B19; counted from `due_at`.
    pub ttl_seconds: u32,
}

/// What the devices of a dispatch are drawn from. Each bounds what is read, not what matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// Every device of the platform.
    Platform,
    /// The devices that have this tag, over the tag's own index.
    Tag(String),
    /// These devices, resolved from ids and sorted; of them those with the tag, if one is named.
    Named {
        /// Keys in order.
        keys: Vec<DeviceKey>,
        /// Only those that have this tag.
        tag: Option<String>,
    },
}

/// A device as the engine sees it when its turn comes.
#[derive(Clone, PartialEq, Eq)]
pub struct AudienceDevice {
    /// Key.
    pub key: DeviceKey,
    /// Push token or other address; `None`: without an address.
    pub address: Option<Box<str>>,
    /// APNs host.
    pub ios_env: IosEnv,
    /// Enabled (B22) and, where a tag is named, having it.
    pub eligible: bool,
    /// The device that had this address before, and since when it has not: one
    /// that was sent to there in this dispatch is not sent to twice.
    pub taken_from: Option<(DeviceKey, Timestamp)>,
}

impl std::fmt::Debug for AudienceDevice {
    /// Never shows the address.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AudienceDevice")
            .field("key", &self.key)
            .field("has_address", &self.address.is_some())
            .field("eligible", &self.eligible)
            .finish_non_exhaustive()
    }
}

/// The next part of an audience.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slice {
    /// Every device read, in key order, eligible or not.
    pub devices: Vec<AudienceDevice>,
    /// The last key that this part covers, whether or not a device has it.
    pub to: DeviceKey,
    /// Whether the audience ends here.
    pub end: bool,
}

/// A page: the keys in `(from, to]` of a dispatch, worked on by one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenPage {
    /// Number.
    pub no: PageNo,
    /// Its dispatch.
    pub dispatch: DispatchNo,
    /// The key before its first.
    pub from: DeviceKey,
    /// Its last key.
    pub to: DeviceKey,
    /// Who works on it.
    pub epoch: Epoch,
    /// How many checkpoints it has; the next one carries this number.
    pub checkpoint_no: i64,
    /// Until when the process may work on it without renewing.
    pub lease_until: Timestamp,
}

/// A delivery that is to be tried again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRetry {
    /// The device.
    pub key: DeviceKey,
    /// Attempts made so far.
    pub attempts: u16,
    /// When the first was made.
    pub first_attempt_at: Timestamp,
    /// When the next is due.
    pub due_at: Timestamp,
    /// Why the last one failed.
    pub reason: Cow<'static, str>,
    /// How many attempts had an unknown outcome (B39).
    pub unknown_outcomes: u16,
}

/// A provider's report that an address is dead.
#[derive(Clone, PartialEq, Eq)]
pub struct DeadAddress {
    /// The device.
    pub key: DeviceKey,
    /// The address that was sent to: a device that has another one now is spared.
    pub address: Box<str>,
    /// The APNs host that it was sent to: a device that has another one now is spared too (B22).
    pub ios_env: IosEnv,
    /// The provider's word.
    pub reason: Cow<'static, str>,
    /// Since when; a device registered later is spared (B22).
    pub since: Option<Timestamp>,
    /// When the report came.
    pub at: Timestamp,
}

impl std::fmt::Debug for DeadAddress {
    /// Never shows the address.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DeadAddress").field("key", &self.key).finish_non_exhaustive()
    }
}

/// What happened on a page since its last checkpoint; committed as one.
#[derive(Debug, Clone, PartialEq)]
pub struct Checkpoint {
    /// The page, as the worker knows it. Compared with the row's epoch and checkpoint number.
    pub page: OpenPage,
    /// Deliveries that ended.
    pub settled: Vec<DeviceOutcome>,
    /// Deliveries that become rows of their own.
    pub retries: Vec<NewRetry>,
    /// Addresses to disable.
    pub dead: Vec<DeadAddress>,
    /// Devices known now to be targeted on this page, settled and retried ones included.
    pub targeted: u64,
    /// Named devices of this page that were left out (B20).
    pub excluded: u64,
    /// When this happened.
    pub at: Timestamp,
    /// The new end of the lease.
    pub lease_until: Timestamp,
    /// Whether nothing of the page is left.
    pub finished: bool,
}

/// What of a page is settled already: what a process that adopts it must skip.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PageProgress {
    /// Devices with an outcome or a retry, sorted.
    pub done: Vec<DeviceKey>,
    /// Named devices left out so far.
    pub excluded: u64,
}

/// A retry that this process works on now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimedRetry {
    /// Number.
    pub no: RetryNo,
    /// Its dispatch.
    pub dispatch: DispatchNo,
    /// The device.
    pub key: DeviceKey,
    /// The device as it is now; `None`: erased meanwhile.
    pub device: Option<AudienceDevice>,
    /// Attempts made so far.
    pub attempts: u16,
    /// When the first was made.
    pub first_attempt_at: Timestamp,
    /// How many attempts had an unknown outcome.
    pub unknown_outcomes: u16,
}

/// What became of a claimed retry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RetryStep {
    /// It ended.
    Settled {
        /// How.
        settled: Settled,
        /// Why.
        reason: Option<Cow<'static, str>>,
        /// Attempts made.
        attempts: u16,
    },
    /// It is to be tried again.
    Again {
        /// Attempts made so far.
        attempts: u16,
        /// When the next is due.
        due_at: Timestamp,
        /// Why the last one failed.
        reason: Cow<'static, str>,
        /// How many attempts had an unknown outcome.
        unknown_outcomes: u16,
    },
}

/// A retry's step, with the address to disable when it showed one dead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryOutcome {
    /// The retry.
    pub no: RetryNo,
    /// What became of it.
    pub step: RetryStep,
    /// The address to disable.
    pub dead: Option<DeadAddress>,
}

/// What this process takes over at its start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Adopted {
    /// Pages that were open; they are this epoch's now.
    pub pages: Vec<OpenPage>,
    /// Dispatches whose scan is not done.
    pub dispatches: Vec<DispatchNo>,
}

/// Dispatches, pages, checkpoints and retries.
#[async_trait]
pub trait DeliveryStore {
    /// Takes over everything unfinished: pages and claimed retries of other epochs are this one's.
    /// On SQLite the file lock proves that nobody else works on them.
    async fn adopt(&self, epoch: Epoch, lease_until: Timestamp) -> Result<Adopted, StoreError>;

    /// Makes dispatches of at most `limit` notifications that are due, oldest due first: resolves
    /// named ids (and counts the unknown), fixes the audience of those that were scheduled, and
    /// ends at once those whose audience is empty of platforms. Answers the new dispatches, and
    /// whether more are due.
    async fn start_due(
        &self,
        now: Timestamp,
        limit: u32,
    ) -> Result<(Vec<DispatchNo>, bool), StoreError>;

    /// When the next scheduled notification is due.
    async fn next_due(&self) -> Result<Option<Timestamp>, StoreError>;

    /// Reads a dispatch.
    async fn dispatch(&self, no: DispatchNo) -> Result<Dispatch, StoreError>;

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

    /// What of an adopted page is settled already.
    async fn page_progress(&self, page: &OpenPage) -> Result<PageProgress, StoreError>;

    /// Commits what happened on a page: a compare-and-set on epoch and checkpoint number.
    /// Answers the page as it is now. The last checkpoint of the last page ends the dispatch, and
    /// the last dispatch the notification.
    async fn checkpoint(&self, checkpoint: Checkpoint) -> Result<OpenPage, StoreError>;

    /// Applications and platforms that have retries due.
    async fn retry_lanes(&self, now: Timestamp) -> Result<Vec<(AppNo, Platform)>, StoreError>;

    /// When the next retry is due.
    async fn next_retry_due(&self) -> Result<Option<Timestamp>, StoreError>;

    /// How many retries of that application and platform are open.
    async fn open_retries(&self, app: AppNo, platform: Platform) -> Result<u64, StoreError>;

    /// Takes at most `limit` due retries of one application and platform; until `lease_until`
    /// nobody else gets them.
    async fn claim_retries(&self, claim: RetryClaim) -> Result<Vec<ClaimedRetry>, StoreError>;

    /// Commits what became of claimed retries. Those that this epoch does not hold any more, or
    /// that were ended meanwhile (canceled, erased), are left as they are.
    async fn settle_retries(
        &self,
        epoch: Epoch,
        outcomes: Vec<RetryOutcome>,
        at: Timestamp,
    ) -> Result<(), StoreError>;

    /// How the delivery of a dispatch to one device ended or stands: its outcome, if it has one.
    async fn delivery_outcome(
        &self,
        dispatch: DispatchNo,
        key: DeviceKey,
    ) -> Result<Option<DeviceOutcome>, StoreError>;
}

/// A claim of the next page of a dispatch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageClaim {
    /// The dispatch.
    pub dispatch: DispatchNo,
    /// Where its cursor was when the slice was read.
    pub from: DeviceKey,
    /// Last key of the slice.
    pub to: DeviceKey,
    /// Whether the audience ends there.
    pub end: bool,
    /// Eligible devices with an address that the slice showed.
    pub targeted: u64,
    /// Named devices of the slice that are left out.
    pub excluded: u64,
    /// Who claims.
    pub epoch: Epoch,
    /// Until when.
    pub lease_until: Timestamp,
    /// Now.
    pub at: Timestamp,
}

/// A claim of due retries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryClaim {
    /// Application.
    pub app: AppNo,
    /// Platform.
    pub platform: Platform,
    /// Most rows.
    pub limit: u32,
    /// Who claims.
    pub epoch: Epoch,
    /// Until when.
    pub lease_until: Timestamp,
    /// Now.
    pub now: Timestamp,
}
