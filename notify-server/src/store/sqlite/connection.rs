//! Connections and their settings, in one place.

use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

/// How long a statement waits for a lock that another process holds.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// Page cache of the writer, in KiB; the inner pages of every index of some million devices.
const WRITER_CACHE_KIB: i64 = 64 * 1_024;
/// Page cache of each reader, in KiB. Every commit empties it, so more would not be used; nor is
/// the file mapped, since every commit would unmap it: a tenth of a registration's CPU.
const READER_CACHE_KIB: i64 = 2 * 1_024;
/// Prepared statements that a connection keeps; more than there are in this backend.
const STATEMENTS_KEPT: usize = 512;

/// The connection that writes. Every commit is on disk when it returns. Checkpoints are run
/// by hand (`checkpoint.rs`), off the way of a commit. The file is there: a connection that replaces a
/// lost one must not make another.
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
    // What is deleted is overwritten where that costs no further page: an erase means it.
    connection.pragma_update(None, "secure_delete", "fast")?;
    settle(&connection)?;
    Ok(connection)
}

/// The same without the syncs, which a simulated crash of the process has no use for.
#[cfg(any(test, feature = "testing"))]
pub(super) fn open_unsynced_writer(path: &Path) -> rusqlite::Result<Connection> {
    let connection = open_writer(path)?;
    unsynced(&connection)?;
    Ok(connection)
}

/// Has a connection sync no more.
#[cfg(any(test, feature = "testing"))]
pub(super) fn unsynced(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "synchronous", "off")
}

/// A connection that can only read.
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

/// What every connection has.
fn settle(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "temp_store", "memory")?;
    // A schema that somebody tampered with must not run functions of its own.
    connection.pragma_update(None, "trusted_schema", false)?;
    // Without this the bundled SQLite compiles a statement anew whenever its bound values change.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_KEPT);
    Ok(())
}
