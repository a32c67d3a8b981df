//! Builds providers from their configuration, and owns the connections, TLS configurations and tokens
//! that they share.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, Weak};

use notify_core::ProviderKind;

use crate::clock::SharedClock;
use crate::outbound::Outbound;
use crate::provider_config::ProviderConfig;
use crate::providers::apns::{Apns, ProviderTokens};
use crate::providers::fcm::{Fcm, TokenSources};
use crate::providers::messenger::{Messenger, Quotas};
use crate::providers::telegram::{ChatThrottles, Telegram};
use crate::providers::transport::{Pools, RemoteTime};
use crate::providers::web_push::{Services, VapidTokens, WebPush};
use crate::providers::{SharedProvider, TokenStore};

/// Builds every provider of the server.
pub(crate) struct Providers {
    clock: SharedClock,
    pools: Arc<Pools>,
    provider_tokens: Arc<ProviderTokens>,
    token_sources: TokenSources,
    messenger_quotas: Quotas,
    telegram_throttles: ChatThrottles,
    outbound: Outbound,
    /// The time of the provider that responded last.
    remote_time: RemoteTime,
    services: Services,
    vapid_tokens: VapidTokens,
}

impl Providers {
    /// Creates `Providers`, which builds a provider from each stored configuration. It opens no connection
    /// before an attempt or a check needs one. `outbound` connects, and decides which user-supplied
    /// addresses may be connected to.
    #[must_use]
    pub(crate) fn new(clock: SharedClock, outbound: Outbound) -> Self {
        Self::with_remote_time(clock, outbound, RemoteTime::default())
    }

    fn with_remote_time(clock: SharedClock, outbound: Outbound, remote_time: RemoteTime) -> Self {
        let pools = Arc::new(Pools::new(&outbound, &remote_time));
        Self {
            clock,
            services: Services::new(Arc::clone(&pools), outbound.clone()),
            outbound,
            remote_time,
            vapid_tokens: VapidTokens::default(),
            pools,
            provider_tokens: Arc::default(),
            token_sources: TokenSources::default(),
            messenger_quotas: Quotas::default(),
            telegram_throttles: ChatThrottles::default(),
        }
    }

    /// The same builder, with provider tokens that all servers with the same store share.
    #[must_use]
    pub(crate) fn with_token_store(self, store: Arc<dyn TokenStore>) -> Self {
        Self { provider_tokens: Arc::new(ProviderTokens::with_token_store(store)), ..self }
    }

    /// A builder of providers for checks, with separate connections and access tokens. The connections are
    /// separate so that a check cannot affect the engine. The access tokens are separate because a token
    /// that was fetched before a key was revoked would hide the revocation. Apple's provider tokens stay
    /// shared, because Apple responds 429 when they change too often.
    #[must_use]
    pub(crate) fn isolated(&self) -> Self {
        let provider_tokens = Arc::clone(&self.provider_tokens);
        let (clock, outbound) = (Arc::clone(&self.clock), self.outbound.clone());
        let fresh = Self::with_remote_time(clock, outbound, self.remote_time.clone());
        Self { provider_tokens, ..fresh }
    }

    /// The time of the provider that responded last, also to a check.
    #[must_use]
    pub(crate) fn remote_time(&self) -> &RemoteTime {
        &self.remote_time
    }

    /// The number of busy and of idle HTTP/2 connections of each provider.
    #[must_use]
    pub(crate) fn connections(&self) -> Vec<(ProviderKind, [u64; 2])> {
        let counts = ProviderKind::ALL.map(|kind| (kind, self.pools.connections(kind.as_str())));
        counts.to_vec()
    }

    /// Age of the oldest token in use of each provider that has tokens, in milliseconds.
    #[must_use]
    pub(crate) fn token_ages_ms(&self) -> Vec<(ProviderKind, i64)> {
        let now = self.clock.now();
        let apns = self.provider_tokens.oldest_signed_at().map(|at| (ProviderKind::Apns, at));
        let fcm = self.token_sources.oldest_granted_at().map(|at| (ProviderKind::Fcm, at));
        apns.into_iter().chain(fcm).map(|(kind, at)| (kind, now.ms_since(at))).collect()
    }

    /// Builds the provider of one application. Providers with the same credentials share connections and
    /// tokens, which are dropped with the last of these providers.
    #[must_use]
    pub(crate) fn build(&self, config: &ProviderConfig) -> SharedProvider {
        let clock = Arc::clone(&self.clock);
        match config {
            ProviderConfig::Apns(config) => {
                Arc::new(Apns::new(config, clock, &self.pools, &self.provider_tokens))
            }
            ProviderConfig::Fcm(config) => {
                Arc::new(Fcm::new(config, clock, &self.pools, &self.token_sources))
            }
            ProviderConfig::Messenger(config) => {
                Arc::new(Messenger::new(config, clock, &self.pools, &self.messenger_quotas))
            }
            ProviderConfig::Telegram(config) => {
                Arc::new(Telegram::new(config, clock, &self.pools, &self.telegram_throttles))
            }
            ProviderConfig::WebPush(config) => {
                Arc::new(WebPush::new(config, clock, &self.services, &self.vapid_tokens))
            }
        }
    }
}

/// Shared values by key. The map holds weak references, so that a value is dropped with its last user.
pub(super) struct WeakMap<K, V> {
    values: Mutex<HashMap<K, Weak<V>>>,
}

impl<K, V> Default for WeakMap<K, V> {
    fn default() -> Self {
        Self { values: Mutex::default() }
    }
}

impl<K: Eq + Hash, V> WeakMap<K, V> {
    /// The value of that key. It is created if it does not exist or is no longer used.
    pub(super) fn get(&self, key: K, make: impl FnOnce(&K) -> V) -> Arc<V> {
        let mut values = self.values.lock().expect("nothing panics under this lock");
        if let Some(value) = values.get(&key).and_then(Weak::upgrade) {
            return value;
        }
        values.retain(|_, value| value.strong_count() > 0);
        let value = Arc::new(make(&key));
        values.insert(key, Arc::downgrade(&value));
        value
    }

    /// Every value in use, with its key.
    pub(super) fn all(&self) -> Vec<(K, Arc<V>)>
    where
        K: Clone,
    {
        let values = self.values.lock().expect("nothing panics under this lock");
        let live = values.iter().filter_map(|(key, value)| Some((key.clone(), value.upgrade()?)));
        live.collect()
    }
}
