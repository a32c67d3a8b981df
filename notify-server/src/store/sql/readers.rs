//! The pool of read-only connections. Each connection has its own thread. Every read is one short
//! transaction: a long one would keep SQLite from restarting its log, which would grow.
//!
//! Applications take turns (`turns.rs`), and reads that look at many rows have at most half of the
//! connections. The other half reads what is short: for the engines, for `/readyz`, and to check
//! requests before they are accepted. A read whose caller no longer waits is ended (`caller.rs`).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use tokio::sync::oneshot;

use crate::store::StoreError;
use crate::store::deadline::{Requester, before_deadline, deadline};
use crate::store::sql;
use crate::store::sql::answer::{Answer, pack, unpack};
use crate::store::sql::caller::Caller;
use crate::store::sql::connection::Connection;
#[cfg(any(test, feature = "testing"))]
use crate::store::sql::connection::statements_of_thread;
use crate::store::sql::error::{Error, internal, unavailable, was_busy};
use crate::store::sql::turns::{Length, Refused, Turns};

/// The most short reads, and the most long ones, of one requester that may wait for a connection. Further ones
/// are refused.
pub const READS_WAITING_MAX: usize = 8_192;

type Job = Box<dyn FnOnce(&mut ReconnectingConnection) + Send>;

/// The statements of a read.
type Work = Box<dyn FnOnce(&Connection) -> Result<Answer, StoreError> + Send>;

/// The pool of reader threads.
pub(in crate::store) struct Readers {
    jobs: Arc<Turns<Job>>,
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
        let connections = connections.max(1);
        let jobs = Arc::new(Turns::<Job>::new((connections / 2).max(1), READS_WAITING_MAX));
        let mut threads = Vec::new();
        for _ in 0..connections {
            let mut connection = ReconnectingConnection::open(Arc::clone(open))?;
            let waiting = Arc::clone(&jobs);
            let thread = std::thread::Builder::new()
                .name("store-reader".to_owned())
                .spawn(move || serve(&mut connection, &waiting))?;
            threads.push(thread);
        }
        Ok(Self {
            jobs,
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
        let inline = Inline { connection: ReconnectingConnection::open(open)?, at_once: false };
        Ok(Self {
            jobs: Arc::new(Turns::new(1, READS_WAITING_MAX)),
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
        let next = || {
            let (job, length) = self.jobs.try_next()?;
            self.jobs.ended(length);
            Some(job)
        };
        std::iter::from_fn(next).take(most).map(|job| job(&mut inline.connection)).count()
    }

    /// Makes the first waiting read fail.
    #[cfg(any(test, feature = "testing"))]
    pub(in crate::store) fn refuse_waiting(&self) {
        if self.inline.is_some()
            && let Some((job, length)) = self.jobs.try_next()
        {
            self.jobs.ended(length);
            drop(job);
        }
    }

    /// With `true`, reads run from now on as soon as they arrive. With `false`, they wait again.
    #[cfg(any(test, feature = "testing"))]
    pub(in crate::store) fn read_at_once(&self, at_once: bool) {
        if let Some(inline) = &self.inline {
            inline.lock().unwrap_or_else(PoisonError::into_inner).at_once = at_once;
        }
    }

    /// Runs `work` on one connection and returns its result, when it is the turn of the requester.
    ///
    /// # Errors
    /// The error of `work`, or `Unavailable` when the queue is full, the store is closed, no
    /// connection can be opened, or the caller's deadline passes.
    pub(in crate::store) async fn read<T, F>(
        &self,
        requester: Requester,
        length: Length,
        scope: ReadScope,
        work: F,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        let work: Work = Box::new(|connection| work(connection).map(pack));
        let (caller, answer) = oneshot::channel();
        let job = self.job(scope, work, Caller::new(deadline(), caller));
        self.send(requester, length, job)?;
        before_deadline(answer)
            .await?
            .unwrap_or_else(|_| Err(unavailable("the readers have stopped")))
            .map(unpack)
    }

    /// Makes the job that runs a read and sends its result to the caller.
    fn job(&self, scope: ReadScope, work: Work, caller: Caller) -> Job {
        let busy = Arc::clone(&self.busy);
        #[cfg(any(test, feature = "testing"))]
        let statements = Arc::clone(&self.statements);
        Box::new(move |reader| {
            if !caller.waits() {
                // The request has already ended.
                return;
            }
            caller.run(|| {
                #[cfg(any(test, feature = "testing"))]
                let statements_before = statements_of_thread();
                let work_result = match reader.begin(scope) {
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
                result
            });
        })
    }

    fn send(&self, requester: Requester, length: Length, job: Job) -> Result<(), StoreError> {
        #[cfg(any(test, feature = "testing"))]
        if let Some(inline) = &self.inline {
            let mut inline = inline.lock().unwrap_or_else(PoisonError::into_inner);
            if inline.at_once {
                job(&mut inline.connection);
                return Ok(());
            }
        }
        self.jobs.push(requester, length, job).map_err(|refused| match refused {
            Refused::Full(_) => unavailable("too many reads are waiting"),
            Refused::Closed(_) => unavailable("the store is closed"),
        })?;
        #[cfg(any(test, feature = "testing"))]
        self.arrived.notify_one();
        Ok(())
    }

    /// Finishes the waiting reads and ends the threads. Blocks until the threads have ended. Later
    /// reads fail.
    pub(in crate::store) fn stop(&self) {
        self.jobs.close();
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
fn serve(connection: &mut ReconnectingConnection, waiting: &Turns<Job>) {
    while let Some((job, length)) = waiting.next() {
        job(connection);
        waiting.ended(length);
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
