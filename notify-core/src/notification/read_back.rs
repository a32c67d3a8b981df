//! How notifications read back, and the small answers of the two calls that make them.

use serde::{Deserialize, Serialize};

use crate::{Engagement, NotificationId, Platform, Timestamp, json::JsonObject};

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
