//! What an administrator configures for each provider over the admin API: read, checked and shown
//! without its secrets. Pure: nothing here connects to anything, so that the API may use it. Debug
//! output and errors never show a key.

mod apns;
mod base_url;
mod fcm;
mod fields;
mod messenger;
mod schema;
mod subject;
mod telegram;
mod trust;
mod webpush;

pub(crate) use apns::ApnsConfig;
pub(crate) use base_url::BaseUrl;
pub(crate) use fcm::{FcmConfig, ServiceAccount};
pub(crate) use messenger::MessengerConfig;
pub(crate) use schema::schema;
pub(crate) use telegram::TelegramConfig;
pub(crate) use trust::ExtraRoots;
pub(crate) use webpush::{VapidKey, WebPushConfig};

use notify_core::{AppId, ProviderKind};
use serde_json::Value;

use crate::secrets::{MasterKey, SecretError};
use crate::store::ProviderRow;

/// Why a configuration is not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ProviderConfigError {
    /// Broken rules, each as `path: what is wrong` (B2).
    #[error("{}", .0.join("; "))]
    Invalid(Vec<String>),
}

impl ProviderConfigError {
    /// The lines that the API lists (B2).
    #[must_use]
    pub(crate) fn into_lines(self) -> Vec<String> {
        match self {
            Self::Invalid(lines) => lines,
        }
    }
}

/// Why a stored configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UnreadableConfig {
    /// It does not open.
    #[error("a provider's configuration cannot be opened")]
    Sealed(#[from] SecretError),
    /// What was sealed is no JSON.
    #[error("a provider's configuration is damaged")]
    Json(#[from] serde_json::Error),
    /// What was sealed is not taken any more.
    #[error("a provider's configuration is not taken any more")]
    Rules(#[from] ProviderConfigError),
}

/// A checked configuration of one provider. A `PUT` replaces the whole of it.
#[derive(Debug, Clone)]
pub(crate) enum ProviderConfig {
    /// Apple Push Notification service.
    Apns(ApnsConfig),
    /// Firebase Cloud Messaging.
    Fcm(FcmConfig),
    /// Facebook Messenger Send API.
    Messenger(MessengerConfig),
    /// Telegram Bot API.
    Telegram(TelegramConfig),
    /// Browsers' push services.
    WebPush(WebPushConfig),
}

impl ProviderConfig {
    /// Puts into the body of a `PUT` what it leaves out and the server keeps from before, or makes.
    pub(crate) fn complete(kind: ProviderKind, body: &mut Value, earlier: Option<&Value>) {
        match kind {
            ProviderKind::WebPush => webpush::complete(body, earlier),
            ProviderKind::Apns
            | ProviderKind::Fcm
            | ProviderKind::Messenger
            | ProviderKind::Telegram => {}
        }
    }

    /// Reads the completed body of a `PUT`, or what was stored of one.
    ///
    /// # Errors
    /// Every broken rule, or that the provider is not supported.
    pub(crate) fn parse(kind: ProviderKind, body: &Value) -> Result<Self, ProviderConfigError> {
        match kind {
            ProviderKind::Apns => ApnsConfig::parse(body).map(Self::Apns),
            ProviderKind::Fcm => FcmConfig::parse(body).map(Self::Fcm),
            ProviderKind::Messenger => MessengerConfig::parse(body).map(Self::Messenger),
            ProviderKind::Telegram => TelegramConfig::parse(body).map(Self::Telegram),
            ProviderKind::WebPush => WebPushConfig::parse(body).map(Self::WebPush),
        }
    }

    /// Opens what is stored of one.
    ///
    /// # Errors
    /// When the master key does not open it, or it is not what was put.
    pub(crate) fn open(
        key: &MasterKey,
        app: AppId,
        row: &ProviderRow,
    ) -> Result<Self, UnreadableConfig> {
        Ok(Self::parse(row.provider, &stored(key, app, row)?)?)
    }

    /// The configuration as `GET` shows it: secrets left out.
    #[must_use]
    pub(crate) fn redacted(&self) -> Value {
        match self {
            Self::Apns(config) => config.redacted(),
            Self::Fcm(config) => config.redacted(),
            Self::Messenger(config) => config.redacted(),
            Self::Telegram(config) => config.redacted(),
            Self::WebPush(config) => config.redacted(),
        }
    }

    /// Most messages a second that the administrator wants sent.
    #[must_use]
    pub(crate) fn rate_per_second(&self) -> Option<u32> {
        match self {
            Self::Apns(config) => config.rate_per_second,
            Self::Fcm(config) => config.rate_per_second,
            Self::Messenger(config) => config.rate_per_second,
            Self::Telegram(config) => config.rate_per_second,
            Self::WebPush(config) => config.rate_per_second,
        }
    }

    /// Topic of every message, on APNs.
    #[must_use]
    pub(crate) fn apns_topic(&self) -> Option<&str> {
        match self {
            Self::Apns(config) => Some(&config.topic),
            Self::Fcm(_) | Self::Messenger(_) | Self::Telegram(_) | Self::WebPush(_) => None,
        }
    }

    /// Whether what is enriched goes to FCM as data alone (B34a).
    #[must_use]
    pub(crate) fn enriched_as_data(&self) -> bool {
        match self {
            Self::Apns(_) | Self::Messenger(_) | Self::Telegram(_) | Self::WebPush(_) => false,
            Self::Fcm(config) => config.enriched_as_data,
        }
    }
}

/// What was put, as it was completed.
///
/// # Errors
/// When the master key does not open it, or it is damaged.
pub(crate) fn stored(
    key: &MasterKey,
    app: AppId,
    row: &ProviderRow,
) -> Result<Value, UnreadableConfig> {
    let plain = key.open(app, row.provider, &row.sealed)?;
    Ok(serde_json::from_slice(&plain)?)
}

/// What two equal private keys have in common, without being the key.
pub(crate) type KeyDigest = [u8; 32];

fn digest(key_pem: &str) -> KeyDigest {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, key_pem.as_bytes());
    digest.as_ref().try_into().expect("SHA-256 has 32 bytes")
}

#[cfg(test)]
pub(crate) mod test_keys;
#[cfg(test)]
mod tests;
