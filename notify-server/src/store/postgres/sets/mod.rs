//! Sets: the writes that make up the load, many rows in one statement.
//!
//! A row-by-row write takes several round trips to PostgreSQL, and runs alone in its application. The
//! writes of a set take a constant number of round trips, and run concurrently with the sets of all
//! servers.
//!
//! A set refuses no row. It writes the rows that fit its statement. The other rows, and all rows
//! after a failed statement, become row-by-row writes, which also report what is wrong with a
//! request. So [`WriteSet::write_alone`] is what an operation means, and a set only makes it
//! quicker. SQLite has no round trips to save, and no sets.

mod accept;
mod arrays;
mod checkpoint;
mod completion;
mod engagement;
mod event_log;
mod open_page;
mod register;
mod retries;
mod statistics;
mod votes;

pub(in crate::store) use checkpoint::{CommitCheckpoint, FinishPages};
pub(in crate::store) use open_page::ClaimPage;
pub(in crate::store) use register::RegisterDevice;
pub(in crate::store) use retries::{ClaimRetries, SettleRetries};
#[cfg(test)]
pub(in crate::store::postgres) use statistics::TABLES;

use std::any::Any;
use std::cell::Cell;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use self::statistics::Statistics;
use super::open::WriterSource;
use super::session::{Session, SetBegin};
use crate::failpoint::Stage;
use crate::store::sql::error::{internal, unavailable};
use crate::store::sql::fault::Faults;
use crate::store::sql::writer::{Job, WriteTx, reach_failpoints};
use crate::store::sql::{
    self, Answer, Connection, Error, Listeners, WRITES_PER_COMMIT_MAX, WRITES_WAITING_MAX,
    WriteScope, Writer, WriterBackend, notify_listeners, pack, unpack,
};
use crate::store::{Change, Operation, StoreError};

/// The most threads, each with a connection, that write sets. A benchmark with eight writers was no
/// faster than one with four.
const WRITERS_MAX: usize = 4;
/// The most rows of a set. Larger sets save little: 43 µs a row with 256 rows, and 38 µs with 1,024.
const ROWS_MAX: usize = WRITES_PER_COMMIT_MAX;
/// The total [weight](WriteSet::weight) with which a set takes no further row.
const WEIGHT_MAX: usize = 4_096;
/// With so many rows, a set does not wait for more rows, nor for the thread that writes another set of
/// its kind. A row costs 60 µs in a set of 64, and 43 µs in one of 256.
const ROWS_ENOUGH: usize = 64;
/// The longest wait of a set for the rows that it [expects](Gather::Expected).
const GATHER_MAX: Duration = Duration::from_millis(5);

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

/// How long a set waits for rows. Much of the cost of a set does not depend on its rows.
#[derive(Debug, Clone, Copy)]
pub(in crate::store) enum Gather {
    /// Until it has as many rows as the set before it. The callers of a busy server send their next
    /// requests as soon as they have the results of a set. The wait ends when the set before it
    /// has ended for as long as it took, or for [`GATHER_MAX`]. So the callers of an idle server do
    /// not wait.
    Expected,
    /// This long after the first row.
    Fixed(Duration),
}

impl Gather {
    /// Not at all.
    const NONE: Self = Self::Fixed(Duration::ZERO);

    /// When a set of `rows` rows has waited as long as it should. Its first row arrived at `first`.
    fn ready_at(self, first: Instant, rows: usize, last: Option<LastSet>) -> Instant {
        match (self, last) {
            _ if rows >= ROWS_ENOUGH => first,
            (Self::Fixed(delay), _) => first + delay,
            (Self::Expected, Some(last)) if rows < last.rows => {
                first.max(last.ended_at + last.took.min(GATHER_MAX))
            }
            (Self::Expected, _) => first,
        }
    }
}

/// A write that can be a row of a set.
pub(in crate::store) trait WriteSet: Send + Sync + Sized + 'static {
    /// The result of the write.
    type Answer: Send + 'static;
    /// The kind of set.
    const KIND: SetKind;
    /// The name of the write.
    const OPERATION: Operation;
    /// How long a set waits for rows.
    const GATHER: Gather = Gather::Expected;

    /// What the write changes.
    fn scope(&self) -> WriteScope;

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

