//! One connection to PostgreSQL with a blocking interface: each query runs on the connection's own
//! runtime. Every wait has a time limit, independent of the server and the network.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::TryStreamExt;
use futures_util::future::{join3, try_join};
use tokio::runtime::Runtime;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row, SimpleQueryMessage, Statement};

use super::failure::Failure;
pub(super) use super::schema::{APP_LOCKS, INSTALLATION_LOCK};
use super::statements::{StatementKind, Statements};
use crate::store::sql::{Error, Result, Value, WriteScope, caller};

// The settings of every session. With these limits, PostgreSQL releases the locks of a dead server
// within seconds, and a server notices a dead database within seconds.

/// The longest wait for a connection to one address. A host name may have several addresses.
pub(super) const CONNECT_WAIT: Duration = Duration::from_secs(2);
/// The longest run time of a statement.
const STATEMENT_WAIT: Duration = Duration::from_secs(4);
/// The longest wait for a lock. It is shorter than [`STATEMENT_WAIT`], so that the error shows that
/// a lock was the cause.
const LOCK_WAIT: Duration = Duration::from_secs(3);
/// The longest pause within a transaction, since other servers wait for its locks.
const IDLE_WAIT: Duration = Duration::from_secs(5);
/// The longest wait for a reply, and for all attempts to connect. It is longer than the limits that
/// PostgreSQL applies, because the connection stays usable after those but not after this one. It
/// is short, since only this limit detects a connection that was lost silently.
pub(super) const REPLY_WAIT: Duration = Duration::from_secs(5);
/// The longest wait for the reply of a connection that is checked because another one was lost.
const CHECK_WAIT: Duration = Duration::from_secs(1);
/// The longest wait for TCP acknowledgements, on both sides.
pub(super) const TCP_WAIT: Duration = Duration::from_secs(5);
/// The TCP keepalive on both sides: the idle time, the interval, and the number of probes.
pub(super) const KEEPALIVE_IDLE: Duration = Duration::from_secs(3);
pub(super) const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(1);
pub(super) const KEEPALIVE_RETRIES: u32 = 2;

/// Applies the settings to a new session. Generic plans: PostgreSQL would otherwise plan a statement
/// with arrays again for each run, because it takes a plan for the true number of elements to be
/// cheaper. Planning costs as much as writing a small set. No sequential scans: such a plan is made while a
/// table is empty, and kept while it grows. PostgreSQL counts a scan that it cannot avoid as very expensive,
/// and would compile it (`jit`), which takes longer than the statement, or ask the postmaster for parallel
/// workers. Compression: most of the log is whole
/// pages, and lz4 halves them. An explicit setting is left as it is.
pub(super) fn configure_session(session: &Session) -> Result<()> {
    session.execute_batch(&format!(
        "set statement_timeout = {statement}; set lock_timeout = {lock};
         set idle_in_transaction_session_timeout = {idle};
         set tcp_user_timeout = {tcp}; set tcp_keepalives_idle = {keepalive_idle};
         set tcp_keepalives_interval = {keepalive_interval};
         set tcp_keepalives_count = {KEEPALIVE_RETRIES};
         set join_collapse_limit = 1; set plan_cache_mode = force_generic_plan;
         set enable_seqscan = off; set jit = off; set max_parallel_workers_per_gather = 0;
         set client_min_messages = error;
         select set_config('synchronous_commit', 'on', false)
          where current_setting('synchronous_commit') = 'off';
         select set_config('wal_compression', 'lz4', false) from pg_settings
          where name = 'wal_compression' and source = 'default' and 'lz4' = any(enumvals)
          and has_parameter_privilege(name, 'set')",
        statement = STATEMENT_WAIT.as_millis(),
        lock = LOCK_WAIT.as_millis(),
        idle = IDLE_WAIT.as_millis(),
        tcp = TCP_WAIT.as_millis(),
        keepalive_idle = KEEPALIVE_IDLE.as_secs(),
        keepalive_interval = KEEPALIVE_INTERVAL.as_secs(),
    ))
}

