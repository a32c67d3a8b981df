//! Builds providers from their configuration and holds what they share: connections, TLS and
//! tokens.

use std::sync::Arc;

use super::SharedProvider;
use super::apns::{Apns, ProviderTokens};
use super::fcm::{AccessTokens, Fcm};
use super::messenger::{Messenger, Quotas};
use super::telegram::{Floods, Telegram};
use super::transport::Pools;
use super::web_push::{Services, VapidTokens, WebPush};
use crate::clock::SharedClock;
use crate::outbound::Outbound;
use crate::provider_config::ProviderConfig;

/// Where every provider of the server comes from.
pub(crate) struct Providers {
    clock: SharedClock,
    pools: Arc<Pools>,
    provider_tokens: ProviderTokens,
    access_tokens: AccessTokens,
    page_quotas: Quotas,
    bot_floods: Floods,
    services: Services,
    vapid_tokens: VapidTokens,
}

impl Providers {
    /// Nothing is opened before something is sent. `guard` says which of the addresses that users
    /// give may be connected to.
    #[must_use]
    pub(crate) fn new(clock: SharedClock, guard: Outbound) -> Self {
        let pools: Arc<Pools> = Arc::default();
        Self {
            clock,
            services: Services::new(Arc::clone(&pools), guard),
            vapid_tokens: VapidTokens::default(),
            pools,
            provider_tokens: ProviderTokens::default(),
            access_tokens: AccessTokens::default(),
            page_quotas: Quotas::default(),
            bot_floods: Floods::default(),
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
            ProviderConfig::Messenger(config) => {
                Arc::new(Messenger::new(config, clock, &self.pools, &self.page_quotas))
            }
            ProviderConfig::Telegram(config) => {
                Arc::new(Telegram::new(config, clock, &self.pools, &self.bot_floods))
            }
            ProviderConfig::WebPush(config) => {
                Arc::new(WebPush::new(config, clock, &self.services, &self.vapid_tokens))
            }
        }
    }
}
