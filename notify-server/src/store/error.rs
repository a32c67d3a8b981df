//! What can go wrong in storage, as the answer to the caller's next question: may I go on?

use notify_core::Violations;

/// Any error that a backend met.
pub type BackendError = Box<dyn std::error::Error + Send + Sync>;

/// Why an operation did not happen. Nothing of it was stored, but after [`StoreError::Unavailable`]
/// that is not known.
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
    /// Another worker holds this page now; what was reported is not stored.
    #[error("fenced off by another worker")]
    Fenced,
    /// Storage cannot take it now, or did not answer in time: full, busy, closed or gone (503). What
    /// was under way may be stored all the same, where the answer alone was lost.
    #[error("storage is not available")]
    Unavailable(#[source] BackendError),
    /// A defect, or a damaged database (500).
    #[error("storage failed")]
    Backend(#[source] BackendError),
}

impl StoreError {
    /// A broken rule with its path.
    #[must_use]
    pub fn refused(path: &str, what: &str) -> Self {
        Self::Refused(Violations::one(path, what))
    }

    /// Goes on when no rule is broken; each is a line with its path (B2).
    ///
    /// # Errors
    /// `Refused` when one is.
    pub fn refused_if(broken: Vec<String>) -> Result<(), Self> {
        Violations::from_lines(broken).map_or(Ok(()), |violations| Err(Self::Refused(violations)))
    }
}
