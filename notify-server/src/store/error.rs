//! Errors of the store, grouped by what the caller can do about them.

use notify_core::Violations;

/// Any error of a backend.
pub type BackendError = Box<dyn std::error::Error + Send + Sync>;

/// Why an operation failed. It stored nothing, except that this is unknown after
/// [`StoreError::Unavailable`].
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// What the operation names does not exist in this application.
    #[error("not found")]
    NotFound,
    /// A rule that only the data can decide is broken (400).
    #[error("refused: {0}")]
    Refused(Violations),
    /// The `Idempotency-Key` was used with another body (409).
    #[error("the idempotency key was used with another body")]
    KeyReused,
    /// Another worker owns this page now; the report was not stored.
    #[error("fenced off by another worker")]
    Fenced,
    /// Storage is full, busy, closed or unreachable, or did not answer in time (503). The operation may
    /// have been stored if only the reply was lost.
    #[error("storage is not available")]
    Unavailable(#[source] BackendError),
    /// A bug, or a damaged database (500).
    #[error("storage failed")]
    Backend(#[source] BackendError),
}

impl StoreError {
    /// A broken rule with its path.
    #[must_use]
    pub fn refused(path: &str, what: &str) -> Self {
        Self::Refused(Violations::one(path, what))
    }

    /// Fails if there are broken rules. Each line is a rule with its path.
    ///
    /// # Errors
    /// `Refused` when one is.
    pub fn refused_if(broken: Vec<String>) -> Result<(), Self> {
        Violations::from_lines(broken).map_or(Ok(()), |violations| Err(Self::Refused(violations)))
    }
}