/// The transaction of a set. The first statement of [`SetTx::query`] begins it.
pub(in crate::store) struct SetTx<'c> {
    tx: WriteTx<'c>,
    session: &'c Session,
    /// What the rows of the set change.
    scope: WriteScope,
    /// Why the transaction did not begin.
    begin_error: Cell<Option<Error>>,
    /// Whether the set has only read, so that nothing has to be committed.
    is_read_only: bool,
}

/// A parameter with a value of each row.
macro_rules! column {
    ($rows:expr, $row:pat => $value:expr) => {
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
    /// Runs a statement whose parameters are arrays, in the transaction. The first one is sent
    /// together with `BEGIN`, to save a round trip.
    fn query(&self, sql: &str, parameters: &[&(dyn ToSql + Sync)]) -> sql::Result<Vec<Row>> {
        if self.session.in_transaction() {
            return self.session.query_set(sql, parameters);
        }
        match self.session.begin_set(self.scope, sql, parameters) {
            Ok(SetBegin::Begun(rows)) => rows,
            // Only a row-by-row write handles the mark of a move.
            Ok(SetBegin::Moving) => Err(Error::TransactionAborted),
            Err(error) => {
                self.begin_error.set(Some(error));
                Err(Error::TransactionAborted)
            }
        }
    }

    /// As [`SetTx::query`], but begins no transaction. The statement must only read, and read
    /// nothing when the database has the mark of a move.
    fn read(&self, sql: &str, parameters: &[&(dyn ToSql + Sync)]) -> sql::Result<Vec<Row>> {
        self.session.query_set(sql, parameters)
    }
}

impl<'c> std::ops::Deref for SetTx<'c> {
    type Target = WriteTx<'c>;

    fn deref(&self) -> &WriteTx<'c> {
        debug_assert!(self.session.in_transaction(), "a statement would run alone");
        &self.tx
    }
}

impl std::ops::DerefMut for SetTx<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        debug_assert!(self.session.in_transaction(), "a statement would run alone");
        &mut self.tx
    }
}

/// A write that waits to be a row of a set.
struct Waiting {
    arrived_at: Instant,
    row: Arc<dyn Any + Send + Sync>,
    weight: usize,
    kind: Kind,
    /// The same write as a row-by-row write.
    job: Job,
}

/// The constants of [`WriteSet`] that the threads need.
#[derive(Clone, Copy)]
struct Kind {
    gather: Gather,
    /// Writes the rows of a set of this kind.
    write: WriteRows,
}

impl Kind {
    fn of<R: WriteSet>() -> Self {
        Self { gather: R::GATHER, write: write_rows::<R> }
    }
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

/// The queue of a kind.
#[derive(Default)]
struct Queue {
    waiting: VecDeque<Waiting>,
    /// How many threads write a set of the kind now.
    writing: usize,
    /// The last set of the kind.
    last: Option<LastSet>,
}

/// What the next set of a kind learns from the last one.
#[derive(Debug, Clone, Copy)]
struct LastSet {
    rows: usize,
    took: Duration,
    ended_at: Instant,
}

impl Queue {
    /// Whether a thread may take a set as soon as [`Queue::ready_at`] has passed. A further thread
    /// would make a short queue shorter, and a row of a smaller set costs more.
    fn may_be_taken(&self) -> bool {
        !self.waiting.is_empty() && (self.writing == 0 || self.has_enough())
    }

    fn has_enough(&self) -> bool {
        self.waiting.len() >= ROWS_ENOUGH
    }

    /// When the next set has waited for rows as long as it should; `None` without a row.
    fn ready_at(&self) -> Option<Instant> {
        let first = self.waiting.front()?;
        Some(first.kind.gather.ready_at(first.arrived_at, self.waiting.len(), self.last))
    }

    /// Whether the row that arrived last is a reason to wake a thread: it is the first one, the last
    /// one that the next set waits for, or enough for one more thread.
    fn wakes_a_thread(&self) -> bool {
        let rows = self.waiting.len();
        let expected = self.last.map_or(0, |last| last.rows);
        self.may_be_taken() && (rows == 1 || rows == expected || rows.is_multiple_of(ROWS_ENOUGH))
    }

