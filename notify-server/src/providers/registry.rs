//! Builds providers from their configuration and holds what they share: connections, TLS and
//! tokens.

use std::sync::Arc;

use notify_core::ProviderKind;

use super::SharedProvider;
use super::apns::{Apns, ProviderTokens};
use super::fcm::{AccessTokens, Fcm};
use super::transport::Pools;
use crate::clock::SharedClock;
use crate::provider_config::ProviderConfig;

/// Where every provider of the server comes from.
pub(crate) struct Providers {
    clock: SharedClock,
    pools: Pools,
    provider_tokens: Arc<ProviderTokens>,
    access_tokens: AccessTokens,
}

impl Providers {
    /// Nothing is opened before something is sent.
    #[must_use]
    pub(crate) fn new(clock: SharedClock) -> Self {
        Self {
            clock,
            pools: Pools::default(),
            provider_tokens: Arc::default(),
            access_tokens: AccessTokens::default(),
        }
    }

    /// The same providers, with connections and access tokens of their own: what a check opens is
    /// not the engine's to drive, and a token fetched before a key was revoked proves nothing.
    /// Apple's tokens stay shared, since Apple answers 429 to who makes many.
    #[must_use]
    pub(crate) fn apart(&self) -> Self {
        let provider_tokens = Arc::clone(&self.provider_tokens);
        Self { provider_tokens, ..Self::new(Arc::clone(&self.clock)) }
    }

    /// Connections over HTTP/2 of each provider: those with requests under way, and those without.
    #[must_use]
    pub(crate) fn connections(&self) -> Vec<(ProviderKind, [u64; 2])> {
        let counts = ProviderKind::ALL.map(|kind| (kind, self.pools.connections(kind.as_str())));
        counts.to_vec()
    }

    /// Age of the oldest token in use of each provider that has tokens, in milliseconds.
    #[must_use]
    pub(crate) fn token_ages_ms(&self) -> Vec<(ProviderKind, i64)> {
        let now = self.clock.now();
        let apns = self.provider_tokens.oldest().map(|at| (ProviderKind::Apns, at));
        let fcm = self.access_tokens.oldest().map(|at| (ProviderKind::Fcm, at));
        apns.into_iter().chain(fcm).map(|(kind, at)| (kind, now.ms_since(at))).collect()
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
        }
    }
}
