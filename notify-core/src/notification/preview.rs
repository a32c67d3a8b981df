//! What a notification would be, before anything is sent.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Platform, json::JsonObject};

/// What would go to one platform.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PlatformPreview {
    /// Platform.
    pub platform: Platform,
    /// Devices that would be reached now: enabled, with an address, of the target.
    pub devices: u64,
    /// The exact payload for a placeholder device; null when it would be too large.
    pub payload: Option<JsonObject>,
    /// Header fields of the request to the provider, but for its authorization.
    pub headers: BTreeMap<String, String>,
    /// Size of what the limit counts: bytes, or characters of text on Messenger and the chat app.
    pub bytes: u64,
    /// What the provider takes.
    pub limit: u64,
    /// What a person would want to know before sending.
    pub problems: Vec<String>,
}

/// Answer of `POST /v1/notifications/preview`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NotificationPreview {
    /// Each platform of the target.
    pub platforms: Vec<PlatformPreview>,
    /// How many of `device_ids` name no device, where some do not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unknown: Option<u64>,
}
