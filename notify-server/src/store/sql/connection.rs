//! Connections, statements and rows: a thin synchronous layer over the drivers, in the style of
//! rusqlite. Statements are written for SQLite, with `?N` as parameters.

use notify_core::Timestamp;
use rusqlite::params_from_iter;

use crate::store::postgres::Session;
use crate::store::sql::caller;
use crate::store::sql::error::{Error, Result};
use crate::store::sql::scope::WriteScope;
use crate::store::sql::value::{ColumnRef, FromColumn, Params, Type, Value};

/// A connection to a database.
pub(in crate::store) enum Connection {
    Sqlite(rusqlite::Connection),
    Postgres(Box<Session>),
}

impl Connection {
    /// Prepares a statement. Each connection prepares it once and keeps it.
    pub(in crate::store) fn prepare_cached(&self, sql: &str) -> Result<Statement<'_>> {
        match self {
            Self::Sqlite(connection) => Ok(Statement::Sqlite(connection.prepare_cached(sql)?)),
            Self::Postgres(session) => {
                Ok(Statement::Postgres(session, session.statement_index(sql)))
            }
        }
    }

    /// Runs statements without parameters and results.
    #[cfg(any(test, feature = "testing"))]
    pub(in crate::store) fn execute_batch(&self, sql: &str) -> Result<()> {
        match self {
            Self::Sqlite(connection) => Ok(connection.execute_batch(sql)?),
            Self::Postgres(session) => session.execute_batch(sql),
        }
    }

    /// The clock of the database; `None` for SQLite, which runs on the clock of the server.
    pub(in crate::store) fn time(&self) -> Result<Option<Timestamp>> {
        match self {
            Self::Sqlite(_) => Ok(None),
            Self::Postgres(session) => {
                let ms = "select (extract(epoch from clock_timestamp()) * 1000)::bigint";
                Ok(session.read_number(ms)?.map(Timestamp))
            }
        }
    }

    /// Begins a write transaction, which excludes all others.
    pub(in crate::store) fn begin_write(&self) -> Result<()> {
        match self {
            Self::Sqlite(connection) => run(connection, "begin immediate"),
            Self::Postgres(session) => {
                session.begin_write_and_find_mark(WriteScope::Installation)?;
                Ok(())
            }
        }
    }

    /// Begins a write transaction for writes to `scope`. Returns whether the database has the mark of
    /// a move. Callers use `moves::begin_write_checked`, which decides what the mark means.
    pub(in crate::store) fn begin_write_and_find_mark(&self, scope: WriteScope) -> Result<bool> {
        match self {
            Self::Sqlite(connection) => {
                run(connection, "begin immediate")?;
                Ok(connection.prepare_cached("select no from moves")?.exists([])?)
            }
            Self::Postgres(session) => session.begin_write_and_find_mark(scope),
        }
    }

    /// Begins a read transaction on one snapshot.
    pub(in crate::store) fn begin_read(&self) -> Result<()> {
        match self {
            Self::Sqlite(connection) => run(connection, "begin"),
            Self::Postgres(session) => session.begin_read(),
        }
    }

    /// Whether the connection can be used. May send a query.
    pub(in crate::store) fn is_usable(&self) -> bool {
        match self {
            Self::Sqlite(_) => true,
            Self::Postgres(session) => session.is_usable(),
        }
    }

    /// Sets a savepoint.
    pub(in crate::store) fn savepoint(&self) -> Result<()> {
        match self {
            Self::Sqlite(connection) => run(connection, "savepoint job"),
            Self::Postgres(session) => session.savepoint(),
        }
    }

    /// Releases the savepoint and keeps the changes since.
    pub(in crate::store) fn release_savepoint(&self) -> Result<()> {
        match self {
            Self::Sqlite(connection) => run(connection, "release job"),
            Self::Postgres(session) => session.release_savepoint(),
        }
    }

    /// Undoes the changes since the savepoint.
    pub(in crate::store) fn rollback_to_savepoint(&self) -> Result<()> {
        match self {
            Self::Sqlite(connection) => {
                run(connection, "rollback to job")?;
                run(connection, "release job")
            }
            Self::Postgres(session) => session.rollback_to_savepoint(),
        }
    }

    /// Commits the transaction durably.
    pub(in crate::store) fn commit(&self) -> Result<()> {
        match self {
            Self::Sqlite(connection) => run(connection, "commit"),
            Self::Postgres(session) => session.commit(),
        }
    }

    /// Rolls the transaction back; does nothing if there is none.
    pub(in crate::store) fn rollback(&self) -> Result<()> {
        match self {
            // A statement that failed may have ended the transaction already.
            Self::Sqlite(connection) if connection.is_autocommit() => Ok(()),
            Self::Sqlite(connection) => run(connection, "rollback"),
            Self::Postgres(session) => session.rollback(),
        }
    }

    /// Blocks all other writers for the lifetime of this connection.
    pub(in crate::store) fn block_writers(&self) -> Result<()> {
        match self {
            // The caller has the lock of the file, which only one process can have.
            Self::Sqlite(_) => Ok(()),
            Self::Postgres(session) => session.block_writers(),
        }
    }

    /// Inserts many rows: on SQLite with one statement for each row, on PostgreSQL with `COPY`.
    /// `into` names the table and its columns, as in `devices (key, address)`. `insert` is the
    /// statement for one row. `kinds` are the types of the columns.
    pub(in crate::store) fn bulk_insert<'v>(
        &self,
        into: &str,
        insert: &str,
        kinds: &[Type],
        rows: impl Iterator<Item = Vec<Value<'v>>>,
    ) -> Result<()> {
        match self {
            Self::Sqlite(connection) => {
                let mut statement = connection.prepare_cached(insert)?;
                for row in rows {
                    statement.execute(params_from_iter(&row))?;
                }
                Ok(())
            }
            Self::Postgres(session) => session.copy_in(into, kinds, rows),
        }
    }

    /// Collects statistics of a table for the query planner.
    pub(in crate::store) fn analyze(&self, table: &str) -> Result<()> {
        match self {
            // SQLite's query plans depend only on the indexes.
            Self::Sqlite(_) => Ok(()),
            Self::Postgres(session) => session.execute_batch(&format!("analyze {table}")),
        }
    }

    /// Whether the connection is unusable and has to be replaced.
    pub(in crate::store) fn is_broken(&self) -> bool {
        match self {
            Self::Sqlite(_) => false,
            Self::Postgres(session) => session.is_broken(),
        }
    }

    /// Whether the transaction is still open. A failed statement can end it, and later statements
    /// would then run outside of any transaction.
    pub(in crate::store) fn in_transaction(&self) -> bool {
        match self {
            Self::Sqlite(connection) => !connection.is_autocommit(),
            Self::Postgres(session) => session.in_transaction(),
        }
    }
}

