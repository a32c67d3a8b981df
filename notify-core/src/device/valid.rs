//! Devices that hold every rule: what the store keeps.

use serde::{Deserialize, Serialize};

use crate::{DeviceId, IosEnv, Platform};

/// The details of a device that decide nothing: kept, read back, never looked at.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DeviceDetails {
    /// Android id.
    pub android_id: Option<String>,
    /// Advertiser identifier.
    pub ad_id: Option<String>,
    /// Device IMEI.
    pub imei: Option<String>,
    /// SDK version.
    pub sdk_version: Option<String>,
    /// Application version.
    pub app_version: Option<String>,
    /// OS version.
    pub os_version: Option<String>,
    /// Package name or bundle id.
    pub store_identifier: Option<String>,
    /// `GMT` or `GMT±HH:MM`, as it was sent.
    pub timezone: Option<String>,
    /// Country code.
    pub country: Option<String>,
    /// Minutes from UTC, as it was sent.
    pub utc_offset: Option<String>,
    /// Language code.
    pub language: Option<String>,
    /// Brand and model.
    pub device_description: Option<String>,
}

/// Where a device can be reached, by its platform: the validated form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// An Android device; without a token it has no address.
    Android {
        /// FCM registration token.
        push_token: Option<String>,
    },
    /// An iOS device; without a token it has no address.
    Ios {
        /// APNs device token.
        push_token: Option<String>,
        /// Which APNs host the token belongs to; `None` when not given.
        env: Option<IosEnv>,
    },
    /// A browser's push subscription.
    Web(WebSubscription),
    /// A person on Messenger, by page-scoped id.
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
    /// The platform that this endpoint is of.
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

/// A browser's `PushSubscription`, checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WebSubscription {
    /// Push service url of this subscription.
    pub endpoint: String,
    /// Uncompressed P-256 point, base64url.
    pub p256dh: String,
    /// 16 bytes, base64url.
    pub auth: String,
}

/// A registration that holds every rule: the validated form of [`crate::RegisterDevice`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registration {
    /// The caller's id of the device.
    pub device_id: DeviceId,
    /// Platform and address.
    pub endpoint: Endpoint,
    /// True if the user disabled push reception.
    pub push_disabled: bool,
    /// Minutes from UTC by `timezone`, else `utc_offset`, else 0.
    pub utc_offset_minutes: i32,
    /// Everything else.
    pub details: DeviceDetails,
}

/// A subscription that holds every rule: the validated form of [`crate::Subscribe`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscription {
    /// The caller's own id; the server makes one when absent.
    pub device_id: Option<DeviceId>,
    /// One of the three platforms that people subscribe on.
    pub endpoint: Endpoint,
    /// Minutes from UTC.
    pub utc_offset_minutes: i32,
    /// `language`, `timezone` and `utc_offset`; the rest unset.
    pub details: DeviceDetails,
}
