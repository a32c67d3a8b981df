//! The migrations, and how they are run: each one in a transaction, together with its record, and
//! statement by statement. Citus refuses a query of several statements. A text has `collate "C"`, so that it
//! is sorted by bytes as on SQLite, and a flag is a `bigint`, so that `move` copies it unchanged.

use std::time::Duration;

use refinery::Migration;

use super::script::statements_of;
use super::session::Session;
use crate::store::sql::{Error, Result, Row};

mod embedded {
    #![allow(missing_docs, unreachable_pub, reason = "generated")]
    refinery::embed_migrations!("src/store/postgres/migrations");
}

/// A statement of a migration may rewrite a table of any size.
const NO_LIMIT: Duration = Duration::MAX;
/// The table of the migrations that were run, in refinery's form, as on SQLite.
const CREATE_HISTORY: &str = "create table if not exists refinery_schema_history (
    version int4 primary key, name varchar(255), applied_on varchar(255), checksum varchar(255))";

/// Why the tables were not migrated.
#[derive(Debug, thiserror::Error)]
pub(super) enum MigrationError {
    /// The database has a migration with another text.
    #[error("{0} was run with another text")]
    Diverges(String),
    /// The database has later migrations, but not this one.
    #[error("{0} was left out")]
    LeftOut(String),
    /// A statement failed.
    #[error("{0} failed")]
    Statement(String, #[source] Error),
    /// The history cannot be read or created.
    #[error("the history of migrations cannot be used")]
    History(#[source] Error),
}

/// All migrations, in their order.
pub(super) fn all() -> Vec<Migration> {
    let mut migrations = embedded::migrations::runner().get_migrations().clone();
    migrations.sort();
    migrations
}

/// The version of the tables after all migrations.
pub(super) fn latest_version(migrations: &[Migration]) -> i64 {
    migrations.last().map_or(0, |last| i64::from(last.version()))
}

/// Reads the version of the tables; 0 if there are none.
pub(super) fn read_version(session: &Session) -> Result<i64> {
    if !has_history(session)? {
        return Ok(0);
    }
    let version =
        session.read_number("select max(version)::bigint from refinery_schema_history")?;
    Ok(version.unwrap_or(0))
}

/// Whether the schema has tables of Notify: their migrations left the table of their history.
pub(super) fn has_history(session: &Session) -> Result<bool> {
    let sql = "select 1 where to_regclass('refinery_schema_history') is not null";
    Ok(session.read_number(sql)?.is_some())
}

/// Runs those of the migrations that the database does not have yet. If the process ends while a
/// migration runs, nothing of this migration is stored.
pub(super) fn run(
    session: &Session,
    migrations: &[Migration],
) -> std::result::Result<(), MigrationError> {
    session.execute_batch_within(NO_LIMIT, CREATE_HISTORY).map_err(MigrationError::History)?;
    let history = read_history(session).map_err(MigrationError::History)?;
    let last = history.last().map_or(0, |(version, _)| *version);
    for migration in migrations {
        let version = i64::from(migration.version());
        match history.iter().find(|(done, _)| *done == version) {
            Some((_, checksum)) if *checksum == migration.checksum().to_string() => {}
            Some(_) => return Err(MigrationError::Diverges(migration.to_string())),
            None if version < last => return Err(MigrationError::LeftOut(migration.to_string())),
            None => run_one(session, migration)
                .map_err(|error| MigrationError::Statement(migration.to_string(), error))?,
        }
    }
    Ok(())
}

/// The versions and checksums of the migrations that were run, in their order.
fn read_history(session: &Session) -> Result<Vec<(i64, String)>> {
    let sql =
        "select version::bigint, checksum::text from refinery_schema_history order by version";
    let rows = session.query(session.statement_index(sql), &[])?;
    let read = |row| Ok((Row::Postgres(row).get(0)?, Row::Postgres(row).get(1)?));
    rows.iter().map(read).collect()
}

fn run_one(session: &Session, migration: &Migration) -> Result<()> {
    let record = format!(
        "insert into refinery_schema_history (version, name, applied_on, checksum) values ({}, '{}',
         to_char(clock_timestamp() at time zone 'utc', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"'), '{}')",
        migration.version(),
        migration.name(),
        migration.checksum()
    );
    let statements = statements_of(migration.sql().unwrap_or_default());
    let all = ["begin"].into_iter().chain(statements).chain([record.as_str(), "commit"]);
    for statement in all {
        session.execute_batch_within(NO_LIMIT, statement)?;
    }
    Ok(())
}
