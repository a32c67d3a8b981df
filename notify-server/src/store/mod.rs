//! The store: one struct whose methods are named after what the product does. A method is usually
//! one transaction. Each resource has a file with its types, methods and SQL. SQL only stores and
//! selects. Rust makes the decisions and passes ids, times and retry times to SQL as values.
//!
//! Each statement is written once for both databases. `sql/` runs the statements; `sqlite/` and
//! `postgres/` open the databases. No other part of the server contains SQL. Nothing here logs.
//!
//! To add an operation, write the method in the file of its resource, add it to [`Operation`] if it
//! writes, and add the tests of its promises to `contract/`.

mod app;
pub(crate) mod audit;
mod breaker;
mod campaign;
mod change;
#[cfg(test)]
mod contract;
mod daily_stats;
mod deadline;
mod delivery;
mod device;
mod engagement;
mod erased_ids;
mod error;
mod event;
mod feed;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod idempotency;
mod inbound;
mod key;
#[cfg(test)]
mod key_prefix_tests;
mod maintenance;
mod notification;
mod operation;
mod operator;
mod page;
mod poll;
pub mod postgres;
mod provider;
mod queues;
mod segment;
pub mod sql;
pub mod sqlite;
pub mod transfer;
mod user;
mod web;
mod webhook;
mod zone_offsets;

use std::ops::ControlFlow;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};

use notify_core::Timestamp;
use serde::Serialize;

pub use self::app::{AppAccess, EXPIRED_KEYS_LISTED_MS, NewKey};
pub use self::breaker::{BreakerKey, BreakerRecord, BreakerUpdate};
pub use self::campaign::{CampaignDraft, ShownCampaign, ShownFeed};
pub use self::change::{Change, ChangeListener, DeliveryChange, EnrichmentChange};
pub use self::delivery::{
    AddressTrust, Agenda, AudienceDevice, AudienceSource, Checkpoint, ClaimedRetry, ClusterStatus,
    DeadAddress, DeviceBatch, DeviceOutcome, Dispatch, Grant, GrantRequest, Heartbeat, InstanceId,
    Intervention, Mismatch, MovedAddress, NewRetry, OpenPage, OpenedDispatch, Opening, Outcome,
    PageClaim, Portion, ReclaimRequest, Reclaimed, RetryClaim, RetryOutcome, RetryResult, Scan,
    SettledDevices, StartDue, StartHook, StartInAccept, Started, VerifiedAddress, WebKeys,
    Workload,
};
pub(crate) use self::delivery::{GUARD_THRESHOLD, GUARD_WINDOW};
pub use self::device::app::NewAppDevice;
pub use self::device::{DeviceCondition, DeviceFilter, REGISTRATION_WRITTEN_EVERY_MS};
pub use self::erased_ids::REQUESTS_PER_SLICE;
pub use self::error::{BackendError, StoreError};
pub use self::event::{
    EVENTS_KEPT_MAX, EVENTS_KEPT_MS, EVENTS_PER_READ_MAX, EventCursor, EventPage, EventRecord,
    EventTypes, STREAM_WANTED_MS, Trimmed, event_type_code,
};
pub use self::feed::{
    FEEDS_MAX, FeedClaim, FeedFetch, FeedItemRow, FeedItems, FeedNo, Moved, Validators,
};
pub use self::idempotency::{Idempotent, IdempotentRequest, REPLAY_KEPT_MS};
pub use self::inbound::{INBOUND_WRITTEN_EVERY_MS, Inbound, InboundAction, NewContact, Recipient};
pub use self::key::{
    APPS_MAX, AppNo, DeviceKey, DispatchNo, NotificationNo, PageNo, RetryNo, SEQ_BITS, SEQ_MAX,
    SEQUENCE_MAX, UserNo, platform_code, platform_of,
};
pub use self::maintenance::{
    DEVICES_SAMPLED_MAX, IosDevices, RETENTION_ROWS_MAX, RetentionCutoffs, RetentionProgress,
    StorageReport, TokenSample,
};
pub use self::notification::{
    CanaryFacts, DeliveryFacts, DeliveryFilter, DeliveryProgress, DeviceFacts, NewNotification,
    NewReport, NotificationFacts, PollDraft, Reach, Reached,
};
pub use self::operator::{AdminKey, NewSession, SessionAccess, SessionCutoffs, SessionTimeouts};
pub use self::page::{Page, PageRequest};
pub use self::poll::{AnswerRow, PollRow, Visitor};
pub use self::provider::{ProviderRow, TokenName, TokenRow};
pub use self::queues::{AppQueue, QUEUE_ROWS_MAX, Queue, Queues};
pub use self::segment::UnusedNames;
pub(crate) use self::user::INVALID_USER_TOKEN;
pub use self::user::UserIdentity;
pub use self::web::{NewBrowser, SubscribedBrowser, WebApp};
pub use self::webhook::{
    AttemptOutcome, ClaimedMessage, ClaimedWebhook, MESSAGE_ERASED, MESSAGES_KEPT_MS,
    MESSAGES_PENDING_MAX, MessageMade, MessageNo, MessageStep, SealedSecret, SecretRotation,
    WEBHOOK_DISABLED, WEBHOOK_FAILING, WEBHOOK_GONE, WEBHOOKS_MAX, WebhookClaim, WebhookNo,
    WebhookWork,
};
pub use self::zone_offsets::OffsetCorrection;
pub(crate) use deadline::{Requester, as_request, before_deadline, set_requester, with_deadline};
pub use operation::Operation;

