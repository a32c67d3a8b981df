//! The writer thread with group commit. The thread takes all waiting writes as one batch and runs
//! each in its own savepoint. One `COMMIT` makes the batch durable. Only then do the callers get
//! their results.
//!
//! Applications take turns (`turns.rs`), and a batch that has taken long enough is committed before
//! its remaining writes run. So large writes of one application delay a write of another one by one
//! of them, and not by all. The writes of the delivery engine take their turn together, as one
//! requester.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::Duration;

use notify_core::AuditEntry;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::failpoint::{self, Stage};
use crate::store::audit;
use crate::store::deadline::{Requester, before_deadline, deadline, requester};
use crate::store::delivery::start::{self, StartInCommit};
use crate::store::sql::answer::{Answer, pack, unpack};
use crate::store::sql::connection::Connection;
#[cfg(any(test, feature = "testing"))]
use crate::store::sql::connection::statements_of_thread;
use crate::store::sql::error::{Error, Result as SqlResult, internal, unavailable};
use crate::store::sql::fault::Faults;
use crate::store::sql::moves::begin_write_checked;
use crate::store::sql::scope::WriteScope;
use crate::store::sql::turns::{Length, Refused, Turns};
use crate::store::{Change, ChangeListener, DeliveryChange, Operation, StartHook, StoreError};

/// The most writes of one commit. With 256 writes per commit, the fsync is a small part of the
/// work: a benchmark registered 35,600 devices a second, and 38,100 with 1,024 writes per commit. A
/// larger batch mainly makes its first writes wait longer.
pub const WRITES_PER_COMMIT_MAX: usize = 256;
/// After this time, a batch is committed, and its remaining writes are left to the next batch.
const BATCH_TIME: Duration = Duration::from_millis(25);
/// The most writes of one requester that may wait for the writer. Further writes are refused, so
/// that a stalled disk becomes visible as errors.
pub const WRITES_WAITING_MAX: usize = 8_192;

/// The listeners that are called for changes after each commit.
pub(in crate::store) type Listeners = Arc<RwLock<Vec<Arc<dyn ChangeListener>>>>;

/// The transaction of a write. Listeners are called for its changes after the commit.
pub(in crate::store) struct WriteTx<'c> {
    connection: &'c Connection,
    changes: &'c mut Vec<Change>,
}

impl<'c> WriteTx<'c> {
    /// A transaction that is open on `connection`.
    pub(in crate::store) fn new(connection: &'c Connection, changes: &'c mut Vec<Change>) -> Self {
        Self { connection, changes }
    }

    /// Records a change for the listeners.
    pub(in crate::store) fn changed(&mut self, change: impl Into<Change>) {
        let change = change.into();
        // A request with a thousand events records the same change a thousand times; once is
        // enough.
        if self.changes.last() != Some(&change) {
            self.changes.push(change);
        }
    }

    /// Removes a recorded change that this commit has already handled. No listener is called for
    /// it.
    pub(in crate::store) fn forget(&mut self, change: impl Into<Change>) {
        let change = change.into();
        self.changes.retain(|recorded| *recorded != change);
    }
}

impl std::ops::Deref for WriteTx<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.connection
    }
}

/// A waiting write. Its work and its result are boxed, so that this code is compiled once and not
/// for every operation.
pub(in crate::store) struct Job {
    operation: Operation,
    scope: WriteScope,
    requester: Requester,
    work: Option<Work>,
    /// The entry of the audit trail that belongs to the write, if an operator requested it.
    audit: Option<AuditEntry>,
    /// When the caller stops waiting; `None` if it has no deadline.
    deadline: Option<Instant>,
    result: Option<Result<Answer, StoreError>>,
    caller: oneshot::Sender<Result<Answer, StoreError>>,
}

/// The result of a write that its caller waits for.
pub(in crate::store) struct JobResult(oneshot::Receiver<Result<Answer, StoreError>>);

impl JobResult {
    /// Waits for the result, at most until the deadline of the caller.
    pub(in crate::store) async fn wait(self) -> Result<Answer, StoreError> {
        let result = before_deadline(self.0)
            .await?
            .unwrap_or_else(|_| Err(unavailable("the writer has stopped")));
        if result.is_ok() {
            // Later writes of the request belong to the same change.
            audit::discard_pending();
        }
        result
    }
}

