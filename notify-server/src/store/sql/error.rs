//! Errors of a database, and how callers see them: as temporarily unavailable storage, or as a bug.

use rusqlite::ErrorCode;

use crate::store::StoreError;
use crate::store::postgres::Failure;
use crate::store::sql::moves::Moved;
use crate::store::sql::value::Type;

/// An error with only a text, such as an unexpected state of the tables or a job that panicked.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(in crate::store) struct Internal(pub(in crate::store) String);

/// An error that is a bug, with this text.
pub(in crate::store) fn internal(what: impl Into<String>) -> StoreError {
    StoreError::Backend(Box::new(Internal(what.into())))
}

/// The key of a row that was just inserted.
///
/// # Errors
/// When it was not inserted, which is a bug.
pub(in crate::store) fn inserted(no: Option<i64>) -> std::result::Result<i64, StoreError> {
    no.ok_or_else(|| internal("a row was not inserted"))
}

/// The error of storage that is temporarily unavailable, with the cause as text.
pub(in crate::store) fn unavailable(what: impl Into<String>) -> StoreError {
    StoreError::Unavailable(Box::new(Internal(what.into())))
}

/// A file of the database was deleted or replaced.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{} was deleted or replaced while the server runs, and nothing is written: put the file back, or \
     stop the server and restore a backup", .0.display()
)]
pub struct FileMissing(pub(in crate::store) std::path::PathBuf);

/// An error of a database, or an unexpected result of a query.
#[derive(Debug, thiserror::Error)]
pub(in crate::store) enum Error {
    /// An error of SQLite.
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
    /// An error of PostgreSQL, or of the connection to it.
    #[error(transparent)]
    Postgres(Failure),
    /// The query returned no row, although one was expected.
    #[error("the query returned no row")]
    NoRow,
    /// A column has an unexpected type.
    #[error("column {0} has an unexpected type")]
    Column(usize),
    /// A column has a value that a CHECK should have prevented.
    #[error("column {0} has an unexpected {1:?} value")]
    UnexpectedValue(usize, Type),
    /// The database cannot be used because of a move.
    #[error(transparent)]
    Moved(Moved),
    /// A file of the database was deleted or replaced.
    #[error(transparent)]
    FileMissing(#[from] FileMissing),
    /// The caller of a read no longer waits.
    #[error("the caller no longer waits")]
    CallerGone,
    /// A statement rolled back the whole transaction.
    #[error("a statement ended the transaction of its batch")]
    TransactionAborted,
    /// A fault set by a test, in place of a full disk.
    #[cfg(any(test, feature = "testing"))]
    #[error("database or disk is full (set by a test)")]
    Fault,
}

/// The result of a database call.
pub(in crate::store) type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Whether the error is a lock that another process held for longer than a statement waits.
    pub(in crate::store) fn is_busy(&self) -> bool {
        match self {
            Self::Sqlite(error) => matches!(
                error.sqlite_error_code(),
                Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
            ),
            Self::Postgres(failure) => failure.is_busy(),
            Self::NoRow
            | Self::Column(_)
            | Self::UnexpectedValue(..)
            | Self::Moved(_)
            | Self::FileMissing(_)
            | Self::CallerGone
            | Self::TransactionAborted => false,
            #[cfg(any(test, feature = "testing"))]
            Self::Fault => false,
        }
    }

    /// Whether the error is transient, such as a full or failing disk or a lock of another process.
    /// Any other error is a bug. So is a failed constraint, since the rules that a caller can break
    /// are checked before the statement runs.
    fn is_transient(&self) -> bool {
        match self {
            Self::Sqlite(error) => matches!(
                error.sqlite_error_code(),
                Some(
                    ErrorCode::DiskFull
                        | ErrorCode::SystemIoFailure
                        | ErrorCode::DatabaseBusy
                        | ErrorCode::DatabaseLocked
                        | ErrorCode::ReadOnly
                        | ErrorCode::CannotOpen
                        | ErrorCode::PermissionDenied
                        | ErrorCode::OutOfMemory
                        | ErrorCode::OperationInterrupted
                        | ErrorCode::OperationAborted
                        | ErrorCode::FileLockingProtocolFailed
                )
            ),
            Self::Postgres(failure) => failure.is_transient(),
            // For a moved database or a missing file, an operator has to stop this server. Until
            // then the server neither sends nor accepts anything.
            Self::TransactionAborted | Self::CallerGone | Self::Moved(_) | Self::FileMissing(_) => {
                true
            }
            Self::NoRow | Self::Column(_) | Self::UnexpectedValue(..) => false,
            #[cfg(any(test, feature = "testing"))]
            Self::Fault => true,
        }
    }
}

/// Whether a result failed because another process locked the database.
pub(in crate::store) fn was_busy<T>(result: &std::result::Result<T, StoreError>) -> bool {
    match result {
        Err(StoreError::Unavailable(cause)) => cause.downcast_ref().is_some_and(Error::is_busy),
        Ok(_) | Err(_) => false,
    }
}

impl From<Error> for StoreError {
    fn from(error: Error) -> Self {
        if error.is_transient() {
            Self::Unavailable(Box::new(error))
        } else {
            Self::Backend(Box::new(error))
        }
    }
}

impl From<serde_json::Error> for StoreError {
    /// Stored JSON was written by the server, or checked before.
    fn from(error: serde_json::Error) -> Self {
        Self::Backend(Box::new(error))
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::ffi;

    use super::*;

    #[test]
    fn only_a_lock_of_another_process_is_busy() {
        for (code, busy) in [
            (ffi::SQLITE_BUSY, true),
            (ffi::SQLITE_LOCKED, true),
            (ffi::SQLITE_FULL, false),
            (ffi::SQLITE_CORRUPT, false),
        ] {
            let error = || Error::from(rusqlite::Error::SqliteFailure(ffi::Error::new(code), None));
            assert_eq!(error().is_busy(), busy, "{code}");
            assert_eq!(was_busy::<()>(&Err(error().into())), busy, "{code}");
        }
        assert!(!was_busy(&Ok(())) && !was_busy::<()>(&Err(unavailable("closed"))));
    }
}
