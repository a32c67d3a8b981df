//! Everything that is kept: one struct, whose methods are named after what the product does, each one
//! transaction. A resource has its types, methods and SQL in a file. SQL stores and selects, Rust decides:
//! ids, times, percentages and retry times come in as values.
//!
//! Each statement is written once, for both databases: `sql/` runs it, `sqlite/` and `postgres/` open
//! theirs. No other part of the server knows SQL. Nothing here logs.
//!
//! To add an operation: write the method in the file of its resource, name it in [`Operation`] if it
//! writes, and state its promises in `contract/`.

mod app;
mod breaker;
mod campaign;
mod change;
#[cfg(any(test, feature = "testing"))]
pub mod contract;
mod day;
mod delivery;
mod device;
mod engagement;
mod error;
mod event;
mod feed;
mod inbound;
mod key;
#[cfg(test)]
mod leading;
pub mod moving;
mod notification;
mod once;
mod operation;
mod outcome;
mod page;
mod patience;
mod poll;
pub mod postgres;
mod provider;
pub mod sql;
pub mod sqlite;
mod upkeep;
mod web;
mod webhook;

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};

use notify_core::Timestamp;
use serde::Serialize;

pub use self::app::{AppAccess, NewKey};
pub use self::breaker::{BreakerKey, BreakerRecord, BreakerUpdate};
pub use self::campaign::{CampaignDraft, ShownCampaign, ShownFeed};
pub use self::change::{Change, ChangeListener};
pub use self::delivery::{
    AddressTrust, Adopted, Adoption, Agenda, AudienceDevice, Checkpoint, ClaimedRetry, DeadAddress,
    Dispatch, Epoch, Heartbeat, MovedAddress, NewRetry, OpenPage, OpenedDispatch, Opening, Others,
    PageClaim, RetryClaim, RetryOutcome, RetryStep, Scan, Slice, Source, StartDue, StartHook,
    StartWithAccept, Started, VerifiedAddress, WebKeys, Zone,
};
pub(crate) use self::delivery::{GUARD_ANSWERS, GUARD_DEAD_MAX};
pub use self::device::{DeviceFilter, REGISTRATION_WRITTEN_EVERY_MS};
pub use self::error::{BackendError, StoreError};
pub use self::event::{
    EVENTS_KEPT_MAX, EVENTS_KEPT_MS, EVENTS_PER_READ_MAX, EventSlice, EventTypes, ReadFrom,
    STREAM_WANTED_MS, ToldEvent, Trimmed, event_type_code,
};
pub use self::feed::{
    FEEDS_MAX, FeedClaim, FeedFetch, FeedItemRow, FeedItems, FeedNo, Moved, Validators,
};
pub use self::inbound::{Act, INBOUND_WRITTEN_EVERY_MS, Inbound, Newcomer, Recipient};
pub use self::key::{
    APPS_MAX, AppNo, COUNT_BITS, COUNT_MAX, DeviceKey, DispatchNo, NotificationNo, PageNo, RetryNo,
    SEQUENCE_MAX, platform_code, platform_of,
};
pub use self::notification::{
    DeliveryFacts, DeviceFacts, NewNotification, NewReport, NotificationFacts, PollDraft, Progress,
    Reach, Reached,
};
pub use self::once::{Done, Once, REPLAY_KEPT_MS};
pub use self::outcome::{DeviceOutcome, Settled};
pub use self::page::{Page, PageRequest};
pub use self::poll::{AnswerRow, PollRow, Visitor};
pub use self::provider::{ProviderRow, TokenName, TokenRow};
pub use self::upkeep::{
    DEVICES_SAMPLED_MAX, Deleted, IosDevices, Over, QUEUE_ROWS_MAX, Queue, RETENTION_ROWS_MAX,
    StorageReport,
};
pub use self::web::{NewBrowser, SubscribedBrowser, WebApp};
pub use self::webhook::{
    AttemptOutcome, ClaimedMessage, ClaimedWebhook, MESSAGE_ERASED, MESSAGES_KEPT_MS,
    MESSAGES_PENDING_MAX, MessageMade, MessageNo, MessageStep, SealedSecret, WEBHOOK_DISABLED,
    WEBHOOK_FAILING, WEBHOOK_GONE, WEBHOOKS_MAX, WebhookClaim, WebhookNo, WebhookWork,
};
pub use operation::Operation;
pub(crate) use patience::{patiently, with_patience};

use self::device::{Lately, Seen};
#[cfg(any(test, feature = "testing"))]
use self::sql::Fault;
use self::sql::writer::WriteTx;
use self::sql::{Connection, Gone, Listeners, Readers, Writer};

/// The store, as everything holds it.
pub type SharedStore = Arc<Store>;