    /// Takes the next set.
    fn take(&mut self) -> Vec<Waiting> {
        self.writing += 1;
        let (mut set, mut weight) = (Vec::new(), 0);
        while set.len() < ROWS_MAX && weight < WEIGHT_MAX {
            let Some(waiting) = self.waiting.pop_front() else { break };
            weight += waiting.weight;
            set.push(waiting);
        }
        set
    }
}

/// The rows that wait, and the threads that wait for them.
#[derive(Default)]
struct Queues {
    queues: [Queue; KINDS],
    /// The kind that is looked at first, so that each has its turn.
    next: usize,
    /// The waiting threads. The last one began to wait last.
    idle: Vec<usize>,
    /// The thread that was taken from `idle` and does not run yet. Only that thread clears it.
    woken: Option<usize>,
    /// How many connections the threads have opened.
    opened: u64,
    /// The value of `opened` when each thread wrote its last set.
    opened_at_last_set: [u64; WRITERS_MAX],
    is_closed: bool,
}

impl Queues {
    /// Takes the next set that is ready, with its kind.
    fn take(&mut self, now: Instant) -> Option<(usize, Vec<Waiting>)> {
        let mut kinds = (0..KINDS).map(|nth| (self.next + nth) % KINDS);
        let kind = kinds.find(|kind| {
            let queue = &self.queues[*kind];
            let is_ready = || queue.ready_at().is_some_and(|ready_at| ready_at <= now);
            queue.may_be_taken() && (self.is_closed || is_ready())
        })?;
        self.next = (kind + 1) % KINDS;
        Some((kind, self.queues[kind].take()))
    }

    /// Takes the thread that writes the next set from the idle ones: the one that began to wait last,
    /// because its data and that of its PostgreSQL process are most likely still in the caches of the
    /// CPU. But if a connection was opened since the last set of a thread, the connection of that thread
    /// may have been lost too. It is used first, so that all connections stand if PostgreSQL accepts no
    /// further ones later.
    fn take_idle(&mut self) -> Option<usize> {
        let is_behind = |thread: &usize| self.opened_at_last_set[*thread] < self.opened;
        match self.idle.iter().position(is_behind) {
            Some(place) => Some(self.idle.remove(place)),
            None => self.idle.pop(),
        }
    }

    /// When the next set is ready; `None` if no row waits for a thread.
    fn ready_at(&self) -> Option<Instant> {
        self.queues.iter().filter(|queue| queue.may_be_taken()).filter_map(Queue::ready_at).min()
    }
}

/// The queues, shared with the threads that write the sets.
#[derive(Default)]
struct SharedQueues {
    state: Mutex<Queues>,
    /// One for each thread. Notified when there may be a set to take, and when the queues are closed.
    changed: [Condvar; WRITERS_MAX],
}

impl SharedQueues {
    fn lock(&self) -> MutexGuard<'_, Queues> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn send(&self, kind: SetKind, waiting: Waiting) -> Result<(), StoreError> {
        let mut queues = self.lock();
        if queues.is_closed {
            return Err(unavailable("the store is closed"));
        }
        let queue = &mut queues.queues[kind as usize];
        if queue.waiting.len() >= WRITES_WAITING_MAX {
            return Err(unavailable("too many writes are waiting"));
        }
        queue.waiting.push_back(waiting);
        if queue.wakes_a_thread() {
            self.wake_one(queues);
        }
        Ok(())
    }

    /// Wakes an idle thread. Does nothing while a woken thread does not run yet: that thread looks at all
    /// queues, and wakes another one if a further set waits.
    fn wake_one(&self, mut queues: MutexGuard<'_, Queues>) {
        if queues.woken.is_some() {
            return;
        }
        let Some(thread) = queues.take_idle() else { return };
        queues.woken = Some(thread);
        drop(queues);
        self.changed[thread].notify_one();
    }

