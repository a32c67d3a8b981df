//! Migrations. One transaction applies and records all missing migrations, so that a crash leaves
//! either the old or the new version.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error as _;
use std::path::Path;

use refinery::{Runner, Target};
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
    let database_error = |source| OpenError::Database { path: path.to_owned(), source };
    let known = latest();
    let recorded = recorded_version(connection).map_err(|error| database_error(error.into()))?;
    if i64::from(recorded) > i64::from(known) {
        return Err(OpenError::Newer {
            path: path.to_owned(),
            found: recorded.into(),
            known: known.into(),
        });
    }
    let found = if recorded < known {
        record_applied_migration(connection, recorded).map_err(database_error)?
    } else {
        recorded
    };
    let Err(source) = runner().run(connection) else { return Ok(()) };
    let path = path.to_owned();
    // If the check of the tables fails too, the storage is the cause: the error is reported as a
    // failed migration.
    Err(if is_storage_error(&source) || has_tables_of(connection, found).unwrap_or(true) {
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
    migrations::migrations::runner().set_grouped(true)
}

/// The latest version that this server knows.
pub(super) fn latest() -> i32 {
    let versions = runner().get_migrations().iter().map(refinery::Migration::version).max();
    versions.unwrap_or(0)
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

/// Records the next migration if it is applied and not recorded. Returns the version of the tables.
/// Servers before schema 11 committed a migration and its record separately, so a crash between the
/// two commits could leave such a file.
fn record_applied_migration(connection: &mut Connection, recorded: i32) -> Result<i32> {
    let file_schema = schema(connection)?;
    let next = recorded + 1;
    if file_schema.is_empty() || !is_applied(&file_schema, &schema_of(recorded)?, &schema_of(next)?)
    {
        return Ok(recorded);
    }
    runner().set_target(Target::FakeVersion(next)).run(connection)?;
    Ok(next)
}

/// Whether a migration was applied to a file: the file has all objects that the migration adds or
/// changes, and none that it drops. Other objects do not matter.
fn is_applied(file: &Schema, before: &Schema, after: &Schema) -> bool {
    let mut changed =
        after.iter().filter(|(name, shape)| before.get(name) != Some(shape)).peekable();
    let mut dropped = before.keys().filter(|name| !after.contains_key(name));
    changed.peek().is_some()
        && changed.all(|(name, shape)| file.get(name) == Some(shape))
        && dropped.all(|name| !file.contains_key(name))
}

/// Whether a file has all tables and indexes of a version.
fn has_tables_of(connection: &Connection, version: i32) -> Result<bool> {
    let file_schema = schema(connection)?;
    Ok(schema_of(version)?.iter().all(|(name, shape)| file_schema.get(name) == Some(shape)))
}

/// The most differences that [`differences`] names.
const DIFFERENCES_MAX: usize = 10;

/// What distinguishes the schema of a database from that of a version: foreign, missing and changed tables,
/// indexes, triggers and views.
pub(super) fn differences(connection: &Connection, version: i32) -> Result<Vec<String>> {
    let (found, expected) = (schema(connection)?, schema_of(version)?);
    // Servers before schema 11 could end between a migration and its record.
    if found == schema_of(version + 1).unwrap_or_default() {
        return Ok(Vec::new());
    }
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

/// The tables and indexes of a version.
fn schema_of(version: i32) -> Result<Schema> {
    let mut scratch = Connection::open_in_memory()?;
    runner().set_target(Target::Version(version)).run(&mut scratch)?;
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

/// Creates a file with the tables of a version, or migrates an existing file to that version.
///
/// # Panics
/// When the file cannot be written.
#[cfg(any(test, feature = "testing"))]
pub(in crate::store) fn make_version(path: &Path, version: i32) -> Connection {
    drop(super::open::private_file(path).expect("the folder takes files"));
    let mut connection = super::connection::open_writer(path).expect("the file opens");
    let migrated = runner().set_target(Target::Version(version)).run(&mut connection);
    migrated.expect("the migrations are right");
    connection
}

/// The statements of a migration.
///
/// # Panics
/// When the version has no migration.
#[cfg(any(test, feature = "testing"))]
pub(super) fn sql_of(version: i32) -> String {
    let runner = runner();
    let found = runner.get_migrations().iter().find(|migration| migration.version() == version);
    found.and_then(refinery::Migration::sql).expect("there is such a version").to_owned()
}

#[cfg(test)]
mod tests;
