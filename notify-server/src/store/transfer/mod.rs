//! Transfers a whole installation between SQLite and PostgreSQL: `notify-server move`.
//!
//! ```text
//! lock both ──▶ mark both ──▶ copy table by table ──▶ compare ──▶ retire source ──▶ release target
//!                   ▲              in key order, a chunk a commit      │
//!                   └────────── run again after an interruption ──────┘
//! ```
//!
//! Rows are copied in the order of their keys, so an interrupted run continues after the last key
//! in the target. The marks (`sql/moves.rs`) keep servers from using an incomplete target or a
//! retired source. They also show whether the source was used between two runs.

mod copy;
mod database;
mod error;
mod table;
#[cfg(test)]
mod tests;

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

pub use error::{LocationError, MoveError};
use uuid::Uuid;

use self::database::Database;
use self::table::Table;
use super::postgres::{self, DatabaseUrl};
use super::sql::{Connection, MoveMark, MoveState};

/// The file name of an installation, if only its folder is given.
const FILE_NAME: &str = "notify.db";

/// The location of an installation.
#[derive(Debug, Clone)]
pub enum DatabaseLocation {
    /// A SQLite file.
    Sqlite(PathBuf),
    /// A PostgreSQL database.
    Postgres(DatabaseUrl),
}

impl FromStr for DatabaseLocation {
    type Err = LocationError;

    fn from_str(text: &str) -> Result<Self, LocationError> {
        match text.strip_prefix("sqlite:") {
            Some("" | "//") => Err(LocationError::Form),
            Some(path) => {
                let path = Path::new(path.strip_prefix("//").unwrap_or(path));
                let is_folder =
                    path.is_dir() || path.as_os_str().as_encoded_bytes().ends_with(b"/");
                Ok(Self::file(&if is_folder { path.join(FILE_NAME) } else { path.to_owned() }))
            }
            None => match text.parse() {
                Ok(url) => Ok(Self::Postgres(url)),
                Err(postgres::UrlError::Form) => Err(LocationError::Form),
                Err(error) => Err(error.into()),
            },
        }
    }
}

impl DatabaseLocation {
    /// The location of a file. The path is made absolute, since the marks of a transfer contain it.
    #[must_use]
    pub fn file(path: &Path) -> Self {
        Self::Sqlite(std::path::absolute(path).unwrap_or_else(|_| path.to_owned()))
    }
}

impl fmt::Display for DatabaseLocation {
    /// Displays the location without user and password.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(path) => write!(out, "{}", path.display()),
            Self::Postgres(url) => out.write_str(&url.place()),
        }
    }
}

/// A step of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Opens and marks the two databases.
    Opening,
    /// Copies rows.
    Copying,
    /// Compares both databases.
    Comparing,
    /// Retires the source and releases the target.
    Ending,
}

impl fmt::Display for Step {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Opening => "opening",
            Self::Copying => "copying",
            Self::Comparing => "comparing",
            Self::Ending => "finishing",
        })
    }
}

/// The progress of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress<'t> {
    /// The step.
    pub step: Step,
    /// The table.
    pub table: &'t str,
    /// The number of rows that this step has finished.
    pub rows: u64,
    /// The number of rows of all tables.
    pub of: u64,
}

/// A transferred table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableMoved {
    /// The name.
    pub name: String,
    /// The number of rows.
    pub rows: u64,
    /// The SHA-256 over the rows, in the order of the key.
    pub digest: [u8; 32],
}

/// The result of a transfer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MoveReport {
    /// All transferred tables.
    pub tables: Vec<TableMoved>,
    /// The number of rows that this run copied. Earlier, interrupted runs copied the other rows.
    pub copied: u64,
}

