//! Backups: a consistent copy of the file while a server uses it.

use std::path::Path;

use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};

use super::connection::open_reader;
use super::open::{OpenError, private_file, unusable};
use crate::store::sql::{self, MoveMark, MoveState, Moved, read_move_mark};

/// Copies the database to a new file that only its owner may read. Blocks. The copy is a snapshot
/// of the time when the backup begins. It does not contain later commits.
///
/// # Errors
/// When either file cannot be used. The incomplete copy is then not a database.
pub fn backup(database: &Path, copy: &Path) -> Result<(), OpenError> {
    let file_error = |source| OpenError::File { path: copy.to_owned(), source };
    refuse_moved(database)?;
    let target = private_file(copy).map_err(file_error)?;
    copy_pages(database, copy).map_err(|error| unusable(database, error))?;
    target.sync_all().map_err(file_error)
}

/// Refuses a database that was moved. Its copy would be mistaken for a backup of the installation.
fn refuse_moved(database: &Path) -> Result<(), OpenError> {
    let connection = open_reader(database).map_err(|error| unusable(database, error))?;
    let has_marks =
        connection.table_exists(None, "moves").map_err(|error| unusable(database, error))?;
    if !has_marks {
        // Databases of older versions have no table for marks, and were never moved.
        return Ok(());
    }
    let mark = read_move_mark(&sql::Connection::Sqlite(connection))
        .map_err(|error| unusable(database, error))?;
    match mark {
        Some(MoveMark { state: MoveState::Retired, place, .. }) => {
            Err(OpenError::Moved { path: database.to_owned(), source: Moved::Retired(place) })
        }
        _ => Ok(()),
    }
}

/// Copies the pages of one snapshot of the database.
fn copy_pages(database: &Path, copy: &Path) -> rusqlite::Result<()> {
    let source = open_reader(database)?;
    // The read transaction keeps one snapshot. Without it, SQLite would begin the copy again after
    // each write of the server.
    source.execute_batch("begin; select count(*) from sqlite_schema")?;
    let mut target = Connection::open(copy)?;
    let copying = Backup::new(&source, &mut target)?;
    // All pages in one step: a reader never blocks the writer.
    match copying.step(-1)? {
        StepResult::Done => Ok(()),
        // The other results mean that a file is locked. It must be the copy, since a snapshot
        // cannot be locked.
        _ => Err(rusqlite::Error::SqliteFailure(
            rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_BUSY),
            Some("the copy is in use by another program".to_owned()),
        )),
    }
}