    /// Waits for a set. `thread` is the index of the caller. Returns `None` when the queues are closed
    /// and empty.
    fn next_set(&self, thread: usize) -> Option<(usize, Vec<Waiting>)> {
        let mut queues = self.lock();
        loop {
            let now = Instant::now();
            let set = queues.take(now);
            if set.is_some() || queues.is_closed {
                queues.idle.retain(|idle| *idle != thread);
                if queues.ready_at().is_some() {
                    // Another thread waits for the next set in place of this one.
                    self.wake_one(queues);
                }
                return set;
            }
            let ready_at = queues.ready_at();
            // After a wait that found nothing, the thread keeps its place.
            if !queues.idle.contains(&thread) {
                queues.idle.push(thread);
            }
            let changed = &self.changed[thread];
            queues = match ready_at {
                Some(ready_at) => {
                    let left = ready_at.saturating_duration_since(now);
                    changed.wait_timeout(queues, left).unwrap_or_else(PoisonError::into_inner).0
                }
                None => changed.wait(queues).unwrap_or_else(PoisonError::into_inner),
            };
            if queues.woken == Some(thread) {
                queues.woken = None;
            }
        }
    }

    /// Wakes another thread if a set waits, because the caller does something else first. Returns false
    /// if the queues are closed.
    fn hand_over(&self) -> bool {
        let queues = self.lock();
        let is_open = !queues.is_closed;
        if is_open && queues.ready_at().is_some() {
            self.wake_one(queues);
        }
        is_open
    }

    /// Records that a thread has opened a connection.
    fn record_opened(&self) {
        self.lock().opened += 1;
    }

    /// Records the end of a set of the kind that `thread` wrote.
    fn end_set(&self, thread: usize, kind: usize, last: LastSet) {
        let mut queues = self.lock();
        queues.opened_at_last_set[thread] = queues.opened;
        let queue = &mut queues.queues[kind];
        queue.writing -= 1;
        queue.last = Some(last);
    }

    fn close(&self) {
        self.lock().is_closed = true;
        for changed in &self.changed {
            changed.notify_one();
        }
    }
}

/// What the threads share.
struct Shared {
    queues: SharedQueues,
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
    statistics: Statistics,
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
            queues: SharedQueues::default(),
            #[cfg(any(test, feature = "testing"))]
            are_failing: AtomicBool::new(false),
            writer: Arc::clone(writer),
            listeners: Arc::clone(listeners),
            busy: Arc::clone(busy),
            commits: Arc::clone(&writer.commits),
            faults: Arc::clone(writer.faults()),
            resync_requested: Arc::clone(writer.resync_requested()),
            statistics: Statistics::default(),
        });
        let mut threads = Vec::new();
        for index in 0..WRITERS_MAX {
            let (shared, source) = (Arc::clone(&shared), source.clone());
            let mut set_writer = SetWriter { index, shared, source, connection: None };
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
        let (job, result) = Job::new(R::OPERATION, row.scope(), work);
        // The entry of the audit trail belongs to the transaction of its write.
        if job.is_audited() || !row.fits() {
            self.shared.writer.send(job)?;
        } else {
            let (arrived_at, weight) = (Instant::now(), row.weight());
            self.shared
                .queues
                .send(R::KIND, Waiting { arrived_at, row, weight, kind: Kind::of::<R>(), job })?;
        }
        result.wait().await.map(unpack)
    }

    /// Finishes the waiting sets and ends the threads. Blocks until the threads have ended. Later
    /// writes fail.
    pub(in crate::store) fn stop(&self) {
        self.shared.queues.close();
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
    /// The number of the thread.
    index: usize,
    shared: Arc<Shared>,
    source: WriterSource,
    /// `None` before the first set, and after a failure that leaves the state of the connection
    /// unknown.
    connection: Option<Connection>,
}

