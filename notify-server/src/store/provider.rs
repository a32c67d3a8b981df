//! Configured providers. What is secret in them arrives sealed (`secrets.rs`).

use async_trait::async_trait;
use notify_core::{AppId, ProviderKind, Timestamp};

use super::{AppNo, StoreError};

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

/// Providers of applications.
#[async_trait]
pub trait ProviderStore {
    /// Sets the configuration of a provider.
    async fn put_provider(&self, app: AppId, row: ProviderRow) -> Result<(), StoreError>;

    /// Removes a provider; [`StoreError::NotFound`] when it was not configured.
    async fn delete_provider(&self, app: AppId, provider: ProviderKind) -> Result<(), StoreError>;

    /// Releases what is held of a provider: [`Change::ProviderChanged`] is told.
    /// [`StoreError::NotFound`] when it is not configured.
    ///
    /// [`Change::ProviderChanged`]: super::Change::ProviderChanged
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
}
