//! Opening a file: its lock, its connection and its migrations. A file that another server uses, or
//! that a newer server has migrated, is refused before anything is changed.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::connection::{open_unsynced_writer, open_writer};
use super::migrate::migrate;
use crate::store::sql::Moved;

/// The longest wait for the lock, since an earlier server may still be stopping.
const LOCK_WAIT: Duration = Duration::from_secs(2);
/// The time between two attempts to take the lock.
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// The default number of connections that read.
pub const READERS_DEFAULT: usize = 4;

/// Options of [`super::open()`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SqliteOptions {
    /// Whether this process takes the lock of the file. A server does, a subcommand does not.
    pub lock: bool,
    /// The number of connections that read.
    pub readers: usize,
    /// Whether commits survive a crash of the machine. Without it they survive only a crash of the process,
    /// which is enough for tests.
    pub synced: bool,
}

impl SqliteOptions {
    /// Opens connections of the writer.
    pub(super) fn writer(self) -> fn(&Path) -> rusqlite::Result<Connection> {
        if self.synced { open_writer } else { open_unsynced_writer }
    }
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self { lock: true, readers: READERS_DEFAULT, synced: true }
    }
}

/// Why the file was not opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another server uses the file.
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
        /// The version of its tables.
        found: i64,
        /// The latest version that this server knows.
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
        /// The version of its tables.
        found: i32,
        /// The latest version that this server knows.
        known: i32,
        /// The cause.
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
        /// The recorded version of its tables.
        found: i32,
        /// The latest version that this server knows.
        known: i32,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A transfer forbids using the file.
    #[error("{} cannot be used", path.display())]
    Moved {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: Moved,
    },
    /// The file or its folder cannot be used.
    #[error("{} cannot be opened", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The file is not a database or is damaged.
    #[error("{} cannot be used as a database", path.display())]
    Database {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// An open file: the connection of the writer, and the lock.
pub(super) struct Opened {
    pub(super) connection: Connection,
    pub(super) lock: Option<File>,
}

/// The error of a database that cannot be used.
pub(super) fn unusable(
    path: &Path,
    source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> OpenError {
    OpenError::Database { path: path.to_owned(), source: source.into() }
}

/// Opens a file, or creates it, and migrates its tables.
pub(super) fn open(path: &Path, options: SqliteOptions) -> Result<Opened, OpenError> {
    let file_error = |source| OpenError::File { path: path.to_owned(), source };
    let lock = if options.lock { Some(lock_server(path)?) } else { None };
    if !path.exists() {
        // An existing file is not opened here: closing it would release the locks that SQLite has
        // on it in this process.
        private_file(path).map_err(file_error)?;
    }
    // This lock makes processes that open the file at the same time migrate it one after the other.
    let migrating = private_file(&with_suffix(path, "migrate.lock")).map_err(file_error)?;
    migrating.lock().map_err(file_error)?;
    let mut connection = options.writer()(path).map_err(|error| unusable(path, error))?;
    migrate(path, &mut connection)?;
    Ok(Opened { connection, lock })
}

/// Takes the lock of a server. The system releases the lock when the process ends. A killed process
/// may still be ending when the next one starts, so this function tries for [`LOCK_WAIT`].
pub(super) fn lock_server(path: &Path) -> Result<File, OpenError> {
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

/// Adds a suffix to a path: `notify.db` and `lock` result in `notify.db.lock`.
pub(super) fn with_suffix(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(ending);
    PathBuf::from(name)
}

/// Opens a file, or creates one that only its owner may read and write. SQLite uses the same mode
/// for its log.
pub(super) fn private_file(path: &Path) -> std::io::Result<File> {
    let mut options = private();
    options.create(true).truncate(false).open(path)
}

/// Creates a file that only its owner may read and write. A path that exists is an error, also if it is a
/// symbolic link.
pub(super) fn new_private_file(path: &Path) -> std::io::Result<File> {
    private().create_new(true).open(path)
}

fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}
