//! Configured providers. What is secret in them arrives sealed (`secrets.rs`).

use async_trait::async_trait;
use notify_core::{AppId, ProviderKind, Timestamp};

use super::{AppNo, StoreError};
pub use crate::keys::TokenName;

/// A configured provider as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderRow {
    /// Which provider.
    pub provider: ProviderKind,
    /// The whole configuration, sealed; empty once it was forgotten with its master key.
    pub sealed: Vec<u8>,
    /// Last change; grows with each, so that it tells versions apart.
    pub updated_at: Timestamp,
}

/// A provider token that one server signed for all, as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenRow {
    /// The token, sealed.
    pub sealed: Vec<u8>,
    /// When it was signed, by the servers' clock.
    pub issued_at: Timestamp,
    /// How far the wall clock of its signer was ahead of that, in milliseconds.
    pub wall_ahead_ms: i64,
    /// The provider wants it kept: no newer one before.
    pub frozen_until: Option<Timestamp>,
}

/// How long a provider token is kept that nobody signs anew, in milliseconds: an hour longer than it
/// lasts.
pub(crate) const TOKEN_KEPT_MS: i64 = 2 * 3_600_000;

/// Providers of applications.
#[async_trait]
pub trait ProviderStore {
    /// Sets the configuration of a provider.
    async fn put_provider(&self, app: AppId, row: ProviderRow) -> Result<(), StoreError>;

    /// Removes a provider; [`StoreError::NotFound`] when it was not configured.
    async fn delete_provider(&self, app: AppId, provider: ProviderKind) -> Result<(), StoreError>;

    /// Releases what is held of a provider, the stop after many dead addresses included;
    /// [`StoreError::NotFound`] when it is not configured.
    async fn release_provider(&self, app: AppId, provider: ProviderKind) -> Result<(), StoreError>;

    /// The providers of an application, by name.
    async fn providers(&self, app: AppId) -> Result<Vec<ProviderRow>, StoreError>;

    /// One provider, as the engine asks for it, with the id its secrets are bound to.
    async fn provider(
        &self,
        app: AppNo,
        provider: ProviderKind,
    ) -> Result<Option<(AppId, ProviderRow)>, StoreError>;

    /// One configuration of any application that was not forgotten, with the id its secrets are
    /// bound to: what the master key of a start is tried on.
    async fn any_sealed(&self) -> Result<Option<(AppId, ProviderRow)>, StoreError>;

    /// The token of that name, if one is kept.
    async fn provider_token(&self, name: TokenName) -> Result<Option<TokenRow>, StoreError>;

    /// Keeps a new token in place of the one that was signed at `replaces`, unless another server was
    /// first; answers the one that is kept now. Those of keys that nobody uses any more go.
    async fn keep_provider_token(
        &self,
        name: TokenName,
        new: TokenRow,
        replaces: Option<Timestamp>,
    ) -> Result<TokenRow, StoreError>;

    /// The provider wants a token kept until then: an earlier end gives way, and a token that is not
    /// kept is passed over.
    async fn freeze_provider_token(
        &self,
        name: TokenName,
        until: Timestamp,
    ) -> Result<(), StoreError>;
}
