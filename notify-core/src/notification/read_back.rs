//! How notifications read back, and the small answers of the two calls that make them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::json::JsonObject;
use crate::query::Parameters;
use crate::violations::path;
use crate::{
    CURSOR, DeviceId, Engagement, LIMIT, NotificationId, PageQuery, Parameter, ParameterForm,
    Platform, Query, Timestamp, Violations,
};

/// Answer of a call that made a notification.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NotificationCreated {
    /// Its id.
    pub id: NotificationId,
    /// How many ids it names, where none of them names a device: it reaches nobody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unknown: Option<u64>,
}

/// Where a notification stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum NotificationStatus {
    /// Not due yet.
    Scheduled,
    /// Due, not begun.
    Queued,
    /// Being sent.
    Sending,
    /// Every delivery has its outcome.
    Completed,
    /// Something was canceled by request.
    Canceled,
    /// Reported by the caller; never sent by us.
    Reported,
}

impl NotificationStatus {
    /// Every status.
    pub const ALL: [Self; 6] = [
        Self::Scheduled,
        Self::Queued,
        Self::Sending,
        Self::Completed,
        Self::Canceled,
        Self::Reported,
    ];

    /// The word on the wire and in the database.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Scheduled => "scheduled",
            Self::Queued => "queued",
            Self::Sending => "sending",
            Self::Completed => "completed",
            Self::Canceled => "canceled",
            Self::Reported => "reported",
        }
    }

    /// The status of that word, if there is one.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == word)
    }
}

/// Which of the two calls made a notification.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// `POST /v1/notifications`.
    Created,
    /// `POST /v1/notifications/notify`.
    Reported,
}

impl Origin {
    /// Every origin.
    pub const ALL: [Self; 2] = [Self::Created, Self::Reported];

    /// The word on the wire and in the database.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Reported => "reported",
        }
    }

    /// The origin of that word, if there is one.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|origin| origin.as_str() == word)
    }
}

/// How many devices are in which state. `targeted` is the sum of `sent` to `pending`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Counts {
    /// Enabled devices with an address that the target names, as found so far.
    pub targeted: u64,
    /// The provider took it.
    pub sent: u64,
    /// Ended with a reason.
    pub failed: u64,
    /// The address is dead.
    pub unregistered: u64,
    /// `ttl_seconds` were over.
    pub expired: u64,
    /// Canceled by request, or the device was deleted.
    pub canceled: u64,
    /// Still to come.
    pub pending: u64,
    /// Named ids that name no device of that platform; over all platforms also those of `device_ids`
    /// that name no device at all.
    pub unknown: u64,
    /// Named devices that are disabled, without an address, or without the tag.
    pub excluded: u64,
}

impl Counts {
    /// Adds another platform's counts.
    pub fn add(&mut self, other: &Self) {
        self.targeted += other.targeted;
        self.sent += other.sent;
        self.failed += other.failed;
        self.unregistered += other.unregistered;
        self.expired += other.expired;
        self.canceled += other.canceled;
        self.pending += other.pending;
        self.unknown += other.unknown;
        self.excluded += other.excluded;
    }
}

/// Counts of one platform.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PlatformCounts {
    /// Platform.
    pub platform: Platform,
    /// Its counts.
    #[serde(flatten)]
    pub counts: Counts,
}

/// How often deliveries of one platform failed for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FailureCount {
    /// Platform.
    pub platform: Platform,
    /// The provider's word, or ours (`provider_not_configured`).
    pub reason: String,
    /// How many devices.
    pub count: u64,
}

/// Answer of `GET /v1/notifications/:id`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NotificationRecord {
    /// Id.
    pub id: NotificationId,
    /// Where it stands.
    pub status: NotificationStatus,
    /// Which call made it.
    pub origin: Origin,
    /// When it was accepted.
    pub created_at: Timestamp,
    /// When it is or was due; null with `send_at_local` and for reports.
    pub send_at: Option<Timestamp>,
    /// When sending began.
    pub started_at: Option<Timestamp>,
    /// When the last delivery had its outcome.
    pub completed_at: Option<Timestamp>,
    /// The body as it was sent.
    pub request: JsonObject,
    /// Over all platforms.
    pub counts: Counts,
    /// Platform by platform.
    pub by_platform: Vec<PlatformCounts>,
    /// The most frequent first.
    pub failures: Vec<FailureCount>,
    /// What devices did with it.
    pub engagement: Engagement,
}

