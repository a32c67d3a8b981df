//! Moving a whole installation between SQLite and PostgreSQL: `notify-server move`.
//!
//! ```text
//! hold both ──▶ mark both ──▶ copy table by table ──▶ compare ──▶ source: left ──▶ target: free
//!                   ▲              in key order, a chunk a commit      │
//!                   └──────────────── run again after any end ────────┘
//! ```
//!
//! What was copied is known by the target's last key, so that a run that ended anywhere goes on there.
//! The marks (`sql/moves.rs`) keep servers off a target that is not whole and off a source that was
//! moved away, and tell a source that was used in between.

mod cell;
mod copy;
mod database;
mod error;
mod numbers;
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

/// File of an installation where only its folder was named.
const FILE_NAME: &str = "notify.db";

/// Where an installation is.
#[derive(Debug, Clone)]
pub enum DatabaseLocation {
    /// In a file.
    Sqlite(PathBuf),
    /// In a PostgreSQL database.
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
    /// In a file, whose name says the same in every folder: marks name it.
    #[must_use]
    pub fn file(path: &Path) -> Self {
        Self::Sqlite(std::path::absolute(path).unwrap_or_else(|_| path.to_owned()))
    }
}

impl fmt::Display for DatabaseLocation {
    /// As people are shown it: without user and password.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(path) => write!(out, "{}", path.display()),
            Self::Postgres(url) => out.write_str(&url.place()),
        }
    }
}

/// What a move does at the moment.
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

/// How far a move is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress<'t> {
    /// What is done.
    pub step: Step,
    /// With which table.
    pub table: &'t str,
    /// Rows of all tables done in this step.
    pub rows: u64,
    /// Rows of all tables.
    pub of: u64,
}

/// A table that is the same in both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableMoved {
    /// Its name.
    pub name: String,
    /// Its rows.
    pub rows: u64,
    /// SHA-256 over them, in the order of the key.
    pub digest: [u8; 32],
}

/// What a move did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MoveReport {
    /// Every table.
    pub tables: Vec<TableMoved>,
    /// Rows that this run copied; the others were there from the runs before.
    pub copied: u64,
}

/// Moves everything from one place to the other, which has to be empty, or goes on with a move
/// between the two that did not end. Blocks; not to be called on a thread of a runtime.
///
/// # Errors
/// When something uses one of the two, the target is not empty, or a database fails. Then the same call
/// goes on with what was done. The source stays the one in use unless it failed while it ended: then
/// neither can be served before that.
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

/// Marks both sides, or finds them marked by a run of this move before; the id of the move.
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

/// A source that went elsewhere is refused before anything is made in the target.
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

/// From here on nothing in the source changes; a subcommand that was quicker took the mark away.
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

/// The source is left before the target is free: between the two nobody may serve either, and never
/// both.
fn finish(source: &Database, target: &Database, id: [u8; 16], at_ms: i64) -> Result<(), MoveError> {
    let (state, place) = (MoveState::Retired, target.place.clone());
    source
        .leave(&MoveMark { state, id, place, at: at_ms })
        .map_err(source.failing(Step::Ending, "moves"))?;
    target.set_mark(None).map_err(target.failing(Step::Ending, "moves"))
}

/// Gives a database free again that was moved away, as it was then; where it was moved to.
///
/// # Errors
/// When something uses it. `None` where it was not moved away.
pub fn undo_move(place: &DatabaseLocation) -> Result<Option<String>, MoveError> {
    let side = Database::source(place)?;
    let failed = side.failing(Step::Opening, "moves");
    let mark = side.mark().map_err(&failed)?.filter(|mark| mark.state == MoveState::Retired);
    let Some(mark) = mark else { return Ok(None) };
    side.set_mark(None).map_err(&failed)?;
    Ok(Some(mark.place))
}
