//! Opening the file: lock, connections, migrations. A file that another server uses, or that a
//! newer one has written, is refused before anything is touched.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::connection::open_writer;
use super::migrate::migrate;
use crate::store::sql::Moved;

/// Longest wait for the lock of a server that is ending.
const LOCK_WAIT: Duration = Duration::from_secs(2);
/// Time between two tries to take it.
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// Reader connections unless told otherwise.
pub const READERS_DEFAULT: usize = 4;

/// How to open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SqliteOptions {
    /// Whether this process is the server of the file: refused when another one is. The
    /// subcommands that work beside a server go without.
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
    /// Another server works on it.
    #[error(
        "{} is in use by another notify-server: stop that one, or give this one another data \
         folder", .0.display()
    )]
    InUse(PathBuf),
    /// Its tables are of a later version.
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
    /// Its tables could not be brought up to date.
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
    /// Its tables are not those that the record of its migrations names.
    #[error(
        "{} could not be brought from schema {found} to {known}: its record says schema {found}, and \
         its tables are others. It is as it was. Stop every server on it, keep a copy of the folder, \
         and restore notify.db from the last backup", path.display()
    )]
    OtherTables {
        /// The file.
        path: PathBuf,
        /// Version of its tables, by the record.
        found: i32,
        /// Latest version that this server knows.
        known: i32,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A move keeps it from being used.
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
    /// It is no database, or a damaged one.
    #[error("{} cannot be used as a database", path.display())]
    Database {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// What opening gives: the writing connection, and the lock while it is held.
pub(super) struct Opened {
    pub(super) connection: Connection,
    pub(super) lock: Option<File>,
}

/// The error of a file that is no usable database.
pub(super) fn unusable(
    path: &Path,
    source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> OpenError {
    OpenError::Database { path: path.to_owned(), source: source.into() }
}

/// Opens the file, making it when it is missing, and brings its tables up to date.
pub(super) fn open(path: &Path, options: SqliteOptions) -> Result<Opened, OpenError> {
    let file_error = |source| OpenError::File { path: path.to_owned(), source };
    let lock = if options.lock { Some(lock_server(path)?) } else { None };
    if !path.exists() {
        // Only a file that SQLite has not opened: closing one gives up its locks of this process.
        private_file(path).map_err(file_error)?;
    }
    // Two processes that open at once migrate one after the other.
    let migrating = private_file(&beside(path, "migrate.lock")).map_err(file_error)?;
    migrating.lock().map_err(file_error)?;
    let mut connection = open_writer(path).map_err(|error| unusable(path, error))?;
    migrate(path, &mut connection)?;
    Ok(Opened { connection, lock })
}

/// Takes the lock that only one server has. It ends with the process, however that ends; the system
/// may still be ending one that was killed when the next one starts, so that a lock that is held is
/// tried for a moment before that counts as another server.
fn lock_server(path: &Path) -> Result<File, OpenError> {
    let file_error = |source| OpenError::File { path: path.to_owned(), source };
    let file = private_file(&beside(path, "lock")).map_err(file_error)?;
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
fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(ending);
    PathBuf::from(name)
}

/// Opens a file that only its owner may read; SQLite gives its log the same mode.
pub(super) fn private_file(path: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}