/// Takes the lock of the installation and locks of applications in shared mode, in this order. One
/// statement, so that one time limit applies to all of them.
static LOCK_SHARED: LazyLock<String> = LazyLock::new(|| {
    format!(
        "select pg_advisory_xact_lock_shared(no) from unnest(array[{INSTALLATION_LOCK}]
         || (select array_agg({APP_LOCKS} + app) from unnest($1::bigint[]) app)) no"
    )
});
/// Reads the mark of a move. A statement of its own, after the lock: its snapshot shows what the last
/// holder of the lock has committed.
const FIND_MARK: &str = "select no from moves";

/// How many turns of the runtime show whether an idle connection has ended.
const TURNS: u32 = 3;

/// The state of the transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    None,
    Open,
    /// A statement failed. The server accepts no other statement before a rollback of the
    /// transaction or to the savepoint.
    Failed,
}

/// How many connections of the process were lost silently. Such a loss often affects all connections,
/// and each would notice it only after [`REPLY_WAIT`]. So all other connections are checked after a loss.
#[derive(Debug, Clone, Default)]
pub(super) struct Losses(Arc<AtomicU64>);

impl Losses {
    fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A connection.
pub(in crate::store) struct Session {
    /// `None` after the session is dropped.
    runtime: Option<Runtime>,
    pub(super) client: Client,
    statements: RefCell<Statements>,
    /// The prepared statements of sets, by their text.
    set_statements: RefCell<HashMap<String, Statement>>,
    state: Cell<State>,
    /// SQL that is sent together with the next savepoint or commit, to save a round trip.
    pending_sql: Cell<&'static str>,
    /// Whether the connection is unusable.
    is_broken: Cell<bool>,
    losses: Losses,
    /// The count of losses when the connection was opened or checked.
    losses_before: Cell<u64>,
    /// The longest wait for a reply.
    pub(super) reply_wait: Cell<Duration>,
    /// Whether each statement waits a random moment before it runs, so that the statements of
    /// concurrent transactions interleave differently each time.
    #[cfg(test)]
    pub(super) has_pauses: Cell<bool>,
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Does not wait: the server notices that the socket is closed.
            runtime.shutdown_background();
        }
    }
}

impl Session {
    /// Makes a session from an open connection and the runtime that drives it.
    pub(super) fn new(runtime: Runtime, client: Client, losses: Losses) -> Self {
        Self {
            losses_before: Cell::new(losses.count()),
            losses,
            runtime: Some(runtime),
            client,
            statements: RefCell::default(),
            set_statements: RefCell::default(),
            state: Cell::new(State::None),
            pending_sql: Cell::new(""),
            is_broken: Cell::new(false),
            reply_wait: Cell::new(REPLY_WAIT),
            #[cfg(test)]
            has_pauses: Cell::new(false),
        }
    }

    /// Runs a query and waits for the result.
    pub(super) fn query_blocking<T>(
        &self,
        query: impl Future<Output = std::result::Result<T, tokio_postgres::Error>>,
    ) -> Result<T> {
        self.query_blocking_within(self.reply_wait.get(), query)
    }

    /// As [`Session::query_blocking`], with another time limit.
    pub(super) fn query_blocking_within<T>(
        &self,
        wait: Duration,
        query: impl Future<Output = std::result::Result<T, tokio_postgres::Error>>,
    ) -> Result<T> {
        let result = self.block_on_query(wait, query);
        if matches!(result, Err(Error::Postgres(Failure::Late(_)))) {
            self.losses.add();
        }
        result
    }

