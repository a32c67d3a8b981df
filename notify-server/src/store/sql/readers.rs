//! The pool of read-only connections. Each connection has its own thread. Every read is one short
//! transaction: a long one would keep SQLite from restarting its log, which would grow.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::store::StoreError;
use crate::store::deadline::{before_deadline, deadline};
use crate::store::sql;
use crate::store::sql::answer::{Answer, pack, unpack};
use crate::store::sql::connection::Connection;
#[cfg(any(test, feature = "testing"))]
use crate::store::sql::connection::statements_of_thread;
use crate::store::sql::error::{Error, internal, unavailable, was_busy};

/// The most reads that may wait for a connection. Further reads are refused.
pub const READS_WAITING_MAX: usize = 8_192;

type Job = Box<dyn FnOnce(&mut ReconnectingConnection) + Send>;

/// The statements of a read.
type Work = Box<dyn FnOnce(&Connection) -> Result<Answer, StoreError> + Send>;

/// The pool of reader threads.
pub(in crate::store) struct Readers {
    jobs: RwLock<Option<Sender<Job>>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    busy: Arc<AtomicU64>,
    /// How many statements reads have run.
    #[cfg(any(test, feature = "testing"))]
    pub(in crate::store) statements: Arc<AtomicU64>,
    /// The connection and the queue of a pool without threads.
    #[cfg(any(test, feature = "testing"))]
    inline: Option<Mutex<Inline>>,
    /// Notified of each read that arrives.
    #[cfg(any(test, feature = "testing"))]
    pub(in crate::store) arrived: tokio::sync::Notify,
}

/// Reads without threads.
#[cfg(any(test, feature = "testing"))]
struct Inline {
    connection: ReconnectingConnection,
    waiting: Receiver<Job>,
    /// Whether a read runs as soon as it arrives.
    at_once: bool,
}

impl Readers {
    /// Opens `connections` connections, at least one, and starts a thread for each. `busy` counts
    /// the reads that failed because another process locked the database.
    pub(in crate::store) fn start(
        open: &ConnectFn,
        connections: usize,
        busy: Arc<AtomicU64>,
    ) -> Result<Self, ReadersError> {
        let (jobs, waiting) = bounded::<Job>(READS_WAITING_MAX);
        let mut threads = Vec::new();
        for _ in 0..connections.max(1) {
            let mut connection = ReconnectingConnection::open(Arc::clone(open))?;
            let waiting = waiting.clone();
            let thread = std::thread::Builder::new()
                .name("store-reader".to_owned())
                .spawn(move || serve(&mut connection, &waiting))?;
            threads.push(thread);
        }
        Ok(Self {
            jobs: RwLock::new(Some(jobs)),
            threads: Mutex::new(threads),
            busy,
            #[cfg(any(test, feature = "testing"))]
            statements: Arc::default(),
            #[cfg(any(test, feature = "testing"))]
            inline: None,
            #[cfg(any(test, feature = "testing"))]
            arrived: tokio::sync::Notify::new(),
        })
    }

    /// Starts no threads: [`Readers::read_waiting`] runs waiting reads.
    #[cfg(any(test, feature = "testing"))]
    pub(in crate::store) fn inline(open: ConnectFn) -> Result<Self, ReadersError> {
        let (jobs, waiting) = bounded::<Job>(READS_WAITING_MAX);
        let inline =
            Inline { connection: ReconnectingConnection::open(open)?, waiting, at_once: false };
        Ok(Self {
            jobs: RwLock::new(Some(jobs)),
            threads: Mutex::default(),
            busy: Arc::default(),
            statements: Arc::default(),
            inline: Some(Mutex::new(inline)),
            arrived: tokio::sync::Notify::new(),
        })
    }

    /// Runs at most `most` waiting reads and returns the number of reads that ran.
    #[cfg(any(test, feature = "testing"))]
    pub(in crate::store) fn read_waiting(&self, most: usize) -> usize {
        let Some(inline) = &self.inline else { return 0 };
        let mut inline = inline.lock().unwrap_or_else(PoisonError::into_inner);
        let Inline { connection, waiting, .. } = &mut *inline;
        waiting.try_iter().take(most).map(|job| job(connection)).count()
    }

    /// Makes the first waiting read fail.
    #[cfg(any(test, feature = "testing"))]
    pub(in crate::store) fn refuse_waiting(&self) {
        if let Some(inline) = &self.inline {
            drop(inline.lock().unwrap_or_else(PoisonError::into_inner).waiting.try_recv());
        }
    }

    /// With `true`, reads run from now on as soon as they arrive. With `false`, they wait again.
    #[cfg(any(test, feature = "testing"))]
    pub(in crate::store) fn read_at_once(&self, at_once: bool) {
        if let Some(inline) = &self.inline {
            inline.lock().unwrap_or_else(PoisonError::into_inner).at_once = at_once;
        }
    }

