//! The writer thread with group commit: each waiting write runs in its own savepoint, one `COMMIT`
//! makes all of them durable, and only then do the callers get their results.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread::JoinHandle;

use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::failpoint::{self, Stage};
use crate::store::deadline::{before_deadline, deadline};
use crate::store::delivery::start::{self, StartInCommit};
use crate::store::sql::answer::{Answer, pack, unpack};
use crate::store::sql::connection::Connection;
use crate::store::sql::error::{Error, Result as SqlResult, internal, unavailable};
use crate::store::sql::fault::Faults;
use crate::store::sql::moves::begin_write_checked;
use crate::store::{Change, ChangeListener, DeliveryChange, Operation, StartHook, StoreError};

/// Most writes of one commit. At 256 rows per commit the fsync is a small part of the work (35,600
/// devices a second, compared with 38,100 at 1,024 rows); more would only make the first ones wait
/// longer.
pub const WRITES_PER_COMMIT_MAX: usize = 256;
/// Most writes that wait for the writer; further ones are refused, so that a stalled disk shows.
pub const WRITES_WAITING_MAX: usize = 8_192;

/// The listeners for changes.
pub(in crate::store) type Listeners = Arc<RwLock<Vec<Arc<dyn ChangeListener>>>>;

/// The transaction of a write. Listeners are called for its changes after the commit.
pub(in crate::store) struct WriteTx<'c> {
    connection: &'c Connection,
    changes: &'c mut Vec<Change>,
}

impl WriteTx<'_> {
    /// Records a change for the listeners.
    pub(in crate::store) fn changed(&mut self, change: impl Into<Change>) {
        let change = change.into();
        // A thousand events of one request are one change.
        if self.changes.last() != Some(&change) {
            self.changes.push(change);
        }
    }

    /// Drops a change that this commit has handled itself: no listener is called for it.
    pub(in crate::store) fn forget(&mut self, change: impl Into<Change>) {
        let change = change.into();
        self.changes.retain(|noted| *noted != change);
    }
}

impl std::ops::Deref for WriteTx<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.connection
    }
}

/// A waiting write. What it does and returns is behind a box, so that one version of this code serves
/// every operation.
struct Job {
    operation: Operation,
    work: Option<Work>,
    /// When its caller stops waiting.
    given_up_at: Option<Instant>,
    result: Option<Result<Answer, StoreError>>,
    caller: oneshot::Sender<Result<Answer, StoreError>>,
}

/// What a write does.
type Work = Box<dyn FnOnce(&mut WriteTx<'_>) -> Result<Answer, StoreError> + Send>;

impl Job {
    /// Whether its caller still waits.
    fn is_awaited(&self) -> bool {
        self.given_up_at.is_none_or(|at| Instant::now() < at)
    }

    /// Runs it once; false if it failed and its savepoint has to be rolled back.
    fn run(&mut self, tx: &mut WriteTx<'_>) -> bool {
        let Some(work) = self.work.take() else { return false };
        let result = catch_unwind(AssertUnwindSafe(|| work(tx)))
            .unwrap_or_else(|_| Err(internal("a write panicked")));
        let keep = result.is_ok();
        self.result = Some(result);
        keep
    }

    /// Sends its caller the result, or the cause if the whole batch failed.
    fn answer(self, lost: Option<&str>) {
        let result = match (lost, self.result) {
            // Even a refusal may depend on data that was lost with the batch.
            (Some(cause), _) => Err(unavailable(cause)),
            (None, Some(result)) => result,
            // Its deadline passed before it ran; the caller may notice a moment later.
            (None, None) if self.work.is_some() => Err(unavailable("the caller no longer waits")),
            (None, None) => Err(internal("a write was committed without being run")),
        };
        // The caller may be gone; the write is committed anyway.
        let _ = self.caller.send(result);
    }

    /// Its operation, if it succeeded.
    fn op_name(&self) -> Option<Operation> {
        let is_kept = self.result.as_ref().is_some_and(Result::is_ok);
        is_kept.then_some(self.operation)
    }
}

/// What a database provides to the writer.
pub(in crate::store) trait WriterBackend: Send + 'static {
    /// Opens a connection in place of a broken one.
    fn open(&mut self) -> SqlResult<Connection>;

    /// Fails if a commit would be lost. Called before each commit.
    fn check(&self) -> SqlResult<()> {
        Ok(())
    }

    /// Called after each commit, once the callers have their results, with its changes. Returns whether
    /// other servers were notified.
    fn after_commit(&mut self, _: &Connection, _: &[Change]) -> bool {
        true
    }
}

