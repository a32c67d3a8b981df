//! Platforms, the SDKs and environments of devices, and the providers that serve them.

use serde::{Deserialize, Serialize};

/// Where a device receives notifications.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Platform {
    /// Android, served by FCM.
    Android,
    /// iOS, served by APNs.
    Ios,
    /// Browsers, served by Web Push.
    Web,
    /// Facebook Messenger.
    #[serde(rename = "fb-messenger")]
    FbMessenger,
    /// The chat app, which is Telegram.
    ChatApp,
}

impl Platform {
    /// Every platform, in the order of the specification.
    pub const ALL: [Self; 5] =
        [Self::Android, Self::Ios, Self::Web, Self::FbMessenger, Self::ChatApp];

    /// The word on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Android => "android",
            Self::Ios => "ios",
            Self::Web => "web",
            Self::FbMessenger => "fb-messenger",
            Self::ChatApp => "chatapp",
        }
    }

    /// The provider that delivers to this platform.
    #[must_use]
    pub fn provider(self) -> ProviderKind {
        match self {
            Self::Android => ProviderKind::Fcm,
            Self::Ios => ProviderKind::Apns,
            Self::Web => ProviderKind::WebPush,
            Self::FbMessenger => ProviderKind::Messenger,
            Self::ChatApp => ProviderKind::Telegram,
        }
    }

    /// The platform of that word, if there is one.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|platform| platform.as_str() == word)
    }
}

impl std::fmt::Display for Platform {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A platform push provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum ProviderKind {
    /// Apple Push Notification service.
    Apns,
    /// Firebase Cloud Messaging, HTTP v1.
    Fcm,
    /// Web Push (RFC 8030).
    WebPush,
    /// Facebook Messenger Send API.
    Messenger,
    /// Telegram Bot API.
    Telegram,
}

impl ProviderKind {
    /// Every provider.
    pub const ALL: [Self; 5] =
        [Self::Apns, Self::Fcm, Self::WebPush, Self::Messenger, Self::Telegram];

    /// The word in paths of the admin API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Apns => "apns",
            Self::Fcm => "fcm",
            Self::WebPush => "webpush",
            Self::Messenger => "messenger",
            Self::Telegram => "telegram",
        }
    }

    /// The provider of that word, if there is one.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|provider| provider.as_str() == word)
    }

    /// The platform that this provider serves.
    #[must_use]
    pub fn platform(self) -> Platform {
        match self {
            Self::Apns => Platform::Ios,
            Self::Fcm => Platform::Android,
            Self::WebPush => Platform::Web,
            Self::Messenger => Platform::FbMessenger,
            Self::Telegram => Platform::ChatApp,
        }
    }
}

impl std::fmt::Display for ProviderKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Push provisioning profile of an iOS app; picks the APNs host.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum IosEnv {
    /// The production host; also what an absent value means.
    #[default]
    Production,
    /// The development host.
    Sandbox,
}

impl IosEnv {
    /// The word on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Production => "production",
            Self::Sandbox => "sandbox",
        }
    }
}
