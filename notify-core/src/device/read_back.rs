//! How devices read back.

use serde::{Deserialize, Serialize};

use crate::{DeviceDetails, DeviceId, IosEnv, Platform, Tag, Timestamp, WebSubscription};

/// Why a device gets nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum DisabledReason {
    /// The user disabled push reception.
    PushDisabled,
    /// The provider reported the address as dead.
    Unregistered,
}

/// A device as read back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Device {
    /// The caller's id.
    pub device_id: DeviceId,
    /// Platform.
    pub platform: Platform,
    /// `android_push` or `ios_push`; null on other platforms.
    pub sdk_type: Option<String>,
    /// Identifier from the platform push provider.
    pub push_token: Option<String>,
    /// True if the user disabled push reception.
    pub push_disabled: bool,
    /// `production` or `sandbox`; null where unset.
    pub ios_env: Option<IosEnv>,
    /// Subscription of a browser.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subscription: Option<WebSubscription>,
    /// Address on Messenger or the chat app.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recipient_id: Option<String>,
    /// Everything else.
    #[serde(flatten)]
    pub details: DeviceDetails,
    /// Tags of the device.
    pub tags: Vec<Tag>,
    /// Whether it can be sent to, but for a missing address.
    pub enabled: bool,
    /// Why not.
    pub disabled_reason: Option<DisabledReason>,
    /// First registration.
    pub created_at: Timestamp,
    /// Last registration.
    pub updated_at: Timestamp,
}

/// Answer of `GET /v1/devices`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DeviceList {
    /// One page, by device sequence.
    pub devices: Vec<Device>,
    /// Where the next page begins; null at the end.
    pub next_cursor: Option<String>,
}

/// Answer of `POST /v1/subscriptions`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SubscriptionCreated {
    /// The device id.
    pub id: DeviceId,
}
