//! Validated forms of devices: what the server stores.

use serde::{Deserialize, Serialize};

use crate::{DeviceId, IosEnv, Platform};

/// Fields of a device that are stored and returned, but not used.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DeviceDetails {
    /// Android id.
    pub android_id: Option<String>,
    /// Advertising identifier.
    pub ad_id: Option<String>,
    /// IMEI.
    pub imei: Option<String>,
    /// Version of the SDK.
    pub sdk_version: Option<String>,
    /// Version of the app.
    pub app_version: Option<String>,
    /// Version of the OS.
    pub os_version: Option<String>,
    /// Package name or bundle id.
    pub store_identifier: Option<String>,
    /// Offset from UTC as it was sent: `GMT` or `GMT±HH:MM`.
    pub timezone: Option<String>,
    /// Country code.
    pub country: Option<String>,
    /// Offset from UTC in minutes, as it was sent.
    pub utc_offset: Option<String>,
    /// Language code.
    pub language: Option<String>,
    /// Brand and model.
    pub device_description: Option<String>,
}

/// The platform of a device, and its address there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// An Android device; it has no address without a token.
    Android {
        /// FCM registration token.
        push_token: Option<String>,
    },
    /// An iOS device; it has no address without a token.
    Ios {
        /// APNs device token.
        push_token: Option<String>,
        /// APNs environment of the token; `None` when not given.
        env: Option<IosEnv>,
    },
    /// A browser's push subscription.
    Web(WebSubscription),
    /// A person on Messenger.
    FbMessenger {
        /// Page-scoped id.
        recipient_id: String,
    },
    /// A chat of the chat app.
    ChatApp {
        /// Chat id.
        recipient_id: String,
    },
}

impl Endpoint {
    /// The platform of this endpoint.
    #[must_use]
    pub fn platform(&self) -> Platform {
        match self {
            Self::Android { .. } => Platform::Android,
            Self::Ios { .. } => Platform::Ios,
            Self::Web(_) => Platform::Web,
            Self::FbMessenger { .. } => Platform::FbMessenger,
            Self::ChatApp { .. } => Platform::ChatApp,
        }
    }
}

/// The validated form of [`crate::PushSubscription`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WebSubscription {
    /// Url of the subscription at the push service.
    pub endpoint: String,
    /// Public key: an uncompressed P-256 point, base64url without padding.
    pub p256dh: String,
    /// Authentication secret: 16 bytes, base64url without padding.
    pub auth: String,
}

/// The validated form of [`crate::RegisterDevice`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registration {
    /// Id of the device.
    pub device_id: DeviceId,
    /// Platform and address.
    pub endpoint: Endpoint,
    /// Whether the user disabled push notifications.
    pub push_disabled: bool,
    /// Offset from UTC in minutes: of `timezone`, else of `utc_offset`, else 0.
    pub utc_offset_minutes: i32,
    /// The other fields.
    pub details: DeviceDetails,
}

/// The validated form of [`crate::Subscribe`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscription {
    /// Id chosen by the caller; the server generates one when absent.
    pub device_id: Option<DeviceId>,
    /// Platform and address: `Web`, `FbMessenger` or `ChatApp`.
    pub endpoint: Endpoint,
    /// Offset from UTC in minutes.
    pub utc_offset_minutes: i32,
    /// `language`, `timezone` and `utc_offset`; the others are `None`.
    pub details: DeviceDetails,
}