fn run(connection: &rusqlite::Connection, sql: &str) -> Result<()> {
    connection.prepare_cached(sql)?.execute([])?;
    Ok(())
}

/// A prepared statement.
pub(in crate::store) enum Statement<'c> {
    Sqlite(rusqlite::CachedStatement<'c>),
    Postgres(&'c Session, usize),
}

#[cfg(any(test, feature = "testing"))]
thread_local! {
    /// How many statements this thread has run.
    static STATEMENTS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// How many statements this thread has run.
#[cfg(any(test, feature = "testing"))]
pub(in crate::store) fn statements_of_thread() -> u64 {
    STATEMENTS.get()
}

/// Called before each statement. Fails in a read whose caller no longer waits.
fn begin_statement() -> Result<()> {
    #[cfg(any(test, feature = "testing"))]
    STATEMENTS.set(STATEMENTS.get() + 1);
    if caller::is_gone() { Err(Error::CallerGone) } else { Ok(()) }
}

impl Statement<'_> {
    /// Runs the statement; returns the number of changed rows.
    pub(in crate::store) fn execute(&mut self, params: impl Params) -> Result<usize> {
        params.with(|values| self.execute_values(values))
    }

    fn execute_values(&mut self, values: &[Value<'_>]) -> Result<usize> {
        begin_statement()?;
        match self {
            Self::Sqlite(statement) => Ok(statement.execute(params_from_iter(values))?),
            Self::Postgres(session, statement_index) => session.execute(*statement_index, values),
        }
    }

    /// Runs the statement; returns its rows.
    pub(in crate::store) fn query(&mut self, params: impl Params) -> Result<Rows<'_>> {
        params.with(|values| self.query_values(values))
    }

    fn query_values(&mut self, values: &[Value<'_>]) -> Result<Rows<'_>> {
        begin_statement()?;
        match self {
            Self::Sqlite(statement) => Ok(Rows::Sqlite(statement.query(params_from_iter(values))?)),
            Self::Postgres(session, statement_index) => {
                let rest = session.query(*statement_index, values)?.into_iter();
                Ok(Rows::Postgres { rest, row: None })
            }
        }
    }

    /// As [`Statement::query`], but bounds the memory: PostgreSQL stops after the row with which
    /// the rows reach `bytes` bytes. SQLite ignores `bytes`, since it produces each row on demand.
    pub(in crate::store) fn query_within(
        &mut self,
        params: impl Params,
        bytes: usize,
    ) -> Result<Rows<'_>> {
        begin_statement()?;
        params.with(|values| match self {
            Self::Sqlite(statement) => Ok(Rows::Sqlite(statement.query(params_from_iter(values))?)),
            Self::Postgres(session, statement_index) => {
                let rest = session.query_within(*statement_index, values, bytes)?.into_iter();
                Ok(Rows::Postgres { rest, row: None })
            }
        })
    }

    /// Runs the statement and maps its rows.
    pub(in crate::store) fn query_map<T, F>(
        &mut self,
        params: impl Params,
        map: F,
    ) -> Result<Mapped<'_, F>>
    where
        F: FnMut(&Row<'_>) -> Result<T>,
    {
        Ok(Mapped { rows: self.query(params)?, map })
    }

    /// Runs the statement and maps its first row.
    ///
    /// # Errors
    /// [`Error::NoRow`] if there is none; [`OptionalExtension`] turns it into `None`.
    pub(in crate::store) fn query_row<T>(
        &mut self,
        params: impl Params,
        map: impl FnOnce(&Row<'_>) -> Result<T>,
    ) -> Result<T> {
        let mut rows = self.query(params)?;
        let row = rows.next()?.ok_or(Error::NoRow)?;
        map(&row)
    }

    /// Whether the statement returns a row.
    pub(in crate::store) fn exists(&mut self, params: impl Params) -> Result<bool> {
        Ok(self.query(params)?.next()?.is_some())
    }
}

/// The rows of a query. SQLite produces each row on demand. PostgreSQL has already sent all of
/// them.
pub(in crate::store) enum Rows<'s> {
    Sqlite(rusqlite::Rows<'s>),
    Postgres { rest: std::vec::IntoIter<tokio_postgres::Row>, row: Option<tokio_postgres::Row> },
}

impl Rows<'_> {
    /// Returns the next row, or `None` after the last one.
    pub(in crate::store) fn next(&mut self) -> Result<Option<Row<'_>>> {
        match self {
            Self::Sqlite(rows) => Ok(rows.next()?.map(Row::Sqlite)),
            Self::Postgres { rest, row } => {
                *row = rest.next();
                Ok(row.as_ref().map(Row::Postgres))
            }
        }
    }
}

/// One row.
pub(in crate::store) enum Row<'r> {
    Sqlite(&'r rusqlite::Row<'r>),
    Postgres(&'r tokio_postgres::Row),
}

impl Row<'_> {
    /// Reads a column. The first column is 0.
    pub(in crate::store) fn get<T: FromColumn>(&self, column: usize) -> Result<T> {
        T::from_column(self.get_ref(column)?).ok_or(Error::Column(column))
    }

    /// The value of a column without a copy.
    pub(in crate::store) fn get_ref(&self, column: usize) -> Result<ColumnRef<'_>> {
        match self {
            Self::Sqlite(row) => match row.get_ref(column)? {
                rusqlite::types::ValueRef::Null => Ok(ColumnRef::Null),
                rusqlite::types::ValueRef::Integer(integer) => Ok(ColumnRef::Integer(integer)),
                rusqlite::types::ValueRef::Text(text) => Ok(ColumnRef::Text(text)),
                rusqlite::types::ValueRef::Blob(bytes) => Ok(ColumnRef::Blob(bytes)),
                rusqlite::types::ValueRef::Real(_) => Err(Error::Column(column)),
            },
            Self::Postgres(row) => row.try_get(column).map_err(|_| Error::Column(column)),
        }
    }
}

