//! Storage settings and sizes of the database.

use crate::store::StorageReport;
use crate::store::sql::{Connection, Result};

/// Durability settings and size. Only the database's machine knows its free space.
pub(in crate::store) fn report(connection: &Connection) -> Result<StorageReport> {
    connection
        .prepare_cached(
            "select pg_database_size(current_database()), current_setting('synchronous_commit'),
             current_setting('fsync') = 'on' and current_setting('full_page_writes') = 'on'",
        )?
        .query_row([], |row| {
            let commit: String = row.get(1)?;
            let is_whole: bool = row.get(2)?;
            Ok(StorageReport {
                backend: "postgres",
                // A log that may be lost, or that contains torn pages, does not protect against a
                // crash.
                journal_mode: if is_whole { "wal" } else { "wal without fsync" }.to_owned(),
                synchronous: if commit == "off" { "off" } else { "full" }.to_owned(),
                database_bytes: row.get::<i64>(0)?.unsigned_abs(),
                log_bytes: 0,
                free_bytes: None,
            })
        })
}
