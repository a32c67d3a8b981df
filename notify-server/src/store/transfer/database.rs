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
    /// Its location for display.
    pub(super) place: String,
    /// Never reopened, since the locks depend on it.
    pub(super) connection: Connection,
    /// Keeps servers from using it.
    _held: Option<CloseGuard>,
}

impl Database {
    /// Opens the source, which has to exist.
    pub(super) fn source(place: &DatabaseLocation) -> std::result::Result<Self, MoveError> {
        let is_there = match place {
            DatabaseLocation::Sqlite(path) => path.exists(),
            DatabaseLocation::Postgres(url) => postgres::found(url)? == SchemaState::Notify,
        };
        if is_there {
            Self::open_exclusive(place)
        } else {
            Err(MoveError::NoSource(place.to_string()))
        }
    }

    /// Opens the target, and creates its tables if it has none.
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
                let (connection, held) = sqlite::open_exclusive(path)?;
                Ok(Self { place: name, connection, _held: held })
            }
            DatabaseLocation::Postgres(url) => {
                let connection = postgres::connect(url)?;
                let side = Self { place: name, connection, _held: None };
                side.keep_others_off()?;
                Ok(side)
            }
        }
    }

    /// Takes the write lock of a shared database, and checks that no server is alive.
    fn keep_others_off(&self) -> std::result::Result<(), MoveError> {
        let failed = self.failing(Step::Opening, "servers");
        match self.connection.block_writers() {
            Err(error) if error.is_busy() => {
                return Err(MoveError::Written(self.place.clone()));
            }
            held => held.map_err(&failed)?,
        }
        let now = self.connection.time().map_err(&failed)?.map_or(0, |now| now.as_ms());
        let alive = "select count(*) from servers where alive_until > ?1";
        let servers = self.number(alive, [now]).map_err(&failed)?;
        if servers > 0 {
            return Err(MoveError::Served { place: self.place.clone(), servers });
        }
        Ok(())
    }

    /// Maps an error of this database to one of the transfer.
    pub(super) fn failing(&self, step: Step, table: &str) -> impl Fn(Error) -> MoveError + use<> {
        MoveError::failing(&self.place, step, table)
    }

    fn number(&self, sql: &str, params: impl Params) -> Result<i64> {
        self.connection.prepare_cached(sql)?.query_row(params, |row| row.get(0))
    }

    /// Its mark.
    pub(super) fn mark(&self) -> Result<Option<MoveMark>> {
        read_move_mark(&self.connection)
    }

    /// Marks it, durably.
    pub(super) fn set_mark(&self, mark: Option<&MoveMark>) -> Result<()> {
        self.durably(|| set_move_mark(&self.connection, mark))
    }

    /// Prevents changes of the source until the end, since subcommands write to a file without the lock
    /// of its server.
    pub(super) fn freeze(&self) -> Result<()> {
        match self.connection {
            Connection::Sqlite(_) => self.connection.begin_write(),
            // Every writer waits for our lock.
            Connection::Postgres(_) => Ok(()),
        }
    }

    /// Marks a source that was frozen, durably.
    pub(super) fn leave(&self, mark: &MoveMark) -> Result<()> {
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
        let done = work().and_then(|()| self.connection.commit());
        if done.is_err() {
            // The first error says more than that of a broken connection.
            let _ = self.connection.rollback();
        }
        done
    }

    /// The number of rows of a table.
    pub(super) fn count(&self, table: &Table) -> Result<u64> {
        Ok(self.number(&table.count(), [])?.try_into().unwrap_or_default())
    }

    /// The key of the last row.
    pub(super) fn last_key(&self, table: &Table) -> Result<Option<Vec<Cell>>> {
        let mut statement = self.connection.prepare_cached(&table.last_key())?;
        let mut rows = statement.query([])?;
        let Some(row) = rows.next()? else { return Ok(None) };
        cells(&row, table.key).map(Some)
    }

    /// The next rows after a key, at most `limit` and up to `bytes`.
    pub(super) fn rows(
        &self,
        table: &Table,
        after: Option<&[Cell]>,
        limit: i64,
        bytes: usize,
    ) -> Result<Vec<Vec<Cell>>> {
        let mut statement = self.connection.prepare_cached(&table.select(after.is_some()))?;
        let mut given = after.map(|key| values(table, key)).unwrap_or_default();
        given.push(Value::Integer(limit));
        let mut found = statement.query_within(&given[..], bytes)?;
        let (mut rows, mut size) = (Vec::new(), 0);
        while size < bytes
            && let Some(row) = found.next()?
        {
            let row = cells(&row, table.columns.len())?;
            size += row.iter().map(Cell::size).sum::<usize>();
            rows.push(row);
        }
        Ok(rows)
    }

    /// Writes rows in one durable transaction.
    pub(super) fn write(&self, table: &Table, rows: &[Vec<Cell>]) -> Result<()> {
        let given = rows.iter().map(|row| values(table, row));
        let kinds: Vec<Type> = table.columns.iter().map(|column| column.kind).collect();
        self.durably(|| {
            self.connection.bulk_insert(&table.with_columns(), &table.insert(), &kinds, given)
        })
    }
}

fn cells(row: &Row<'_>, count: usize) -> Result<Vec<Cell>> {
    (0..count).map(|column| Cell::of(row, column)).collect()
}

/// The values of cells, those of the key first.
fn values<'c>(table: &Table, cells: &'c [Cell]) -> Vec<Value<'c>> {
    let of_columns = cells.iter().zip(&table.columns);
    of_columns.map(|(cell, column)| cell.value(column.kind)).collect()
}
