//! The schema of an installation. A database can contain several installations, each in a schema of
//! its own. They share no lock and no channel, so they neither wait for each other nor receive each
//! other's changes.

use super::open::OpenError;
use super::session::Session;
use crate::store::sql::{Result, Row};

/// The number of the advisory lock of the installation, as SQL. Every write transaction holds it: a
/// row-by-row write to the whole installation exclusively, all others shared.
pub(super) const INSTALLATION_LOCK: &str = "current_setting('notify.installation_lock')::bigint";
/// The number of the first advisory lock of applications, as SQL.
pub(super) const APP_LOCKS: &str = "current_setting('notify.app_locks')::bigint";
/// The number of the advisory lock of migrations, as SQL.
pub(super) const MIGRATION_LOCK: &str = "current_setting('notify.migration_lock')::bigint";
/// The channel of `NOTIFY`, as SQL.
pub(super) const CHANNEL: &str = "current_setting('notify.channel')";

/// The lock numbers and the channel of the schema `public`. Earlier versions use these
/// except `APP_LOCKS_OF_PUBLIC` in every schema.
pub(super) const INSTALLATION_LOCK_OF_PUBLIC: i64 = 0x6e6f_7469_6679_0001;
const MIGRATION_LOCK_OF_PUBLIC: i64 = 0x6e6f_7469_6679_0002;
pub(super) const APP_LOCKS_OF_PUBLIC: i64 = 0x6e6f_7469_6679_0100;
const CHANNEL_OF_PUBLIC: &str = "notify_changes";

/// A number of the schema that no other schema of the database has; 0 for `public`, null if no
/// schema of the search path exists.
const SCHEMA_NUMBER: &str = "case current_schema() when 'public' then 0
    else quote_ident(current_schema())::regnamespace::oid::bigint end";

/// Sets [`INSTALLATION_LOCK`], [`APP_LOCKS`], [`MIGRATION_LOCK`] and [`CHANNEL`] for the lifetime of a session.
/// Without a schema they are not set, and the statements that use them fail.
pub(super) fn name_locks(session: &Session) -> Result<()> {
    session.execute_batch(&format!(
        "select set_config('notify.installation_lock', ((no << 16) + {INSTALLATION_LOCK_OF_PUBLIC})::text, false),
            set_config('notify.app_locks', ((no << 16) + {APP_LOCKS_OF_PUBLIC})::text, false),
            set_config('notify.migration_lock', ((no << 16) + {MIGRATION_LOCK_OF_PUBLIC})::text, false),
            set_config('notify.channel', {channel}, false)
         from (select {SCHEMA_NUMBER} as no) of_schema where no is not null",
        channel = channel_of("no"),
    ))
}

/// A query for the channel, for a session without [`name_locks`].
pub(super) fn select_channel() -> String {
    format!("select {} from (select {SCHEMA_NUMBER} as no) of_schema", channel_of("no"))
}

fn channel_of(schema_number: &str) -> String {
    format!(
        "'{CHANNEL_OF_PUBLIC}' || case {schema_number} when 0 then '' else '_' || {schema_number} end"
    )
}

/// Makes a session use only the first schema of its search path. Otherwise a migration that looks
/// for a table could find the table of another installation.
///
/// # Errors
/// When no schema of the search path exists, or when the first one has no tables of Notify and a
/// later one has. The tables are then probably in the later one, but creating an installation in
/// the first one is possible too.
pub(super) fn use_first_schema(
    session: &Session,
    place: &str,
) -> std::result::Result<(), OpenError> {
    let failed = |error: crate::store::sql::Error| super::failed(place, error.into());
    let (first, other) = find_schemas(session).map_err(failed)?;
    let Some(first) = first else {
        return Err(OpenError::NoSchema { place: place.to_owned() });
    };
    if let Some(other) = other {
        return Err(OpenError::OtherSchema { place: place.to_owned(), first, other });
    }
    session
        .execute_batch("select set_config('search_path', quote_ident(current_schema()), false)")
        .map_err(failed)
}

/// Returns the first schema of the search path, and another schema if that one contains the
/// installation.
fn find_schemas(session: &Session) -> Result<(Option<String>, Option<String>)> {
    let sql = "select current_schema()::text, (
        select nullif(n.nspname, current_schema())::text
          from pg_class c join pg_namespace n on n.oid = c.relnamespace
         where c.relname = 'refinery_schema_history' and n.nspname = any (current_schemas(false))
         order by array_position(current_schemas(false), n.nspname) limit 1)";
    let rows = session.query(session.statement_index(sql), &[])?;
    let Some(row) = rows.first() else { return Ok((None, None)) };
    Ok((Row::Postgres(row).get(0)?, Row::Postgres(row).get(1)?))
}
