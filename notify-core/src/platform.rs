//! Platforms, and the push providers that serve them.

use crate::wire_enum::wire_enum;

wire_enum! {
    /// Where a device receives notifications.
    pub enum Platform {
        /// Android, served by FCM.
        Android = "android",
        /// iOS, served by APNs.
        Ios = "ios",
        /// Browsers, served by Web Push.
        Web = "web",
        /// Facebook Messenger.
        FbMessenger = "fb-messenger",
        /// The chat app: Telegram.
        ChatApp = "chatapp",
    }
}

impl Platform {
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
}

wire_enum! {
    /// A push provider; also its name in paths of the admin API.
    pub enum ProviderKind {
        /// Apple Push Notification service.
        Apns = "apns",
        /// Firebase Cloud Messaging, HTTP v1.
        Fcm = "fcm",
        /// Web Push (RFC 8030).
        WebPush = "webpush",
        /// Facebook Messenger Send API.
        Messenger = "messenger",
        /// Telegram Bot API.
        Telegram = "telegram",
    }
}

impl ProviderKind {
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

wire_enum! {
    /// The APNs environment that the app of an iOS device is provisioned for.
    #[derive(Default)]
    pub enum IosEnv {
        /// The production host; the default.
        #[default]
        Production = "production",
        /// The sandbox (development) host.
        Sandbox = "sandbox",
    }
}
