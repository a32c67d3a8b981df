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
    /// What a thread would have, where there is none.
    #[cfg(any(test, feature = "testing"))]
    inline: Option<Mutex<Inline>>,
    /// Told of each read that comes in.
    #[cfg(any(test, feature = "testing"))]
    pub(super) arrived: tokio::sync::Notify,
}

/// Reads without threads.
#[cfg(any(test, feature = "testing"))]
struct Inline {
    connection: Connection,
    waiting: Receiver<Job>,
    /// Whether a read is run as it comes in.
    at_once: bool,
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
        Ok(Self {
            jobs: RwLock::new(Some(jobs)),
            threads: Mutex::new(threads),
            busy,
            #[cfg(any(test, feature = "testing"))]
            inline: None,
            #[cfg(any(test, feature = "testing"))]
            arrived: tokio::sync::Notify::new(),
        })
    }

    /// Has no threads: what waits is read by whoever calls [`Readers::read_waiting`].
    #[cfg(any(test, feature = "testing"))]
    pub(super) fn inline(path: &Path) -> Result<Self, ReadersError> {
        let (jobs, waiting) = bounded::<Job>(READS_WAITING_MAX);
        let inline = Inline { connection: open_reader(path)?, waiting, at_once: false };
        Ok(Self {
            jobs: RwLock::new(Some(jobs)),
            threads: Mutex::default(),
            busy: Arc::default(),
            inline: Some(Mutex::new(inline)),
            arrived: tokio::sync::Notify::new(),
        })
    }

    /// Runs at most that many of the reads that wait; answers how many it took.
    #[cfg(any(test, feature = "testing"))]
    pub(super) fn read_waiting(&self, most: usize) -> usize {
        let Some(inline) = &self.inline else { return 0 };
        let inline = inline.lock().unwrap_or_else(PoisonError::into_inner);
        inline.waiting.try_iter().take(most).map(|job| serve_one(&inline.connection, job)).count()
    }

    /// Has the first of the reads that wait fail.
    #[cfg(any(test, feature = "testing"))]
    pub(super) fn refuse_waiting(&self) {
        if let Some(inline) = &self.inline {
            drop(inline.lock().unwrap_or_else(PoisonError::into_inner).waiting.try_recv());
        }
    }

    /// From now on runs reads as they come in, or lets them wait again.
    #[cfg(any(test, feature = "testing"))]
    pub(super) fn read_at_once(&self, at_once: bool) {
        if let Some(inline) = &self.inline {
            inline.lock().unwrap_or_else(PoisonError::into_inner).at_once = at_once;
        }
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
        #[cfg(any(test, feature = "testing"))]
        if let Some(inline) = &self.inline {
            let inline = inline.lock().unwrap_or_else(PoisonError::into_inner);
            if inline.at_once {
                serve_one(&inline.connection, job);
                return Ok(());
            }
        }
        let jobs = self.jobs.read().unwrap_or_else(PoisonError::into_inner);
        let Some(jobs) = jobs.as_ref() else { return Err(unavailable("the store is closed")) };
        jobs.try_send(job).map_err(|error| match error {
            TrySendError::Full(_) => unavailable("too many reads are waiting"),
            TrySendError::Disconnected(_) => unavailable("the readers have stopped"),
        })?;
        #[cfg(any(test, feature = "testing"))]
        self.arrived.notify_one();
        Ok(())
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
        serve_one(connection, job);
    }
}

fn serve_one(connection: &Connection, job: Job) {
    job(connection);
    if !connection.is_autocommit() {
        // A read that panicked; should even this fail, the next begin says so.
        let _ = connection.execute_batch("rollback");
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
