//! The playground: an application whose providers are fakes inside the server.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::field::{Model, ModelFields, NameOf};
use crate::json::BodyPresence;
use crate::request::{model, request};
use crate::violations::{Path, Validator};
use crate::wire_enum::wire_enum;
use crate::{AppId, DeviceId, Platform, Timestamp};

/// Most messages that the playground keeps. One answer lists all of them.
pub const PLAYGROUND_MESSAGES_MAX: usize = 200;

/// Answer of `POST` and `GET /admin/v1/playground`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Playground {
    /// Id of its application.
    pub app_id: AppId,
    /// API key of its application; only in the answer of `POST`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_key: Option<String>,
    /// Time of the start, unix ms.
    pub started_at: Timestamp,
    /// The devices with which it starts.
    pub devices: Vec<PlaygroundDevice>,
}

impl std::fmt::Debug for Playground {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Playground").field("app_id", &self.app_id).finish_non_exhaustive()
    }
}

/// A device with which the playground starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PlaygroundDevice {
    /// Id of the device.
    pub device_id: DeviceId,
    /// Platform.
    pub platform: Platform,
    /// How its provider answers.
    pub description: String,
}

/// A message that a fake provider of the playground received.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PlaygroundMessage {
    /// Time of receipt, unix ms.
    pub at: Timestamp,
    /// Platform of the provider.
    pub platform: Platform,
    /// The device whose address the message has; null for the address of no device, and for devices
    /// after the first 1,000.
    pub device_id: Option<DeviceId>,
    /// Whether the message only checks the credentials.
    pub is_credential_check: bool,
    /// Header fields by name, without `authorization`.
    pub headers: BTreeMap<String, String>,
    /// The body as it was received: JSON, or a text if it is no JSON.
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub payload: serde_json::Value,
    /// The provider's answer.
    pub answer: PlaygroundResponse,
}

/// The answer of a fake provider to a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PlaygroundResponse {
    /// HTTP status.
    pub status: u16,
    /// The provider's reason; null if it accepted the message.
    pub reason: Option<String>,
}

/// Answer of `GET /admin/v1/playground/messages`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PlaygroundMessageList {
    /// The last 200 messages, newest first.
    pub messages: Vec<PlaygroundMessage>,
}

wire_enum! {
    /// How the provider answers the next message to a device.
    pub enum PlaygroundAnswer {
        /// It accepts the message.
        Ok = "ok",
        /// The address is not registered any more.
        Unregistered = "unregistered",
        /// The provider fails. The server sends the message again.
        Unavailable = "unavailable",
        /// It accepts the message after three seconds.
        Slow = "slow",
    }
}

model! {
    /// Body of `PUT /admin/v1/playground/devices/:device_id/answer`.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub struct SetPlaygroundAnswer with SetPlaygroundAnswerFields {
        /// `ok`, `unregistered`, `unavailable` or `slow`.
        pub answer: String as NameOf<PlaygroundAnswer>,
    }
}

request!(SetPlaygroundAnswer => PlaygroundAnswer, BodyPresence::Required);

impl Model for SetPlaygroundAnswer {
    type Valid = PlaygroundAnswer;

    fn check(&self, at: &Path<'_>, validator: &mut Validator) -> Option<PlaygroundAnswer> {
        Some(self.check_fields(at, validator)?.answer)
    }
}
