//! Restoring a backup: the check of the file, the copy next to the database, and the replacement of the
//! database in one step.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

use percent_encoding::{NON_ALPHANUMERIC, percent_encode};
use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::connection::open_writer;
use super::migrate::{differences, latest, recorded_version};
use super::open::{OpenError, lock_server, private_file, unusable};
use super::{identity, log_path};
use crate::failpoint::{self, Stage};
use crate::store::sql::{self, MoveMark, MoveState, Moved, read_move_mark};

/// The name of the fail points of a restore.
const POINT: &str = "restore";
/// The first bytes of a database (<https://sqlite.org/fileformat2.html#the_database_header>).
const HEADER: &[u8; 16] = b"SQLite format 3\0";
/// What the name of a replaced database has after that of the database. The time of the replacement follows.
const REPLACED: &str = ".replaced-";

/// Why a file is not a backup that can be restored.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The file cannot be read.
    #[error("{} cannot be read", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why it cannot be read.
        #[source]
        source: io::Error,
    },
    /// The path is that of a folder or a device.
    #[error("{} is not a file", .0.display())]
    NoFile(PathBuf),
    /// The file is empty.
    #[error("{} is empty: its backup was interrupted", .0.display())]
    Empty(PathBuf),
    /// The newest changes of the database are in another file.
    #[error(
        "{} is the database of a server, or a plain copy of one, because {} is next to it: make a \
         backup with `notify-server backup`", path.display(), log.display()
    )]
    HasLog {
        /// The file.
        path: PathBuf,
        /// The file with the newest changes.
        log: PathBuf,
    },
    /// The file is damaged, incomplete, or not a database.
    #[error("{} is damaged, or not a database: {detail}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The first problem that SQLite found.
        detail: String,
    },
    /// The database has no tables of Notify.
    #[error("{} is a database, but not one of Notify", .0.display())]
    OtherTables(PathBuf),
    /// The database has other tables, indexes, triggers or views than those of its version, or lacks some. They
    /// could change what the server writes.
    #[error(
        "{} is not a backup of `notify-server backup`: its schema differs from that of version {version}: {}",
        path.display(), differences.join(", ")
    )]
    OtherSchema {
        /// The file.
        path: PathBuf,
        /// The version of its tables.
        version: i32,
        /// What differs.
        differences: Vec<String>,
    },
    /// Its tables have a newer version.
    #[error(
        "{} was written by a newer notify-server (schema {found}; this one knows {known}): restore it \
         with that version", path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// The version of its tables.
        found: i32,
        /// The latest version that this server knows.
        known: i32,
    },
    /// A transfer forbids using the database.
    #[error("{} cannot be restored", path.display())]
    Moved {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: Moved,
    },
}

/// Checks a backup: every page, the version of the tables, and that no move retired it. Changes nothing,
/// also not next to the file. Returns the version of the tables. Blocks.
///
/// # Errors
/// The first problem of the file.
pub fn verify_backup(path: &Path) -> Result<i32, BackupError> {
    let unreadable = |source| BackupError::Unreadable { path: path.to_owned(), source };
    let metadata = fs::metadata(path).map_err(unreadable)?;
    if !metadata.is_file() {
        return Err(BackupError::NoFile(path.to_owned()));
    }
    if metadata.len() == 0 {
        return Err(BackupError::Empty(path.to_owned()));
    }
    let log = log_path(path);
    if fs::metadata(&log).is_ok_and(|log| log.len() > 0) {
        return Err(BackupError::HasLog { path: path.to_owned(), log });
    }
    let absolute = std::path::absolute(path).map_err(unreadable)?;
    let damaged = |error: &dyn std::fmt::Display| BackupError::Damaged {
        path: path.to_owned(),
        detail: error.to_string(),
    };
    let connection = open_immutable(&absolute).map_err(|error| damaged(&error))?;
    let state: String = connection
        .query_row("pragma integrity_check(1)", [], |row| row.get(0))
        .map_err(|error| damaged(&error))?;
    if state != "ok" {
        return Err(damaged(&state));
    }
    let found = recorded_version(&connection).map_err(|error| damaged(&error))?;
    let known = latest();
    if found == 0 {
        return Err(BackupError::OtherTables(path.to_owned()));
    }
    if found > known {
        return Err(BackupError::Newer { path: path.to_owned(), found, known });
    }
    let differences = differences(&connection, found).map_err(|error| damaged(error.as_ref()))?;
    if !differences.is_empty() {
        let path = path.to_owned();
        return Err(BackupError::OtherSchema { path, version: found, differences });
    }
    match moved(connection).map_err(|error| damaged(&error))? {
        Some(source) => Err(BackupError::Moved { path: path.to_owned(), source }),
        None => Ok(found),
    }
}

