//! The token as all servers of one storage share it.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use notify_core::Timestamp;

use crate::causes::with_causes;
use crate::keys::sha256;
use crate::provider_config::ApnsConfig;
use crate::providers::{KeeperError, KeptToken, SignedToken, TokenKeeper, TokenName};

/// Longest wait for storage: a message waits meanwhile, and can go with a token of our own.
const KEEPER_WAIT: Duration = Duration::from_secs(3);

/// Where the token of one team and key is kept.
pub(super) struct Keeper {
    keeper: Arc<dyn TokenKeeper>,
    name: TokenName,
}

impl Keeper {
    pub(super) fn new(keeper: Arc<dyn TokenKeeper>, config: &ApnsConfig) -> Self {
        // Neither id may contain a space.
        let whose = format!("apns {} {} ", config.team_id, config.key_id);
        let name = sha256(&[whose.as_bytes(), &config.key_digest].concat());
        Self { keeper, name }
    }

    /// What is kept; `None` where storage does not say.
    pub(super) async fn kept(&self) -> Option<Option<KeptToken>> {
        in_time(self.keeper.kept(&self.name)).await
    }

    /// Keeps a token, unless another server was first; what is kept now. `None` where storage does
    /// not say.
    pub(super) async fn keep(
        &self,
        token: &SignedToken,
        replaces: Option<Timestamp>,
    ) -> Option<KeptToken> {
        in_time(self.keeper.keep(&self.name, token, replaces)).await
    }

    /// Tells the other servers that the token is to be kept.
    pub(super) async fn freeze(&self, until: Timestamp) {
        in_time(self.keeper.freeze(&self.name, until)).await;
    }
}

/// What storage says, where it does so in time.
async fn in_time<T>(asked: impl Future<Output = Result<T, KeeperError>>) -> Option<T> {
    let told = tokio::time::timeout(KEEPER_WAIT, asked).await;
    let told = told.unwrap_or(Err(KeeperError::Late));
    told.inspect_err(|error| {
        let cause = with_causes(error);
        tracing::warn!(
            provider = "apns",
            cause,
            "the provider token is not shared with other servers for now: this one signs its own"
        );
    })
    .ok()
}
