//! Errors of PostgreSQL. Their details are dropped, since details quote rows.

use std::time::Duration;

use tokio_postgres::error::{Severity, SqlState};

/// The classes of SQLSTATE whose errors are transient: connection, resources, intervention of an
/// operator, system, and transaction rolled back
/// (<https://www.postgresql.org/docs/current/errcodes-appendix.html>).
const TRANSIENT_CLASSES: [&str; 5] = ["08", "53", "57", "58", "40"];
/// The states of other classes that are transient: read-only database, lock timeout, and idle
/// transaction.
const TRANSIENT_STATES: [SqlState; 4] = [
    SqlState::READ_ONLY_SQL_TRANSACTION,
    SqlState::LOCK_NOT_AVAILABLE,
    SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
    SqlState::INVALID_TRANSACTION_STATE,
];

/// An error of PostgreSQL or its connection.
#[derive(Debug, thiserror::Error)]
pub(in crate::store) enum Failure {
    /// The server replied with an error.
    #[error("{message} (SQLSTATE {})", state.code())]
    Answered {
        /// The SQLSTATE code.
        state: SqlState,
        /// The message, without the detail.
        message: String,
        /// Whether the server ended the connection with this error.
        is_end: bool,
    },
    /// The connection broke or could not be opened.
    #[error("the connection to the database failed")]
    Connection(#[source] tokio_postgres::Error),
    /// PostgreSQL did not reply within this time.
    #[error("the database did not answer within {} s", .0.as_secs())]
    Late(Duration),
    /// The runtime of the connection could not be created.
    #[error("a connection cannot be driven")]
    Runtime(#[source] std::io::Error),
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Self {
        let Some(answer) = error.as_db_error() else { return Self::Connection(error) };
        let is_end = !matches!(answer.parsed_severity(), Some(Severity::Error));
        Self::Answered {
            state: answer.code().clone(),
            message: answer.message().to_owned(),
            is_end,
        }
    }
}

impl Failure {
    /// Whether the connection is unusable.
    pub(super) fn ends_connection(&self) -> bool {
        match self {
            Self::Answered { is_end, .. } => *is_end,
            Self::Connection(_) | Self::Late(_) | Self::Runtime(_) => true,
        }
    }

    /// Whether the failure is transient. Any other failure is a bug.
    pub(in crate::store) fn is_transient(&self) -> bool {
        match self {
            Self::Answered { state, is_end, .. } => {
                let class = state.code().get(..2).unwrap_or_default();
                *is_end || TRANSIENT_CLASSES.contains(&class) || TRANSIENT_STATES.contains(state)
            }
            Self::Connection(_) | Self::Late(_) | Self::Runtime(_) => true,
        }
    }

    /// Whether another session kept a lock for longer than a statement waits.
    pub(in crate::store) fn is_busy(&self) -> bool {
        self.state() == Some(&SqlState::LOCK_NOT_AVAILABLE)
    }

    /// The SQLSTATE code of a reply; `None` if the server did not reply.
    pub(super) fn state(&self) -> Option<&SqlState> {
        match self {
            Self::Answered { state, .. } => Some(state),
            Self::Connection(_) | Self::Late(_) | Self::Runtime(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temporary_failures_are_distinguished_from_defects() {
        for (code, passes) in [
            ("08006", true),
            ("53100", true),
            ("57014", true),
            ("57P01", true),
            ("58030", true),
            ("40001", true),
            ("25006", true),
            ("25P03", true),
            ("55P03", true),
            ("23505", false),
            ("42601", false),
            ("22P02", false),
            ("XX001", false),
        ] {
            let (state, message) = (SqlState::from_code(code), String::new());
            let failure = Failure::Answered { state, message, is_end: false };
            assert_eq!(failure.is_transient(), passes, "{code}");
        }
        assert!(Failure::Late(Duration::from_secs(1)).is_transient());
    }
}
