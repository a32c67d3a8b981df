//! What the operation of a server asks of its storage: how much waits, what is over and can go,
//! and whether it is set up to keep its promises.

use async_trait::async_trait;
use notify_core::{AppId, Platform, Timestamp};

use super::StoreError;
use crate::clock::ClockMark;

/// Most rows of each kind that [`UpkeepStore::queue`] reads. A queue beyond it is told as this long:
/// the figure is for an alarm, and must not cost more the worse things are.
pub const QUEUE_ROWS_MAX: u32 = 20_000;
/// Most devices that [`UpkeepStore::ios_devices`] looks at, the newest first.
pub const DEVICES_SAMPLED_MAX: u32 = 1_000;
/// Rows after which one [`UpkeepStore::delete_over`] is enough: the last notification that it takes
/// a step further may add those of ten pages.
pub const RETENTION_ROWS_MAX: u64 = 1_000;

/// How much waits on one platform.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Queue {
    /// Platform.
    pub platform: Platform,
    /// Deliveries claimed by a page and without an outcome.
    pub sending: u64,
    /// Retries that can be claimed.
    pub retry_due: u64,
    /// Retries that cannot yet, or are claimed.
    pub retry_waiting: u64,
    /// When the oldest thing that is due and not done was due.
    pub oldest_due_at: Option<Timestamp>,
}

impl Queue {
    /// Nothing waits.
    #[must_use]
    pub fn empty(platform: Platform) -> Self {
        Self { platform, sending: 0, retry_due: 0, retry_waiting: 0, oldest_due_at: None }
    }
}

/// What is over. A notification's age counts from its end, a report's from when it came in; one
/// that has not ended stays, whatever its age. `None` keeps for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Over {
    /// Answers kept for replay that came before (B8).
    pub answers_before: Timestamp,
    /// Outcomes device by device, of notifications that ended before. Their counts stay.
    pub outcomes_before: Option<Timestamp>,
    /// Engagement device by device, of notifications that ended before. Its counts stay.
    pub events_before: Option<Timestamp>,
    /// Notifications that ended before, with all that hangs on them; their ids are free again.
    pub notifications_before: Option<Timestamp>,
    /// Devices that a browser registered without an API key, that took no message yet and were last
    /// seen before.
    pub anonymous_before: Option<Timestamp>,
    /// Now.
    pub at: Timestamp,
}

/// What one step of [`UpkeepStore::delete_over`] deleted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Deleted {
    /// Answers.
    pub answers: u64,
    /// Notifications whose outcomes are gone now.
    pub outcomes: u64,
    /// Notifications whose events are gone now.
    pub events: u64,
    /// Notifications that are gone now.
    pub notifications: u64,
    /// Anonymous devices that are gone now.
    pub anonymous_devices: u64,
    /// Whether there is more.
    pub more: bool,
}

/// How storage is set up, and how much room it has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StorageReport {
    /// Which backend.
    pub backend: &'static str,
    /// How changes reach the file: `wal`.
    pub journal_mode: String,
    /// What a commit waits for: `full` is the disk (B9).
    pub synchronous: String,
    /// Size of the database, in bytes.
    pub database_bytes: u64,
    /// Size of its log, in bytes.
    pub log_bytes: u64,
    /// Room left where it lies, in bytes; `None` where the system does not tell.
    pub free_bytes: Option<u64>,
}

/// How the newest iOS devices of an application were registered.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IosDevices {
    /// How many were looked at.
    pub sampled: u64,
    /// Of them with the development environment (B35).
    pub sandbox: u64,
    /// Their `store_identifier`s, the most frequent first, with how many have it; those without are
    /// not listed.
    pub store_identifiers: Vec<(String, u64)>,
}

/// What the operation of a server asks.
#[async_trait]
pub trait UpkeepStore {
    /// How much waits at that instant, every platform listed.
    async fn queue(&self, now: Timestamp) -> Result<Vec<Queue>, StoreError>;

    /// Deletes some of what is over: one transaction, about [`RETENTION_ROWS_MAX`] rows. Repeated
    /// until nothing is left; whatever stops it in between, the next one goes on.
    async fn delete_over(&self, over: Over) -> Result<Deleted, StoreError>;

    /// What was kept of the clock; `None` before the first time, and after a confirmation.
    async fn clock_mark(&self) -> Result<Option<ClockMark>, StoreError>;

    /// Keeps what is trusted of the clock. Answers whether a leap that the mark doubts was confirmed
    /// meanwhile, by an operator or through another server; nothing is kept then.
    async fn keep_clock(&self, mark: ClockMark) -> Result<bool, StoreError>;

    /// Has the servers of this storage trust their clock; false when none doubts it.
    async fn confirm_clock(&self) -> Result<bool, StoreError>;

    /// How storage is set up.
    async fn storage(&self) -> Result<StorageReport, StoreError>;

    /// The newest iOS devices of an application, at most [`DEVICES_SAMPLED_MAX`].
    async fn ios_devices(&self, app: AppId) -> Result<IosDevices, StoreError>;

    /// How often work was given up since the opening because another process held the database.
    fn busy(&self) -> u64;

    /// Transactions that this process committed since the opening; one may hold many writes.
    fn commits(&self) -> u64;
}
