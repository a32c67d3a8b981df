//! SQLite: opening the file, its settings and locks, checkpoints and backups. Nothing here logs.

mod backup;
mod connection;
mod migrate;
mod open;
mod restore;
#[cfg(any(test, feature = "testing"))]
mod testing;
#[cfg(test)]
pub(in crate::store) mod tests;
mod wal_checkpointer;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

pub use backup::backup;
#[cfg(any(test, feature = "testing"))]
pub use migrate::testing::{make_file, use_made_up_migration};
pub use open::{OpenError, READERS_DEFAULT, SqliteOptions};
pub use restore::{
    BackupError, FileLock, copy_backup, has_database, replace_database, replaced_name,
    verify_backup,
};
#[cfg(any(test, feature = "testing"))]
pub use testing::{execute_raw, open_inline};

use self::connection::open_reader;
use self::open::Opened;
use self::wal_checkpointer::WalCheckpointer;
use crate::store::app::resume_erasing;
#[cfg(any(test, feature = "testing"))]
pub use crate::store::sql::Fault;
use crate::store::sql::{
    self, ConnectFn, Connection, FileMissing, Listeners, Readers, Writer, WriterBackend,
    ensure_usable,
};
pub use crate::store::sql::{READS_WAITING_MAX, WRITES_PER_COMMIT_MAX, WRITES_WAITING_MAX};
use crate::store::{Change, CloseGuard, StorageReport, Store, StoreParts};

/// The number of pages of the log after which a transfer checkpoints the log: 8 MiB, the size of
/// two chunks of rows.
const CHECKPOINT_PAGES: i64 = 2_000;

/// Opens a file, or creates it, and migrates its tables. Blocks.
///
/// # Errors
/// When another server uses the file, a newer server has migrated it, or the file cannot be used.
pub fn open(path: &Path, options: SqliteOptions) -> Result<Arc<Store>, OpenError> {
    let opened = open::open(path, options)?;
    let files = OpenedFiles::of(path);
    let checkpoints =
        WalCheckpointer::start(path, &files).map_err(|error| open::unusable(path, error))?;
    let file = WriterFile { path: path.to_owned(), open: options.writer(), checkpoints, files };
    start(file, opened, |backend, connection, listeners, busy, connect| {
        let writer = Writer::start(backend, connection, listeners, Arc::clone(&busy))?;
        Ok((writer, Readers::start(&connect, options.readers, busy)?))
    })
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Makes a store of an open file. `start_threads` starts the writer and the readers.
fn start(
    mut file: WriterFile,
    opened: Opened,
    start_threads: impl FnOnce(
        Box<WriterFile>,
        Connection,
        Listeners,
        Arc<AtomicU64>,
        ConnectFn,
    ) -> Result<(Writer, Readers), BoxError>,
) -> Result<Arc<Store>, OpenError> {
    let (path, files) = (file.path.clone(), file.files.clone());
    let connection = file.watch(opened.connection).map_err(|error| open::unusable(&path, error))?;
    ensure_usable(&connection).map_err(|error| match error {
        sql::Error::Moved(source) => OpenError::Moved { path: path.clone(), source },
        other => open::unusable(&path, other),
    })?;
    if opened.lock.is_some() {
        resume_erasing(&connection).map_err(|error| open::unusable(&path, error))?;
    }
    let (listeners, busy) = (Listeners::default(), Arc::<AtomicU64>::default());
    let readers_open = open_readers(&path, files.clone());
    let (writer, readers) = start_threads(
        Box::new(file),
        connection,
        Arc::clone(&listeners),
        Arc::clone(&busy),
        readers_open,
    )
    .map_err(|error| open::unusable(&path, error))?;
    Ok(Store::new(StoreParts {
        writer: Arc::new(writer),
        sets: None,
        readers,
        listeners,
        busy,
        held: opened.lock.map(|lock| Box::new(lock) as CloseGuard),
        in_place: Some(Box::new(move || files.check())),
        keeps_sessions: None,
    }))
}

/// Opens or creates a file for a transfer, and takes the lock that only a server has otherwise.
/// Blocks.
pub(in crate::store) fn open_exclusive(
    path: &Path,
) -> Result<(Connection, Option<CloseGuard>), OpenError> {
    let opened = open::open(path, SqliteOptions { lock: true, readers: 0, synced: true })?;
    // A transfer has only this connection and no checkpointer.
    opened
        .connection
        .pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)
        .map_err(|error| open::unusable(path, error))?;
    let held = opened.lock.map(|lock| Box::new(lock) as CloseGuard);
    Ok((Connection::Sqlite(opened.connection), held))
}