/// The writer loop without a thread, and its queue.
#[cfg(any(test, feature = "testing"))]
type Inline = (WriterLoop, Receiver<Box<Job>>);

/// The handle of the writer thread.
pub(in crate::store) struct Writer {
    jobs: RwLock<Option<SyncSender<Box<Job>>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// Transactions that were committed.
    pub(in crate::store) commits: Arc<AtomicU64>,
    start_hook: Arc<Mutex<Option<StartHook>>>,
    faults: Arc<Faults>,
    /// The state of the thread, if there is none.
    #[cfg(any(test, feature = "testing"))]
    inline: Option<Mutex<Inline>>,
    /// Notified of each write that arrives.
    #[cfg(any(test, feature = "testing"))]
    pub(in crate::store) arrived: tokio::sync::Notify,
}

impl Writer {
    /// Starts the thread on an open connection.
    pub(in crate::store) fn start(
        source: Box<dyn WriterBackend>,
        connection: Connection,
        listeners: Listeners,
        busy: Arc<AtomicU64>,
    ) -> std::io::Result<Self> {
        let mut work = WriterLoop::new(source, connection, listeners, busy);
        let (commits, faults) = (Arc::clone(&work.commits), Arc::clone(&work.faults));
        let start_hook = Arc::clone(&work.start_hook);
        let (jobs, waiting) = sync_channel(WRITES_WAITING_MAX);
        let thread = std::thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || work.run(&waiting))?;
        Ok(Self {
            jobs: RwLock::new(Some(jobs)),
            thread: Mutex::new(Some(thread)),
            commits,
            start_hook,
            faults,
            #[cfg(any(test, feature = "testing"))]
            inline: None,
            #[cfg(any(test, feature = "testing"))]
            arrived: tokio::sync::Notify::new(),
        })
    }

    /// Starts no thread: [`Writer::commit_waiting`] runs waiting writes.
    #[cfg(any(test, feature = "testing"))]
    pub(in crate::store) fn inline(
        source: Box<dyn WriterBackend>,
        connection: Connection,
        listeners: Listeners,
    ) -> Self {
        let work = WriterLoop::new(source, connection, listeners, Arc::default());
        let (commits, faults) = (Arc::clone(&work.commits), Arc::clone(&work.faults));
        let start_hook = Arc::clone(&work.start_hook);
        let (jobs, waiting) = sync_channel(WRITES_WAITING_MAX);
        Self {
            jobs: RwLock::new(Some(jobs)),
            thread: Mutex::default(),
            commits,
            start_hook,
            faults,
            inline: Some(Mutex::new((work, waiting))),
            arrived: tokio::sync::Notify::new(),
        }
    }

    /// Commits at most `most` waiting writes as one batch; returns how many.
    #[cfg(any(test, feature = "testing"))]
    pub(in crate::store) fn commit_waiting(&self, most: usize) -> usize {
        let Some(inline) = &self.inline else { return 0 };
        let mut inline = inline.lock().unwrap_or_else(PoisonError::into_inner);
        let (work, waiting) = &mut *inline;
        let batch: Vec<_> = waiting.try_iter().take(most.min(WRITES_PER_COMMIT_MAX)).collect();
        let count = batch.len();
        if count > 0 {
            work.commit(batch);
        }
        count
    }

    /// Runs a write and returns once it is durable.
    pub(in crate::store) async fn write<T, F>(
        &self,
        operation: Operation,
        work: F,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&mut WriteTx<'_>) -> Result<T, StoreError> + Send + 'static,
    {
        let work = Box::new(|tx: &mut WriteTx<'_>| work(tx).map(pack));
        self.run(operation, work).await.map(unpack)
    }

    async fn run(&self, operation: Operation, work: Work) -> Result<Answer, StoreError> {
        let (caller, answer) = oneshot::channel();
        let (work, given_up_at) = (Some(work), deadline());
        self.send(Box::new(Job { operation, work, given_up_at, result: None, caller }))?;
        before_deadline(answer)
            .await?
            .unwrap_or_else(|_| Err(unavailable("the writer has stopped")))
    }

    fn send(&self, job: Box<Job>) -> Result<(), StoreError> {
        let jobs = self.jobs.read().unwrap_or_else(PoisonError::into_inner);
        let Some(jobs) = jobs.as_ref() else { return Err(unavailable("the store is closed")) };
        jobs.try_send(job).map_err(|error| match error {
            TrySendError::Full(_) => unavailable("too many writes are waiting"),
            TrySendError::Disconnected(_) => unavailable("the writer has stopped"),
        })?;
        #[cfg(any(test, feature = "testing"))]
        self.arrived.notify_one();
        Ok(())
    }

    /// Sets the hook that every commit calls from now on if it makes a notification due.
    pub(in crate::store) fn set_start_hook(&self, hook: StartHook) {
        *self.start_hook.lock().unwrap_or_else(PoisonError::into_inner) = Some(hook);
    }

    /// Finishes waiting writes and ends the thread. Blocks until then.
    pub(in crate::store) fn stop(&self) {
        self.jobs.write().unwrap_or_else(PoisonError::into_inner).take();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // The thread catches the panics of jobs; its own result does not matter.
            let _ = thread.join();
        }
    }

    /// The faults that tests inject.
    #[cfg_attr(not(any(test, feature = "testing")), expect(dead_code, reason = "a test seam"))]
    pub(in crate::store) fn faults(&self) -> &Faults {
        &self.faults
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The state of the writer thread.
struct WriterLoop {
    source: Box<dyn WriterBackend>,
    /// `None` after a failed batch, until the next one opens a connection.
    connection: Option<Connection>,
    /// Set if a commit may be stored without all listeners and servers being notified, because its
    /// reply or the notification failed. The next commit then reports [`Change::Resync`]; it is later
    /// than the other one, since both hold the write lock.
    resync_pending: bool,
    listeners: Listeners,
    busy: Arc<AtomicU64>,
    commits: Arc<AtomicU64>,
    start_hook: Arc<Mutex<Option<StartHook>>>,
    faults: Arc<Faults>,
}

impl WriterLoop {
    fn new(
        source: Box<dyn WriterBackend>,
        connection: Connection,
        listeners: Listeners,
        busy: Arc<AtomicU64>,
    ) -> Self {
        Self {
            source,
            connection: Some(connection),
            resync_pending: false,
            listeners,
            busy,
            commits: Arc::default(),
            start_hook: Arc::default(),
            faults: Arc::default(),
        }
    }

    fn run(&mut self, waiting: &Receiver<Box<Job>>) {
        while let Ok(first) = waiting.recv() {
            let mut batch = vec![first];
            while batch.len() < WRITES_PER_COMMIT_MAX {
                let Ok(next) = waiting.try_recv() else { break };
                batch.push(next);
            }
            self.commit(batch);
        }
    }

    /// Commits a batch and sends the results. Writes whose callers no longer wait are dropped.
    fn commit(&mut self, mut batch: Vec<Box<Job>>) {
        batch.retain(|job| job.is_awaited());
        if batch.is_empty() {
            return;
        }
        let mut start = None;
        let attempt = self.attempt(&mut batch, &mut start);
        if let Some(start) = start {
            let is_committed = attempt.is_ok();
            let _ = catch_unwind(AssertUnwindSafe(|| start.finish(is_committed)));
        }
        match attempt {
            Ok(changes) => {
                notify_listeners(&self.listeners, &changes);
                batch.into_iter().for_each(|job| job.answer(None));
                if let Some(connection) = &self.connection {
                    self.resync_pending |= !self.source.after_commit(connection, &changes);
                }
            }
            Err(cause) => {
                self.busy.fetch_add(u64::from(cause.is_busy()), Ordering::Relaxed);
                // The state of a connection after a failed commit or fsync cannot be trusted.
                self.connection = None;
                let cause = cause.to_string();
                batch.into_iter().for_each(|job| job.answer(Some(&cause)));
            }
        }
    }

    /// Runs a batch in one transaction. Any error means that nothing of it is stored.
    fn attempt(
        &mut self,
        batch: &mut [Box<Job>],
        start: &mut Option<StartInCommit>,
    ) -> SqlResult<Vec<Change>> {
        let connection = begin(&mut self.connection, &mut *self.source)?;
        let mut changes = Vec::new();
        // A single write needs no savepoint, which would copy every page that it changes.
        let is_alone = batch.len() == 1;
        for job in &mut *batch {
            // Waiting for the lock or for another connection may have used up its time.
            if !job.is_awaited() {
                continue;
            }
            if !is_alone {
                connection.savepoint()?;
            }
            self.faults.at_write(connection)?;
            let changes_before = changes.len();
            let keep = job.run(&mut WriteTx { connection, changes: &mut changes });
            if !connection.in_transaction() {
                return Err(Error::TransactionAborted);
            }
            match (keep, is_alone) {
                (true, true) => {}
                (false, true) => {
                    connection.rollback()?;
                    return Ok(Vec::new());
                }
                (true, false) => connection.release_savepoint()?,
                (false, false) => {
                    changes.truncate(changes_before);
                    connection.rollback_to_savepoint()?;
                }
            }
        }
        reached(batch, Stage::Written);
        let hook = self.start_hook.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(hook) = &*hook {
            *start = start_due(connection, hook, &mut changes)?;
        }
        drop(hook);
        self.source.check()?;
        self.faults.at_commit()?;
        if std::mem::replace(&mut self.resync_pending, true) {
            changes.push(Change::Resync);
        }
        connection.commit()?;
        self.commits.fetch_add(1, Ordering::Relaxed);
        reached(batch, Stage::Committed);
        self.faults.at_answer()?;
        self.resync_pending = false;
        Ok(changes)
    }
}

/// Starts what a commit makes due, as part of it. A failure or a panic leaves the commit as it was.
fn start_due(
    connection: &Connection,
    hook: &StartHook,
    changes: &mut Vec<Change>,
) -> SqlResult<Option<StartInCommit>> {
    if !changes.contains(&Change::Delivery(DeliveryChange::NotificationDue)) {
        return Ok(None);
    }
    let mut with_start = changes.clone();
    connection.savepoint()?;
    let mut tx = WriteTx { connection, changes: &mut with_start };
    let started = catch_unwind(AssertUnwindSafe(|| start::in_commit(&mut tx, hook)));
    if !connection.in_transaction() {
        return Err(Error::TransactionAborted);
    }
    match started {
        Ok(Ok(start)) => {
            connection.release_savepoint()?;
            *changes = with_start;
            Ok(start)
        }
        Ok(Err(_)) | Err(_) => {
            connection.rollback_to_savepoint()?;
            Ok(None)
        }
    }
}

/// Calls every listener for each change, in order. A panic of one listener does not affect the others.
pub(in crate::store) fn notify_listeners(listeners: &Listeners, changes: &[Change]) {
    if changes.is_empty() {
        return;
    }
    let listeners = listeners.read().unwrap_or_else(PoisonError::into_inner);
    for listener in listeners.iter() {
        for change in changes {
            let _ = catch_unwind(AssertUnwindSafe(|| listener.on_change(*change)));
        }
    }
}

/// Begins a batch. Replaces a connection that has broken since the last one.
fn begin<'k>(
    kept: &'k mut Option<Connection>,
    source: &mut dyn WriterBackend,
) -> SqlResult<&'k Connection> {
    if let Some(connection) = kept.take() {
        match begin_write_checked(&connection) {
            Ok(()) => return Ok(kept.insert(connection)),
            Err(_) if connection.is_broken() => {}
            Err(error) => return Err(error),
        }
    }
    let connection = source.open()?;
    begin_write_checked(&connection)?;
    Ok(kept.insert(connection))
}

/// Fail points, where tests kill the process.
fn reached(batch: &[Box<Job>], stage: Stage) {
    if cfg!(any(test, feature = "testing")) {
        batch
            .iter()
            .filter_map(|job| job.op_name())
            .for_each(|operation| failpoint::reach(operation.as_str(), stage));
    }
}
