//! Read-only connections, each with its own thread. Every read is one short transaction, so that none
//! blocks checkpoints of the log.

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
use crate::store::sql::connection::Connection;
#[cfg(any(test, feature = "testing"))]
use crate::store::sql::connection::statements_of_thread;
use crate::store::sql::error::{Error, internal, unavailable, was_busy};

/// Most reads that wait for a connection; further ones are refused.
pub const READS_WAITING_MAX: usize = 8_192;

type Job = Box<dyn FnOnce(&mut ReconnectingConnection) + Send>;

/// The pool of reader threads.
pub(in crate::store) struct Readers {
    jobs: RwLock<Option<Sender<Job>>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    busy: Arc<AtomicU64>,
    /// How many statements reads have run.
    #[cfg(any(test, feature = "testing"))]
    pub(in crate::store) statements: Arc<AtomicU64>,
    /// The state of the thread, if there is none.
    #[cfg(any(test, feature = "testing"))]
    inline: Option<Mutex<Inline>>,
    /// Notified of each read that arrives.
    #[cfg(any(test, feature = "testing"))]
    pub(in crate::store) arrived: tokio::sync::Notify,
}

/// Reads without threads.
#[cfg(any(test, feature = "testing"))]
struct Inline {
    held: ReconnectingConnection,
    waiting: Receiver<Job>,
    /// Whether reads run as they arrive.
    at_once: bool,
}

impl Readers {
    /// Opens this many connections.
    pub(in crate::store) fn start(
        open: &ConnectFn,
        connections: usize,
        busy: Arc<AtomicU64>,
    ) -> Result<Self, ReadersError> {
        let (jobs, waiting) = bounded::<Job>(READS_WAITING_MAX);
        let mut threads = Vec::new();
        for _ in 0..connections.max(1) {
            let mut held = ReconnectingConnection::open(Arc::clone(open))?;
            let waiting = waiting.clone();
            let thread = std::thread::Builder::new()
                .name("store-reader".to_owned())
                .spawn(move || serve(&mut held, &waiting))?;
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
        let inline = Inline { held: ReconnectingConnection::open(open)?, waiting, at_once: false };
        Ok(Self {
            jobs: RwLock::new(Some(jobs)),
            threads: Mutex::default(),
            busy: Arc::default(),
            statements: Arc::default(),
            inline: Some(Mutex::new(inline)),
            arrived: tokio::sync::Notify::new(),
        })
    }

    /// Runs at most `most` waiting reads; returns how many.
    #[cfg(any(test, feature = "testing"))]
    pub(in crate::store) fn read_waiting(&self, most: usize) -> usize {
        let Some(inline) = &self.inline else { return 0 };
        let mut inline = inline.lock().unwrap_or_else(PoisonError::into_inner);
        let Inline { held, waiting, .. } = &mut *inline;
        waiting.try_iter().take(most).map(|job| job(held)).count()
    }

    /// Makes the first waiting read fail.
    #[cfg(any(test, feature = "testing"))]
    pub(in crate::store) fn refuse_waiting(&self) {
        if let Some(inline) = &self.inline {
            drop(inline.lock().unwrap_or_else(PoisonError::into_inner).waiting.try_recv());
        }
    }

    /// From now on runs reads as they arrive, or lets them wait again.
    #[cfg(any(test, feature = "testing"))]
    pub(in crate::store) fn read_at_once(&self, at_once: bool) {
        if let Some(inline) = &self.inline {
            inline.lock().unwrap_or_else(PoisonError::into_inner).at_once = at_once;
        }
    }

    /// Runs a read on one snapshot.
    pub(in crate::store) async fn read<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        self.run(false, work).await
    }

    /// Runs a read of one statement, which needs no transaction for its snapshot.
    pub(in crate::store) async fn read_once<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        self.run(true, work).await
    }

    async fn run<T, F>(&self, is_one_statement: bool, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        let (caller, answer) = oneshot::channel();
        let busy = Arc::clone(&self.busy);
        let given_up_at = deadline();
        #[cfg(any(test, feature = "testing"))]
        let statements = Arc::clone(&self.statements);
        self.send(Box::new(move |held| {
            let is_given_up = || given_up_at.is_some_and(|at| at <= Instant::now());
            if is_given_up() {
                // Its request has ended without it.
                return;
            }
            #[cfg(any(test, feature = "testing"))]
            let before = statements_of_thread();
            let result = match held.begin(is_one_statement) {
                // Opening another connection may have used up its time.
                Ok(_) if is_given_up() => Err(unavailable("the caller no longer waits")),
                Ok(connection) => catch_unwind(AssertUnwindSafe(|| work(connection)))
                    .unwrap_or_else(|_| Err(internal("a read panicked"))),
                Err(error) => Err(error.into()),
            };
            let result = match held.end() {
                Ok(()) => result,
                Err(error) => result.and(Err(error.into())),
            };
            busy.fetch_add(u64::from(was_busy(&result)), Ordering::Relaxed);
            #[cfg(any(test, feature = "testing"))]
            statements.fetch_add(statements_of_thread() - before, Ordering::Relaxed);
            // The caller may have gone away.
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
                job(&mut inline.held);
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

    /// Finishes waiting reads and ends the threads. Blocks until then.
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

fn serve(held: &mut ReconnectingConnection, waiting: &Receiver<Job>) {
    while let Ok(job) = waiting.recv() {
        job(held);
    }
}

/// Opens a connection.
pub(in crate::store) type ConnectFn = Arc<dyn Fn() -> sql::Result<Connection> + Send + Sync>;

/// The connection of one reader.
struct ReconnectingConnection {
    open: ConnectFn,
    /// `None` after it broke, until the next read.
    connection: Option<Connection>,
}

impl ReconnectingConnection {
    /// Opens it.
    fn open(open: ConnectFn) -> sql::Result<Self> {
        let connection = Some(open()?);
        Ok(Self { open, connection })
    }

    /// Begins a read. Replaces a connection that has broken since the last read.
    fn begin(&mut self, is_one_statement: bool) -> sql::Result<&Connection> {
        let begin = |connection: &Connection| {
            if is_one_statement && connection.can_read_without_tx() {
                return Ok(());
            }
            connection.begin_read()
        };
        if let Some(kept) = self.connection.take() {
            match begin(&kept) {
                Ok(()) => return Ok(self.connection.insert(kept)),
                Err(_) if kept.is_broken() => {}
                Err(error) => {
                    self.connection = Some(kept);
                    return Err(error);
                }
            }
        }
        let opened = (self.open)()?;
        begin(&opened)?;
        Ok(self.connection.insert(opened))
    }

    /// Ends the transaction, if it has not ended.
    fn end(&mut self) -> sql::Result<()> {
        let Some(connection) = &self.connection else { return Ok(()) };
        let ended = connection.rollback();
        if connection.is_broken() {
            self.connection = None;
        }
        ended
    }
}
