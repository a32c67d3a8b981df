//! The store itself: its writer, its readers, and what is kept beside the tables.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use notify_core::Timestamp;
use serde::Serialize;

use super::connection::Connection;
use super::device::{Lately, Seen};
use super::error::Gone;
#[cfg(any(test, feature = "testing"))]
use super::fault::Fault;
use super::once;
use super::readers::Readers;
use super::writer::{Listeners, WriteTx, Writer};
use crate::store::{AppNo, ChangeListener, Done, Once, Store, StoreError};

/// What a backend has opened.
pub(in crate::store) struct Parts {
    pub(in crate::store) writer: Writer,
    pub(in crate::store) readers: Readers,
    pub(in crate::store) listeners: Listeners,
    /// How often another process held the database for too long.
    pub(in crate::store) busy: Arc<AtomicU64>,
    /// What a server has beside that while the store is open: the lock of its file, or its ear.
    pub(in crate::store) held: Option<Held>,
    /// Whether its files are in their places, where it has files.
    pub(in crate::store) in_place: Option<InPlace>,
}

/// Whether the files of an open database are still in their places.
pub(in crate::store) type InPlace = Box<dyn Fn() -> Result<(), Gone> + Send + Sync>;

/// Something that is let go of when the store is closed.
pub(in crate::store) type Held = Box<dyn std::any::Any + Send>;

/// The store on a SQL database. `SqliteStore` opens one.
pub struct SqlStore {
    // In this order they end: what is held back is written, readers stop, the lock is given up.
    pub(super) writer: Arc<Writer>,
    pub(super) readers: Arc<Readers>,
    pub(super) seen: Arc<Seen>,
    pub(super) lately: Arc<Lately>,
    pub(super) listeners: Listeners,
    /// How often another process held the database for too long.
    pub(super) busy: Arc<AtomicU64>,
    held: Mutex<Option<Held>>,
    in_place: Option<InPlace>,
}

impl std::fmt::Debug for SqlStore {
    /// Shows nothing of what is kept.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqlStore").finish_non_exhaustive()
    }
}

impl SqlStore {
    /// A store of what a backend has opened.
    pub(in crate::store) fn new(parts: Parts) -> Arc<Self> {
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
    pub(in crate::store) async fn read<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        self.readers.read(work).await
    }

    /// Writes, and returns once it is on disk.
    pub(in crate::store) async fn write<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&mut WriteTx<'_>) -> Result<T, StoreError> + Send + 'static,
    {
        self.writer.write(work).await
    }

    /// Writes what may be sent again (B8).
    pub(super) async fn write_once<T, F>(
        &self,
        app: AppNo,
        once: Option<Once>,
        work: F,
    ) -> Result<Done<T>, StoreError>
    where
        T: Serialize + Send + 'static,
        F: FnOnce(&mut WriteTx<'_>) -> Result<T, StoreError> + Send + 'static,
    {
        self.write(move |tx| once::run(tx, app, once.as_ref(), work)).await
    }
}

#[async_trait]
impl Store for SqlStore {
    async fn check(&self) -> Result<(), StoreError> {
        self.read(|connection| {
            connection
                .prepare_cached("select count from storage_checks")?
                .query_row([], |_| Ok(()))?;
            Ok(())
        })
        .await?;
        self.write(|tx| {
            tx.prepare_cached("update storage_checks set count = count + 1")?.execute([])?;
            Ok(())
        })
        .await
    }

    fn in_place(&self) -> Result<(), Gone> {
        self.in_place.as_ref().map_or(Ok(()), |in_place| in_place())
    }

    async fn time(&self) -> Result<Option<Timestamp>, StoreError> {
        self.readers.read_once(|connection| Ok(connection.time()?)).await
    }

    fn subscribe(&self, listener: Arc<dyn ChangeListener>) {
        self.listeners.write().unwrap_or_else(PoisonError::into_inner).push(listener);
    }

    async fn close(&self) {
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