    fn block_on_query<T>(
        &self,
        wait: Duration,
        query: impl Future<Output = std::result::Result<T, tokio_postgres::Error>>,
    ) -> Result<T> {
        #[cfg(test)]
        if self.has_pauses.get() {
            std::thread::sleep(Duration::from_micros(fastrand::u64(..1_500)));
        }
        let runtime = self.runtime.as_ref().expect("the runtime is kept until the drop");
        let query = pin!(query);
        match runtime.block_on(async { tokio::time::timeout(wait, query).await }) {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(error)) => Err(self.failed(error.into())),
            Err(_) => Err(self.failed(Failure::Late(wait))),
        }
    }

    /// Records the failure of a statement.
    fn failed(&self, failure: Failure) -> Error {
        if self.state.get() == State::Open {
            self.state.set(State::Failed);
        }
        // The query may still be running on the server, so the connection is unusable.
        if failure.ends_connection() || self.client.is_closed() {
            self.is_broken.set(true);
        }
        Error::Postgres(failure)
    }

    /// Runs statements without parameters and results.
    pub(in crate::store) fn execute_batch(&self, sql: &str) -> Result<()> {
        self.query_blocking(self.client.batch_execute(sql))
    }

    /// As [`Session::execute_batch`], with another time limit.
    pub(super) fn execute_batch_within(&self, wait: Duration, sql: &str) -> Result<()> {
        self.query_blocking_within(wait, self.client.batch_execute(sql))
    }

    /// Reads a number with a query of one row; `None` if there is no row or the number is null.
    pub(in crate::store) fn read_number(&self, sql: &str) -> Result<Option<i64>> {
        let rows = self.query(self.statement_index(sql), &[])?;
        let Some(row) = rows.first() else { return Ok(None) };
        crate::store::sql::Row::Postgres(row).get(0)
    }

    /// The index of a statement in the list of the session's statements. The methods that run a
    /// statement take this index instead of the text.
    pub(in crate::store) fn statement_index(&self, sql: &str) -> usize {
        self.statements.borrow_mut().intern(sql)
    }

    /// Runs a statement; returns the number of changed rows.
    pub(in crate::store) fn execute(&self, index: usize, values: &[Value<'_>]) -> Result<usize> {
        let statement = self.prepared(index, values, StatementKind::Plain)?;
        let changed =
            self.query_blocking(self.client.execute_raw(&statement, parameters(values)))?;
        Ok(usize::try_from(changed).unwrap_or(usize::MAX))
    }

    /// Runs a statement and returns all its rows. Memory is bounded, since every query of the store
    /// has a limit.
    pub(in crate::store) fn query(&self, index: usize, values: &[Value<'_>]) -> Result<Vec<Row>> {
        self.rows(index, values, StatementKind::Plain)
    }

    /// Runs an insert and returns the generated keys. The first value is the prefix of the keys; a
    /// sequence gives the rest.
    pub(in crate::store) fn insert(&self, index: usize, values: &[Value<'_>]) -> Result<Vec<Row>> {
        self.rows(index, values, StatementKind::InsertWithKey)
    }

    /// Runs a statement whose parameters are arrays, for many rows. The casts in its text give the
    /// types of its parameters.
    pub(super) fn query_set(
        &self,
        sql: &str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>> {
        let statement = self.prepared_set(sql)?;
        self.query_blocking(self.client.query(&statement, parameters))
    }

    fn prepared_set(&self, sql: &str) -> Result<Statement> {
        let prepared = self.set_statements.borrow().get(sql).cloned();
        if let Some(statement) = prepared {
            return Ok(statement);
        }
        #[cfg(test)]
        super::tests::plans::record(sql);
        let statement = self.query_blocking(self.client.prepare(sql))?;
        self.set_statements.borrow_mut().insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }

    fn rows(&self, index: usize, values: &[Value<'_>], kind: StatementKind) -> Result<Vec<Row>> {
        let statement = self.prepared(index, values, kind)?;
        self.query_blocking(async {
            self.client.query_raw(&statement, parameters(values)).await?.try_collect().await
        })
    }

    /// Returns the prepared statement for these parameters. Prepares the statement at its first
    /// use.
    pub(super) fn prepared(
        &self,
        index: usize,
        values: &[Value<'_>],
        kind: StatementKind,
    ) -> Result<Statement> {
        let prepared = self.statements.borrow().prepared(index, values, kind);
        if let Some(statement) = prepared {
            return Ok(statement);
        }
        let (sql, types) = self.statements.borrow().to_prepare(index, values, kind);
        let statement = self.query_blocking(self.client.prepare_typed(&sql, &types))?;
        self.statements.borrow_mut().keep(index, values, kind, statement.clone());
        Ok(statement)
    }

    /// Begins a write transaction for row-by-row writes to `scope`, and returns whether the database
    /// has the mark of a move. This takes one round trip.
    pub(in crate::store) fn begin_write_and_find_mark(&self, scope: WriteScope) -> Result<bool> {
        self.state.set(State::Open);
        let messages = self.query_blocking(self.client.simple_query(&format!(
            "begin isolation level read committed; {}; {FIND_MARK}",
            lock_exclusively(scope)
        )))?;
        // The rows of the locks have another column.
        let is_mark = |message: &SimpleQueryMessage| match message {
            SimpleQueryMessage::Row(row) => {
                row.columns().first().is_some_and(|column| column.name() == "no")
            }
            _ => false,
        };
        Ok(messages.iter().any(is_mark))
    }

    /// Begins the transaction of a set that writes to `scope`, and runs its first statement, in one
    /// round trip. Sets of all servers run concurrently. No row-by-row write to one of the
    /// applications runs at the same time.
    ///
    /// # Errors
    /// When the transaction did not begin.
    pub(super) fn begin_set(
        &self,
        scope: WriteScope,
        sql: &str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<SetBegin> {
        let lock = self.prepared_set(&LOCK_SHARED)?;
        let mark = self.prepared_set(FIND_MARK)?;
        let statement = self.prepared_set(sql)?;
        let app_locks: Vec<i64> = scope.app_locks().numbers().collect();
        let app_locks: [&(dyn ToSql + Sync); 1] = [&app_locks];
        self.state.set(State::Open);
        // All messages are sent before the first reply is awaited. After a failed lock or mark, the
        // statement fails too. The wait for the locks and the statement each have their own limit.
        let wait = self.reply_wait.get();
        let replies = self.query_blocking_within(wait * 2, async {
            let begin = self.client.batch_execute("begin isolation level read committed");
            let lock = self.client.query(&lock, &app_locks);
            let mark = self.client.query(&mark, &[]);
            let begin = tokio::time::timeout(wait, join3(begin, lock, mark));
            let statement = self.client.query(&statement, parameters).map(Ok);
            Ok(try_join(begin, statement).await)
        })?;
        let Ok(((begun, locked, marks), rows)) = replies else {
            self.losses.add();
            return Err(self.failed(Failure::Late(wait)));
        };
        let marks = begun.and(locked).and(marks).map_err(|error| self.failed(error.into()))?;
        if !marks.is_empty() {
            return Ok(SetBegin::Moving);
        }
        Ok(SetBegin::Begun(rows.map_err(|error| self.failed(error.into()))))
    }

    /// Begins a read transaction on one snapshot. No statement of it runs for longer than the caller
    /// waits.
    pub(in crate::store) fn begin_read(&self) -> Result<()> {
        let begin = "begin isolation level repeatable read read only";
        match caller::time_left().filter(|left| *left < STATEMENT_WAIT) {
            // A limit of 0 would be no limit.
            Some(left) => {
                let ms = left.as_millis().max(1);
                self.begin(&format!("{begin}; set local statement_timeout = {ms}"))
            }
            None => self.begin(begin),
        }
    }

    fn begin(&self, sql: &str) -> Result<()> {
        self.state.set(State::Open);
        self.execute_batch(sql)
    }

    /// Sets a savepoint.
    pub(in crate::store) fn savepoint(&self) -> Result<()> {
        match self.pending_sql.take() {
            "" => self.execute_batch("savepoint job"),
            pending_sql => self.execute_batch(&format!("{pending_sql}; savepoint job")),
        }
    }

    /// Releases the savepoint together with the next savepoint or commit.
    pub(in crate::store) fn release_savepoint(&self) -> Result<()> {
        self.ensure_open()?;
        self.pending_sql.set("release savepoint job");
        Ok(())
    }

    /// Undoes the changes since the savepoint, together with the next savepoint or commit.
    pub(in crate::store) fn rollback_to_savepoint(&self) -> Result<()> {
        self.pending_sql.set("rollback to savepoint job; release savepoint job");
        self.state.set(State::Open);
        Ok(())
    }

    /// Commits the transaction.
    ///
    /// # Errors
    /// [`Error::TransactionAborted`] when a statement of the transaction failed.
    pub(in crate::store) fn commit(&self) -> Result<()> {
        // PostgreSQL would roll a failed transaction back and report no error.
        self.ensure_open()?;
        match self.pending_sql.take() {
            "" => self.execute_batch("commit")?,
            pending_sql => self.execute_batch(&format!("{pending_sql}; commit"))?,
        }
        self.state.set(State::None);
        Ok(())
    }

    fn ensure_open(&self) -> Result<()> {
        if self.state.get() == State::Open { Ok(()) } else { Err(Error::TransactionAborted) }
    }

    /// Rolls the transaction back; does nothing if there is none or the connection is unusable.
    pub(in crate::store) fn rollback(&self) -> Result<()> {
        self.pending_sql.set("");
        if self.state.replace(State::None) == State::None || self.is_broken() {
            return Ok(());
        }
        self.execute_batch("rollback")
    }

    /// Whether the connection can be used. The end of an idle connection is found here: its task runs
    /// only while a call blocks on the runtime. After a [silent loss](Losses) of another connection,
    /// this one has to answer a query.
    pub(in crate::store) fn is_usable(&self) -> bool {
        if let Some(runtime) = &self.runtime {
            runtime.block_on(async {
                // The first turn reads the socket, and the second lets the connection see its end.
                for _ in 0..TURNS {
                    tokio::task::yield_now().await;
                }
            });
        }
        !self.client.is_closed() && !self.is_broken() && !self.is_lost()
    }

    /// Whether the connection does not answer after the silent loss of another one.
    fn is_lost(&self) -> bool {
        let losses = self.losses.count();
        if losses == self.losses_before.replace(losses) {
            return false;
        }
        self.block_on_query(CHECK_WAIT, self.client.batch_execute("")).is_err()
    }

    /// Whether the connection is unusable.
    pub(in crate::store) fn is_broken(&self) -> bool {
        self.is_broken.get()
    }

    /// Whether a transaction is open or has failed and is not rolled back yet.
    pub(in crate::store) fn in_transaction(&self) -> bool {
        self.state.get() != State::None && !self.is_broken()
    }
}

/// A statement that takes the locks of row-by-row writes to `scope`. Every transaction takes the lock of
/// the installation first, and then the locks of applications in the order of their numbers, so locks
/// cannot cause deadlocks. One statement, so that one time limit applies to all locks.
fn lock_exclusively(scope: WriteScope) -> String {
    match scope {
        WriteScope::Installation => format!("select pg_advisory_xact_lock({INSTALLATION_LOCK})"),
        WriteScope::Apps(locks) => {
            let numbers: Vec<_> = locks.numbers().map(|number| number.to_string()).collect();
            format!(
                "select pg_advisory_xact_lock_shared({INSTALLATION_LOCK})::text
                 union all select pg_advisory_xact_lock({APP_LOCKS} + app)::text
                 from unnest(array[{}]::bigint[]) app",
                numbers.join(",")
            )
        }
    }
}

/// How the transaction of a set began.
pub(super) enum SetBegin {
    /// With the result of the first statement.
    Begun(Result<Vec<Row>>),
    /// The database has the mark of a move.
    Moving,
}

/// The values as parameters of a statement.
pub(super) fn parameters<'v>(
    values: &'v [Value<'v>],
) -> impl ExactSizeIterator<Item = &'v (dyn ToSql + Sync)> {
    values.iter().map(|value| value as &(dyn ToSql + Sync))
}
