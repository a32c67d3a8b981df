//! The mark of a move. `notify-server move` (`transfer/`) copies a whole installation from one
//! database to another. During the move, each of the two databases has a mark with its state. The
//! mark keeps servers from using an incomplete target or a retired source.

use crate::store::sql::value::params;
use crate::store::sql::{Connection, Error, OptionalExtension, Result, WriteScope};

/// The state of a database in a move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) enum MoveState {
    /// The target of an unfinished move: it receives the rows of the source.
    Importing,
    /// The source of an unfinished move. A server that uses the source again ends the move.
    Exporting,
    /// The source of a finished move. The target is used in its place.
    Retired,
}

/// The mark of a database in a move. The marks of source and target have the same id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::store) struct MoveMark {
    pub(in crate::store) state: MoveState,
    pub(in crate::store) id: [u8; 16],
    /// The location of the other database, for display.
    pub(in crate::store) place: String,
    /// When the mark was set, in Unix milliseconds.
    pub(in crate::store) at: i64,
}

/// Why a database may not be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Moved {
    /// The database is the target of an unfinished move. Contains the location of the source.
    #[error(
        "a move from {0} into this database is not finished: run the same `notify-server move` again, \
         or empty this database"
    )]
    Importing(String),
    /// The database is the source of a running move. Contains the location of the target.
    #[error("this database is being moved to {0}: wait for the end of `notify-server move`")]
    Exporting(String),
    /// The database was moved. Contains the location of the target.
    #[error(
        "this database was moved to {0}: start the server with that one. A server on this one would send \
         notifications twice. `notify-server move --undo` lets a server use this one again, as it was before \
         the move"
    )]
    Retired(String),
}

impl MoveState {
    const ALL: [Self; 3] = [Self::Importing, Self::Exporting, Self::Retired];

    /// The stored word. Stored words never change.
    fn as_str(self) -> &'static str {
        match self {
            Self::Importing => "arriving",
            Self::Exporting => "leaving",
            Self::Retired => "left",
        }
    }
}

/// Reads the mark of a database.
pub(in crate::store) fn read_move_mark(connection: &Connection) -> Result<Option<MoveMark>> {
    connection
        .prepare_cached("select state, id, place, at from moves")?
        .query_row([], |row| {
            let stored = row.get_ref(0)?.as_str().unwrap_or_default();
            let state = MoveState::ALL.into_iter().find(|state| state.as_str() == stored);
            let state = state.ok_or(Error::Column(0))?;
            Ok(MoveMark { state, id: row.get(1)?, place: row.get(2)?, at: row.get(3)? })
        })
        .optional()
}

/// Sets the mark of a database, or removes it with `None`, in the caller's transaction.
pub(in crate::store) fn set_move_mark(
    connection: &Connection,
    mark: Option<&MoveMark>,
) -> Result<()> {
    connection.prepare_cached("delete from moves")?.execute([])?;
    if let Some(mark) = mark {
        connection
            .prepare_cached(
                "insert into moves (no, state, id, place, at) values (1, ?1, ?2, ?3, ?4)",
            )?
            .execute(params![mark.state.as_str(), mark.id, mark.place, mark.at])?;
    }
    Ok(())
}

/// Begins a write transaction for writes to `scope`, unless the mark of a move forbids it. Every write
/// checks the mark, since a database can be moved while a server has lost its connection.
///
/// # Errors
/// [`Error::Moved`] when the database is the target of an unfinished move or the source of a
/// finished one.
pub(in crate::store) fn begin_write_checked(
    connection: &Connection,
    scope: WriteScope,
) -> Result<()> {
    let has_mark = connection.begin_write_and_find_mark(scope)?;
    let mark = if has_mark { read_move_mark(connection)? } else { None };
    let refusal = match mark {
        None => return Ok(()),
        // The move was interrupted. This write may change rows that the move has copied, so the
        // move must not continue. It is refused once the source has no mark.
        Some(MoveMark { state: MoveState::Exporting, .. }) => {
            return set_move_mark(connection, None);
        }
        Some(MoveMark { state: MoveState::Importing, place, .. }) => Moved::Importing(place),
        Some(MoveMark { state: MoveState::Retired, place, .. }) => Moved::Retired(place),
    };
    connection.rollback()?;
    Err(Error::Moved(refusal))
}

/// Checks that a server or a subcommand may use a database.
///
/// # Errors
/// [`Error::Moved`] when a move forbids it.
pub(in crate::store) fn ensure_usable(connection: &Connection) -> Result<()> {
    let Some(mark) = read_move_mark(connection)? else { return Ok(()) };
    match begin_write_checked(connection, WriteScope::Installation) {
        Ok(()) => connection.commit(),
        // A running move has the write lock of its source.
        Err(error) if error.is_busy() && mark.state == MoveState::Exporting => {
            Err(Error::Moved(Moved::Exporting(mark.place)))
        }
        Err(error) => Err(error),
    }
}