/// Transfers an installation from one location to another. The target has to be empty, unless an
/// interrupted transfer between the same two locations is continued. Blocks; must not be called on
/// a thread of a runtime.
///
/// # Errors
/// When one of the databases is in use, the target is not empty, or a database fails. The same call
/// can then be repeated. The source stays usable, unless the last step failed. Then neither
/// database is usable until a repeated call finishes the transfer.
pub fn move_installation(
    from: &DatabaseLocation,
    to: &DatabaseLocation,
    at_ms: i64,
    watch: &mut dyn FnMut(Progress<'_>),
) -> Result<MoveReport, MoveError> {
    match (from, to) {
        (DatabaseLocation::Sqlite(_), DatabaseLocation::Postgres(_))
        | (DatabaseLocation::Postgres(_), DatabaseLocation::Sqlite(_)) => {}
        _ => return Err(MoveError::SameKind),
    }
    let source = Database::source(from)?;
    refuse_moved(&source, to)?;
    let target = Database::target(to)?;
    let sqlite = match source.connection {
        Connection::Sqlite(_) => &source,
        Connection::Postgres(_) => &target,
    };
    let tables = Table::all(&sqlite.connection).map_err(sqlite.failing(Step::Opening, "tables"))?;
    let id = set_marks(&source, &target, &tables, at_ms)?;
    freeze(&source, id)?;
    let total_rows = copy::count_rows(&source, &tables)?;
    let copied = copy::copy(&source, &target, &tables, total_rows, watch)?;
    let compared = copy::compare(&source, &target, &tables, total_rows, watch)?;
    finish(&source, &target, id, at_ms)?;
    Ok(MoveReport { tables: compared, copied })
}

/// Sets the marks of both databases, or finds the marks of an earlier run of this transfer. Returns
/// the id of the transfer.
fn set_marks(
    source: &Database,
    target: &Database,
    tables: &[Table],
    at_ms: i64,
) -> Result<[u8; 16], MoveError> {
    let source_mark = source.mark().map_err(source.failing(Step::Opening, "moves"))?;
    let target_mark = target.mark().map_err(target.failing(Step::Opening, "moves"))?;
    let importing = target_mark.filter(|mark| mark.state == MoveState::Importing);
    if let Some(mark) = &source_mark
        && mark.state == MoveState::Importing
    {
        // The source is itself the target of an unfinished transfer.
        let (place, other) = (source.place.clone(), mark.place.clone());
        return Err(MoveError::Unfinished { place, other });
    }
    if let (Some(source_mark), Some(target_mark)) = (&source_mark, &importing)
        && source_mark.id == target_mark.id
    {
        // An earlier run of this transfer set both marks.
        return Ok(source_mark.id);
    }
    if let Some(mark) = source_mark
        && mark.state == MoveState::Retired
    {
        let place = source.place.clone();
        return Err(MoveError::AlreadyMoved { place, other: mark.place });
    }
    if let Some(target_mark) = importing {
        let place = target.place.clone();
        return Err(MoveError::OtherMove { place, other: target_mark.place });
    }
    refuse_rows(target, tables)?;
    let id = *Uuid::new_v4().as_bytes();
    let mark = |state, place: &str| MoveMark { state, id, place: place.into(), at: at_ms };
    source
        .set_mark(Some(&mark(MoveState::Exporting, &target.place)))
        .map_err(source.failing(Step::Opening, "moves"))?;
    target
        .set_mark(Some(&mark(MoveState::Importing, &source.place)))
        .map_err(target.failing(Step::Opening, "moves"))?;
    Ok(id)
}

/// Refuses a source that was already transferred to another location. Called before the target is
/// opened, so that the target stays unchanged.
fn refuse_moved(source: &Database, to: &DatabaseLocation) -> Result<(), MoveError> {
    match source.mark().map_err(source.failing(Step::Opening, "moves"))? {
        Some(MoveMark { state: MoveState::Retired, place: other, .. })
            if other != to.to_string() =>
        {
            Err(MoveError::AlreadyMoved { place: source.place.clone(), other })
        }
        _ => Ok(()),
    }
}

/// Prevents further changes of the source. A subcommand may have written to the source after the
/// mark was set. Its write has removed the mark, and the transfer is then refused.
fn freeze(source: &Database, id: [u8; 16]) -> Result<(), MoveError> {
    let failed = source.failing(Step::Opening, "moves");
    source.freeze().map_err(&failed)?;
    match source.mark().map_err(&failed)? {
        Some(mark) if mark.id == id => Ok(()),
        _ => Err(MoveError::Written(source.place.clone())),
    }
}

/// Refuses a target that has rows.
fn refuse_rows(target: &Database, tables: &[Table]) -> Result<(), MoveError> {
    for table in tables {
        let rows = target.last_key(table).map_err(target.failing(Step::Opening, &table.name))?;
        if rows.is_some() {
            let (place, table) = (target.place.clone(), table.name.clone());
            return Err(MoveError::NotEmpty { place, table });
        }
    }
    Ok(())
}

/// Ends the transfer. The source is retired before the target is released, so that there is never a
/// time when servers could use both.
fn finish(source: &Database, target: &Database, id: [u8; 16], at_ms: i64) -> Result<(), MoveError> {
    let (state, place) = (MoveState::Retired, target.place.clone());
    source
        .retire(&MoveMark { state, id, place, at: at_ms })
        .map_err(source.failing(Step::Ending, "moves"))?;
    target.set_mark(None).map_err(target.failing(Step::Ending, "moves"))
}

/// Makes a transferred source usable again, in the state that it had. Returns the location that it
/// was transferred to, or `None` if it was not transferred.
///
/// # Errors
/// When the database does not exist, is in use, or fails.
pub fn undo_move(place: &DatabaseLocation) -> Result<Option<String>, MoveError> {
    let side = Database::source(place)?;
    let failed = side.failing(Step::Opening, "moves");
    let mark = side.mark().map_err(&failed)?.filter(|mark| mark.state == MoveState::Retired);
    let Some(mark) = mark else { return Ok(None) };
    side.set_mark(None).map_err(&failed)?;
    Ok(Some(mark.place))
}
