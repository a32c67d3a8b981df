//! Where the engine's providers come from: the stored configuration, opened with the master key.

use std::sync::Arc;

use async_trait::async_trait;
use http::HeaderMap;
use notify_core::{AppId, ProviderKind, Timestamp};
use secrecy::{ExposeSecret, SecretString};

use crate::delivery::{Configured, ProviderSource};
use crate::error_chain::with_causes;
use crate::payload::{Outgoing, TooLarge};
use crate::provider_config::ProviderConfig;
use crate::providers::{
    Address, Answer, Checked, KeeperError, KeptToken, Prepared, PreparedBody, Provider, Providers,
    SignedToken, TokenKeeper, TokenName,
};
use crate::reasons;
use crate::secrets::MasterKey;
use crate::store::{AppNo, SharedStore, StoreError, TokenRow};

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

// Provider tokens in the store, between store and providers: sealed, so that a copy of the database
// sends nothing.

/// Tokens as they are stored.
pub(crate) struct StoredTokens {
    pub(crate) store: SharedStore,
    pub(crate) master_key: Arc<MasterKey>,
}

impl StoredTokens {
    fn opened(&self, name: &TokenName, row: &TokenRow) -> KeptToken {
        let plain = self.master_key.open_token(name, &row.sealed);
        // One of a master key of before is replaced like one that is old.
        let plain = plain.inspect_err(|error| {
            let cause = with_causes(error);
            tracing::warn!(cause, "a kept provider token cannot be opened: it is signed anew");
        });
        let text = plain.ok().and_then(|plain| String::from_utf8(plain.to_vec()).ok());
        let token = text.map(|text| SignedToken {
            text: SecretString::from(text),
            at: row.issued_at,
            wall_ahead_ms: row.wall_ahead_ms,
        });
        KeptToken { token, at: row.issued_at, frozen_until: row.frozen_until }
    }
}

#[async_trait]
impl TokenKeeper for StoredTokens {
    async fn kept(&self, name: &TokenName) -> Result<Option<KeptToken>, KeeperError> {
        let row = self.store.provider_token(*name).await.map_err(storage_failed)?;
        Ok(row.map(|row| self.opened(name, &row)))
    }

    async fn keep(
        &self,
        name: &TokenName,
        token: &SignedToken,
        replaces: Option<Timestamp>,
    ) -> Result<KeptToken, KeeperError> {
        let row = TokenRow {
            sealed: self.master_key.seal_token(name, token.text.expose_secret().as_bytes()),
            issued_at: token.at,
            wall_ahead_ms: token.wall_ahead_ms,
            frozen_until: None,
        };
        let kept = self.store.keep_provider_token(*name, row, replaces).await;
        Ok(self.opened(name, &kept.map_err(storage_failed)?))
    }

    async fn freeze(&self, name: &TokenName, until: Timestamp) -> Result<(), KeeperError> {
        self.store.freeze_provider_token(*name, until).await.map_err(storage_failed)
    }
}

fn storage_failed(error: StoreError) -> KeeperError {
    KeeperError::Storage(error.into())
}
