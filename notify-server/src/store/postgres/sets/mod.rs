//! Sets: the writes that make up the load, many rows in one statement.
//!
//! A row-by-row write takes several round trips to PostgreSQL, and waits for the write lock of the
//! installation. The writes of a set take a constant number of round trips, and share the lock with
//! the sets of all servers.
//!
//! A set refuses no row. It writes the rows that fit its statement. The other rows, and all rows
//! after a failed statement, become row-by-row writes, which also report what is wrong with a
//! request. So [`WriteSet::write_alone`] is what an operation means, and a set only makes it
//! quicker. SQLite has no round trips to save, and no sets.

mod accept;
mod checkpoint;
mod completion;
mod engagement;
mod event_log;
mod open_page;
mod register;
mod retries;
mod votes;

pub(in crate::store) use checkpoint::{CommitCheckpoint, FinishPages};
pub(in crate::store) use open_page::ClaimPage;
pub(in crate::store) use register::{RegisterDevice, WriteLastSeen};
pub(in crate::store) use retries::{ClaimRetries, SettleRetries};

use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::open::WriterSource;
use super::session::Session;
use crate::failpoint::Stage;
use crate::store::sql::error::{internal, unavailable};
use crate::store::sql::fault::Faults;
use crate::store::sql::writer::{Job, WriteTx, reach_failpoints};
use crate::store::sql::{
    self, Answer, Connection, Error, Listeners, WRITES_PER_COMMIT_MAX, WRITES_WAITING_MAX, Writer,
    WriterBackend, notify_listeners, pack, unpack,
};
use crate::store::{Change, Operation, StoreError};

/// The most threads, each with a connection, that write sets. A benchmark with eight writers was no
/// faster than one with four.
const WRITERS_MAX: usize = 4;
/// The most rows of a set. Larger sets save little: 43 µs a row with 256 rows, and 38 µs with 1,024.
const ROWS_MAX: usize = WRITES_PER_COMMIT_MAX;
/// The total [weight](WriteSet::weight) with which a set takes no further row.
const WEIGHT_MAX: usize = 4_096;

/// How a store uses sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SetMode {
    /// Writes that can be in a set are.
    #[default]
    On,
    /// Every write is a row-by-row write.
    Off,
    /// The statement of every set fails, so that all rows become row-by-row writes.
    #[cfg(any(test, feature = "testing"))]
    Failing,
}

/// The kinds of sets. Each has its own queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) enum SetKind {
    /// Accepted notifications.
    Accept,
    /// Registrations of devices.
    Register,
    /// Times of registrations that changed nothing.
    LastSeen,
    /// Engagement events.
    Engagement,
    /// Votes that applications report.
    AnswerPoll,
    /// Votes on the pages of polls.
    AnswerPublicPoll,
    /// Claims of pages.
    OpenPage,
    /// Checkpoints of pages.
    Checkpoint,
    /// Last checkpoints of the pages of notifications to a single device.
    FinishPages,
    /// Claims of due retries.
    ClaimRetries,
    /// Results of claimed retries.
    SettleRetries,
}

const KINDS: usize = SetKind::SettleRetries as usize + 1;

/// A write that can be a row of a set.
pub(in crate::store) trait WriteSet: Send + Sync + Sized + 'static {
    /// The result of the write.
    type Answer: Send + 'static;
    /// The kind of set.
    const KIND: SetKind;
    /// The name of the write.
    const OPERATION: Operation;
    /// How long the first row of a set waits for others.
    const LINGER: Duration = Duration::ZERO;

    /// Whether the write can be a row of a set at all.
    fn fits(&self) -> bool {
        true
    }

    /// The number of rows that the write inserts or updates, if it is not about one.
    fn weight(&self) -> usize {
        1
    }

    /// Runs the write alone. This defines what the write means.
    fn write_alone(&self, tx: &mut WriteTx<'_>) -> Result<Self::Answer, StoreError>;

    /// Writes rows with a constant number of statements. Returns a result for each row, in order;
    /// `None` for a row of which nothing was written, and which has to be written alone. After an
    /// error the transaction is rolled back.
    fn write_set(
        tx: &mut SetTx<'_>,
        rows: &[&Self],
    ) -> Result<Vec<Option<Self::Answer>>, StoreError>;
}

/// The transaction of a set.
pub(in crate::store) struct SetTx<'c> {
    tx: WriteTx<'c>,
    session: &'c Session,
    /// Whether the set has only read, so that nothing has to be committed.
    is_read_only: bool,
}

/// A parameter with a value of each row.
macro_rules! column {
    ($rows:expr, $row:ident => $value:expr) => {
        &$rows.iter().map(|$row| $value).collect::<Vec<_>>()
    };
}
use column;

/// The positions of a set as a parameter.
fn places(count: usize) -> Vec<i64> {
    (0..count as i64).collect()
}

