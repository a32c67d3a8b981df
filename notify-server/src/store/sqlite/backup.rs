//! Backups: a consistent copy of the file while a server uses it.

use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use rusqlite::types::{ToSqlOutput, ValueRef};

use super::connection::{open_reader, open_source};
use super::open::{OpenError, new_private_file, unusable, with_suffix};
use super::restore::sync_folder;
use crate::store::sql::{self, MoveMark, MoveState, Moved, read_move_mark};

/// The ending of the name of a copy that is not complete yet.
const PARTIAL: &str = "partial";

/// Copies the database to a new file that only its owner may read. Blocks. The copy is a snapshot
/// of the time when the backup begins. It does not contain later commits. The file gets its name when it is
/// complete; until then, its name ends with `.partial`.
///
/// # Errors
/// When either file cannot be used, or the copy exists already. No incomplete copy is left.
pub fn backup(database: &Path, copy: &Path) -> Result<(), OpenError> {
    let file_error = |source| OpenError::File { path: copy.to_owned(), source };
    refuse_moved(database)?;
    refuse_existing(copy).map_err(file_error)?;
    let partial = Partial::create(with_suffix(copy, PARTIAL)).map_err(file_error)?;
    copy_rows(database, &partial.path).map_err(|error| unusable(database, error))?;
    partial.file.sync_all().map_err(file_error)?;
    // Another program may have created it meanwhile.
    refuse_existing(copy).map_err(file_error)?;
    fs::rename(&partial.path, copy).map_err(file_error)?;
    sync_folder(copy).map_err(file_error)
}

fn refuse_existing(copy: &Path) -> io::Result<()> {
    if copy.exists() { Err(ErrorKind::AlreadyExists.into()) } else { Ok(()) }
}

/// An incomplete copy. Dropping it removes the file, unless it was renamed.
struct Partial {
    path: PathBuf,
    /// Locked, so that a second backup to the same name does not remove the file.
    file: File,
}

impl Partial {
    /// Creates the file, in place of one that an interrupted backup left.
    fn create(path: PathBuf) -> io::Result<Self> {
        match File::open(&path) {
            Ok(left) => {
                if let Err(TryLockError::WouldBlock) = left.try_lock() {
                    let busy = "another backup writes it";
                    return Err(io::Error::new(ErrorKind::ResourceBusy, busy));
                }
                fs::remove_file(&path)?;
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let file = new_private_file(&path)?;
        // Some network file systems have no locks; only two backups at the same time need them.
        let _ = file.try_lock();
        Ok(Self { path, file })
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        let mut journal = self.path.as_os_str().to_owned();
        journal.push("-journal");
        for path in [self.path.as_os_str(), &journal] {
            // The next backup to the same name removes what is left now.
            let _ = fs::remove_file(path);
        }
    }
}

/// Refuses a database that was moved. Its copy would be mistaken for a backup of the installation.
fn refuse_moved(database: &Path) -> Result<(), OpenError> {
    let connection = open_reader(database).map_err(|error| unusable(database, error))?;
    let has_marks =
        connection.table_exists(None, "moves").map_err(|error| unusable(database, error))?;
    if !has_marks {
        // A file without tables was never moved.
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

/// Copies one snapshot of the database. Copies the rows and not the pages: pages can still have content of
/// deleted rows, such as those that an earlier version of the server deleted. A reader never blocks the
/// writer.
fn copy_rows(database: &Path, copy: &Path) -> rusqlite::Result<()> {
    let source = open_source(database)?;
    // The name of a file need not be UTF-8.
    let name = ToSqlOutput::Borrowed(ValueRef::Text(copy.as_os_str().as_encoded_bytes()));
    source.execute("vacuum into ?1", [name])?;
    Ok(())
}
