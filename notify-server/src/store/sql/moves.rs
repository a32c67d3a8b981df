//! Transfer marks: the state of a transfer of the whole installation (`transfer/`), which keeps servers
//! from using an incomplete or retired database.

use crate::store::sql::value::params;
use crate::store::sql::{Connection, Error, OptionalExtension, Result};

/// The state of a database in a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) enum MoveState {
    /// It receives the rows of another database.
    Importing,
    /// Its rows are copied to another one, unless it is used again.
    Exporting,
    /// Its rows are in another database, which is in use now.
    Retired,
}

/// The mark of a transfer; the other database has it too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::store) struct MoveMark {
    pub(in crate::store) state: MoveState,
    pub(in crate::store) id: [u8; 16],
    /// The other database, for people.
    pub(in crate::store) place: String,
    /// When it was set, in Unix milliseconds.
    pub(in crate::store) at: i64,
}

/// Why a database may not be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Moved {
    /// A transfer into it is not finished.
    #[error(
        "a move from {0} into this database is not over: run the same `notify-server move` again, \
         or empty this database"
    )]
    Importing(String),
    /// A transfer from it is running.
    #[error("this database is being moved to {0}: wait for the end of `notify-server move`")]
    Exporting(String),
    /// It was transferred to another database.
    #[error(
        "this database was moved to {0}, where everything goes on: serve that one; what waits here \
         would be sent twice. `notify-server move --undo` gives this one free again, as it was then"
    )]
    Retired(String),
}

impl MoveState {
    const ALL: [Self; 3] = [Self::Importing, Self::Exporting, Self::Retired];

    fn as_str(self) -> &'static str {
        match self {
            Self::Importing => "arriving",
            Self::Exporting => "leaving",
            Self::Retired => "left",
        }
    }
}

/// The mark of a database, if it has one.
pub(in crate::store) fn move_mark(connection: &Connection) -> Result<Option<MoveMark>> {
    connection
        .prepare_cached("select state, id, place, at from moves")?
        .query_row([], |row| {
            let state = row.get_ref(0)?.as_str().unwrap_or_default();
            let state = MoveState::ALL.into_iter().find(|known| known.as_str() == state);
            let state = state.ok_or(Error::Column(0))?;
            Ok(MoveMark { state, id: row.get(1)?, place: row.get(2)?, at: row.get(3)? })
        })
        .optional()
}

/// Sets or removes the mark of a database, in the caller's transaction.
pub(in crate::store) fn mark_move(connection: &Connection, mark: Option<&MoveMark>) -> Result<()> {
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

/// Begins a write transaction, unless a transfer mark forbids it. A server that had lost its connection
/// may find out only here that its database was transferred.
pub(in crate::store) fn begin_write_checked(connection: &Connection) -> Result<()> {
    let mark = if connection.begin_write_checked()? { move_mark(connection)? } else { None };
    let refused = match mark {
        None => return Ok(()),
        // An interrupted transfer; from now on the rows that it copied may change.
        Some(MoveMark { state: MoveState::Exporting, .. }) => return mark_move(connection, None),
        Some(MoveMark { state: MoveState::Importing, place, .. }) => Moved::Importing(place),
        Some(MoveMark { state: MoveState::Retired, place, .. }) => Moved::Retired(place),
    };
    connection.rollback()?;
    Err(Error::Moved(refused))
}

/// Checks that a server or subcommand may use a database.
///
/// # Errors
/// [`Error::Moved`] when it may not.
pub(in crate::store) fn ensure_usable(connection: &Connection) -> Result<()> {
    let Some(mark) = move_mark(connection)? else { return Ok(()) };
    match begin_write_checked(connection) {
        Err(error) if error.is_busy() && mark.state == MoveState::Exporting => {
            Err(Error::Moved(Moved::Exporting(mark.place)))
        }
        checked => checked.and_then(|()| connection.commit()),
    }
}
