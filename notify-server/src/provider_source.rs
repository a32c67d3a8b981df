//! Where the engine's providers come from: the stored configuration, opened with the master key.

use std::sync::Arc;

use http::HeaderMap;
use notify_core::{AppId, ProviderKind};

use crate::causes::with_causes;
use crate::delivery::{Configured, ProviderSource};
use crate::payload::{Outgoing, TooLarge};
use crate::provider_config::ProviderConfig;
use crate::providers::{Address, Answer, Checked, Prepared, PreparedBody, Provider, Providers};
use crate::reasons;
use crate::secrets::MasterKey;
use crate::store::{AppNo, SharedStore, StoreError};

/// Providers as they are stored.
pub(crate) struct StoredProviders {
    pub(crate) store: SharedStore,
    pub(crate) master_key: Arc<MasterKey>,
    pub(crate) providers: Providers,
}

impl StoredProviders {
    /// A provider to be checked, apart from those that the engine works with;
    /// [`StoreError::NotFound`] when none is configured.
    pub(crate) async fn for_check(
        &self,
        app: AppId,
        provider: ProviderKind,
    ) -> Result<Arc<dyn Provider>, StoreError> {
        let mut rows = self.store.providers(app).await?.into_iter();
        let row = rows.find(|row| row.provider == provider).ok_or(StoreError::NotFound)?;
        Ok(match ProviderConfig::open(&self.master_key, app, &row) {
            Ok(config) => self.providers.apart().build(&config),
            Err(error) => {
                let (provider, cause) = (provider.as_str(), with_causes(&error));
                tracing::warn!(%app, provider, cause, "a provider cannot be tried");
                Arc::new(Unreadable)
            }
        })
    }
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
        Ok(Some(match ProviderConfig::open(&self.master_key, app_id, &row) {
            Ok(config) => Configured {
                app: app_id,
                provider: self.providers.build(&config),
                rate_per_second: config.rate_per_second(),
            },
            Err(error) => {
                if row.sealed.is_empty() {
                    tracing::warn!(
                        app = %app_id,
                        provider = provider.as_str(),
                        "the credentials of a provider were forgotten with a lost master key: \
                         its messages wait until it is configured anew"
                    );
                } else {
                    tracing::warn!(
                        app = %app_id,
                        provider = provider.as_str(),
                        cause = with_causes(&error),
                        "a provider cannot be used: configure it anew"
                    );
                }
                Configured { app: app_id, provider: Arc::new(Unreadable), rate_per_second: None }
            }
        }))
    }
}

/// A configuration that cannot be opened, since it was forgotten with a lost master key: deliveries
/// are held like those whose credentials are refused, until the provider is configured anew.
struct Unreadable;

#[async_trait::async_trait]
impl Provider for Unreadable {
    fn prepare(&self, _message: &Outgoing<'_>) -> Result<Prepared, TooLarge> {
        let body = PreparedBody::Whole(bytes::Bytes::new());
        Ok(Prepared { headers: HeaderMap::new(), body })
    }

    async fn attempt(&self, _prepared: &Prepared, _to: &Address) -> Answer {
        Answer::Config { reason: reasons::CREDENTIALS_UNREADABLE.into() }
    }

    async fn check(&self) -> Checked {
        Checked::bad("the credentials cannot be opened with the master key: configure it anew")
    }

    fn slots(&self) -> usize {
        1
    }
}