/// The rows of a query, each mapped by a function.
pub(in crate::store) struct Mapped<'s, F> {
    pub(in crate::store) rows: Rows<'s>,
    pub(in crate::store) map: F,
}

impl<T, F: FnMut(&Row<'_>) -> Result<T>> Iterator for Mapped<'_, F> {
    type Item = Result<T>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.rows.next().transpose()?;
        Some(next.and_then(|row| (self.map)(&row)))
    }
}

impl rusqlite::ToSql for Value<'_> {
    fn to_sql(&self) -> rusqlite::Result<rusqlite::types::ToSqlOutput<'_>> {
        use rusqlite::types::{ToSqlOutput, ValueRef};
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null(_) => ValueRef::Null,
            Self::Integer(integer) => ValueRef::Integer(*integer),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Blob(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

/// Turns a missing row into `None`.
pub(in crate::store) trait OptionalExtension<T> {
    /// Returns `None` instead of [`Error::NoRow`].
    fn optional(self) -> Result<Option<T>>;
}

impl<T> OptionalExtension<T> for Result<T> {
    fn optional(self) -> Result<Option<T>> {
        match self {
            Ok(value) => Ok(Some(value)),
            Err(Error::NoRow) => Ok(None),
            Err(error) => Err(error),
        }
    }
}
