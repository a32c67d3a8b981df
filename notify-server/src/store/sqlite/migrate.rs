//! Migrations. One transaction applies and records all missing migrations, so that a crash leaves
//! either the old or the new version.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error as _;
use std::path::Path;

use refinery::{Migration, Runner, Target};
use rusqlite::{Connection, ErrorCode, OptionalExtension};

use super::OpenError;

mod migrations {
    #![allow(missing_docs, unreachable_pub, reason = "generated")]
    refinery::embed_migrations!("src/store/sqlite/migrations");
}

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// The objects of a database by type and name. The value describes the columns of a table or the
/// definition of an index.
type Schema = BTreeMap<(String, String), String>;

/// Migrates the tables.
///
/// # Errors
/// When a newer server has migrated the tables, or they cannot be changed. The tables are then as
/// they were.
pub(super) fn migrate(
    path: &Path,
    connection: &mut Connection,
) -> std::result::Result<(), OpenError> {
    migrate_by(&runner(), path, connection)
}

fn migrate_by(
    runner: &Runner,
    path: &Path,
    connection: &mut Connection,
) -> std::result::Result<(), OpenError> {
    let known = latest_of(runner);
    let found = recorded_version(connection)
        .map_err(|error| OpenError::Database { path: path.to_owned(), source: error.into() })?;
    let path = path.to_owned();
    if found > known {
        return Err(OpenError::Newer { path, found: found.into(), known: known.into() });
    }
    let Err(source) = runner.run(connection) else { return Ok(()) };
    // If the check of the tables fails too, the storage is the cause: the error is reported as a
    // failed migration.
    let has_tables = has_tables_of(runner, connection, found).unwrap_or(true);
    Err(if is_storage_error(&source) || has_tables {
        OpenError::Migration { path, found, known, source: source.into() }
    } else {
        OpenError::OtherTables { path, found, known, source: source.into() }
    })
}

/// Whether the disk or another process caused an error, and not the tables.
fn is_storage_error(error: &refinery::Error) -> bool {
    let mut cause = error.source();
    let mut failure = None;
    while let Some(error) = cause {
        failure = failure.or_else(|| error.downcast_ref::<rusqlite::Error>());
        cause = error.source();
    }
    matches!(
        failure.and_then(rusqlite::Error::sqlite_error_code),
        Some(
            ErrorCode::DiskFull
                | ErrorCode::SystemIoFailure
                | ErrorCode::ReadOnly
                | ErrorCode::CannotOpen
                | ErrorCode::PermissionDenied
                | ErrorCode::DatabaseBusy
                | ErrorCode::DatabaseLocked
        )
    )
}

/// The runner of the migrations, which applies and records all missing migrations in one
/// transaction.
fn runner() -> Runner {
    let runner = migrations::migrations::runner().set_grouped(true);
    #[cfg(any(test, feature = "testing"))]
    if testing::IS_MADE_UP_USED.load(std::sync::atomic::Ordering::Acquire) {
        return testing::with_made_up(&runner);
    }
    runner
}

/// The latest version that this server knows.
pub(super) fn latest() -> i32 {
    latest_of(&runner())
}

fn latest_of(runner: &Runner) -> i32 {
    runner.get_migrations().iter().map(Migration::version).max().unwrap_or(0)
}

/// The recorded version of the tables; 0 for a new file.
pub(super) fn recorded_version(connection: &Connection) -> rusqlite::Result<i32> {
    let exists = connection
        .query_row(
            "select 1 from sqlite_schema where type = 'table' and name = 'refinery_schema_history'",
            [],
            |_| Ok(()),
        )
        .optional()?
        .is_some();
    if !exists {
        return Ok(0);
    }
    connection.query_row(
        "select coalesce(max(version), 0) from refinery_schema_history",
        [],
        |row| row.get(0),
    )
}

/// The most differences that [`differences`] names.
const DIFFERENCES_MAX: usize = 10;

/// What distinguishes the schema of a database from that of a version: foreign, missing and changed tables,
/// indexes, triggers and views.
pub(super) fn differences(connection: &Connection, version: i32) -> Result<Vec<String>> {
    let (found, expected) = (schema(connection)?, schema_of(&runner(), version)?);
    let names: BTreeSet<_> = found.keys().chain(expected.keys()).collect();
    let compared = names.into_iter().filter_map(|object @ (kind, name)| {
        let problem = match (found.get(object), expected.get(object)) {
            (Some(_), None) => "foreign",
            (None, Some(_)) => "missing",
            (found, expected) => (found != expected).then_some("changed")?,
        };
        Some(format!("{problem} {kind} {name}"))
    });
    Ok(compared.take(DIFFERENCES_MAX).collect())
}

/// Whether a file has all tables and indexes of a version. What an operator added does not matter.
fn has_tables_of(runner: &Runner, connection: &Connection, version: i32) -> Result<bool> {
    let found = schema(connection)?;
    Ok(schema_of(runner, version)?.iter().all(|(name, shape)| found.get(name) == Some(shape)))
}

/// The tables and indexes of a version.
fn schema_of(runner: &Runner, version: i32) -> Result<Schema> {
    let mut scratch = Connection::open_in_memory()?;
    let runner = Runner::new(runner.get_migrations()).set_target(Target::Version(version));
    runner.run(&mut scratch)?;
    Ok(schema(&scratch)?)
}

/// Reads the tables and indexes of a database.
fn schema(connection: &Connection) -> rusqlite::Result<Schema> {
    let mut statement = connection.prepare(
        "select type, name, case type when 'table' then
             (select group_concat(name || ' ' || type || ' ' || \"notnull\" || ' ' || pk, ', ')
                from pragma_table_info(s.name))
             else coalesce(sql, '') end
           from sqlite_schema s
          where name not glob 'sqlite_*' and name <> 'refinery_schema_history'",
    )?;
    let objects = statement.query_map([], |row| Ok(((row.get(0)?, row.get(1)?), row.get(2)?)))?;
    objects.collect()
}

#[cfg(any(test, feature = "testing"))]
pub(super) mod testing;
#[cfg(test)]
mod tests;
