//! Errors of the store, grouped by what a caller can do about them.

use notify_core::Violations;

/// Any error of a backend.
pub type BackendError = Box<dyn std::error::Error + Send + Sync>;

/// Why an operation failed. A failed operation has stored nothing. Only after
/// [`StoreError::Unavailable`] does the caller not know whether the operation is stored.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Something that the operation names does not exist in the application (404).
    #[error("not found")]
    NotFound,
    /// The request breaks a rule that depends on stored data (400).
    #[error("refused: {0}")]
    Refused(Violations),
    /// The `Idempotency-Key` was already used with another body (409).
    #[error("the idempotency key was already used for a request with another body")]
    KeyReused,
    /// Another process owns the page or dispatch now. Nothing was stored.
    #[error("fenced off by another worker")]
    Fenced,
    /// Storage is full, busy, closed or unreachable, or did not reply in time (503). The operation
    /// may be stored if only the reply was lost.
    #[error("storage is not available")]
    Unavailable(#[source] BackendError),
    /// A bug, or a damaged database (500).
    #[error("storage failed")]
    Backend(#[source] BackendError),
}

impl StoreError {
    /// The error of one broken rule. `path` is the path of the field in the request.
    #[must_use]
    pub fn refused(path: &str, what: &str) -> Self {
        Self::Refused(Violations::one(path, what))
    }

    /// Fails if `broken` is not empty. Each line is the path of a field and the rule that it
    /// breaks, as in `id: is in use already`.
    ///
    /// # Errors
    /// `Refused` with all broken rules.
    pub fn refused_if(broken: Vec<String>) -> Result<(), Self> {
        Violations::from_lines(broken).map_or(Ok(()), |violations| Err(Self::Refused(violations)))
    }
}
