//! Builds the engine's providers from the stored configuration, which the master key decrypts.

use std::sync::Arc;

use async_trait::async_trait;
use http::HeaderMap;
use notify_core::{AppId, ProviderKind, Timestamp};
use secrecy::{ExposeSecret, SecretString};

use crate::delivery::{Configured, ProviderSource};
use crate::error_chain::error_chain;
use crate::payload::{RenderContext, TooLarge};
use crate::provider_config::ProviderConfig;
use crate::providers::{
    Address, CredentialCheck, Provider, Providers, RenderedBody, RenderedMessage, SendResult,
    SignedToken, StoredToken, TokenName, TokenStore, TokenStoreError,
};
use crate::reasons;
use crate::secrets::MasterKey;
use crate::store::{AppNo, SharedStore, StoreError, TokenRow};

/// The stored providers.
pub(crate) struct StoredProviders {
    pub(crate) store: SharedStore,
    pub(crate) master_key: Arc<MasterKey>,
    pub(crate) providers: Providers,
}

impl StoredProviders {
    /// A provider for a check of its credentials. It shares no connections with the providers that the
    /// engine uses.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if the provider is not configured.
    pub(crate) async fn provider_for_check(
        &self,
        app: AppId,
        provider: ProviderKind,
    ) -> Result<Arc<dyn Provider>, StoreError> {
        let mut rows = self.store.providers(app).await?.into_iter();
        let row = rows.find(|row| row.provider == provider).ok_or(StoreError::NotFound)?;
        Ok(match ProviderConfig::open(&self.master_key, app, &row) {
            Ok(config) => self.providers.isolated().build(&config),
            Err(error) => {
                let (provider, cause) = (provider.as_str(), error_chain(&error));
                tracing::warn!(%app, provider, cause, "a provider cannot be tried");
                Arc::new(UndecryptableProvider)
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
            Ok(Some(row)) => row,
            // `NotFound` means that the application was erased.
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
                // `notify-server forget-credentials` leaves no sealed configuration.
                let was_erased = row.sealed.is_empty();
                if was_erased {
                    tracing::warn!(
                        app = %app_id,
                        provider = provider.as_str(),
                        "the credentials of a provider were forgotten with a lost master key: \
                         its messages wait until it is configured again"
                    );
                } else {
                    tracing::warn!(
                        app = %app_id,
                        provider = provider.as_str(),
                        cause = error_chain(&error),
                        "a provider cannot be used: configure it again"
                    );
                }
                Configured {
                    app: app_id,
                    provider: Arc::new(UndecryptableProvider),
                    rate_per_second: None,
                }
            }
        }))
    }
}

/// Replaces a provider whose configuration cannot be decrypted, because the master key was lost. Its
/// deliveries wait until the provider is configured again, as if the provider refused the credentials.
struct UndecryptableProvider;

#[async_trait::async_trait]
impl Provider for UndecryptableProvider {
    fn render(&self, _context: &RenderContext<'_>) -> Result<RenderedMessage, TooLarge> {
        let body = RenderedBody::Shared(bytes::Bytes::new());
        Ok(RenderedMessage { headers: HeaderMap::new(), body })
    }

    async fn attempt(&self, _prepared: &RenderedMessage, _to: &Address) -> SendResult {
        SendResult::AuthRejected { reason: reasons::CREDENTIALS_UNREADABLE.into() }
    }

    async fn check(&self) -> CredentialCheck {
        CredentialCheck::failed(
            "the credentials cannot be opened with the master key: configure the provider again",
        )
    }

    fn max_concurrency(&self) -> usize {
        1
    }
}

// Provider tokens in the store. They are sealed, so that a copy of the database cannot be used to send.

/// The provider tokens in the database.
pub(crate) struct DatabaseTokenStore {
    pub(crate) store: SharedStore,
    pub(crate) master_key: Arc<MasterKey>,
}

impl DatabaseTokenStore {
    /// Decrypts the token of a row. If that fails, the result has no token and keeps the times of the row.
    fn open(&self, name: &TokenName, row: &TokenRow) -> StoredToken {
        let decrypted = self.master_key.open_token(name, &row.sealed).inspect_err(|error| {
            // A token that was sealed with an earlier master key is replaced, as an expired token is.
            let cause = error_chain(error);
            tracing::warn!(cause, "a kept provider token cannot be opened: it is signed again");
        });
        let text = decrypted.ok().and_then(|bytes| String::from_utf8(bytes.to_vec()).ok());
        let token = text.map(|text| SignedToken {
            text: SecretString::from(text),
            at: row.issued_at,
            wall_ahead_ms: row.wall_ahead_ms,
        });
        StoredToken { token, at: row.issued_at, frozen_until: row.frozen_until }
    }
}

#[async_trait]
impl TokenStore for DatabaseTokenStore {
    async fn get(&self, name: &TokenName) -> Result<Option<StoredToken>, TokenStoreError> {
        let row = self.store.provider_token(*name).await.map_err(storage_failed)?;
        Ok(row.map(|row| self.open(name, &row)))
    }

    async fn put(
        &self,
        name: &TokenName,
        token: &SignedToken,
        replaces: Option<Timestamp>,
    ) -> Result<StoredToken, TokenStoreError> {
        let row = TokenRow {
            sealed: self.master_key.seal_token(name, token.text.expose_secret().as_bytes()),
            issued_at: token.at,
            wall_ahead_ms: token.wall_ahead_ms,
            frozen_until: None,
        };
        let stored = self.store.keep_provider_token(*name, row, replaces).await;
        Ok(self.open(name, &stored.map_err(storage_failed)?))
    }

    async fn freeze(&self, name: &TokenName, until: Timestamp) -> Result<(), TokenStoreError> {
        self.store.freeze_provider_token(*name, until).await.map_err(storage_failed)
    }
}

fn storage_failed(error: StoreError) -> TokenStoreError {
    TokenStoreError::Storage(error.into())
}
