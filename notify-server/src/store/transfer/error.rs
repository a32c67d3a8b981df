//! Why a transfer failed.

use super::Step;
use crate::store::sql::Error;
use crate::store::{postgres, sqlite};

/// Why a text is not a location. The text is not quoted, since it may contain a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LocationError {
    /// It is neither the URL of a PostgreSQL database nor a SQLite file.
    #[error("must be postgres://user:password@host/database or sqlite:FILE")]
    Form,
    /// An invalid URL.
    #[error("the url {0}")]
    Url(#[from] postgres::UrlError),
}

/// Why a transfer failed. Locations are shown without user and password.
#[derive(Debug, thiserror::Error)]
pub enum MoveError {
    /// Both locations are of the same kind.
    #[error(
        "a move goes between SQLite and PostgreSQL; `notify-server backup` copies a file, and \
         pg_dump a PostgreSQL database"
    )]
    SameKind,
    /// The source does not exist. Contains its location.
    #[error("there is no database at {0}")]
    NoSource(String),
    /// A SQLite file cannot be opened or is in use.
    #[error(transparent)]
    Sqlite(#[from] sqlite::OpenError),
    /// A PostgreSQL database cannot be opened.
    #[error(transparent)]
    Postgres(#[from] postgres::OpenError),
    /// Servers use the database.
    #[error(
        "{place} is served ({servers} alive): stop every server first (one that was killed counts for \
         some 15 seconds)"
    )]
    Served {
        /// The location of the database.
        place: String,
        /// The number of servers.
        servers: i64,
    },
    /// Another process writes to the database. Contains its location.
    #[error("{0} is being written by somebody else: nothing may write to it during a move")]
    Written(String),
    /// The target is not empty.
    #[error(
        "{place} is not empty (there is {table}): a move needs an empty database. Drop old tables \
         of Notify first, also those that were moved away"
    )]
    NotEmpty {
        /// The location of the database.
        place: String,
        /// The first table with rows.
        table: String,
    },
    /// The target contains the rows of another unfinished transfer.
    #[error(
        "{place} holds part of a move from {other} that cannot be continued: the source was used since, or \
         is another one. Begin again with an empty one (drop schema public cascade; create schema public; or \
         another file)"
    )]
    OtherMove {
        /// The location of the database.
        place: String,
        /// The source of the other transfer.
        other: String,
    },
    /// The source is the target of another unfinished transfer.
    #[error("a move into {place} from {other} is not finished: finish it first")]
    Unfinished {
        /// The location of the database.
        place: String,
        /// The source of the other transfer.
        other: String,
    },
    /// The source was already transferred.
    #[error(
        "{place} was moved to {other} already; `notify-server move --undo` lets a server use it again"
    )]
    AlreadyMoved {
        /// The location of the database.
        place: String,
        /// The location that it was transferred to.
        other: String,
    },
    /// The databases differ after the copy.
    #[error(
        "table {table} is not the same in both: {source_rows} rows here, {target_rows} there. \
         Empty the target and begin again (after `move --undo` where the source is refused)"
    )]
    Differs {
        /// The table.
        table: String,
        /// The number of rows in the source.
        source_rows: u64,
        /// The number of rows in the target.
        target_rows: u64,
    },
    /// A database failed.
    #[error("{place} failed while {step} {table}: run the same command again to continue")]
    Database {
        /// The location of the database.
        place: String,
        /// The step.
        step: Step,
        /// The table.
        table: String,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl MoveError {
    /// Returns a function that maps an error of the database at `place` to an error of the
    /// transfer.
    pub(super) fn failing(place: &str, step: Step, table: &str) -> impl Fn(Error) -> Self + use<> {
        let (place, table) = (place.to_owned(), table.to_owned());
        move |source| Self::Database {
            place: place.clone(),
            step,
            table: table.clone(),
            source: source.into(),
        }
    }
}
