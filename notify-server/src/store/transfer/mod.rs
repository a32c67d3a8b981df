//! Transfers a whole installation between SQLite and PostgreSQL: `notify-server move`.
//!
//! ```text
//! hold both ──▶ mark both ──▶ copy table by table ──▶ compare ──▶ source: left ──▶ target: free
//!                   ▲              in key order, a chunk a commit      │
//!                   └──────────────── run again after any end ────────┘
//! ```
//!
//! The target's last key says what was copied, so an interrupted run continues from there. The marks
//! (`sql/moves.rs`) keep servers from using an incomplete target or a transferred source, and reveal
//! that a source was used in between.

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

/// File of an installation if only its folder is given.
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
    /// A file by its absolute path, since marks contain it.
    #[must_use]
    pub fn file(path: &Path) -> Self {
        Self::Sqlite(std::path::absolute(path).unwrap_or_else(|_| path.to_owned()))
    }
}

impl fmt::Display for DatabaseLocation {
    /// Displays it without user and password.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(path) => write!(out, "{}", path.display()),
            Self::Postgres(url) => out.write_str(&url.place()),
        }
    }
}

/// The current step of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Opens and marks the two databases.
    Opening,
    /// Copies rows.
    Copying,
    /// Compares both databases.
    Comparing,
    /// Marks the source as moved and frees the target.
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
    /// Rows that this step has finished.
    pub rows: u64,
    /// Rows of all tables.
    pub of: u64,
}

/// A transferred table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableMoved {
    /// Its name.
    pub name: String,
    /// Its rows.
    pub rows: u64,
    /// SHA-256 over them, in the order of the key.
    pub digest: [u8; 32],
}

/// The result of a transfer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MoveReport {
    /// Every table.
    pub tables: Vec<TableMoved>,
    /// Rows that this run copied; earlier runs copied the others.
    pub copied: u64,
}

/// Transfers everything to the other location, which has to be empty, or continues an interrupted
/// transfer between the two. Blocks; must not be called on a thread of a runtime.
///
/// # Errors
/// When one of the two is in use, the target is not empty, or a database fails. The same call then
/// continues. The source stays usable, unless the failure was in the last step; then neither is usable
/// until the transfer is finished.
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
    let id = handshake(&source, &target, &tables, at_ms)?;
    freeze(&source, id)?;
    let of = copy::count_rows(&source, &tables)?;
    let copied = copy::copy(&source, &target, &tables, of, watch)?;
    let tables = copy::compare(&source, &target, &tables, of, watch)?;
    finish(&source, &target, id, at_ms)?;
    Ok(MoveReport { tables, copied })
}

/// Marks both databases, or finds the marks of an earlier run of this transfer; returns its id.
fn handshake(
    source: &Database,
    target: &Database,
    tables: &[Table],
    at_ms: i64,
) -> Result<[u8; 16], MoveError> {
    let here = source.mark().map_err(source.failing(Step::Opening, "moves"))?;
    let there = target.mark().map_err(target.failing(Step::Opening, "moves"))?;
    let arriving = there.filter(|mark| mark.state == MoveState::Importing);
    let place = || source.place.clone();
    match (here, arriving) {
        (Some(MoveMark { state: MoveState::Importing, place: other, .. }), _) => {
            Err(MoveError::Unfinished { place: place(), other })
        }
        (Some(here), Some(there)) if here.id == there.id => Ok(here.id),
        (Some(MoveMark { state: MoveState::Retired, place: other, .. }), _) => {
            Err(MoveError::AlreadyMoved { place: place(), other })
        }
        (_, Some(there)) => {
            Err(MoveError::OtherMove { place: target.place.clone(), other: there.place })
        }
        (_, None) => {
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
    }
}

/// A source that was transferred elsewhere is refused before the target is changed.
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

/// From here on the source cannot change. A subcommand that wrote before this has removed the mark.
fn freeze(source: &Database, id: [u8; 16]) -> Result<(), MoveError> {
    let failed = source.failing(Step::Opening, "moves");
    source.freeze().map_err(&failed)?;
    match source.mark().map_err(&failed)? {
        Some(mark) if mark.id == id => Ok(()),
        _ => Err(MoveError::Written(source.place.clone())),
    }
}

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

/// The source is retired before the target is released. Between the two neither is usable, and never
/// both.
fn finish(source: &Database, target: &Database, id: [u8; 16], at_ms: i64) -> Result<(), MoveError> {
    let (state, place) = (MoveState::Retired, target.place.clone());
    source
        .leave(&MoveMark { state, id, place, at: at_ms })
        .map_err(source.failing(Step::Ending, "moves"))?;
    target.set_mark(None).map_err(target.failing(Step::Ending, "moves"))
}

/// Makes a transferred source usable again, in its old state; returns where it was transferred to.
///
/// # Errors
/// When it is in use. Returns `None` if it was not transferred.
pub fn undo_move(place: &DatabaseLocation) -> Result<Option<String>, MoveError> {
    let side = Database::source(place)?;
    let failed = side.failing(Step::Opening, "moves");
    let mark = side.mark().map_err(&failed)?.filter(|mark| mark.state == MoveState::Retired);
    let Some(mark) = mark else { return Ok(None) };
    side.set_mark(None).map_err(&failed)?;
    Ok(Some(mark.place))
}