impl SetWriter {
    /// Writes sets until the queues are closed and empty.
    fn run(&mut self) {
        while let Some((kind, set)) = self.shared.queues.next_set(self.index) {
            let (rows, began_at) = (set.len(), Instant::now());
            self.write(set);
            let ended_at = Instant::now();
            let shared = &self.shared;
            let last = LastSet { rows, took: ended_at - began_at, ended_at };
            shared.queues.end_set(self.index, kind, last);
            if let Some(connection) = &self.connection
                && let Some(mut checks) = shared.statistics.begin_check(ended_at)
                && shared.queues.hand_over()
            {
                // If this fails, autovacuum renews the statistics later.
                let _ = checks.run(connection);
            }
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
                let cause = cause.to_string();
                set.into_iter().for_each(|waiting| waiting.job.answer(Some(&cause)));
            }
        }
    }

    /// Runs and commits a set in one transaction.
    fn attempt(&mut self, set: &mut [Waiting]) -> SetResult {
        // The state of the connection is unknown after a failure.
        let connection = match self.connection.take().filter(Connection::is_usable) {
            Some(connection) => connection,
            None => match self.source.open() {
                Ok(connection) => {
                    self.shared.queues.record_opened();
                    connection
                }
                Err(error) => return SetResult::Failed(error),
            },
        };
        let mut changes = Vec::new();
        let committed = match self.shared.write_rows(&connection, set, &mut changes) {
            Written::Rows => self.shared.commit(&connection, set),
            Written::Reads => connection.rollback(),
            Written::Nothing => {
                if connection.rollback().is_ok() && !connection.is_broken() {
                    self.connection = Some(connection);
                }
                return SetResult::RowByRow;
            }
            // The connection ended since the last set. The row-by-row writes connect again.
            Written::NotBegun(_) if connection.is_broken() => return SetResult::RowByRow,
            Written::NotBegun(error) => Err(error),
        };
        match committed {
            Ok(()) => {
                self.connection = Some(connection);
                SetResult::Committed(changes)
            }
            Err(error) => SetResult::Failed(error),
        }
    }
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
    /// They failed, or no row fits the set. The row-by-row writes report the error, if it is not
    /// transient.
    Nothing,
    /// The transaction did not begin.
    NotBegun(Error),
}

impl Shared {
    /// Runs the statements of a set, and gives the rows that it wrote their answers.
    fn write_rows(
        &self,
        connection: &Connection,
        set: &mut [Waiting],
        changes: &mut Vec<Change>,
    ) -> Written {
        let Ok(session) = session_of(connection) else { return Written::Nothing };
        let mut tx = SetTx {
            tx: WriteTx::new(connection, changes),
            session,
            scope: WriteScope::all(set.iter().map(|waiting| waiting.job.scope())),
            begin_error: Cell::default(),
            is_read_only: false,
        };
        let answers = self.run_statements(connection, &mut tx, set);
        if let Some(error) = tx.begin_error.take() {
            return Written::NotBegun(error);
        }
        let Ok(answers) = answers else { return Written::Nothing };
        if answers.iter().all(Option::is_none) {
            return Written::Nothing;
        }
        for (waiting, answer) in set.iter_mut().zip(answers) {
            if let Some(answer) = answer {
                waiting.job.set_answer(answer);
            }
        }
        if tx.is_read_only { Written::Reads } else { Written::Rows }
    }

