//! Opening the file: lock, connections, migrations. A file of another running server or of a newer
//! version is refused before anything is changed.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::connection::open_writer;
use super::migrate::migrate;
use crate::store::sql::Moved;

/// Longest wait for the lock of a server that is stopping.
const LOCK_WAIT: Duration = Duration::from_secs(2);
/// Time between two attempts to take it.
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// Default number of reader connections.
pub const READERS_DEFAULT: usize = 4;

/// How to open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SqliteOptions {
    /// Whether this process is the server of the file and takes its lock. Subcommands do not.
    pub lock: bool,
    /// Connections that read.
    pub readers: usize,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self { lock: true, readers: READERS_DEFAULT }
    }
}

/// Why the file was not opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another server uses it.
    #[error(
        "{} is in use by another notify-server: stop that one, or give this one another data \
         folder", .0.display()
    )]
    InUse(PathBuf),
    /// Its tables have a newer version.
    #[error(
        "{} was written by a newer notify-server (schema {found}; this one knows {known}): update \
         this server, or restore a backup", path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Version of its tables.
        found: i64,
        /// Latest version that this server knows.
        known: i64,
    },
    /// Its tables could not be migrated.
    #[error(
        "{} could not be brought from schema {found} to {known}; it is as it was, and the next start \
         tries again", path.display()
    )]
    Migration {
        /// The file.
        path: PathBuf,
        /// Version of its tables.
        found: i32,
        /// Latest version that this server knows.
        known: i32,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Its tables do not match its recorded version.
    #[error(
        "{} could not be brought from schema {found} to {known}: its record says schema {found}, and \
         its tables are others. It is as it was. Stop every server on it, keep a copy of the folder, \
         and restore notify.db from the last backup", path.display()
    )]
    OtherTables {
        /// The file.
        path: PathBuf,
        /// Recorded version of its tables.
        found: i32,
        /// Latest version that this server knows.
        known: i32,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// It cannot be used because of a transfer.
    #[error("{} cannot be used", path.display())]
    Moved {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: Moved,
    },
    /// The file or its folder cannot be used.
    #[error("{} cannot be opened", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// It is not a database, or damaged.
    #[error("{} cannot be used as a database", path.display())]
    Database {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// An open file: the writer's connection, and the lock.
pub(super) struct Opened {
    pub(super) connection: Connection,
    pub(super) lock: Option<File>,
}

/// The error of an unusable database.
pub(super) fn unusable(
    path: &Path,
    source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> OpenError {
    OpenError::Database { path: path.to_owned(), source: source.into() }
}

/// Opens the file or creates it, and migrates its tables.
pub(super) fn open(path: &Path, options: SqliteOptions) -> Result<Opened, OpenError> {
    let file_error = |source| OpenError::File { path: path.to_owned(), source };
    let lock = if options.lock { Some(lock_server(path)?) } else { None };
    if !path.exists() {
        // Only a file that SQLite has not opened, since closing a file releases this process's locks on
        // it.
        private_file(path).map_err(file_error)?;
    }
    // Processes that open at the same time migrate one after the other.
    let migrating = private_file(&with_suffix(path, "migrate.lock")).map_err(file_error)?;
    migrating.lock().map_err(file_error)?;
    let mut connection = open_writer(path).map_err(|error| unusable(path, error))?;
    migrate(path, &mut connection)?;
    Ok(Opened { connection, lock })
}

/// Takes the lock of the server. The system releases it with the process. A killed process may still be
/// ending when the next one starts, so this retries for a moment.
fn lock_server(path: &Path) -> Result<File, OpenError> {
    let file_error = |source| OpenError::File { path: path.to_owned(), source };
    let file = private_file(&with_suffix(path, "lock")).map_err(file_error)?;
    let give_up_at = Instant::now() + LOCK_WAIT;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if Instant::now() < give_up_at => {
                std::thread::sleep(LOCK_PAUSE);
            }
            Err(TryLockError::WouldBlock) => return Err(OpenError::InUse(path.to_owned())),
            Err(TryLockError::Error(error)) => return Err(file_error(error)),
        }
    }
}

/// `notify.db` and `lock` make `notify.db.lock`.
fn with_suffix(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(ending);
    PathBuf::from(name)
}

/// Opens or creates a file that only its owner may read; SQLite uses the same mode for its log.
pub(super) fn private_file(path: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}
