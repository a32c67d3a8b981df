//! What is opened and compared where there is no webhook: it takes the time of one that is there.

use notify_core::{AppId, ProviderKind, Timestamp};
use serde_json::json;

use super::NO_APP_ID;
use crate::provider_config::ProviderConfig;
use crate::secrets::MasterKey;
use crate::store::ProviderRow;

/// A secret of the usual length. It may be known: a decoy lets no call in.
const SECRET: &str = "0123456789abcdef0123456789abcdef";

/// A configuration for each platform that calls.
pub(super) struct Decoys {
    messenger: Decoy,
    telegram: Decoy,
}

struct Decoy {
    row: ProviderRow,
    config: ProviderConfig,
}

impl Decoys {
    pub(super) fn new(key: &MasterKey) -> Self {
        let messenger = json!({"page_access_token": SECRET, "app_secret": SECRET,
            "verify_token": SECRET});
        let telegram = json!({"bot_token": SECRET, "webhook_secret": SECRET});
        let decoy = |provider: ProviderKind, body: serde_json::Value| {
            let sealed = key.seal(NO_APP_ID, provider, body.to_string().as_bytes());
            let config = ProviderConfig::parse(provider, &body);
            let config = config.expect("a decoy keeps the rules of its provider");
            Decoy { row: ProviderRow { provider, sealed, updated_at: Timestamp(0) }, config }
        };
        Self {
            messenger: decoy(ProviderKind::Messenger, messenger),
            telegram: decoy(ProviderKind::Telegram, telegram),
        }
    }

    /// As the store has a real one.
    pub(super) fn row(&self, provider: ProviderKind) -> (AppId, ProviderRow) {
        (NO_APP_ID, self.of(provider).row.clone())
    }

    /// As a real one is opened.
    pub(super) fn config(&self, provider: ProviderKind) -> ProviderConfig {
        self.of(provider).config.clone()
    }

    fn of(&self, provider: ProviderKind) -> &Decoy {
        match provider {
            ProviderKind::Messenger => &self.messenger,
            ProviderKind::Telegram => &self.telegram,
            ProviderKind::Apns | ProviderKind::Fcm | ProviderKind::WebPush => {
                unreachable!("only chat platforms call")
            }
        }
    }
}
