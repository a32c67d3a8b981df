//! The store through which servers share signed provider tokens: a provider never sees a row.

use async_trait::async_trait;
use notify_core::Timestamp;
use secrecy::SecretString;

pub(crate) use crate::keys::TokenName;

/// A token that one server signed.
#[derive(Clone)]
pub(crate) struct SignedToken {
    /// The token.
    pub(crate) text: SecretString,
    /// When it was signed, by the servers' clock.
    pub(crate) at: Timestamp,
    /// How far the wall clock, whose time the token contains, was ahead of that, in milliseconds.
    pub(crate) wall_ahead_ms: i64,
}

/// A token in the store.
pub(crate) struct StoredToken {
    /// The token; `None` if it cannot be decrypted.
    pub(crate) token: Option<SignedToken>,
    /// When it was signed, even if it cannot be decrypted.
    pub(crate) at: Timestamp,
    /// The provider demanded fewer changes: it must not be replaced before this time.
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
    /// The stored token.
    ///
    /// # Errors
    /// When it cannot be read.
    async fn get(&self, name: &TokenName) -> Result<Option<StoredToken>, TokenStoreError>;

    /// Replaces the token that was signed at `replaces`, unless another server did so first; returns the
    /// token that is stored afterwards.
    ///
    /// # Errors
    /// When storage fails: it is unknown whether the token is stored.
    async fn put(
        &self,
        name: &TokenName,
        token: &SignedToken,
        replaces: Option<Timestamp>,
    ) -> Result<StoredToken, TokenStoreError>;

    /// Forbids a newer token until then, as the provider demanded.
    ///
    /// # Errors
    /// When it cannot be written.
    async fn freeze(&self, name: &TokenName, until: Timestamp) -> Result<(), TokenStoreError>;
}
