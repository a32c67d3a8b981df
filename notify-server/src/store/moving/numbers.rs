//! The numbers that tables give their rows: what was given once is not given again, in the other
//! database neither, since things outside may remember it.

use super::side::Side;
use super::table::Table;
use super::{MoveError, Step};
use crate::store::sql::{self, Connection, OptionalExtension, params};

/// The last number that a table gave.
fn last(side: &Side, table: &Table) -> sql::Result<i64> {
    let connection = &side.connection;
    let found = match connection {
        Connection::Sqlite(_) => connection
            .prepare_cached("select seq from sqlite_sequence where name = ?1")?
            .query_row(params![table.name], |row| row.get(0)),
        // A sequence that gave nothing yet says that its last value is 1, and that it was not called.
        Connection::Postgres(_) => connection
            .prepare_cached(&format!(
                "select case when is_called then last_value else last_value - 1 end from {}",
                sequence(&table.name)
            ))?
            .query_row([], |row| row.get(0)),
    };
    Ok(found.optional()?.unwrap_or_default())
}

/// The name that PostgreSQL gives the sequence of an identity column.
fn sequence(table: &str) -> String {
    format!("{table}_no_seq")
}

/// Has a table of the target give the numbers after those of the source.
pub(super) fn carry(source: &Side, target: &Side, table: &Table) -> Result<(), MoveError> {
    if !table.columns.iter().any(|column| column.name == "no") || table.key != 1 {
        return Ok(());
    }
    let given = if table.is_numbered { last(source, table) } else { highest(source, table) };
    let given = given.map_err(source.failing(Step::Copying, &table.name))?;
    set(target, table, given).map_err(target.failing(Step::Copying, &table.name))
}

fn highest(side: &Side, table: &Table) -> sql::Result<i64> {
    let text = format!("select coalesce(max(no), 0) from {}", table.name);
    side.connection.prepare_cached(&text)?.query_row([], |row| row.get(0))
}

fn set(target: &Side, table: &Table, given: i64) -> sql::Result<()> {
    let connection = &target.connection;
    match connection {
        Connection::Sqlite(_) if !table.is_numbered => Ok(()),
        Connection::Sqlite(_) => target.durably(|| {
            connection
                .prepare_cached("delete from sqlite_sequence where name = ?1")?
                .execute(params![table.name])?;
            connection
                .prepare_cached("insert into sqlite_sequence (name, seq) values (?1, ?2)")?
                .execute(params![table.name, given])?;
            Ok(())
        }),
        Connection::Postgres(_) if given < 1 => Ok(()),
        Connection::Postgres(_) => {
            let set = format!("select setval('{}', ?1)", sequence(&table.name));
            connection.prepare_cached(&set)?.exists(params![given]).map(drop)
        }
    }
}
