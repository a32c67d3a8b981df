//! A consistent copy of a database file while a server works on it.

use std::path::Path;
use std::time::Duration;

use rusqlite::backup::Backup;
use rusqlite::{Connection, OpenFlags};

use crate::store::StoreError;

/// Pages copied in one step; writers get their turn between two steps.
const PAGES_PER_STEP: i32 = 4_096;
/// Pause between two steps.
const STEP_PAUSE: Duration = Duration::from_millis(5);

/// Copies the database at `from` to the new file `to`.
///
/// # Errors
/// When either file cannot be opened, or the copy cannot be written.
pub fn backup(from: &Path, to: &Path) -> Result<(), StoreError> {
    let source = Connection::open_with_flags(from, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let mut target = Connection::open(to)?;
    let copy = Backup::new(&source, &mut target)?;
    Ok(copy.run_to_completion(PAGES_PER_STEP, STEP_PAUSE, None)?)
}