/// Opens a file that nothing writes, without locks and without files next to it.
fn open_immutable(path: &Path) -> rusqlite::Result<Connection> {
    let encoded = percent_encode(path.as_os_str().as_encoded_bytes(), NON_ALPHANUMERIC);
    Connection::open_with_flags(
        format!("file:{encoded}?immutable=1"),
        OpenFlags::SQLITE_OPEN_READ_ONLY
            | OpenFlags::SQLITE_OPEN_NO_MUTEX
            | OpenFlags::SQLITE_OPEN_URI,
    )
}

/// Whether a finished or an incomplete move forbids using the database.
fn moved(connection: Connection) -> sql::Result<Option<Moved>> {
    Ok(match read_move_mark(&sql::Connection::Sqlite(connection))? {
        Some(MoveMark { state: MoveState::Retired, place, .. }) => Some(Moved::Retired(place)),
        Some(MoveMark { state: MoveState::Importing, place, .. }) => Some(Moved::Importing(place)),
        Some(MoveMark { state: MoveState::Exporting, .. }) | None => None,
    })
}

/// The lock that a server has on its database file. No server can use the file while this value exists.
#[derive(Debug)]
pub struct FileLock(#[expect(dead_code, reason = "dropping the file releases the lock")] File);

impl FileLock {
    /// Takes the lock. Blocks, since an earlier server may still be stopping.
    ///
    /// # Errors
    /// When a server uses the file.
    pub fn take(database: &Path) -> Result<Self, OpenError> {
        lock_server(database).map(Self)
    }
}

/// Whether a path has a database, or the log of one.
#[must_use]
pub fn has_database(path: &Path) -> bool {
    let has_bytes = |path: &Path| fs::metadata(path).is_ok_and(|metadata| metadata.len() > 0);
    has_bytes(path) || has_bytes(&log_path(path))
}

/// Copies a backup to a new file that only its owner may read. Blocks.
///
/// # Errors
/// When the backup cannot be read, or the copy cannot be written.
pub fn copy_backup(backup: &Path, copy: &Path) -> Result<(), OpenError> {
    let error_at = |path: &Path| {
        let path = path.to_owned();
        move |source| OpenError::File { path, source }
    };
    let mut from = File::open(backup).map_err(error_at(backup))?;
    let mut to = private_file(copy).map_err(error_at(copy))?;
    io::copy(&mut from, &mut to).map_err(error_at(copy))?;
    to.sync_all().map_err(error_at(copy))
}

/// The name under which a replaced database is kept. It has a number if a database was replaced at the same
/// time.
///
/// # Panics
/// Never: a folder has fewer files than there are numbers.
#[must_use]
pub fn replaced_name(database: &Path, time: &str) -> PathBuf {
    let numbers = (2..).map(|number: u32| format!("-{number}"));
    let mut names = std::iter::once(String::new()).chain(numbers).map(|number| {
        let mut name = database.as_os_str().to_owned();
        name.push(REPLACED);
        name.push(time);
        name.push(number);
        PathBuf::from(name)
    });
    names.find(|name| !name.exists()).expect("there are more numbers than files")
}

/// Puts a database file, which no process has open, in place of another one. With `aside`, the previous
/// database is kept under that name. Both files must be on the same volume, and the caller has the lock of
/// the database. A crash leaves either the previous database or the new one. Blocks.
///
/// # Errors
/// When the new database has a log, a file cannot be written, or another program reads or writes the previous
/// database. The previous database is then still in place.
pub fn replace_database(
    new: &Path,
    database: &Path,
    aside: Option<&Path>,
) -> Result<(), OpenError> {
    let file_error = |source| OpenError::File { path: database.to_owned(), source };
    if fs::metadata(log_path(new)).is_ok_and(|log| log.len() > 0) {
        // Closing the new database did not move its log into it, so the file alone would lack changes.
        let path = new.to_owned();
        let source = io::Error::other("its log was not moved into it");
        return Err(OpenError::File { path, source });
    }
    File::open(new).and_then(|file| file.sync_all()).map_err(file_error)?;
    failpoint::reach(POINT, Stage::Written);
    if let Some(aside) = aside {
        set_aside(database, aside)?;
    }
    failpoint::reach(POINT, Stage::Written);
    fs::rename(new, database).map_err(file_error)?;
    failpoint::reach(POINT, Stage::Committed);
    sync_folder(database).map_err(file_error)
}

/// Gives the previous database a second name. The log of a database must never be next to another database:
/// SQLite would apply it. The log of a database that opens is therefore first moved into it. A database that does
/// not open keeps its log under the new name only. A crash after that leaves the damaged database in place without
/// its log, and both complete under the new name.
fn set_aside(database: &Path, aside: &Path) -> Result<(), OpenError> {
    let file_error = |source| OpenError::File { path: database.to_owned(), source };
    remove_names_of_earlier_attempts(database).map_err(file_error)?;
    let log = log_path(database);
    if database.exists() {
        let is_damaged = !has_header(database).map_err(file_error)?
            || match merge_log(database) {
                Ok(()) => false,
                Err(error) if is_damage(&error) => true,
                Err(error) => return Err(unusable(database, error)),
            };
        if !is_damaged && fs::metadata(&log).is_ok_and(|log| log.len() > 0) {
            let busy = io::Error::new(ErrorKind::ResourceBusy, "another program has it open");
            return Err(file_error(busy));
        }
        link_or_copy(database, aside).map_err(file_error)?;
    }
    if fs::metadata(&log).is_ok_and(|log| log.len() > 0) {
        link_or_copy(&log, &log_path(aside)).map_err(file_error)?;
    }
    sync_folder(database).map_err(file_error)?;
    for ending in ["-wal", "-shm"] {
        let mut name = database.as_os_str().to_owned();
        name.push(ending);
        match fs::remove_file(&name) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(file_error(error)),
            _ => {}
        }
    }
    sync_folder(database).map_err(file_error)
}

