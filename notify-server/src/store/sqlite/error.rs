//! What SQLite's errors mean to a caller: storage that cannot take it now, or a defect.

use rusqlite::ErrorCode;

use crate::store::StoreError;

/// A state that the tables should never be in, or a job that broke down.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Broken(pub(super) String);

/// A defect with a text of our own.
pub(super) fn broken(what: impl Into<String>) -> StoreError {
    StoreError::Backend(Box::new(Broken(what.into())))
}

/// Storage that does not answer, with the cause as text.
pub(super) fn unavailable(what: impl Into<String>) -> StoreError {
    StoreError::Unavailable(Box::new(Broken(what.into())))
}

/// Whether another process held the database for longer than a statement waits.
pub(super) fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

/// The same of work that has come back.
pub(super) fn was_busy<T>(result: &Result<T, StoreError>) -> bool {
    match result {
        Err(StoreError::Unavailable(cause)) => cause.downcast_ref().is_some_and(is_busy),
        Ok(_) | Err(_) => false,
    }
}

impl From<rusqlite::Error> for StoreError {
    /// A full or failing disk and a lock that another process holds pass; the rest is a defect.
    /// Constraints that a caller may break are looked at before they can fail, so one that fails
    /// here is a defect too.
    fn from(error: rusqlite::Error) -> Self {
        let passing = matches!(
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
        );
        if passing { Self::Unavailable(Box::new(error)) } else { Self::Backend(Box::new(error)) }
    }
}

impl From<serde_json::Error> for StoreError {
    /// What is kept as JSON was written by us, or checked before it came here.
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
            let error = || rusqlite::Error::SqliteFailure(ffi::Error::new(code), None);
            assert_eq!(is_busy(&error()), busy, "{code}");
            assert_eq!(was_busy::<()>(&Err(error().into())), busy, "{code}");
        }
        assert!(!was_busy(&Ok(())) && !was_busy::<()>(&Err(unavailable("closed"))));
    }
}
