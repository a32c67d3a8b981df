//! The store on SQLite: one thread that writes with group commit, a few connections that read.
//! The only place in the server that knows SQL. Never logs.

mod app;
mod backup;
mod campaign;
mod checkpoint;
mod connection;
mod cursor;
mod day;
mod delivery;
mod device;
mod engagement;
mod error;
mod event;
mod fault;
mod feed;
mod inbound;
#[cfg(any(test, feature = "testing"))]
mod inline;
mod notification;
mod once;
mod open;
mod poll;
mod provider;
mod readers;
mod row;
#[cfg(test)]
mod tests;
mod upkeep;
mod web;
mod webhook;
mod writer;

pub use backup::backup;
#[cfg(any(test, feature = "testing"))]
pub use fault::Fault;
pub use open::{OpenError, READERS_DEFAULT, SqliteOptions};
pub use readers::READS_WAITING_MAX;
pub use writer::{WRITES_PER_COMMIT_MAX, WRITES_WAITING_MAX};

use std::fs::File;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use async_trait::async_trait;
use rusqlite::Connection;
use serde::Serialize;

use self::checkpoint::Checkpoints;
use self::device::{Lately, Seen};
use self::readers::Readers;
use self::writer::{Listeners, WriteTx, Writer};
use crate::store::{AppNo, ChangeListener, Done, Once, Store, StoreError};

/// The store on a SQLite file.
pub struct SqliteStore {
    // In this order they end: what is held back is written, readers stop, the lock is given up.
    writer: Arc<Writer>,
    readers: Arc<Readers>,
    seen: Arc<Seen>,
    lately: Arc<Lately>,
    listeners: Listeners,
    /// How often another process held the database for too long.
    busy: Arc<AtomicU64>,
    lock: Mutex<Option<File>>,
}

impl std::fmt::Debug for SqliteStore {
    /// Shows nothing of what is kept.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqliteStore").finish_non_exhaustive()
    }
}

impl SqliteStore {
    /// Opens the file, making it when it is missing, and brings its tables up to date. Blocks.
    ///
    /// # Errors
    /// When another server uses the file, a newer one wrote it, or it cannot be used.
    pub fn open(path: &Path, options: SqliteOptions) -> Result<Arc<Self>, OpenError> {
        let database_error = |source: Box<dyn std::error::Error + Send + Sync>| {
            OpenError::Database { path: path.to_owned(), source }
        };
        let opened = open::open(path, options)?;
        if options.lock {
            app::resume_erasing(&opened.connection)
                .map_err(|error| database_error(error.into()))?;
        }
        let listeners = Listeners::new(RwLock::new(Vec::new()));
        let checkpoints = Checkpoints::start(path).map_err(|error| database_error(error.into()))?;
        let busy = Arc::new(AtomicU64::new(0));
        let told = (Arc::clone(&listeners), Arc::clone(&busy));
        let writer = Writer::start(path.to_owned(), opened.connection, told, checkpoints)
            .map_err(|error| database_error(error.into()))?;
        let readers = Readers::start(path, options.readers, Arc::clone(&busy))
            .map_err(|error| database_error(error.into()))?;
        Ok(Arc::new(Self {
            writer: Arc::new(writer),
            readers: Arc::new(readers),
            seen: Arc::new(Seen::default()),
            lately: Arc::new(Lately::default()),
            listeners,
            busy,
            lock: Mutex::new(opened.lock),
        }))
    }

    /// Makes the writer meet a fault.
    #[cfg(any(test, feature = "testing"))]
    pub fn fail(&self, fault: Fault) {
        self.writer.faults().set(fault);
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
    async fn write<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&mut WriteTx<'_>) -> Result<T, StoreError> + Send + 'static,
    {
        self.writer.write(work).await
    }

    /// Writes what may be sent again (B8).
    async fn write_once<T, F>(
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
impl Store for SqliteStore {
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
        self.lock.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}
