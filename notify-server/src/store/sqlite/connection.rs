//! SQLite connections and their settings.

use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::store::sql::caller::{self, STEPS_PER_CHECK};

/// How long a statement waits for a lock of another process.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// The page cache of the writer, in KiB. It has room for the inner pages of all indexes of some
/// million devices.
const WRITER_CACHE_KIB: i64 = 64 * 1_024;
/// The page cache of each reader, in KiB. Every commit empties it, so a larger cache would not
/// help. The file is not mapped into memory: every commit would unmap it, which costs a tenth of
/// the CPU time of a registration.
const READER_CACHE_KIB: i64 = 2 * 1_024;
/// The number of prepared statements that a connection keeps. The store has fewer statements.
const STATEMENTS_KEPT: usize = 512;

/// Opens the connection of the writer. Every commit is on the disk when it returns. Checkpoints run
/// separately (`wal_checkpointer.rs`). Does not create the file: a connection that replaces a
/// broken one must not create a new database.
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
    // An erasure removes the content of deleted rows, also in pages that become free.
    connection.pragma_update(None, "secure_delete", true)?;
    configure(&connection)?;
    Ok(connection)
}

/// Opens the connection of the writer without syncs, for tests that only simulate crashes of the
/// process.
pub(super) fn open_unsynced_writer(path: &Path) -> rusqlite::Result<Connection> {
    let connection = open_writer(path)?;
    connection.pragma_update(None, "synchronous", "off")?;
    Ok(connection)
}

/// Opens a read-only connection.
pub(super) fn open_reader(path: &Path) -> rusqlite::Result<Connection> {
    let mut connection = Connection::open_with_flags(
        path,
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.pragma_update(None, "query_only", true)?;
    connection.pragma_update(None, "cache_size", -READER_CACHE_KIB)?;
    configure(&connection)?;
    // Interrupts a statement whose caller no longer waits.
    connection.progress_handler(STEPS_PER_CHECK, Some(caller::is_gone))?;
    Ok(connection)
}

/// Opens a connection that reads the file and may write others, which `query_only` forbids.
pub(super) fn open_source(path: &Path) -> rusqlite::Result<Connection> {
    let connection = open_reader(path)?;
    connection.pragma_update(None, "query_only", false)?;
    Ok(connection)
}

/// Applies the settings of every connection.
fn configure(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "temp_store", "memory")?;
    // A manipulated schema must not run functions.
    connection.pragma_update(None, "trusted_schema", false)?;
    // Without this the bundled SQLite prepares a statement again whenever its parameters change.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_KEPT);
    Ok(())
}
