//! For tests: opening a store without threads (`sql/manual_executor.rs`), and running SQL on its
//! file.

use std::path::Path;
use std::sync::Arc;

use super::wal_checkpointer::WalCheckpointer;
use super::{OpenError, OpenedFiles, SqliteOptions, WriterFile, connection, open, start};
use crate::store::Store;
use crate::store::sql::{Readers, Writer};

/// Opens the file without starting threads. Commits survive a crash of the process, not of the
/// machine.
///
/// # Errors
/// As [`super::open()`].
pub fn open_inline(path: &Path) -> Result<Arc<Store>, OpenError> {
    let options = SqliteOptions { synced: false, ..SqliteOptions::default() };
    let opened = open::open(path, options)?;
    let file = WriterFile {
        path: path.to_owned(),
        open: options.writer(),
        checkpoints: WalCheckpointer::inline(),
        files: OpenedFiles::of(path),
    };
    start(file, opened, |backend, connection, listeners, _, connect| {
        Ok((Writer::inline(backend, connection, listeners), Readers::inline(connect)?))
    })
}

/// Runs SQL on a file, without the knowledge of an open store.
///
/// # Panics
/// When it cannot.
pub fn execute_raw(path: &Path, sql: &str) {
    let connection = connection::open_writer(path).expect("the file opens");
    connection.execute_batch(sql).expect("the statement is right");
    connection.close().expect("nothing holds the connection");
}