/// Answer of `GET /v1/notifications`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NotificationList {
    /// One page, newest first.
    pub notifications: Vec<NotificationRecord>,
    /// Where the next page begins; null at the end.
    pub next_cursor: Option<String>,
}

// What became of a notification device by device.

/// What became of the delivery to one device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum DeliveryOutcome {
    /// The provider took it.
    Sent,
    /// Ended with a reason.
    Failed,
    /// The address is dead.
    Unregistered,
    /// `ttl_seconds` were over.
    Expired,
    /// Canceled by request, or the device was deleted.
    Canceled,
    /// Still to come.
    Pending,
}

impl DeliveryOutcome {
    /// Every outcome.
    pub const ALL: [Self; 6] = [
        Self::Sent,
        Self::Failed,
        Self::Unregistered,
        Self::Expired,
        Self::Canceled,
        Self::Pending,
    ];

    /// The word on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sent => "sent",
            Self::Failed => "failed",
            Self::Unregistered => "unregistered",
            Self::Expired => "expired",
            Self::Canceled => "canceled",
            Self::Pending => "pending",
        }
    }

    /// The outcome of that word, if there is one.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|outcome| outcome.as_str() == word)
    }
}

impl std::fmt::Display for DeliveryOutcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The delivery of a notification to one device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Delivery {
    /// The device; null when it was erased since, or registered again for another platform.
    pub device_id: Option<DeviceId>,
    /// Platform that it was sent to on.
    pub platform: Platform,
    /// What became of it.
    pub outcome: DeliveryOutcome,
    /// The provider's word, or ours; of a pending one that of the last attempt.
    pub reason: Option<String>,
    /// Attempts made.
    pub attempts: u32,
    /// The provider's id of the message, where the server is told to keep it.
    pub provider_message_id: Option<String>,
    /// When the outcome was committed; null while it is pending.
    pub at: Option<Timestamp>,
    /// When the next attempt is due, if one failed already.
    pub next_attempt_at: Option<Timestamp>,
}

/// Answer of `GET /v1/notifications/:id/deliveries`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DeliveryList {
    /// One page, platform by platform, in the order in which the devices registered. It may hold
    /// fewer than `limit`, even none, though there are more.
    pub deliveries: Vec<Delivery>,
    /// Where the next page begins; null at the end.
    pub next_cursor: Option<String>,
}

/// Query of `GET /v1/notifications/:id/deliveries`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListDeliveries {
    /// Page size; 50 when absent.
    pub limit: Option<u32>,
    /// Where the page before ended.
    pub cursor: Option<String>,
    /// Only deliveries with this outcome.
    pub outcome: Option<DeliveryOutcome>,
}

impl Query for ListDeliveries {
    type Valid = Self;
    const PARAMETERS: &'static [Parameter] = &[
        LIMIT,
        CURSOR,
        Parameter::new(
            "outcome",
            ParameterForm::Word(|| DeliveryOutcome::ALL.map(DeliveryOutcome::as_str).into()),
            "Only deliveries with this outcome",
        ),
    ];

    fn parse(parameters: &[(String, String)], _now: Timestamp) -> Result<Self, Violations> {
        let mut parameters = Parameters::new(parameters, Self::PARAMETERS);
        let PageQuery { limit, cursor } = PageQuery::take(&mut parameters);
        let word = parameters.text("outcome");
        let outcome = parameters.findings.optional_word(
            &path("outcome"),
            word,
            &DeliveryOutcome::ALL,
            DeliveryOutcome::as_str,
        );
        parameters.finish(Some(Self { limit, cursor, outcome }))
    }
}

// What a notification would be, before anything is sent.

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