/// Returns a function that opens read-only connections.
fn open_readers(path: &Path, files: OpenedFiles) -> ConnectFn {
    let path = path.to_owned();
    Arc::new(move || {
        files.check()?;
        Ok(Connection::Sqlite(open_reader(&path)?))
    })
}

/// The writer's access to the file.
struct WriterFile {
    path: PathBuf,
    /// Opens the connection of the writer.
    open: fn(&Path) -> rusqlite::Result<rusqlite::Connection>,
    checkpoints: WalCheckpointer,
    files: OpenedFiles,
}

impl WriterFile {
    /// Lets the checkpointer watch the log of a connection.
    fn watch(&mut self, mut connection: rusqlite::Connection) -> rusqlite::Result<Connection> {
        self.checkpoints.watch(&mut connection)?;
        Ok(Connection::Sqlite(connection))
    }
}

impl WriterBackend for WriterFile {
    fn open(&mut self) -> sql::Result<Connection> {
        self.files.check()?;
        let opened = (self.open)(&self.path)?;
        Ok(self.watch(opened)?)
    }

    fn check(&self) -> sql::Result<()> {
        Ok(self.files.check()?)
    }

    fn after_commit(&mut self, connection: &Connection, _: &[Change]) -> bool {
        if let Connection::Sqlite(connection) = connection {
            self.checkpoints.after_commit(connection);
        }
        true
    }
}

// Detecting that the files of an open database were deleted or replaced. A deleted file still
// accepts writes, and they are lost when the file is closed.

/// The device number and the inode of a file.
type Identity = (u64, u64);

/// The paths and identities of the opened files.
#[derive(Debug, Clone)]
struct OpenedFiles(Vec<(PathBuf, Identity)>);

impl OpenedFiles {
    /// Records the database file and its log. The log exists while a connection is open.
    fn of(path: &Path) -> Self {
        let paths = [path.to_owned(), log_path(path)];
        Self(paths.into_iter().filter_map(|path| Some((path.clone(), identity(&path)?))).collect())
    }

    /// Checks that each path still has the recorded file. Does not open the files.
    fn check(&self) -> Result<(), FileMissing> {
        for (path, recorded) in &self.0 {
            if identity(path) != Some(*recorded) {
                return Err(FileMissing(path.clone()));
            }
        }
        Ok(())
    }
}

/// The path of the log of a database.
fn log_path(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push("-wal");
    name.into()
}

#[cfg(unix)]
fn identity(path: &Path) -> Option<Identity> {
    use std::os::unix::fs::MetadataExt;
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.dev(), metadata.ino()))
}

/// On systems other than Unix, an open file cannot be deleted or replaced.
#[cfg(not(unix))]
fn identity(path: &Path) -> Option<Identity> {
    path.exists().then_some((0, 0))
}

/// The words of `synchronous`, by number (<https://sqlite.org/pragma.html#pragma_synchronous>).
const SYNCHRONOUS: [&str; 4] = ["off", "normal", "full", "extra"];

/// Reads the settings of the connection, the sizes of its files, and the free space of their
/// volume.
pub(in crate::store) fn report(connection: &rusqlite::Connection) -> sql::Result<StorageReport> {
    let journal_mode: String = connection.query_row("pragma journal_mode", [], |row| row.get(0))?;
    let synchronous: u8 = connection.query_row("pragma synchronous", [], |row| row.get(0))?;
    let pages: i64 = connection.query_row("pragma page_count", [], |row| row.get(0))?;
    let page_bytes: i64 = connection.query_row("pragma page_size", [], |row| row.get(0))?;
    let path = connection.path().unwrap_or_default();
    let log = std::fs::metadata(format!("{path}-wal"));
    Ok(StorageReport {
        backend: "sqlite",
        journal_mode,
        synchronous: (*SYNCHRONOUS.get(usize::from(synchronous)).unwrap_or(&"unknown")).to_owned(),
        database_bytes: pages.unsigned_abs() * page_bytes.unsigned_abs(),
        log_bytes: log.map_or(0, |log| log.len()),
        free_bytes: free_bytes(Path::new(path)),
        foreign_roles: None,
    })
}

#[cfg(unix)]
fn free_bytes(path: &Path) -> Option<u64> {
    let disk = rustix::fs::statvfs(path).ok()?;
    disk.f_bavail.checked_mul(disk.f_frsize)
}

#[cfg(not(unix))]
fn free_bytes(_: &Path) -> Option<u64> {
    None
}
