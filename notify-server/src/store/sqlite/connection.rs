//! Connections and their settings.

use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

/// How long a statement waits for a lock of another process.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// Page cache of the writer, in KiB: the inner pages of all indexes for some million devices.
const WRITER_CACHE_KIB: i64 = 64 * 1_024;
/// Page cache of each reader, in KiB. Every commit empties it, so more would not help. The file is not
/// memory-mapped, since every commit would unmap it, which costs a tenth of a registration's CPU.
const READER_CACHE_KIB: i64 = 2 * 1_024;
/// Prepared statements that a connection keeps; more than there are in this backend.
const STATEMENTS_KEPT: usize = 512;

/// The writer's connection. Every commit is on disk when it returns. Checkpoints run separately
/// (`wal_checkpointer.rs`). Does not create the file, since a connection that replaces a broken one
/// must not make a new database.
pub(super) fn open_writer(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(
        path,
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.pragma_update(None, "page_size", 4_096)?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    connection.pragma_update(None, "synchronous", "full")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    connection.pragma_update(None, "cache_size", -WRITER_CACHE_KIB)?;
    // Deleted content is overwritten if that costs no additional page, since an erasure should remove
    // it.
    connection.pragma_update(None, "secure_delete", "fast")?;
    settle(&connection)?;
    Ok(connection)
}

/// The writer's connection without syncs, for tests that simulate only crashes of the process.
#[cfg(any(test, feature = "testing"))]
pub(super) fn open_unsynced_writer(path: &Path) -> rusqlite::Result<Connection> {
    let connection = open_writer(path)?;
    unsynced(&connection)?;
    Ok(connection)
}

/// Disables the syncs of a connection.
#[cfg(any(test, feature = "testing"))]
pub(super) fn unsynced(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "synchronous", "off")
}

/// A read-only connection.
pub(super) fn open_reader(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(
        path,
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.pragma_update(None, "query_only", true)?;
    connection.pragma_update(None, "cache_size", -READER_CACHE_KIB)?;
    settle(&connection)?;
    Ok(connection)
}

/// The settings of every connection.
fn settle(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "temp_store", "memory")?;
    // A manipulated schema must not run functions.
    connection.pragma_update(None, "trusted_schema", false)?;
    // Without this the bundled SQLite prepares a statement again whenever its parameters change.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_KEPT);
    Ok(())
}
