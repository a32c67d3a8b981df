//! Platforms, and the push providers that serve them.

use crate::field::{Kind, Text};
use crate::json::Value;
#[cfg(feature = "openapi")]
use crate::schema::Schemas;
use crate::violations::{Path, Validator};
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

/// Names of at least one platform. Its value has no duplicates. Duplicates count once, so the list has no
/// limit.
pub(crate) struct Platforms;

impl Kind for Platforms {
    type Raw = Vec<String>;
    type Valid = Vec<Platform>;

    fn read(value: Value<'_, '_>) -> Option<Vec<String>> {
        value.list(usize::MAX, <Text>::read)
    }

    fn check(raw: &Vec<String>, at: &Path<'_>, validator: &mut Validator) -> Option<Vec<Platform>> {
        if raw.is_empty() {
            let names = Platform::NAMES.join(", ");
            validator.violation(at, format_args!("must contain at least one of {names}"));
        }
        let mut valid = Vec::new();
        for (index, name) in raw.iter().enumerate() {
            match name.parse() {
                Ok(platform) if valid.contains(&platform) => {}
                Ok(platform) => valid.push(platform),
                Err(unknown) => validator.violation(&at.index(index), unknown),
            }
        }
        Some(valid)
    }

    #[cfg(feature = "openapi")]
    fn schema(schemas: &mut Schemas) -> serde_json::Value {
        let platform = schemas.add_type::<Platform>();
        serde_json::json!({ "type": "array", "minItems": 1, "items": platform })
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