    /// Runs `work` on one connection and returns its result.
    ///
    /// # Errors
    /// The error of `work`, or `Unavailable` when the queue is full, the store is closed, no
    /// connection can be opened, or the caller's deadline passes.
    pub(in crate::store) async fn read<T, F>(
        &self,
        scope: ReadScope,
        work: F,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        self.run(scope, Box::new(|connection| work(connection).map(pack))).await.map(unpack)
    }

    async fn run(&self, scope: ReadScope, work: Work) -> Result<Answer, StoreError> {
        let (caller, answer) = oneshot::channel();
        let busy = Arc::clone(&self.busy);
        let deadline = deadline();
        #[cfg(any(test, feature = "testing"))]
        let statements = Arc::clone(&self.statements);
        self.send(Box::new(move |reader| {
            let is_late = || deadline.is_some_and(|deadline| deadline <= Instant::now());
            if is_late() {
                // The request has already ended with an error.
                return;
            }
            #[cfg(any(test, feature = "testing"))]
            let statements_before = statements_of_thread();
            let work_result = match reader.begin(scope) {
                // Replacing a broken connection may have taken the rest of the time.
                Ok(_) if is_late() => Err(unavailable("the caller no longer waits")),
                Ok(connection) => catch_unwind(AssertUnwindSafe(|| work(connection)))
                    .unwrap_or_else(|_| Err(internal("a read panicked"))),
                Err(error) => Err(error.into()),
            };
            // If the work and the end of the transaction fail, the error of the work is returned.
            let result = match reader.end() {
                Ok(()) => work_result,
                Err(error) => work_result.and(Err(error.into())),
            };
            busy.fetch_add(u64::from(was_busy(&result)), Ordering::Relaxed);
            #[cfg(any(test, feature = "testing"))]
            statements.fetch_add(statements_of_thread() - statements_before, Ordering::Relaxed);
            // Sending fails if the caller has stopped waiting.
            let _ = caller.send(result);
        }))?;
        before_deadline(answer)
            .await?
            .unwrap_or_else(|_| Err(unavailable("the readers have stopped")))
    }

    fn send(&self, job: Job) -> Result<(), StoreError> {
        #[cfg(any(test, feature = "testing"))]
        if let Some(inline) = &self.inline {
            let mut inline = inline.lock().unwrap_or_else(PoisonError::into_inner);
            if inline.at_once {
                job(&mut inline.connection);
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

    /// Finishes the waiting reads and ends the threads. Blocks until the threads have ended. Later
    /// reads fail.
    pub(in crate::store) fn stop(&self) {
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
pub(in crate::store) enum ReadersError {
    #[error("a connection cannot be opened")]
    Open(#[from] Error),
    #[error("a thread cannot be started")]
    Thread(#[from] std::io::Error),
}

/// Runs waiting reads until the queue is closed.
fn serve(connection: &mut ReconnectingConnection, waiting: &Receiver<Job>) {
    while let Ok(job) = waiting.recv() {
        job(connection);
    }
}

/// What a read needs from the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) enum ReadScope {
    /// One statement. It sees one snapshot without a transaction.
    Statement,
    /// Several statements that have to see the same snapshot, so they need a transaction.
    Snapshot,
}

/// Opens a connection.
pub(in crate::store) type ConnectFn = Arc<dyn Fn() -> sql::Result<Connection> + Send + Sync>;

/// The connection of one reader. It is opened again after it broke.
struct ReconnectingConnection {
    open: ConnectFn,
    /// `None` after it broke, until the next read.
    connection: Option<Connection>,
}

impl ReconnectingConnection {
    /// Opens the connection.
    fn open(open: ConnectFn) -> sql::Result<Self> {
        let connection = Some(open()?);
        Ok(Self { open, connection })
    }

    /// Begins a read and returns the connection for it. Opens a new connection if the old one has
    /// broken since the last read.
    fn begin(&mut self, scope: ReadScope) -> sql::Result<&Connection> {
        if let Some(connection) = self.connection.take().filter(Connection::is_usable) {
            let begun = match scope {
                ReadScope::Statement => Ok(()),
                ReadScope::Snapshot => connection.begin_read(),
            };
            match begun {
                Ok(()) => return Ok(self.connection.insert(connection)),
                Err(_) if connection.is_broken() => {}
                Err(error) => {
                    self.connection = Some(connection);
                    return Err(error);
                }
            }
        }
        let opened = (self.open)()?;
        if scope == ReadScope::Snapshot {
            opened.begin_read()?;
        }
        Ok(self.connection.insert(opened))
    }

    /// Ends the transaction of the read, if there is one. Drops the connection if it is broken.
    fn end(&mut self) -> sql::Result<()> {
        let Some(connection) = &self.connection else { return Ok(()) };
        let result = connection.rollback();
        if connection.is_broken() {
            self.connection = None;
        }
        result
    }
}
