//! The interface of the store through which servers share signed provider tokens. It hides the database
//! and the encryption from the providers.

use async_trait::async_trait;
use notify_core::Timestamp;
use secrecy::SecretString;

pub(crate) use crate::keys::TokenName;

/// A token that one server signed.
#[derive(Clone)]
pub(crate) struct SignedToken {
    /// The token.
    pub(crate) text: SecretString,
    /// When the token was signed, by the clock that all servers share.
    pub(crate) at: Timestamp,
    /// How far the wall clock of the signing server was ahead of that clock, in milliseconds. The token
    /// contains the time of the wall clock.
    pub(crate) wall_ahead_ms: i64,
}

/// A token in the store.
pub(crate) struct StoredToken {
    /// The token; `None` if it cannot be decrypted.
    pub(crate) token: Option<SignedToken>,
    /// When the token was signed; known even if it cannot be decrypted.
    pub(crate) at: Timestamp,
    /// The token must not be replaced before this time, because the provider demanded fewer changes.
    pub(crate) frozen_until: Option<Timestamp>,
}

/// Why a token could not be read or stored.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TokenStoreError {
    /// Storage failed.
    #[error("storage failed")]
    Storage(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Storage took longer than a message should wait.
    #[error("storage takes too long")]
    Timeout,
}

/// Stores tokens for all servers of one storage.
#[async_trait]
pub(crate) trait TokenStore: Send + Sync {
    /// The stored token; `None` if there is none.
    ///
    /// # Errors
    /// When the token cannot be read.
    async fn get(&self, name: &TokenName) -> Result<Option<StoredToken>, TokenStoreError>;

    /// Replaces the token that was signed at `replaces`, unless another server has replaced it first.
    /// Returns the token that is stored afterwards.
    ///
    /// # Errors
    /// When storage fails. It is then unknown whether the token was stored.
    async fn put(
        &self,
        name: &TokenName,
        token: &SignedToken,
        replaces: Option<Timestamp>,
    ) -> Result<StoredToken, TokenStoreError>;

    /// Forbids replacing the token before `until`, because the provider demanded fewer changes.
    ///
    /// # Errors
    /// When storage fails.
    async fn freeze(&self, name: &TokenName, until: Timestamp) -> Result<(), TokenStoreError>;
}