    fn run_statements(
        &self,
        connection: &Connection,
        tx: &mut SetTx<'_>,
        set: &[Waiting],
    ) -> Result<Vec<Option<Answer>>, StoreError> {
        for _ in set {
            self.faults.at_write(connection)?;
        }
        let Some(first) = set.first() else { return Ok(Vec::new()) };
        let write = first.kind.write;
        let answers = catch_unwind(AssertUnwindSafe(|| write(tx, set)))
            .unwrap_or_else(|_| Err(internal("a set panicked")))?;
        #[cfg(any(test, feature = "testing"))]
        if self.are_failing.load(Ordering::Relaxed) {
            connection.execute_batch("select 1 / 0")?;
        }
        Ok(answers)
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Milliseconds after which a set is ready that has rows since 0 ms.
    fn ready_after(gather: Gather, rows: usize, last: Option<LastSet>, zero: Instant) -> u128 {
        gather.ready_at(zero, rows, last).duration_since(zero).as_millis()
    }

    #[test]
    fn a_set_waits_for_as_many_rows_as_the_last_one_had() {
        let zero = Instant::now();
        let ms = Duration::from_millis;
        let last = |rows, took| Some(LastSet { rows, took: ms(took), ended_at: zero + ms(1) });
        for (rows, last, ready) in [
            (1, None, 0),
            // A single caller.
            (1, last(1, 2), 0),
            // It waits from the end of the last set for as long as that one took, but not long.
            (1, last(30, 2), 3),
            (29, last(30, 2), 3),
            (29, last(30, 80), 6),
            (30, last(30, 2), 0),
            // The callers of the last set have not come back in time.
            (1, Some(LastSet { rows: 30, took: ms(2), ended_at: zero - ms(3) }), 0),
            // It does not wait for more than are enough.
            (63, last(200, 2), 3),
            (64, last(200, 2), 0),
        ] {
            assert_eq!(ready_after(Gather::Expected, rows, last, zero), ready, "{rows} {last:?}");
        }
        assert_eq!(ready_after(Gather::Fixed(ms(2)), 1, last(30, 2), zero), 2);
        assert_eq!(ready_after(Gather::Fixed(ms(2)), 64, None, zero), 0);
        assert_eq!(ready_after(Gather::NONE, 1, last(30, 2), zero), 0);
    }

    /// A write whose result is not read.
    fn registration() -> Waiting {
        let scope = WriteScope::app(crate::store::AppNo(1));
        let (job, _) = Job::new(RegisterDevice::OPERATION, scope, Box::new(|_| Ok(pack(()))));
        let kind = Kind::of::<RegisterDevice>();
        Waiting { arrived_at: Instant::now(), row: Arc::new(()), weight: 1, kind, job }
    }

    /// Only a failing test waits this long.
    const WAIT_MAX: Duration = Duration::from_secs(30);

    fn wait_for_idle(queues: &SharedQueues, count: usize) {
        let until = Instant::now() + WAIT_MAX;
        while queues.lock().idle.len() < count {
            assert!(Instant::now() < until, "{count} threads do not wait");
            std::thread::yield_now();
        }
    }

    #[test]
    fn the_thread_that_began_to_wait_last_writes_the_next_set() {
        let queues = Arc::new(SharedQueues::default());
        let (taken, sets) = std::sync::mpsc::channel();
        let mut threads = Vec::new();
        for index in 0..WRITERS_MAX {
            let (queues_of_thread, taken) = (Arc::clone(&queues), taken.clone());
            threads.push(std::thread::spawn(move || {
                while let Some((kind, set)) = queues_of_thread.next_set(index) {
                    let _ = taken.send((index, set.len()));
                    let ended_at = Instant::now();
                    let last = LastSet { rows: 1, took: Duration::ZERO, ended_at };
                    queues_of_thread.end_set(index, kind, last);
                }
            }));
            wait_for_idle(&queues, index + 1);
        }
        for _ in 0..100 {
            queues.send(SetKind::Register, registration()).unwrap();
            assert_eq!(sets.recv_timeout(WAIT_MAX), Ok((WRITERS_MAX - 1, 1)));
            wait_for_idle(&queues, WRITERS_MAX);
        }
        queues.close();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    }

    #[test]
    fn each_thread_writes_a_set_after_a_connection_was_opened() {
        let mut queues = Queues { idle: vec![0, 1, 2], opened: 1, ..Queues::default() };
        for (thread, idle) in [(0, [1, 2, 0]), (1, [2, 0, 1]), (2, [0, 1, 2]), (2, [0, 1, 2])] {
            assert_eq!(queues.take_idle(), Some(thread));
            queues.opened_at_last_set[thread] = queues.opened;
            queues.idle.push(thread);
            assert_eq!(queues.idle, idle);
        }
    }

    #[test]
    fn no_thread_is_woken_while_another_one_wakes_up() {
        let queues = SharedQueues::default();
        queues.lock().idle.extend([0, 1]);
        for kind in [SetKind::Register, SetKind::Accept] {
            queues.send(kind, registration()).unwrap();
            let state = queues.lock();
            assert_eq!((state.woken, &*state.idle), (Some(1), &[0][..]));
        }
        // It takes one of the sets, and wakes the other thread for the other set.
        queues.lock().woken = None;
        assert!(queues.next_set(1).is_some());
        let state = queues.lock();
        assert_eq!((state.woken, &*state.idle), (Some(0), &[][..]));
    }
}
