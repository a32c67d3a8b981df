//! The store without threads of its own (`sql/inline.rs`), and a file with a defect.

use std::path::Path;
use std::sync::{Arc, RwLock};

use super::checkpoint::Checkpoints;
use super::place::Places;
use super::{OpenError, SqliteOptions, WriterFile, connection, open, reading};
use crate::store::app::resume_erasing;
use crate::store::sql::{Listeners, Readers, Writer};
use crate::store::{Held, Parts, Store};

/// Opens the file without starting a thread. What is committed survives the process, not the
/// machine.
///
/// # Errors
/// As [`super::open()`].
pub fn open_inline(path: &Path) -> Result<Arc<Store>, OpenError> {
    let database_error = |source: Box<dyn std::error::Error + Send + Sync>| OpenError::Database {
        path: path.to_owned(),
        source,
    };
    let opened = open::open(path, SqliteOptions::default())?;
    connection::unsynced(&opened.connection).map_err(|error| database_error(error.into()))?;
    let places = Places::of(path);
    let mut file = WriterFile {
        path: path.to_owned(),
        places: places.clone(),
        open: connection::open_unsynced_writer,
        checkpoints: Checkpoints::inline(),
    };
    let connection =
        file.watched(opened.connection).map_err(|error| database_error(error.into()))?;
    resume_erasing(&connection).map_err(|error| database_error(error.into()))?;
    let listeners = Listeners::new(RwLock::new(Vec::new()));
    let writer = Writer::inline(Box::new(file), connection, Arc::clone(&listeners));
    let readers = Readers::inline(reading(path, places.clone()))
        .map_err(|error| database_error(error.into()))?;
    let busy = Arc::default();
    Ok(Store::new(Parts {
        writer,
        readers,
        listeners,
        busy,
        held: opened.lock.map(|lock| Box::new(lock) as Held),
        in_place: Some(Box::new(move || places.check())),
    }))
}

/// Changes the file behind the back of everybody, as a defect would.
///
/// # Panics
/// When it cannot.
pub fn sabotage(path: &Path, sql: &str) {
    let connection = connection::open_writer(path).expect("the file opens");
    connection.execute_batch(sql).expect("the statement is right");
    connection.close().expect("nothing holds the connection");
}