use self::deadline::requester;
use self::postgres::{SetWriters, WriteSet};
#[cfg(any(test, feature = "testing"))]
use self::sql::Fault;
use self::sql::writer::WriteTx;
use self::sql::{
    Connection, FileMissing, Length, Listeners, ReadScope, Readers, WriteScope, Writer,
};

/// The store as the rest of the server shares it.
pub type SharedStore = Arc<Store>;

/// The parts that a backend opens and a store is made of.
struct StoreParts {
    writer: Arc<Writer>,
    /// Writes sets; `None` if every write is a row-by-row write, as on SQLite.
    sets: Option<Arc<SetWriters>>,
    readers: Readers,
    listeners: Listeners,
    /// The number of operations that failed because another process locked the database for too
    /// long.
    busy: Arc<AtomicU64>,
    /// Dropped when the store is closed: the lock of the file, or the thread that listens for the
    /// changes of other servers.
    held: Option<CloseGuard>,
    /// Checks that the files of the database are still in place; `None` if the database has no
    /// files.
    in_place: Option<InPlace>,
    /// Whether connections keep their sessions; `None` if the database has none.
    keeps_sessions: Option<KeepsSessions>,
}

/// Checks that the files of an open database are still in place.
type InPlace = Box<dyn Fn() -> Result<(), FileMissing> + Send + Sync>;
/// Checks whether the connections to a database keep their sessions. It blocks.
type KeepsSessions = Arc<dyn Fn() -> sql::Result<bool> + Send + Sync>;

/// Something that is dropped when the store is closed.
type CloseGuard = Box<dyn std::any::Any + Send>;

/// The store. `sqlite::open` and `postgres::open` create one.
pub struct Store {
    // Fields are dropped in this order: the sets and the writer finish, the readers stop, and the
    // lock is released last.
    /// Writes sets; `None` if every write is a row-by-row write, as on SQLite.
    sets: Option<Arc<SetWriters>>,
    writer: Arc<Writer>,
    readers: Arc<Readers>,
    listeners: Listeners,
    /// The number of operations that failed because another process locked the database for too
    /// long.
    busy: Arc<AtomicU64>,
    /// Dropped when the store is closed.
    held: Mutex<Option<CloseGuard>>,
    in_place: Option<InPlace>,
    /// Whether connections keep their sessions; `None` if the database has none.
    keeps_sessions: Option<KeepsSessions>,
}

impl std::fmt::Debug for Store {
    /// Shows no data.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").finish_non_exhaustive()
    }
}