/// The statements of a write.
pub(in crate::store) type Work =
    Box<dyn FnOnce(&mut WriteTx<'_>) -> Result<Answer, StoreError> + Send>;

impl Job {
    /// Makes a job, and the receiver of its result.
    pub(in crate::store) fn new(
        operation: Operation,
        scope: WriteScope,
        work: Work,
    ) -> (Self, JobResult) {
        let (caller, result) = oneshot::channel();
        let job = Self {
            operation,
            scope,
            requester: requester(),
            work: Some(work),
            audit: audit::pending(),
            deadline: deadline(),
            result: None,
            caller,
        };
        (job, JobResult(result))
    }

    /// Whether the write belongs to the request of an operator, and adds to the audit trail.
    pub(in crate::store) fn is_audited(&self) -> bool {
        self.audit.is_some()
    }

    /// What the write changes.
    pub(in crate::store) fn scope(&self) -> WriteScope {
        self.scope
    }

    /// Sets the result of a write that ran without [`Job::run`].
    pub(in crate::store) fn set_answer(&mut self, answer: Answer) {
        self.work = None;
        self.result = Some(Ok(answer));
    }

    /// Whether the caller still waits.
    pub(in crate::store) fn is_awaited(&self) -> bool {
        self.deadline.is_none_or(|deadline| Instant::now() < deadline)
    }

    /// Runs the write. Returns false if it failed; its changes then have to be rolled back.
    fn run(&mut self, tx: &mut WriteTx<'_>) -> bool {
        let Some(work) = self.work.take() else { return false };
        let write = || {
            let answer = work(tx)?;
            if let Some(entry) = &self.audit {
                audit::insert(tx, entry)?;
            }
            Ok(answer)
        };
        let result = catch_unwind(AssertUnwindSafe(write))
            .unwrap_or_else(|_| Err(internal("a write panicked")));
        let has_succeeded = result.is_ok();
        self.result = Some(result);
        has_succeeded
    }

    /// Sends the result to the caller. If the whole batch failed, `batch_failure` is the cause.
    pub(in crate::store) fn answer(self, batch_failure: Option<&str>) {
        let result = if let Some(cause) = batch_failure {
            // Even a refusal may depend on data of the batch that was lost.
            Err(unavailable(cause))
        } else if let Some(result) = self.result {
            result
        } else if self.work.is_some() {
            // The deadline passed before the write ran. The caller may notice that a moment later.
            Err(unavailable("the caller no longer waits"))
        } else {
            Err(internal("a write was committed without being run"))
        };
        // Sending fails if the caller has stopped waiting. The write is committed anyway.
        let _ = self.caller.send(result);
    }

    /// The operation of a write that succeeded.
    pub(in crate::store) fn succeeded_operation(&self) -> Option<Operation> {
        let has_succeeded = self.result.as_ref().is_some_and(Result::is_ok);
        has_succeeded.then_some(self.operation)
    }
}

/// What a database provides to the writer.
pub(in crate::store) trait WriterBackend: Send + 'static {
    /// Opens a connection in place of a broken one.
    fn open(&mut self) -> SqlResult<Connection>;

    /// Fails if a commit would be lost, because the file was deleted or replaced. Called before
    /// each commit.
    fn check(&self) -> SqlResult<()> {
        Ok(())
    }

    /// Called with the changes of each commit, after the callers got their results. Sends the
    /// changes to the other servers of the database; returns false if that failed.
    fn after_commit(&mut self, _: &Connection, _: &[Change]) -> bool {
        true
    }
}

/// The handle of the writer thread.
pub(in crate::store) struct Writer {
    jobs: Arc<Turns<Job>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// The number of committed transactions.
    pub(in crate::store) commits: Arc<AtomicU64>,
    start_hook: Arc<Mutex<Option<StartHook>>>,
    faults: Arc<Faults>,
    resync_requested: Arc<AtomicBool>,
    /// How many statements writes have run.
    #[cfg(any(test, feature = "testing"))]
    pub(in crate::store) statements: Arc<AtomicU64>,
    /// The writer loop of a store without threads.
    #[cfg(any(test, feature = "testing"))]
    inline: Option<Mutex<WriterLoop>>,
    /// Notified of each write that arrives.
    #[cfg(any(test, feature = "testing"))]
    pub(in crate::store) arrived: tokio::sync::Notify,
}

