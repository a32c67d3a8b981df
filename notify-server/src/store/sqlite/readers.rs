//! Read-only connections, each with a thread of its own. Every read is one transaction and ends
//! it, so that none holds the log back.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use rusqlite::Connection;
use tokio::sync::oneshot;

use super::connection::open_reader;
use super::error::{broken, unavailable, was_busy};
use crate::store::StoreError;

/// Most reads that wait for a connection; further ones are refused.
pub const READS_WAITING_MAX: usize = 8_192;

type Job = Box<dyn FnOnce(&Connection) + Send>;

/// The way to the connections.
pub(super) struct Readers {
    jobs: RwLock<Option<Sender<Job>>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    busy: Arc<AtomicU64>,
}

impl Readers {
    /// Opens that many connections.
    pub(super) fn start(
        path: &Path,
        connections: usize,
        busy: Arc<AtomicU64>,
    ) -> Result<Self, ReadersError> {
        let (jobs, waiting) = bounded::<Job>(READS_WAITING_MAX);
        let mut threads = Vec::new();
        for _ in 0..connections.max(1) {
            let connection = open_reader(path)?;
            let waiting = waiting.clone();
            let thread = std::thread::Builder::new()
                .name("store-reader".to_owned())
                .spawn(move || serve(&connection, &waiting))?;
            threads.push(thread);
        }
        Ok(Self { jobs: RwLock::new(Some(jobs)), threads: Mutex::new(threads), busy })
    }

    /// Runs a read on one snapshot.
    pub(super) async fn read<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        self.read_once(move |connection| in_transaction(connection, work)).await
    }

    /// Runs a read of one statement, which is a snapshot by itself.
    pub(super) async fn read_once<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        let (caller, answer) = oneshot::channel();
        let busy = Arc::clone(&self.busy);
        self.send(Box::new(move |connection| {
            let result = catch_unwind(AssertUnwindSafe(|| work(connection)))
                .unwrap_or_else(|_| Err(broken("a read panicked")));
            busy.fetch_add(u64::from(was_busy(&result)), Ordering::Relaxed);
            // The caller may have gone away.
            let _ = caller.send(result);
        }))?;
        answer.await.unwrap_or_else(|_| Err(unavailable("the readers have stopped")))
    }

    fn send(&self, job: Job) -> Result<(), StoreError> {
        let jobs = self.jobs.read().unwrap_or_else(PoisonError::into_inner);
        let Some(jobs) = jobs.as_ref() else { return Err(unavailable("the store is closed")) };
        jobs.try_send(job).map_err(|error| match error {
            TrySendError::Full(_) => unavailable("too many reads are waiting"),
            TrySendError::Disconnected(_) => unavailable("the readers have stopped"),
        })
    }

    /// Finishes what waits and ends the threads. Blocks until then.
    pub(super) fn stop(&self) {
        self.jobs.write().unwrap_or_else(PoisonError::into_inner).take();
        let threads =
            std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            let _ = thread.join();
        }
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Why the readers did not start.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadersError {
    #[error("a connection cannot be opened")]
    Open(#[from] rusqlite::Error),
    #[error("a thread cannot be started")]
    Thread(#[from] std::io::Error),
}

fn serve(connection: &Connection, waiting: &Receiver<Job>) {
    while let Ok(job) = waiting.recv() {
        job(connection);
        if !connection.is_autocommit() {
            // A read that panicked; should even this fail, the next begin says so.
            let _ = connection.execute_batch("rollback");
        }
    }
}

fn in_transaction<T>(
    connection: &Connection,
    work: impl FnOnce(&Connection) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    connection.prepare_cached("begin")?.execute([])?;
    let result = work(connection);
    // A statement that failed may have ended the transaction already.
    if !connection.is_autocommit() {
        connection.prepare_cached("rollback")?.execute([])?;
    }
    result
}