impl Store {
    /// Makes a store of the parts that a backend has opened.
    fn new(parts: StoreParts) -> Arc<Self> {
        Arc::new(Self {
            sets: parts.sets,
            writer: parts.writer,
            readers: Arc::new(parts.readers),
            listeners: parts.listeners,
            busy: parts.busy,
            held: Mutex::new(parts.held),
            in_place: parts.in_place,
            keeps_sessions: parts.keeps_sessions,
        })
    }

    /// Sets a fault, with which a later write or commit fails.
    #[cfg(any(test, feature = "testing"))]
    pub fn fail(&self, fault: Fault) {
        self.writer.faults().set(fault);
    }

    /// Removes the fault that was set.
    #[cfg(any(test, feature = "testing"))]
    pub fn remove_fault(&self) {
        self.writer.faults().remove();
    }

    /// The number of statements that reads have run so far.
    #[cfg(any(test, feature = "testing"))]
    pub fn statements_read(&self) -> u64 {
        self.readers.statements.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// The number of statements that writes have run so far, without those of sets.
    #[cfg(any(test, feature = "testing"))]
    pub fn statements_written(&self) -> u64 {
        self.writer.statements.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Runs the reads of `work` on a read-only connection. All of them see the same snapshot. They look
    /// at a few rows; reads that look at more use [`Store::read_long`] or [`Store::read_in_slices`].
    fn read<T, F>(&self, work: F) -> impl Future<Output = Result<T, StoreError>> + Send
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        self.readers.read(requester(), Length::Short, ReadScope::Snapshot, work)
    }

    /// As [`Store::read`], for a read that looks at many rows but never at more than a bounded number,
    /// such as a page of a list. It waits for the turn of the requester among such reads.
    fn read_long<T, F>(&self, work: F) -> impl Future<Output = Result<T, StoreError>> + Send
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        self.read_long_for(requester(), work)
    }

