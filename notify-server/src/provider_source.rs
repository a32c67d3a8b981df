//! Where the engine's providers come from: the stored configuration, opened with the master key.

use std::sync::Arc;

use http::HeaderMap;
use notify_core::ProviderKind;

use crate::delivery::{Configured, ProviderSource};
use crate::payload::{Outgoing, TooLarge};
use crate::provider_config::ProviderConfig;
use crate::providers::{Address, Answer, Prepared, PreparedBody, Provider, Providers};
use crate::secrets::MasterKey;
use crate::store::{AppNo, SharedStore, StoreError};

/// Providers as they are stored.
pub(crate) struct StoredProviders {
    pub(crate) store: SharedStore,
    pub(crate) master_key: Arc<MasterKey>,
    pub(crate) providers: Providers,
}

#[async_trait::async_trait]
impl ProviderSource for StoredProviders {
    async fn provider(
        &self,
        app: AppNo,
        provider: ProviderKind,
    ) -> Result<Option<Configured>, StoreError> {
        let (app_id, row) = match self.store.provider(app, provider).await {
            Ok(Some(found)) => found,
            // An erased application has no providers either.
            Ok(None) | Err(StoreError::NotFound) => return Ok(None),
            Err(error) => return Err(error),
        };
        let opened = self.master_key.open(app_id, provider, &row.sealed);
        let config = opened.ok().and_then(|plain| serde_json::from_slice(&plain).ok());
        let config = config.and_then(|config| ProviderConfig::parse(provider, &config).ok());
        Ok(Some(match config {
            Some(config) => Configured {
                provider: self.providers.build(&config),
                rate_per_second: config.rate_per_second(),
            },
            None => Configured { provider: Arc::new(Unreadable), rate_per_second: None },
        }))
    }
}

/// A configuration that cannot be opened, because the master key is another one: deliveries are
/// held like those whose credentials are refused, until the provider is configured anew.
struct Unreadable;

#[async_trait::async_trait]
impl Provider for Unreadable {
    fn prepare(&self, _message: &Outgoing<'_>) -> Result<Prepared, TooLarge> {
        let body = PreparedBody::Whole(bytes::Bytes::new());
        Ok(Prepared { headers: HeaderMap::new(), body })
    }

    async fn attempt(&self, _prepared: &Prepared, _to: &Address) -> Answer {
        Answer::Config { reason: "credentials_cannot_be_opened".into() }
    }

    fn slots(&self) -> usize {
        1
    }
}
