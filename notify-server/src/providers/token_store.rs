//! Where servers keep for each other what one of them signed: a provider never sees a row.

use async_trait::async_trait;
use notify_core::Timestamp;
use secrecy::SecretString;

pub(crate) use crate::keys::TokenName;

/// A token that one server signed.
#[derive(Clone)]
pub(crate) struct SignedToken {
    /// The token.
    pub(crate) text: SecretString,
    /// When, by the servers' clock.
    pub(crate) at: Timestamp,
    /// How far the wall clock, which it bears the time of, was ahead of that, in milliseconds.
    pub(crate) wall_ahead_ms: i64,
}

/// What is kept under a name.
pub(crate) struct KeptToken {
    /// The token; `None` where it cannot be opened.
    pub(crate) token: Option<SignedToken>,
    /// When it was signed, also where it cannot be opened.
    pub(crate) at: Timestamp,
    /// The provider wants it kept: no newer one before.
    pub(crate) frozen_until: Option<Timestamp>,
}

/// Why nothing was read or kept.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KeeperError {
    /// Storage failed.
    #[error("storage failed")]
    Storage(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Storage takes longer than a message is to wait.
    #[error("storage takes too long")]
    Late,
}

/// Keeps tokens for all servers of one storage.
#[async_trait]
pub(crate) trait TokenKeeper: Send + Sync {
    /// What is kept.
    ///
    /// # Errors
    /// When that cannot be read.
    async fn kept(&self, name: &TokenName) -> Result<Option<KeptToken>, KeeperError>;

    /// Keeps a token in place of the one that was signed at `replaces`, unless another server was
    /// first; answers what is kept now.
    ///
    /// # Errors
    /// When storage fails: whether it is kept is not known.
    async fn keep(
        &self,
        name: &TokenName,
        token: &SignedToken,
        replaces: Option<Timestamp>,
    ) -> Result<KeptToken, KeeperError>;

    /// Has a token kept until then: the provider wants no newer one before.
    ///
    /// # Errors
    /// When that cannot be written.
    async fn freeze(&self, name: &TokenName, until: Timestamp) -> Result<(), KeeperError>;
}