    /// As [`Store::read_long`], on behalf of a requester.
    fn read_long_for<T, F>(
        &self,
        requester: Requester,
        work: F,
    ) -> impl Future<Output = Result<T, StoreError>> + Send
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        self.readers.read(requester, Length::Long, ReadScope::Snapshot, work)
    }

    /// Reads in slices: calls `slice` with the state of the slice before, until it breaks with the
    /// answer. Each slice looks at a bounded number of rows and waits for its turn, so others read
    /// between two slices. Each slice sees a snapshot of its own.
    async fn read_in_slices<S, T, F>(&self, begin: S, slice: F) -> Result<T, StoreError>
    where
        S: Send + 'static,
        T: Send + 'static,
        F: Fn(&Connection, S) -> Result<ControlFlow<T, S>, StoreError> + Send + Sync + 'static,
    {
        let slice = Arc::new(slice);
        let mut state = begin;
        loop {
            let slice = Arc::clone(&slice);
            match self.read_long(move |connection| slice(connection, state)).await? {
                ControlFlow::Continue(next) => state = next,
                ControlFlow::Break(answer) => return Ok(answer),
            }
        }
    }

    /// Runs one statement that reads. It sees one snapshot without a transaction, which saves two
    /// round trips to PostgreSQL.
    fn read_statement<T, F>(&self, work: F) -> impl Future<Output = Result<T, StoreError>> + Send
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        self.readers.read(requester(), Length::Short, ReadScope::Statement, work)
    }

    /// Runs a write in a transaction, and returns once its commit is durable. The write may change
    /// anything.
    fn write<T, F>(
        &self,
        operation: Operation,
        work: F,
    ) -> impl Future<Output = Result<T, StoreError>> + Send
    where
        T: Send + 'static,
        F: FnOnce(&mut WriteTx<'_>) -> Result<T, StoreError> + Send + 'static,
    {
        self.write_to(WriteScope::Installation, operation, work)
    }

    /// As [`Store::write`], but the write changes only rows of `scope`.
    fn write_to<T, F>(
        &self,
        scope: WriteScope,
        operation: Operation,
        work: F,
    ) -> impl Future<Output = Result<T, StoreError>> + Send
    where
        T: Send + 'static,
        F: FnOnce(&mut WriteTx<'_>) -> Result<T, StoreError> + Send + 'static,
    {
        self.writer.write(operation, scope, work)
    }

    /// Runs a write, in a set if the database has sets and the write fits one.
    async fn write_in_set<R: WriteSet>(&self, row: R) -> Result<R::Answer, StoreError> {
        match &self.sets {
            Some(sets) => sets.write(row).await,
            None => self.write_to(row.scope(), R::OPERATION, move |tx| row.write_alone(tx)).await,
        }
    }

    /// Runs the write of a request at most once. If the caller sends the request again, returns the
    /// stored response instead.
    fn write_once<T, F>(
        &self,
        operation: Operation,
        app: AppNo,
        once: Option<IdempotentRequest>,
        work: F,
    ) -> impl Future<Output = Result<Idempotent<T>, StoreError>> + Send
    where
        T: Serialize + Send + 'static,
        F: FnOnce(&mut WriteTx<'_>) -> Result<T, StoreError> + Send + 'static,
    {
        self.write_to(WriteScope::app(app), operation, move |tx| {
            idempotency::run(tx, app, once.as_ref(), work)
        })
    }

    /// Checks with one read and one write that the storage works, for `readyz`.
    ///
    /// # Errors
    /// When storage cannot be read or written.
    pub async fn check(&self) -> Result<(), StoreError> {
        self.read(|connection| {
            connection
                .prepare_cached("select count from storage_checks")?
                .query_row([], |_| Ok(()))?;
            Ok(())
        })
        .await?;
        self.write_to(WriteScope::all([]), Operation::Check, |tx| {
            tx.prepare_cached("update storage_checks set count = count + 1")?.execute([])?;
            Ok(())
        })
        .await
    }

    /// Checks that the files of the database are still the files that were opened. Every call reads
    /// the directory on the disk.
    ///
    /// # Errors
    /// When a file was deleted or replaced. Writes fail from then on.
    pub fn check_files(&self) -> Result<(), FileMissing> {
        self.in_place.as_ref().map_or(Ok(()), |in_place| in_place())
    }

    /// Whether the connections to the database keep their sessions. A pooler between the server and PostgreSQL
    /// may give each transaction another one, also after the start.
    ///
    /// # Errors
    /// When the database cannot be reached.
    pub async fn keeps_sessions(&self) -> Result<bool, StoreError> {
        let Some(check) = self.keeps_sessions.clone() else { return Ok(true) };
        let checked = tokio::task::spawn_blocking(move || check()).await;
        let kept = checked.map_err(|error| StoreError::Backend(error.into()))?;
        Ok(kept?)
    }

    /// Reads the clock of a database that several servers can share; `None` for SQLite.
    ///
    /// # Errors
    /// When the database cannot be reached.
    pub async fn time(&self) -> Result<Option<Timestamp>, StoreError> {
        self.read_statement(|connection| Ok(connection.time()?)).await
    }

    /// From now on, calls `listener` for every change, after its commit and before the caller of
    /// the write gets its result.
    pub fn subscribe(&self, listener: Arc<dyn ChangeListener>) {
        self.listeners.write().unwrap_or_else(PoisonError::into_inner).push(listener);
    }

    /// Closes the database. Later calls fail.
    pub async fn close(&self) {
        let (writer, readers) = (Arc::clone(&self.writer), Arc::clone(&self.readers));
        let sets = self.sets.clone();
        let stopped = tokio::task::spawn_blocking(move || {
            // What does not fit a set is passed to the writer.
            if let Some(sets) = sets {
                sets.stop();
            }
            // The writer is stopped last: SQLite checkpoints the log when the last connection
            // closes, but only if that connection may write. The file of a stopped server is then
            // complete without its log.
            readers.stop();
            writer.stop();
        });
        let _ = stopped.await;
        self.held.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}
