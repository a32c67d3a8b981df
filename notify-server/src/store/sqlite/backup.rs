//! A consistent copy of the file while a server uses it.

use std::path::Path;

use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};

use super::connection::open_reader;
use super::open::{OpenError, private_file};
use crate::store::sql::{self, MoveMark, MoveState, Moved, read_move_mark};

/// Copies the database to a new file that only its owner may read. Blocks. The copy is a snapshot from
/// the beginning; later commits are not in it.
///
/// # Errors
/// When either file cannot be used. The incomplete copy is then not a database.
pub fn backup(database: &Path, copy: &Path) -> Result<(), OpenError> {
    let file_error = |source| OpenError::File { path: copy.to_owned(), source };
    refuse_moved(database)?;
    let target = private_file(copy).map_err(file_error)?;
    copy_pages(database, copy).map_err(|source| OpenError::Database {
        path: database.to_owned(),
        source: source.into(),
    })?;
    target.sync_all().map_err(file_error)
}

/// A copy of a transferred database would be mistaken for a backup of the installation.
fn refuse_moved(database: &Path) -> Result<(), OpenError> {
    let failed = |source: Box<dyn std::error::Error + Send + Sync>| OpenError::Database {
        path: database.to_owned(),
        source,
    };
    let source = open_reader(database).map_err(|error| failed(error.into()))?;
    // Older versions have no mark.
    let has_marks = source.table_exists(None, "moves").map_err(|error| failed(error.into()))?;
    let mark = match has_marks {
        true => read_move_mark(&sql::Connection::Sqlite(source))
            .map_err(|error| failed(error.into()))?,
        false => None,
    };
    match mark {
        Some(MoveMark { state: MoveState::Retired, place, .. }) => {
            Err(OpenError::Moved { path: database.to_owned(), source: Moved::Retired(place) })
        }
        _ => Ok(()),
    }
}

fn copy_pages(database: &Path, copy: &Path) -> rusqlite::Result<()> {
    let source = open_reader(database)?;
    // One transaction keeps the snapshot; otherwise writes would restart the copy.
    source.execute_batch("begin; select count(*) from sqlite_schema")?;
    let mut target = Connection::open(copy)?;
    let copying = Backup::new(&source, &mut target)?;
    // All pages in one step: a reader never blocks the writer.
    match copying.step(-1)? {
        StepResult::Done => Ok(()),
        // Both mean that the target is in use, since the snapshot cannot be locked.
        _ => Err(rusqlite::Error::SqliteFailure(
            rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_BUSY),
            Some("the copy is in use by another program".to_owned()),
        )),
    }
}
