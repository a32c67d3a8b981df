//! Provider tokens in the store, between store and providers: sealed, so that a copy of the database
//! sends nothing.

use std::sync::Arc;

use async_trait::async_trait;
use notify_core::Timestamp;
use secrecy::{ExposeSecret, SecretString};

use crate::causes::with_causes;
use crate::providers::{KeeperError, KeptToken, SignedToken, TokenKeeper, TokenName};
use crate::secrets::MasterKey;
use crate::store::{SharedStore, StoreError, TokenRow};

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
