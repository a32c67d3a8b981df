//! Transfers the key counters of tables, so that the target does not reuse keys either, which may be
//! known outside.

use super::database::Database;
use super::table::Table;
use super::{MoveError, Step};
use crate::store::postgres::sequence;
use crate::store::sql::{self, Connection, OptionalExtension, params};

/// Continues the counter of a source table in the target.
pub(super) fn carry(source: &Database, target: &Database, table: &Table) -> Result<(), MoveError> {
    if !table.is_numbered {
        return Ok(());
    }
    let given = last(source, table).map_err(source.failing(Step::Copying, &table.name))?;
    set(target, table, given).map_err(target.failing(Step::Copying, &table.name))
}

/// The last sequence number of a table.
fn last(side: &Database, table: &Table) -> sql::Result<i64> {
    let connection = &side.connection;
    let found = match connection {
        Connection::Sqlite(_) => connection
            .prepare_cached("select last from numbers where name = ?1")?
            .query_row(params![table.name], |row| row.get(0)),
        // An unused sequence reports 1 as its last value, and that it was not called.
        Connection::Postgres(_) => connection
            .prepare_cached(&format!(
                "select case when is_called then last_value else last_value - 1 end from {}",
                sequence(&table.name)
            ))?
            .query_row([], |row| row.get(0)),
    };
    Ok(found.optional()?.unwrap_or_default())
}

fn set(target: &Database, table: &Table, given: i64) -> sql::Result<()> {
    let connection = &target.connection;
    match connection {
        Connection::Sqlite(_) => target.durably(|| {
            connection
                .prepare_cached("update numbers set last = ?2 where name = ?1")?
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