/// What a backend has opened.
struct Parts {
    writer: Writer,
    readers: Readers,
    listeners: Listeners,
    /// How often another process held the database for too long.
    busy: Arc<AtomicU64>,
    /// What a server has beside that while the store is open: the lock of its file, or its ear.
    held: Option<Held>,
    /// Whether its files are in their places, where it has files.
    in_place: Option<InPlace>,
}

/// Whether the files of an open database are still in their places.
type InPlace = Box<dyn Fn() -> Result<(), Gone> + Send + Sync>;

/// Something that is let go of when the store is closed.
type Held = Box<dyn std::any::Any + Send>;

/// Everything that is kept. `sqlite::open` and `postgres::open` make one.
pub struct Store {
    // In this order they end: what is held back is written, readers stop, the lock is given up.
    writer: Arc<Writer>,
    readers: Arc<Readers>,
    seen: Arc<Seen>,
    lately: Arc<Lately>,
    listeners: Listeners,
    /// How often another process held the database for too long.
    busy: Arc<AtomicU64>,
    held: Mutex<Option<Held>>,
    in_place: Option<InPlace>,
}

impl std::fmt::Debug for Store {
    /// Shows nothing of what is kept.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").finish_non_exhaustive()
    }
}

impl Store {
    /// A store of what a backend has opened.
    fn new(parts: Parts) -> Arc<Self> {
        Arc::new(Self {
            writer: Arc::new(parts.writer),
            readers: Arc::new(parts.readers),
            seen: Arc::default(),
            lately: Arc::default(),
            listeners: parts.listeners,
            busy: parts.busy,
            held: Mutex::new(parts.held),
            in_place: parts.in_place,
        })
    }

    /// Makes the writer meet a fault.
    #[cfg(any(test, feature = "testing"))]
    pub fn fail(&self, fault: Fault) {
        self.writer.faults().set(fault);
    }

    /// Lifts the fault that was set.
    #[cfg(any(test, feature = "testing"))]
    pub fn mend(&self) {
        self.writer.faults().lift();
    }

    /// How many statements reads have run so far.
    #[cfg(any(test, feature = "testing"))]
    pub fn statements_read(&self) -> u64 {
        self.readers.statements.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Reads on one snapshot, on a connection that can only read.
    async fn read<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        self.readers.read(work).await
    }

    /// Writes, and returns once it is on disk.
    async fn write<T, F>(&self, operation: Operation, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&mut WriteTx<'_>) -> Result<T, StoreError> + Send + 'static,
    {
        self.writer.write(operation, work).await
    }

    /// Writes what may be sent again (B8).
    async fn write_once<T, F>(
        &self,
        operation: Operation,
        app: AppNo,
        once: Option<Once>,
        work: F,
    ) -> Result<Done<T>, StoreError>
    where
        T: Serialize + Send + 'static,
        F: FnOnce(&mut WriteTx<'_>) -> Result<T, StoreError> + Send + 'static,
    {
        self.write(operation, move |tx| once::run(tx, app, once.as_ref(), work)).await
    }

    /// Answers once storage can be read and written; `readyz` asks this.
    ///
    /// # Errors
    /// When it cannot.
    pub async fn check(&self) -> Result<(), StoreError> {
        self.read(|connection| {
            connection
                .prepare_cached("select count from storage_checks")?
                .query_row([], |_| Ok(()))?;
            Ok(())
        })
        .await?;
        self.write(Operation::Check, |tx| {
            tx.prepare_cached("update storage_checks set count = count + 1")?.execute([])?;
            Ok(())
        })
        .await
    }

    /// Whether the files of the storage are those that were opened. Looks at each call.
    ///
    /// # Errors
    /// When one was deleted or replaced: writes fail from then on.
    pub fn in_place(&self) -> Result<(), Gone> {
        self.in_place.as_ref().map_or(Ok(()), |in_place| in_place())
    }

    /// What the clock of the storage says, where several servers share it; `None` where they do not.
    ///
    /// # Errors
    /// When it cannot be asked.
    pub async fn time(&self) -> Result<Option<Timestamp>, StoreError> {
        self.readers.read_once(|connection| Ok(connection.time()?)).await
    }

    /// Tells `listener` of every change, after its commit and before its caller is answered.
    pub fn subscribe(&self, listener: Arc<dyn ChangeListener>) {
        self.listeners.write().unwrap_or_else(PoisonError::into_inner).push(listener);
    }

    /// Writes what is still held back, and lets go of the storage. Later calls fail.
    pub async fn close(&self) {
        // What cannot be written now is an hour's registrations of devices that did not change.
        let _ = self.write_seen().await;
        let (writer, readers) = (Arc::clone(&self.writer), Arc::clone(&self.readers));
        let stopped = tokio::task::spawn_blocking(move || {
            // The last connection to close carries the log into the file, if it may write: whoever
            // copies the file of a server that has stopped has everything.
            readers.stop();
            writer.stop();
        });
        let _ = stopped.await;
        self.held.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}
