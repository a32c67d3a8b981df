//! One of the two databases of a transfer, opened exclusively.

use super::table::{Cell, Table};
use super::{DatabaseLocation, MoveError, Step};
use crate::store::postgres::{self, SchemaState};
use crate::store::sql::{
    Connection, Error, MoveMark, Params, Result, Row, Type, Value, read_move_mark, set_move_mark,
};
use crate::store::{CloseGuard, sqlite};

/// A database of a transfer.
pub(super) struct Database {
    /// The location, for display.
    pub(super) place: String,
    /// The connection. It is never reopened, since the locks end with it.
    pub(super) connection: Connection,
    /// The lock of a SQLite file, which keeps servers from using it.
    _lock: Option<CloseGuard>,
}

impl Database {
    /// Opens the source of a transfer.
    ///
    /// # Errors
    /// When it does not exist or is in use.
    pub(super) fn source(place: &DatabaseLocation) -> std::result::Result<Self, MoveError> {
        let exists = match place {
            DatabaseLocation::Sqlite(path) => path.exists(),
            DatabaseLocation::Postgres(url) => postgres::found(url)? == SchemaState::Notify,
        };
        if exists {
            Self::open_exclusive(place)
        } else {
            Err(MoveError::NoSource(place.to_string()))
        }
    }

    /// Opens the target of a transfer. Creates its tables if it has none.
    ///
    /// # Errors
    /// When it contains tables of other software or is in use.
    pub(super) fn target(place: &DatabaseLocation) -> std::result::Result<Self, MoveError> {
        if let DatabaseLocation::Postgres(url) = place
            && let SchemaState::Foreign(table) = postgres::found(url)?
        {
            return Err(MoveError::NotEmpty { place: place.to_string(), table });
        }
        Self::open_exclusive(place)
    }

    /// Opens a database and blocks all other writers.
    pub(super) fn open_exclusive(place: &DatabaseLocation) -> std::result::Result<Self, MoveError> {
        let name = place.to_string();
        match place {
            DatabaseLocation::Sqlite(path) => {
                let (connection, lock) = sqlite::open_exclusive(path)?;
                Ok(Self { place: name, connection, _lock: lock })
            }
            DatabaseLocation::Postgres(url) => {
                let connection = postgres::connect(url)?;
                let side = Self { place: name, connection, _lock: None };
                side.exclude_others()?;
                Ok(side)
            }
        }
    }

    /// Takes the write lock of a shared database, and checks that no server is alive.
    fn exclude_others(&self) -> std::result::Result<(), MoveError> {
        let failed = self.failing(Step::Opening, "servers");
        self.connection.block_writers().map_err(|error| {
            // A server or another transfer has the lock.
            if error.is_busy() { MoveError::Written(self.place.clone()) } else { failed(error) }
        })?;
        let now = self.connection.time().map_err(&failed)?.map_or(0, |now| now.as_ms());
        let count_alive = "select count(*) from servers where alive_until > ?1";
        let servers = self.read_number(count_alive, [now]).map_err(&failed)?;
        if servers > 0 {
            return Err(MoveError::Served { place: self.place.clone(), servers });
        }
        Ok(())
    }

    /// Returns a function that maps an error of this database to an error of the transfer.
    pub(super) fn failing(&self, step: Step, table: &str) -> impl Fn(Error) -> MoveError + use<> {
        MoveError::failing(&self.place, step, table)
    }

    /// Runs a query and reads the number that it returns.
    fn read_number(&self, sql: &str, params: impl Params) -> Result<i64> {
        self.connection.prepare_cached(sql)?.query_row(params, |row| row.get(0))
    }

    /// Reads the mark of the database.
    pub(super) fn mark(&self) -> Result<Option<MoveMark>> {
        read_move_mark(&self.connection)
    }

    /// Sets the mark of the database, or removes it with `None`, in a durable transaction.
    pub(super) fn set_mark(&self, mark: Option<&MoveMark>) -> Result<()> {
        self.durably(|| set_move_mark(&self.connection, mark))
    }

    /// Prevents changes of the source until the end of the transfer. The lock of a SQLite file is
    /// not enough, since subcommands write to the file without it.
    pub(super) fn freeze(&self) -> Result<()> {
        match self.connection {
            Connection::Sqlite(_) => self.connection.begin_write(),
            // The transfer already has the write lock, for which every writer waits.
            Connection::Postgres(_) => Ok(()),
        }
    }

    /// Sets the mark of a frozen source, and ends the freeze.
    pub(super) fn retire(&self, mark: &MoveMark) -> Result<()> {
        match self.connection {
            Connection::Sqlite(_) => {
                set_move_mark(&self.connection, Some(mark))?;
                self.connection.commit()
            }
            Connection::Postgres(_) => self.set_mark(Some(mark)),
        }
    }

    /// Runs `work` in a durable transaction.
    pub(super) fn durably(&self, work: impl FnOnce() -> Result<()>) -> Result<()> {
        self.connection.begin_write()?;
        let result = work().and_then(|()| self.connection.commit());
        if result.is_err() {
            // An error of the rollback is ignored, since the first error is the cause.
            let _ = self.connection.rollback();
        }
        result
    }

    /// Counts the rows of a table.
    pub(super) fn count(&self, table: &Table) -> Result<u64> {
        Ok(self.read_number(&table.count(), [])?.try_into().unwrap_or_default())
    }

    /// Reads the key of the last row of a table; `None` if the table is empty.
    pub(super) fn last_key(&self, table: &Table) -> Result<Option<Vec<Cell>>> {
        let mut statement = self.connection.prepare_cached(&table.last_key())?;
        let mut rows = statement.query([])?;
        let Some(row) = rows.next()? else { return Ok(None) };
        cells(&row, table.key_columns).map(Some)
    }

    /// Reads the next rows after a key, or the first rows without a key. Returns at most `limit`
    /// rows, and adds no row once the rows have `bytes` bytes.
    pub(super) fn rows(
        &self,
        table: &Table,
        after: Option<&[Cell]>,
        limit: i64,
        bytes: usize,
    ) -> Result<Vec<Vec<Cell>>> {
        let (sql, mut params) = match after {
            None => (table.select_first(), Vec::new()),
            Some(key) => (table.select_after(), values(table, key)),
        };
        params.push(Value::Integer(limit));
        let mut statement = self.connection.prepare_cached(&sql)?;
        let mut stored = statement.query_within(&params[..], bytes)?;
        let (mut rows, mut size) = (Vec::new(), 0);
        while size < bytes
            && let Some(row) = stored.next()?
        {
            let row = cells(&row, table.columns.len())?;
            size += row.iter().map(Cell::size).sum::<usize>();
            rows.push(row);
        }
        Ok(rows)
    }

    /// Writes rows in one durable transaction.
    pub(super) fn write(&self, table: &Table, rows: &[Vec<Cell>]) -> Result<()> {
        let values_of_rows = rows.iter().map(|row| values(table, row));
        let kinds: Vec<Type> = table.columns.iter().map(|column| column.kind).collect();
        self.durably(|| {
            self.connection.bulk_insert(
                &table.with_columns(),
                &table.insert(),
                &kinds,
                values_of_rows,
            )
        })
    }
}

/// Reads the first `count` columns of a row.
fn cells(row: &Row<'_>, count: usize) -> Result<Vec<Cell>> {
    (0..count).map(|column| Cell::of(row, column)).collect()
}

/// The cells of the first columns of a table as parameters.
fn values<'c>(table: &Table, cells: &'c [Cell]) -> Vec<Value<'c>> {
    cells.iter().zip(&table.columns).map(|(cell, column)| cell.value(column.kind)).collect()
}