/// Whether a file begins as a database. SQLite deletes the log of a file that does not.
fn has_header(database: &Path) -> io::Result<bool> {
    let mut header = [0; HEADER.len()];
    match File::open(database)?.read_exact(&mut header) {
        Ok(()) => Ok(header == *HEADER),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether an error means that the file itself is damaged.
fn is_damage(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error_code();
    matches!(code, Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt))
}

/// Moves the content of the log into the database. Closing the last connection then deletes the log.
fn merge_log(database: &Path) -> rusqlite::Result<()> {
    let connection = open_writer(database)?;
    connection.query_row("pragma wal_checkpoint(truncate)", [], |_| Ok(()))?;
    connection.close().map_err(|(_, error)| error)
}

/// Removes the second names of the database that attempts left when they ended before the replacement. A
/// name with a log belongs to a damaged database and stays.
fn remove_names_of_earlier_attempts(database: &Path) -> io::Result<()> {
    let (Some(folder), Some(name)) = (database.parent(), database.file_name()) else {
        return Ok(());
    };
    let Some(own) = identity(database) else { return Ok(()) };
    let prefix = format!("{}{REPLACED}", name.display());
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        let is_second_name = entry.file_name().to_string_lossy().starts_with(&prefix)
            && identity(&path) == Some(own)
            && !log_path(&path).exists();
        // Without hard links, the file is a copy and has another identity.
        if cfg!(unix) && is_second_name {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

/// Gives a file a second name. A volume without hard links gets a copy.
fn link_or_copy(file: &Path, name: &Path) -> io::Result<()> {
    match fs::hard_link(file, name) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            fs::copy(file, name)?;
            File::open(name)?.sync_all()
        }
        result => result,
    }
}

/// Makes renames and new names in the folder of a file durable.
pub(super) fn sync_folder(file: &Path) -> io::Result<()> {
    match file.parent() {
        #[cfg(unix)]
        Some(folder) if !folder.as_os_str().is_empty() => File::open(folder)?.sync_all(),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::sqlite::connection::open_reader;

    /// Creates a database whose only row is the number, and whose log is not empty.
    fn make(path: &Path, number: i64) -> Connection {
        drop(private_file(path).unwrap());
        let connection = open_writer(path).unwrap();
        connection.execute_batch("create table t (a integer); insert into t values (0)").unwrap();
        connection.execute("update t set a = ?1", [number]).unwrap();
        connection
    }

    fn number_in(path: &Path) -> i64 {
        let connection = open_reader(path).unwrap();
        connection.query_row("select a from t", [], |row| row.get(0)).unwrap()
    }

    #[test]
    fn the_previous_database_is_kept_with_the_content_of_its_log() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        make(&at("new"), 2).close().unwrap();
        let killed = make(&at("notify.db"), 1);
        // The files of a process that was killed: its log is still there.
        fs::copy(at("notify.db-wal"), at("wal")).unwrap();
        fs::copy(at("notify.db"), at("main")).unwrap();
        killed.close().unwrap();
        fs::rename(at("main"), at("notify.db")).unwrap();
        fs::rename(at("wal"), at("notify.db-wal")).unwrap();
        replace_database(&at("new"), &at("notify.db"), Some(&replaced_name(&at("notify.db"), "1")))
            .unwrap();
        assert_eq!((number_in(&at("notify.db")), number_in(&at("notify.db.replaced-1"))), (2, 1));
        assert!(!at("new").exists());
    }

    #[test]
    fn databases_that_are_replaced_at_the_same_time_are_all_kept() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("notify.db");
        for ending in ["1", "1-2", "1-3"] {
            let name = replaced_name(&database, "1");
            assert_eq!(name, folder.path().join(format!("notify.db.replaced-{ending}")));
            fs::write(name, "").unwrap();
        }
    }

    #[test]
    fn a_damaged_database_is_kept_with_its_log() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        make(&at("new"), 2).close().unwrap();
        fs::write(at("notify.db"), "damaged").unwrap();
        fs::write(at("notify.db-wal"), "its log").unwrap();
        replace_database(&at("new"), &at("notify.db"), Some(&replaced_name(&at("notify.db"), "1")))
            .unwrap();
        assert_eq!(number_in(&at("notify.db")), 2);
        assert_eq!(fs::read(at("notify.db.replaced-1")).unwrap(), b"damaged");
        assert_eq!(fs::read(at("notify.db.replaced-1-wal")).unwrap(), b"its log");
    }

    #[test]
    fn a_database_that_another_program_writes_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        make(&at("new"), 2).close().unwrap();
        let other = make(&at("notify.db"), 1);
        // A reader in a transaction keeps the log from being emptied.
        let reader = open_reader(&at("notify.db")).unwrap();
        reader.execute_batch("begin; select a from t").unwrap();
        other.execute("update t set a = 3", []).unwrap();
        let refused = replace_database(
            &at("new"),
            &at("notify.db"),
            Some(&replaced_name(&at("notify.db"), "1")),
        );
        assert!(matches!(refused, Err(OpenError::File { .. })), "{refused:?}");
        assert_eq!(number_in(&at("notify.db")), 3);
        assert!(at("new").exists() && !at("notify.db.replaced-1").exists());
    }
}