impl Writer {
    /// Starts the thread on an open connection. `busy` counts the batches that failed because
    /// another process locked the database.
    pub(in crate::store) fn start(
        backend: Box<dyn WriterBackend>,
        connection: Connection,
        listeners: Listeners,
        busy: Arc<AtomicU64>,
    ) -> std::io::Result<Self> {
        let mut writer_loop = WriterLoop::new(backend, connection, listeners, busy);
        writer_loop.batch_time = Some(BATCH_TIME);
        let commits = Arc::clone(&writer_loop.commits);
        let faults = Arc::clone(&writer_loop.faults);
        let start_hook = Arc::clone(&writer_loop.start_hook);
        let resync_requested = Arc::clone(&writer_loop.resync_requested);
        #[cfg(any(test, feature = "testing"))]
        let statements = Arc::clone(&writer_loop.statements);
        let jobs = Arc::new(Turns::new(1, WRITES_WAITING_MAX));
        let waiting = Arc::clone(&jobs);
        let thread = std::thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || writer_loop.run(&waiting))?;
        Ok(Self {
            jobs,
            thread: Mutex::new(Some(thread)),
            commits,
            start_hook,
            faults,
            resync_requested,
            #[cfg(any(test, feature = "testing"))]
            statements,
            #[cfg(any(test, feature = "testing"))]
            inline: None,
            #[cfg(any(test, feature = "testing"))]
            arrived: tokio::sync::Notify::new(),
        })
    }

    /// Starts no thread: [`Writer::commit_waiting`] runs waiting writes.
    #[cfg(any(test, feature = "testing"))]
    pub(in crate::store) fn inline(
        backend: Box<dyn WriterBackend>,
        connection: Connection,
        listeners: Listeners,
    ) -> Self {
        let writer_loop = WriterLoop::new(backend, connection, listeners, Arc::default());
        let commits = Arc::clone(&writer_loop.commits);
        let faults = Arc::clone(&writer_loop.faults);
        let start_hook = Arc::clone(&writer_loop.start_hook);
        let resync_requested = Arc::clone(&writer_loop.resync_requested);
        let statements = Arc::clone(&writer_loop.statements);
        Self {
            jobs: Arc::new(Turns::new(1, WRITES_WAITING_MAX)),
            thread: Mutex::default(),
            commits,
            start_hook,
            faults,
            resync_requested,
            statements,
            inline: Some(Mutex::new(writer_loop)),
            arrived: tokio::sync::Notify::new(),
        }
    }

    /// Commits at most `most` waiting writes as one batch, and returns their number.
    #[cfg(any(test, feature = "testing"))]
    pub(in crate::store) fn commit_waiting(&self, most: usize) -> usize {
        let Some(inline) = &self.inline else { return 0 };
        let mut writer_loop = inline.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = std::iter::from_fn(|| self.jobs.try_next().map(|(job, _)| job));
        let batch: Vec<_> = waiting.take(most.min(WRITES_PER_COMMIT_MAX)).collect();
        let count = batch.len();
        if count > 0 {
            self.jobs.put_back(writer_loop.commit(batch));
        }
        count
    }

    /// Runs a write to `scope` and returns its result once it is durable.
    ///
    /// # Errors
    /// The error of `work`, or `Unavailable` when the queue is full, the store is closed, the batch
    /// failed, or the caller's deadline passes.
    pub(in crate::store) async fn write<T, F>(
        &self,
        operation: Operation,
        scope: WriteScope,
        work: F,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&mut WriteTx<'_>) -> Result<T, StoreError> + Send + 'static,
    {
        let work = Box::new(|tx: &mut WriteTx<'_>| work(tx).map(pack));
        self.run(operation, scope, work).await.map(unpack)
    }

    async fn run(
        &self,
        operation: Operation,
        scope: WriteScope,
        work: Work,
    ) -> Result<Answer, StoreError> {
        let (job, result) = Job::new(operation, scope, work);
        self.send(job)?;
        result.wait().await
    }

    /// Adds a job to the queue. Answers its caller if that fails.
    pub(in crate::store) fn send_or_answer(&self, job: Job) {
        match self.jobs.push(job.requester, Length::Short, job) {
            Ok(()) => {}
            Err(Refused::Full(job)) => job.answer(Some("too many writes are waiting")),
            Err(Refused::Closed(job)) => job.answer(Some("the store is closed")),
        }
    }

    /// Adds a job to the queue.
    ///
    /// # Errors
    /// `Unavailable` when the queue is full or the store is closed.
    pub(in crate::store) fn send(&self, job: Job) -> Result<(), StoreError> {
        self.jobs.push(job.requester, Length::Short, job).map_err(|refused| match refused {
            Refused::Full(_) => unavailable("too many writes are waiting"),
            Refused::Closed(_) => unavailable("the store is closed"),
        })?;
        #[cfg(any(test, feature = "testing"))]
        self.arrived.notify_one();
        Ok(())
    }

    /// Sets the hook that starts due notifications. From now on, every commit that makes a
    /// notification due calls the hook.
    pub(in crate::store) fn set_start_hook(&self, hook: StartHook) {
        *self.start_hook.lock().unwrap_or_else(PoisonError::into_inner) = Some(hook);
    }

    /// Finishes the waiting writes and ends the thread. Blocks until the thread has ended. Later
    /// writes fail.
    pub(in crate::store) fn stop(&self) {
        self.jobs.close();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // The thread catches the panics of jobs; its own result does not matter.
            let _ = thread.join();
        }
    }

    /// The faults that tests inject.
    pub(in crate::store) fn faults(&self) -> &Arc<Faults> {
        &self.faults
    }

    /// Makes the next commit report [`Change::Resync`] when it is set.
    pub(in crate::store) fn resync_requested(&self) -> &Arc<AtomicBool> {
        &self.resync_requested
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The state of the writer thread.
struct WriterLoop {
    backend: Box<dyn WriterBackend>,
    /// `None` after a failed batch. The next batch opens a new connection.
    connection: Option<Connection>,
    /// Whether an earlier commit may be stored although not all listeners and other servers were
    /// called for its changes: its reply was lost, or sending the changes failed. The next commit
    /// then reports [`Change::Resync`]. It takes the lock of the installation exclusively, so it waits
    /// for the earlier one to end.
    resync_pending: bool,
    listeners: Listeners,
    busy: Arc<AtomicU64>,
    commits: Arc<AtomicU64>,
    start_hook: Arc<Mutex<Option<StartHook>>>,
    faults: Arc<Faults>,
    /// Set when the reply to the commit of a set was lost.
    resync_requested: Arc<AtomicBool>,
    #[cfg(any(test, feature = "testing"))]
    statements: Arc<AtomicU64>,
    /// After this time, a batch is committed; `None` if it has all the time it needs.
    batch_time: Option<Duration>,
}

impl WriterLoop {
    fn new(
        backend: Box<dyn WriterBackend>,
        connection: Connection,
        listeners: Listeners,
        busy: Arc<AtomicU64>,
    ) -> Self {
        Self {
            backend,
            connection: Some(connection),
            resync_pending: false,
            listeners,
            busy,
            commits: Arc::default(),
            start_hook: Arc::default(),
            faults: Arc::default(),
            resync_requested: Arc::default(),
            #[cfg(any(test, feature = "testing"))]
            statements: Arc::default(),
            batch_time: None,
        }
    }

    /// Commits waiting writes in batches until the queue is closed.
    fn run(&mut self, waiting: &Turns<Job>) {
        while let Some((first, _)) = waiting.next() {
            let mut batch = vec![first];
            while batch.len() < WRITES_PER_COMMIT_MAX {
                let Some((next, _)) = waiting.try_next() else { break };
                batch.push(next);
            }
            waiting.put_back(self.commit(batch));
        }
    }

    /// Commits a batch and sends the results. Drops writes whose callers no longer wait. Returns the
    /// writes that are left to the next batch.
    fn commit(&mut self, mut batch: Vec<Job>) -> Vec<(Requester, Job)> {
        batch.retain(|job| job.is_awaited());
        if batch.is_empty() {
            return Vec::new();
        }
        let (mut start, mut rest) = (None, Vec::new());
        let attempt = self.attempt(&mut batch, &mut rest, &mut start);
        if let Some(start) = start {
            let is_committed = attempt.is_ok();
            let _ = catch_unwind(AssertUnwindSafe(|| start.finish(is_committed)));
        }
        match attempt {
            Ok(changes) => {
                notify_listeners(&self.listeners, &changes);
                batch.into_iter().for_each(|job| job.answer(None));
                if let Some(connection) = &self.connection {
                    self.resync_pending |= !self.backend.after_commit(connection, &changes);
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
        rest.into_iter().map(|job| (job.requester, job)).collect()
    }

    fn has_start_hook(&self) -> bool {
        self.start_hook.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Runs and commits a batch in one transaction, and returns its changes. After an error the
    /// batch counts as failed, although a commit whose reply was lost may be stored. Sets `start`
    /// if the transaction started notifications. The caller must then finish the start, also after
    /// an error. Moves the writes for which no time is left to `rest`.
    fn attempt(
        &mut self,
        batch: &mut Vec<Job>,
        rest: &mut Vec<Job>,
        start: &mut Option<StartInCommit>,
    ) -> SqlResult<Vec<Change>> {
        self.resync_pending |= self.resync_requested.swap(false, Ordering::AcqRel);
        // The start hook starts notifications of all applications.
        let scope = if self.resync_pending || self.has_start_hook() {
            WriteScope::Installation
        } else {
            WriteScope::all(batch.iter().map(Job::scope))
        };
        let connection = begin(&mut self.connection, &mut *self.backend, scope)?;
        let mut changes = Vec::new();
        // A single write can be rolled back with its transaction. A savepoint would copy every page
        // that it changes.
        let is_alone = batch.len() == 1;
        let began_at = Instant::now();
        let mut ran = 0;
        for job in &mut *batch {
            if ran > 0 && self.batch_time.is_some_and(|time| began_at.elapsed() >= time) {
                break;
            }
            ran += 1;
            // The deadline may have passed while the writer waited for the lock or for a new
            // connection.
            if !job.is_awaited() {
                continue;
            }
            if !is_alone {
                connection.savepoint()?;
            }
            self.faults.at_write(connection)?;
            let changes_before = changes.len();
            #[cfg(any(test, feature = "testing"))]
            let statements_before = statements_of_thread();
            let has_succeeded = job.run(&mut WriteTx { connection, changes: &mut changes });
            #[cfg(any(test, feature = "testing"))]
            self.statements
                .fetch_add(statements_of_thread() - statements_before, Ordering::Relaxed);
            if !connection.in_transaction() {
                return Err(Error::TransactionAborted);
            }
            if is_alone {
                if !has_succeeded {
                    connection.rollback()?;
                    return Ok(Vec::new());
                }
            } else if has_succeeded {
                connection.release_savepoint()?;
            } else {
                changes.truncate(changes_before);
                connection.rollback_to_savepoint()?;
            }
        }
        *rest = batch.split_off(ran);
        reach_failpoints(&*batch, Stage::Written);
        let hook = self.start_hook.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(hook) = &*hook {
            *start = start_due(connection, hook, &mut changes)?;
        }
        drop(hook);
        self.backend.check()?;
        self.faults.at_commit()?;
        if self.resync_pending {
            changes.push(Change::Resync);
        }
        // Stays set if the reply to the commit is lost.
        self.resync_pending = true;
        connection.commit()?;
        self.commits.fetch_add(1, Ordering::Relaxed);
        reach_failpoints(&*batch, Stage::Committed);
        self.faults.at_commit_reply()?;
        self.resync_pending = false;
        Ok(changes)
    }
}

/// Starts the notifications that a commit makes due, in the same commit. If the start fails or
/// panics, only the start is rolled back: the commit proceeds without it.
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

/// Calls every listener for each change, in order. A panic of one listener does not affect the
/// others.
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

/// Begins the transaction of a batch that writes to `scope`. Opens a new connection if there is none, or
/// if the old one has broken since the last batch.
fn begin<'k>(
    slot: &'k mut Option<Connection>,
    backend: &mut dyn WriterBackend,
    scope: WriteScope,
) -> SqlResult<&'k Connection> {
    if let Some(connection) = slot.take().filter(Connection::is_usable) {
        match begin_write_checked(&connection, scope) {
            Ok(()) => return Ok(slot.insert(connection)),
            Err(_) if connection.is_broken() => {}
            Err(error) => return Err(error),
        }
    }
    let connection = backend.open()?;
    begin_write_checked(&connection, scope)?;
    Ok(slot.insert(connection))
}

/// Passes the fail points of the operations that succeeded, where tests kill the process.
pub(in crate::store) fn reach_failpoints<'j>(
    batch: impl IntoIterator<Item = &'j Job>,
    stage: Stage,
) {
    if cfg!(any(test, feature = "testing")) {
        batch
            .into_iter()
            .filter_map(|job| job.succeeded_operation())
            .for_each(|operation| failpoint::reach(operation.as_str(), stage));
    }
}