/// A position in the set, from a column or parameter.
fn place_of(place: i64) -> usize {
    place.unsigned_abs() as usize
}

impl<'c> SetTx<'c> {
    /// Runs a statement whose parameters are arrays.
    fn query(
        &self,
        sql: &'static str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> sql::Result<Vec<Row>> {
        self.session.query_set(sql, parameters)
    }
}

impl<'c> std::ops::Deref for SetTx<'c> {
    type Target = WriteTx<'c>;

    fn deref(&self) -> &WriteTx<'c> {
        &self.tx
    }
}

impl std::ops::DerefMut for SetTx<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.tx
    }
}

/// A write that waits to be a row of a set.
struct Waiting {
    /// When the row may be the first of a set.
    ready_at: Instant,
    row: Arc<dyn Any + Send + Sync>,
    weight: usize,
    /// Writes the rows of a set of this kind.
    write: WriteRows,
    /// The same write as a row-by-row write.
    job: Job,
}

/// Writes the rows of a set. All of them have the type for which the function was made.
type WriteRows = fn(&mut SetTx<'_>, &[Waiting]) -> Result<Vec<Option<Answer>>, StoreError>;

fn write_rows<R: WriteSet>(
    tx: &mut SetTx<'_>,
    set: &[Waiting],
) -> Result<Vec<Option<Answer>>, StoreError> {
    let rows: Option<Vec<&R>> = set.iter().map(|waiting| waiting.row.downcast_ref()).collect();
    let rows = rows.ok_or_else(|| internal("a set has rows of two kinds"))?;
    let answers = R::write_set(tx, &rows)?;
    if answers.len() != rows.len() {
        return Err(internal("a set has another number of answers than rows"));
    }
    Ok(answers.into_iter().map(|answer| answer.map(pack)).collect())
}

/// The queues of all kinds.
#[derive(Default)]
struct Queues {
    waiting: [VecDeque<Waiting>; KINDS],
    /// How many threads write a set of the kind now.
    writing: [usize; KINDS],
    /// The kind that is looked at first, so that each has its turn.
    next: usize,
    is_closed: bool,
}

impl Queues {
    /// Takes the next set: from a kind that no thread writes, or from a queue that one more thread
    /// would not make short. Splitting a short queue would only make sets smaller and dearer.
    fn take(&mut self, now: Instant) -> Option<(usize, Vec<Waiting>)> {
        let mut kinds = (0..KINDS).map(|nth| (self.next + nth) % KINDS);
        let kind = kinds.find(|kind| {
            let queue = &self.waiting[*kind];
            let is_ready = self.is_closed || queue.front().is_some_and(|row| row.ready_at <= now);
            queue.len() >= ROWS_MAX || (self.writing[*kind] == 0 && !queue.is_empty() && is_ready)
        })?;
        self.next = (kind + 1) % KINDS;
        self.writing[kind] += 1;
        let queue = &mut self.waiting[kind];
        let (mut set, mut weight) = (Vec::new(), 0);
        while set.len() < ROWS_MAX && weight < WEIGHT_MAX {
            let Some(waiting) = queue.pop_front() else { break };
            weight += waiting.weight;
            set.push(waiting);
        }
        Some((kind, set))
    }

    /// When the next row of a kind that no thread writes is ready; `None` if no such row waits.
    fn ready_at(&self) -> Option<Instant> {
        let kinds = self.waiting.iter().zip(self.writing);
        kinds
            .filter(|(_, writing)| *writing == 0)
            .filter_map(|(queue, _)| Some(queue.front()?.ready_at))
            .min()
    }
}

/// What the threads share.
struct Shared {
    queues: Mutex<Queues>,
    /// Notified when there may be a set to take, and when the queues are closed.
    changed: Condvar,
    /// Whether every set fails, for tests.
    #[cfg(any(test, feature = "testing"))]
    are_failing: AtomicBool,
    /// Writes what does not fit a set.
    writer: Arc<Writer>,
    listeners: Listeners,
    busy: Arc<AtomicU64>,
    commits: Arc<AtomicU64>,
    faults: Arc<Faults>,
    resync_requested: Arc<AtomicBool>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a set; `None` when the queues are closed and empty.
    fn next_set(&self) -> Option<(usize, Vec<Waiting>)> {
        let mut queues = self.lock();
        loop {
            let now = Instant::now();
            if let Some(set) = queues.take(now) {
                return Some(set);
            }
            if queues.is_closed {
                return None;
            }
            queues = match queues.ready_at() {
                Some(ready_at) => {
                    let left = ready_at.saturating_duration_since(now);
                    self.changed
                        .wait_timeout(queues, left)
                        .unwrap_or_else(PoisonError::into_inner)
                        .0
                }
                None => self.changed.wait(queues).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }
}

/// The threads that write sets.
pub(in crate::store) struct SetWriters {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl SetWriters {
    /// Starts the threads. Each connects when it writes its first set.
    pub(super) fn start(
        source: &WriterSource,
        writer: &Arc<Writer>,
        listeners: &Listeners,
        busy: &Arc<AtomicU64>,
    ) -> std::io::Result<Self> {
        let shared = Arc::new(Shared {
            queues: Mutex::default(),
            changed: Condvar::new(),
            #[cfg(any(test, feature = "testing"))]
            are_failing: AtomicBool::new(false),
            writer: Arc::clone(writer),
            listeners: Arc::clone(listeners),
            busy: Arc::clone(busy),
            commits: Arc::clone(&writer.commits),
            faults: Arc::clone(writer.faults()),
            resync_requested: Arc::clone(writer.resync_requested()),
        });
        let mut threads = Vec::new();
        for _ in 0..WRITERS_MAX {
            let mut set_writer =
                SetWriter { shared: Arc::clone(&shared), source: source.clone(), connection: None };
            let thread = std::thread::Builder::new()
                .name("store-set-writer".to_owned())
                .spawn(move || set_writer.run())?;
            threads.push(thread);
        }
        Ok(Self { shared, threads: Mutex::new(threads) })
    }

    /// Makes every set fail from now on.
    #[cfg(any(test, feature = "testing"))]
    pub(super) fn fail_every_set(&self) {
        self.shared.are_failing.store(true, Ordering::Relaxed);
    }

    /// Runs a write, in a set if it fits one, and returns its result once it is durable.
    ///
    /// # Errors
    /// The error of the write, or `Unavailable` when the queue is full, the store is closed, the
    /// commit failed, or the caller's deadline passes.
    pub(in crate::store) async fn write<R: WriteSet>(
        &self,
        row: R,
    ) -> Result<R::Answer, StoreError> {
        let row = Arc::new(row);
        let alone = Arc::clone(&row);
        let work = Box::new(move |tx: &mut WriteTx<'_>| alone.write_alone(tx).map(pack));
        let (job, result) = Job::new(R::OPERATION, work);
        // The entry of the audit trail belongs to the transaction of its write.
        if job.is_audited() || !row.fits() {
            self.shared.writer.send(job)?;
        } else {
            let weight = row.weight();
            let ready_at = Instant::now() + R::LINGER;
            self.send(R::KIND, Waiting { ready_at, row, weight, write: write_rows::<R>, job })?;
        }
        result.wait().await.map(unpack)
    }

    fn send(&self, kind: SetKind, waiting: Waiting) -> Result<(), StoreError> {
        let mut queues = self.shared.lock();
        if queues.is_closed {
            return Err(unavailable("the store is closed"));
        }
        let queue = &mut queues.waiting[kind as usize];
        if queue.len() >= WRITES_WAITING_MAX {
            return Err(unavailable("too many writes are waiting"));
        }
        queue.push_back(waiting);
        drop(queues);
        self.shared.changed.notify_one();
        Ok(())
    }

    /// Finishes the waiting sets and ends the threads. Blocks until the threads have ended. Later
    /// writes fail.
    pub(in crate::store) fn stop(&self) {
        self.shared.lock().is_closed = true;
        self.shared.changed.notify_all();
        let threads =
            std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            let _ = thread.join();
        }
    }
}

impl Drop for SetWriters {
    fn drop(&mut self) {
        self.stop();
    }
}

/// How a set ended.
enum SetResult {
    /// The jobs that have an answer are committed. The others have to be written alone.
    Committed(Vec<Change>),
    /// Nothing is stored, and all rows have to be written alone.
    RowByRow,
    /// Storage failed. Nothing may be stored, or everything.
    Failed(Error),
}

/// The state of a thread that writes sets.
struct SetWriter {
    shared: Arc<Shared>,
    source: WriterSource,
    /// `None` before the first set, and after a failure that leaves the state of the connection
    /// unknown.
    connection: Option<Connection>,
}

impl SetWriter {
    /// Writes sets until the queues are closed and empty.
    fn run(&mut self) {
        while let Some((kind, set)) = self.shared.next_set() {
            self.write(set);
            self.shared.lock().writing[kind] -= 1;
            // Rows that arrived meanwhile have waited for this set.
            self.shared.changed.notify_one();
        }
    }

    /// Writes a set and answers its callers. Drops rows whose callers no longer wait.
    fn write(&mut self, mut set: Vec<Waiting>) {
        set.retain(|waiting| waiting.job.is_awaited());
        if set.is_empty() {
            return;
        }
        match self.attempt(&mut set) {
            SetResult::Committed(changes) => {
                notify_listeners(&self.shared.listeners, &changes);
                for Waiting { job, .. } in set {
                    if job.succeeded_operation().is_some() {
                        job.answer(None);
                    } else {
                        self.shared.writer.send_or_answer(job);
                    }
                }
                if let Some(connection) = &self.connection
                    && !self.source.after_commit(connection, &changes)
                {
                    self.shared.resync_requested.store(true, Ordering::Release);
                }
            }
            SetResult::RowByRow => {
                set.into_iter().for_each(|waiting| self.shared.writer.send_or_answer(waiting.job));
            }
            SetResult::Failed(cause) => {
                self.shared.busy.fetch_add(u64::from(cause.is_busy()), Ordering::Relaxed);
                self.connection = None;
                let cause = cause.to_string();
                set.into_iter().for_each(|waiting| waiting.job.answer(Some(&cause)));
            }
        }
    }

    /// Runs and commits a set in one transaction.
    fn attempt(&mut self, set: &mut [Waiting]) -> SetResult {
        let has_mark = match self.begin() {
            Ok(has_mark) => has_mark,
            Err(error) => return SetResult::Failed(error),
        };
        let Some(connection) = &self.connection else { return SetResult::RowByRow };
        let mut changes = Vec::new();
        // Only a row-by-row write handles the mark of a move.
        let written = if has_mark {
            Written::Nothing
        } else {
            // The error is reported by the row-by-row writes, if it is not transient.
            self.shared.write_rows(connection, set, &mut changes).unwrap_or(Written::Nothing)
        };
        let committed = match written {
            Written::Rows => self.shared.commit(connection, set),
            Written::Reads => connection.rollback(),
            Written::Nothing => {
                if connection.rollback().is_err() || connection.is_broken() {
                    self.connection = None;
                }
                return SetResult::RowByRow;
            }
        };
        match committed {
            Ok(()) => SetResult::Committed(changes),
            Err(error) => SetResult::Failed(error),
        }
    }

    /// Begins a transaction. Connects first if there is no connection, or if it broke since the
    /// last set. Returns whether the database has the mark of a move.
    fn begin(&mut self) -> sql::Result<bool> {
        if let Some(connection) = self.connection.take() {
            match begin_set(&connection) {
                Err(_) if connection.is_broken() => {}
                result => {
                    self.connection = Some(connection);
                    return result;
                }
            }
        }
        let connection = self.source.open()?;
        let has_mark = begin_set(&connection)?;
        self.connection = Some(connection);
        Ok(has_mark)
    }
}

fn begin_set(connection: &Connection) -> sql::Result<bool> {
    session_of(connection)?.begin_set()
}

fn session_of(connection: &Connection) -> sql::Result<&Session> {
    match connection {
        Connection::Postgres(session) => Ok(session),
        Connection::Sqlite(_) => Err(Error::TransactionAborted),
    }
}

/// What the statements of a set did.
enum Written {
    /// They wrote rows.
    Rows,
    /// They only read, and this was enough for at least one row.
    Reads,
    /// They failed, or no row fits the set.
    Nothing,
}

impl Shared {
    /// Runs the statements of a set, and gives the rows that it wrote their answers.
    fn write_rows(
        &self,
        connection: &Connection,
        set: &mut [Waiting],
        changes: &mut Vec<Change>,
    ) -> Result<Written, StoreError> {
        for _ in &*set {
            self.faults.at_write(connection)?;
        }
        let Some(first) = set.first() else { return Ok(Written::Nothing) };
        let write = first.write;
        let mut tx = SetTx {
            tx: WriteTx::new(connection, changes),
            session: session_of(connection)?,
            is_read_only: false,
        };
        let answers = catch_unwind(AssertUnwindSafe(|| write(&mut tx, set)))
            .unwrap_or_else(|_| Err(internal("a set panicked")))?;
        #[cfg(any(test, feature = "testing"))]
        if self.are_failing.load(Ordering::Relaxed) {
            connection.execute_batch("select 1 / 0")?;
        }
        if answers.iter().all(Option::is_none) {
            return Ok(Written::Nothing);
        }
        for (waiting, answer) in set.iter_mut().zip(answers) {
            if let Some(answer) = answer {
                waiting.job.set_answer(answer);
            }
        }
        Ok(if tx.is_read_only { Written::Reads } else { Written::Rows })
    }

    /// Commits a set.
    fn commit(&self, connection: &Connection, set: &[Waiting]) -> sql::Result<()> {
        let jobs = || set.iter().map(|waiting| &waiting.job);
        reach_failpoints(jobs(), Stage::Written);
        self.faults.at_commit()?;
        let committed = connection.commit().and_then(|()| {
            self.commits.fetch_add(1, Ordering::Relaxed);
            reach_failpoints(jobs(), Stage::Committed);
            self.faults.at_commit_reply()
        });
        if committed.is_err() {
            // The set may be stored, and no listener was called for its changes.
            self.resync_requested.store(true, Ordering::Release);
        }
        committed
    }
}
