//! Builds providers from their configuration and holds what they share: connections, TLS and
//! tokens.

use std::sync::Arc;

use super::apns::{Apns, ProviderTokens};
use super::fcm::{AccessTokens, Fcm};
use super::transport::Pools;
use super::{Address, Answer, Prepared, PreparedBody, Provider, SharedProvider};
use crate::clock::SharedClock;
use crate::payload::{Outgoing, TooLarge};
use crate::provider_config::ProviderConfig;

/// Where every provider of the server comes from.
pub(crate) struct Providers {
    clock: SharedClock,
    pools: Pools,
    provider_tokens: ProviderTokens,
    access_tokens: AccessTokens,
}

impl Providers {
    /// Nothing is opened before something is sent.
    #[must_use]
    pub(crate) fn new(clock: SharedClock) -> Self {
        Self {
            clock,
            pools: Pools::default(),
            provider_tokens: ProviderTokens::default(),
            access_tokens: AccessTokens::default(),
        }
    }

    /// The provider of one application. Two of the same credentials share their connections and
    /// tokens; the shared parts go when the last one does.
    #[must_use]
    pub(crate) fn build(&self, config: &ProviderConfig) -> SharedProvider {
        let clock = Arc::clone(&self.clock);
        match config {
            ProviderConfig::Apns(config) => {
                Arc::new(Apns::new(config, clock, &self.pools, &self.provider_tokens))
            }
            ProviderConfig::Fcm(config) => {
                Arc::new(Fcm::new(config, clock, &self.pools, &self.access_tokens))
            }
            ProviderConfig::Messenger(_) | ProviderConfig::Telegram(_) => Arc::new(Silent),
        }
    }
}

/// A provider whose people are heard and not yet spoken to: what is for them waits until it expires.
struct Silent;

#[async_trait::async_trait]
impl Provider for Silent {
    fn prepare(&self, _message: &Outgoing<'_>) -> Result<Prepared, TooLarge> {
        let body = PreparedBody::Whole(bytes::Bytes::new());
        Ok(Prepared { headers: http::HeaderMap::new(), body })
    }

    async fn attempt(&self, _prepared: &Prepared, _to: &Address) -> Answer {
        Answer::Config { reason: "provider_cannot_send_yet".into() }
    }

    fn slots(&self) -> usize {
        1
    }
}
