//! SQLite: opening the file, its settings and locks, checkpoints, copies. The operations are those of
//! `sql/`. Never logs.

mod backup;
mod checkpoint;
mod connection;
#[cfg(any(test, feature = "testing"))]
mod earlier;
#[cfg(any(test, feature = "testing"))]
mod inline;
mod migrate;
mod open;
mod place;
mod report;
#[cfg(test)]
pub(in crate::store) mod tests;

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, RwLock};

pub use backup::backup;
#[cfg(any(test, feature = "testing"))]
pub use earlier::{latest_version, make_earlier, make_unrecorded};
#[cfg(any(test, feature = "testing"))]
pub use inline::{open_inline, sabotage};
pub use open::{OpenError, READERS_DEFAULT, SqliteOptions};
pub(in crate::store) use report::report;

use self::checkpoint::Checkpoints;
use self::connection::{open_reader, open_writer};
#[cfg(test)]
pub(in crate::store) use self::migrate::make_version;
use self::place::Places;
use crate::store::app::resume_erasing;
#[cfg(any(test, feature = "testing"))]
pub use crate::store::sql::Fault;
use crate::store::sql::{self, Connection, Listeners, Open, Readers, Source, Writer, admit};
pub use crate::store::sql::{READS_WAITING_MAX, WRITES_PER_COMMIT_MAX, WRITES_WAITING_MAX};
use crate::store::{Change, Held, Parts, Store};

/// Pages in the log (8 MiB) after which a move has them carried into the file: about two of its chunks.
const CHECKPOINT_PAGES: i64 = 2_000;

/// Opens the file, making it when it is missing, and brings its tables up to date. Blocks.
///
/// # Errors
/// When another server uses the file, a newer one wrote it, or it cannot be used.
pub fn open(path: &Path, options: SqliteOptions) -> Result<Arc<Store>, OpenError> {
    let database_error = |source: Box<dyn std::error::Error + Send + Sync>| OpenError::Database {
        path: path.to_owned(),
        source,
    };
    let opened = open::open(path, options)?;
    let places = Places::of(path);
    let checkpoints =
        Checkpoints::start(path, &places).map_err(|error| database_error(error.into()))?;
    let mut file = WriterFile {
        path: path.to_owned(),
        open: open_writer,
        checkpoints,
        places: places.clone(),
    };
    let connection =
        file.watched(opened.connection).map_err(|error| database_error(error.into()))?;
    admit(&connection).map_err(|error| match error {
        sql::Error::Moved(source) => OpenError::Moved { path: path.to_owned(), source },
        other => database_error(other.into()),
    })?;
    if options.lock {
        resume_erasing(&connection).map_err(|error| database_error(error.into()))?;
    }
    let listeners = Listeners::new(RwLock::new(Vec::new()));
    let busy = Arc::new(AtomicU64::new(0));
    let writer =
        Writer::start(Box::new(file), connection, Arc::clone(&listeners), Arc::clone(&busy))
            .map_err(|error| database_error(error.into()))?;
    let readers =
        Readers::start(&reading(path, places.clone()), options.readers, Arc::clone(&busy))
            .map_err(|error| database_error(error.into()))?;
    Ok(Store::new(Parts {
        writer,
        readers,
        listeners,
        busy,
        held: opened.lock.map(|lock| Box::new(lock) as Held),
        in_place: Some(Box::new(move || places.check())),
    }))
}

/// Opens the file for a move, making it when it is missing, with the lock of its server. Blocks.
pub(in crate::store) fn hold(path: &Path) -> Result<(Connection, Option<Held>), OpenError> {
    let opened = open::open(path, SqliteOptions { lock: true, readers: 0 })?;
    // Nobody else runs checkpoints meanwhile.
    opened
        .connection
        .pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)
        .map_err(|error| OpenError::Database { path: path.to_owned(), source: error.into() })?;
    let held = opened.lock.map(|lock| Box::new(lock) as Held);
    Ok((Connection::Sqlite(opened.connection), held))
}

/// Opens connections that can only read.
fn reading(path: &Path, places: Places) -> Open {
    let path = path.to_owned();
    Arc::new(move || {
        places.check()?;
        Ok(Connection::Sqlite(open_reader(&path)?))
    })
}

/// The file, as the writer has it.
struct WriterFile {
    path: PathBuf,
    /// Opens a connection in place of one that was lost.
    open: fn(&Path) -> rusqlite::Result<rusqlite::Connection>,
    checkpoints: Checkpoints,
    places: Places,
}

impl WriterFile {
    /// A connection whose log is looked after.
    fn watched(&mut self, mut connection: rusqlite::Connection) -> rusqlite::Result<Connection> {
        self.checkpoints.watch(&mut connection)?;
        Ok(Connection::Sqlite(connection))
    }
}

impl Source for WriterFile {
    fn open(&mut self) -> sql::Result<Connection> {
        self.places.check()?;
        let opened = (self.open)(&self.path)?;
        Ok(self.watched(opened)?)
    }

    fn check(&self) -> sql::Result<()> {
        Ok(self.places.check()?)
    }

    fn after_commit(&mut self, connection: &Connection, _: &[Change]) -> bool {
        if let Connection::Sqlite(connection) = connection {
            self.checkpoints.after_commit(connection);
        }
        true
    }
}
