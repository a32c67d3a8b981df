//! Responses about notifications.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::json::JsonObject;
use crate::request::Parameters;
use crate::wire_enum::wire_enum;
use crate::{
    Audience, CURSOR, DeviceId, Engagement, LIMIT, NotificationId, PageQuery, Parameter,
    ParameterForm, Platform, Query, Timestamp, UserId, Violations,
};

/// Answer of `POST /v1/notifications` and `POST /v1/notifications/notify`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NotificationCreated {
    /// Id of the notification.
    pub id: NotificationId,
    /// Number of device ids in the request. Present only when none of them exists, so that the
    /// notification has no recipients.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unknown: Option<u64>,
}

wire_enum! {
    /// Status of a notification.
    pub enum NotificationStatus {
        /// Not due yet.
        Scheduled = "scheduled",
        /// Due, but sending has not started.
        Queued = "queued",
        /// Being sent.
        Sending = "sending",
        /// Every delivery has its outcome.
        Completed = "completed",
        /// A request to cancel it stopped at least one delivery.
        Canceled = "canceled",
        /// Reported by the caller; not sent by the server.
        Reported = "reported",
    }
}

wire_enum! {
    /// The request that created a notification.
    pub enum Origin {
        /// `POST /v1/notifications`.
        Created = "created",
        /// `POST /v1/notifications/notify`.
        Reported = "reported",
    }
}

/// Numbers of devices by outcome. `targeted` is the sum of `sent`, `failed`, `unregistered`, `expired`,
/// `canceled` and `pending`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Counts {
    /// Enabled devices with an address in the target. The number grows while the server reads the target.
    pub targeted: u64,
    /// Accepted by the provider.
    pub sent: u64,
    /// Failed for good, with a reason.
    pub failed: u64,
    /// Reported as unregistered by the provider.
    pub unregistered: u64,
    /// Not accepted by the provider before `ttl_seconds` elapsed.
    pub expired: u64,
    /// Canceled by request, or deleted.
    pub canceled: u64,
    /// Without an outcome yet.
    pub pending: u64,
    /// Requested ids without a device of the platform. The total of all platforms includes the ids in
    /// `device_ids` and `user_ids` that do not exist.
    pub unknown: u64,
    /// Requested devices that are disabled, lack an address or the tag, do not meet the condition of the
    /// audience, or no longer belong to the requested user.
    pub excluded: u64,
}

impl Counts {
    /// Adds the counts of another platform.
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
    /// Counts of the platform.
    #[serde(flatten)]
    pub counts: Counts,
}

/// Number of deliveries on one platform that failed for the same reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FailureCount {
    /// Platform.
    pub platform: Platform,
    /// Error code of the provider or the server, such as `provider_not_configured`.
    pub reason: String,
    /// Number of devices.
    pub count: u64,
}

/// Answer of `GET /v1/notifications/:id`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NotificationRecord {
    /// Id.
    pub id: NotificationId,
    /// Status.
    pub status: NotificationStatus,
    /// The request that created it.
    pub origin: Origin,
    /// When the request was accepted, unix ms.
    pub created_at: Timestamp,
    /// When it is due, unix ms; null with `send_at_local` and for reports.
    pub send_at: Option<Timestamp>,
    /// When sending started, unix ms.
    pub started_at: Option<Timestamp>,
    /// When the last delivery got its outcome, unix ms.
    pub completed_at: Option<Timestamp>,
    /// Since when and why it is paused; null when it is not paused.
    #[serde(default)]
    pub paused: Option<Pause>,
    /// Body of the request, as the caller sent it.
    pub request: JsonObject,
    /// The condition that the devices must meet, with the conditions of segments in place of their names;
    /// null when the request has none.
    #[serde(default)]
    pub audience: Option<Audience>,
    /// Totals of all platforms.
    pub counts: Counts,
    /// Counts of each platform.
    pub by_platform: Vec<PlatformCounts>,
    /// Reasons of failed deliveries, the most frequent first.
    pub failures: Vec<FailureCount>,
    /// Numbers of users by state; null when the request names no users.
    #[serde(default)]
    pub users: Option<UserCounts>,
    /// The engagement that devices reported.
    pub engagement: Engagement,
}

/// The pause of a notification.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Pause {
    /// When it was paused, unix ms.
    pub at: Timestamp,
    /// Why: `requested` if a request paused it.
    pub reason: String,
}

/// Numbers of users that a notification names, by state. `named` is the sum of the others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UserCounts {
    /// Ids of users in the request, without duplicates.
    pub named: u64,
    /// The provider accepted the notification for at least one of the user's devices.
    pub reached: u64,
    /// Every delivery to the user has its outcome, and no provider accepted one; or the user had no device.
    pub unreached: u64,
    /// A delivery has no outcome yet, and no provider has accepted one.
    pub pending: u64,
    /// There is no user with the id.
    pub unknown: u64,
}

/// Answer of `GET /v1/notifications`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NotificationList {
    /// One page, newest first. With `status`, it can have fewer than `limit` elements, even none,
    /// although there are more pages.
    pub notifications: Vec<NotificationRecord>,
    /// `cursor` of the next page; null on the last one.
    pub next_cursor: Option<String>,
}

/// Query of `GET /v1/notifications`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListNotifications {
    /// Page size; 50 when absent.
    pub limit: Option<u32>,
    /// `next_cursor` of the previous page; the first page when absent.
    pub cursor: Option<String>,
    /// Only notifications with this status.
    pub status: Option<NotificationStatus>,
}

impl Query for ListNotifications {
    type Valid = Self;
    const PARAMETERS: &'static [Parameter] = &[
        LIMIT,
        CURSOR,
        Parameter::new(
            "status",
            ParameterForm::OneOf(&NotificationStatus::NAMES),
            "Only notifications with this status",
        ),
    ];

    fn parse(parameters: &[(String, String)], _now: Timestamp) -> Result<Self, Violations> {
        let mut parameters = Parameters::new(parameters, Self::PARAMETERS);
        let PageQuery { limit, cursor } = PageQuery::take(&mut parameters);
        let status = parameters.parsed("status");
        parameters.finish(Some(Self { limit, cursor, status }))
    }
}

wire_enum! {
    /// Outcome of the delivery to one device.
    pub enum DeliveryOutcome {
        /// The provider accepted it.
        Sent = "sent",
        /// It failed for good, with a reason.
        Failed = "failed",
        /// The provider reported the address as unregistered.
        Unregistered = "unregistered",
        /// `ttl_seconds` elapsed before the provider accepted it.
        Expired = "expired",
        /// Canceled by request, or the device was deleted.
        Canceled = "canceled",
        /// No outcome yet.
        Pending = "pending",
    }
}

/// The delivery of a notification to one device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Delivery {
    /// Id of the device; null if it was erased since then or registered for another platform.
    pub device_id: Option<DeviceId>,
    /// Platform of the device at that time.
    pub platform: Platform,
    /// Outcome.
    pub outcome: DeliveryOutcome,
    /// Error code of the provider or the server. While the outcome is pending, it is the code of the
    /// last attempt.
    pub reason: Option<String>,
    /// Number of attempts.
    pub attempts: u32,
    /// Id of the message at the provider, if the server is configured to keep it.
    pub provider_message_id: Option<String>,
    /// When the outcome was stored, unix ms; null while it is pending.
    pub at: Option<Timestamp>,
    /// When the next attempt is due, unix ms; null unless an attempt failed.
    pub next_attempt_at: Option<Timestamp>,
}

/// Answer of `GET /v1/notifications/:id/deliveries`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DeliveryList {
    /// One page, sorted by platform and by first registration of the device. It can have fewer than
    /// `limit` elements, even none, although there are more pages.
    pub deliveries: Vec<Delivery>,
    /// `cursor` of the next page; null on the last one.
    pub next_cursor: Option<String>,
}

/// Query of `GET /v1/notifications/:id/deliveries`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListDeliveries {
    /// Page size; 50 when absent.
    pub limit: Option<u32>,
    /// `next_cursor` of the previous page; the first page when absent.
    pub cursor: Option<String>,
    /// Only deliveries with this outcome.
    pub outcome: Option<DeliveryOutcome>,
    /// Only deliveries with exactly this reason, such as `BadDeviceToken`; at most
    /// [`REASON_CHARS_MAX`] characters.
    pub reason: Option<String>,
}

/// The longest reason that a query can name, in characters. The server stores at most 64 bytes of a
/// provider's reason.
pub const REASON_CHARS_MAX: usize = 255;

impl Query for ListDeliveries {
    type Valid = Self;
    const PARAMETERS: &'static [Parameter] = &[
        LIMIT,
        CURSOR,
        Parameter::new(
            "outcome",
            ParameterForm::OneOf(&DeliveryOutcome::NAMES),
            "Only deliveries with this outcome",
        ),
        Parameter::new(
            "reason",
            ParameterForm::NonEmpty,
            "Only deliveries with exactly this reason",
        ),
    ];

    fn parse(parameters: &[(String, String)], _now: Timestamp) -> Result<Self, Violations> {
        let mut parameters = Parameters::new(parameters, Self::PARAMETERS);
        let PageQuery { limit, cursor } = PageQuery::take(&mut parameters);
        let outcome = parameters.parsed("outcome");
        let reason = parameters.short_text("reason", REASON_CHARS_MAX);
        parameters.finish(Some(Self { limit, cursor, outcome, reason }))
    }
}

wire_enum! {
    /// Whether a user was reached by a notification.
    pub enum UserState {
        /// The provider accepted the notification for at least one of the user's devices.
        Reached = "reached",
        /// Every delivery to the user has its outcome, and no provider accepted one; or the user had no
        /// device.
        Unreached = "unreached",
        /// A delivery has no outcome yet, and no provider has accepted one.
        Pending = "pending",
        /// There is no user with the id.
        Unknown = "unknown",
    }
}

/// A user that a notification names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NotificationUser {
    /// Id of the user; null if the user has been erased since then.
    pub user_id: Option<UserId>,
    /// Whether the user was reached.
    pub state: UserState,
    /// Number of the user's devices in the target when the notification became due.
    pub devices: u64,
}

/// Answer of `GET /v1/notifications/:id/users`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NotificationUsers {
    /// One page. With `state`, it can have fewer than `limit` elements, even none, although there are more
    /// pages.
    pub users: Vec<NotificationUser>,
    /// `cursor` of the next page; null on the last one.
    pub next_cursor: Option<String>,
}

/// Query of `GET /v1/notifications/:id/users`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListNotificationUsers {
    /// Page size; 50 when absent.
    pub limit: Option<u32>,
    /// `next_cursor` of the previous page; the first page when absent.
    pub cursor: Option<String>,
    /// Only users in this state.
    pub state: Option<UserState>,
}

impl Query for ListNotificationUsers {
    type Valid = Self;
    const PARAMETERS: &'static [Parameter] = &[
        LIMIT,
        CURSOR,
        Parameter::new(
            "state",
            ParameterForm::OneOf(&UserState::NAMES),
            "Only users in this state",
        ),
    ];

    fn parse(parameters: &[(String, String)], _now: Timestamp) -> Result<Self, Violations> {
        let mut parameters = Parameters::new(parameters, Self::PARAMETERS);
        let PageQuery { limit, cursor } = PageQuery::take(&mut parameters);
        let state = parameters.parsed("state");
        parameters.finish(Some(Self { limit, cursor, state }))
    }
}

/// The message that would be sent to one platform, and the number of its recipients.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PlatformPreview {
    /// Platform.
    pub platform: Platform,
    /// Number of devices that would receive it now: enabled devices of the target with an address.
    pub devices: u64,
    /// Whether the number is a lower bound: the count stopped. Absent if it is not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_least: bool,
    /// The exact payload for a placeholder device; null if it is too large.
    pub payload: Option<JsonObject>,
    /// Headers of the request to the provider, without its authorization.
    pub headers: BTreeMap<String, String>,
    /// Size that is compared with `limit`: bytes of the payload, or characters of the text on Messenger and the
    /// chat app.
    pub bytes: u64,
    /// Largest size that the provider accepts.
    pub limit: u64,
    /// Size if every attribute that it shows is as long as possible; absent unless the notification is
    /// personalized. A device whose message is larger than `limit` fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_max: Option<u64>,
    /// Problems to consider before sending.
    pub problems: Vec<String>,
    /// The message in each language of `translations`; absent without translations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub languages: Vec<LanguagePreview>,
}

/// The message in the language of a translation. Its headers and its limit are those of the platform.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LanguagePreview {
    /// Language tag, as the request has it.
    pub language: String,
    /// The exact payload for a placeholder device; null if it is too large.
    pub payload: Option<JsonObject>,
    /// Size that is compared with `limit`.
    pub bytes: u64,
    /// Size if every attribute that it shows is as long as possible; absent unless the notification is
    /// personalized.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_max: Option<u64>,
    /// Problems to consider before sending.
    pub problems: Vec<String>,
}

/// Query of `POST /v1/notifications/preview`. A malformed id is not a violation: the server answers 404, as it
/// does for any unknown id.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PreviewQuery {
    /// Id of the device whose message is shown.
    pub device_id: Option<String>,
}

impl Query for PreviewQuery {
    type Valid = Self;
    const PARAMETERS: &'static [Parameter] = &[Parameter::new(
        "device_id",
        ParameterForm::NonEmpty,
        "Id of the device whose message is shown on its platform, in its language and with its attributes",
    )];

    fn parse(parameters: &[(String, String)], _now: Timestamp) -> Result<Self, Violations> {
        let mut parameters = Parameters::new(parameters, Self::PARAMETERS);
        let device_id = parameters.non_empty("device_id").map(str::to_owned);
        parameters.finish(Some(Self { device_id }))
    }
}

/// Answer of `POST /v1/notifications/preview`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NotificationPreview {
    /// The platforms of the target.
    pub platforms: Vec<PlatformPreview>,
    /// Number of `device_ids` or `user_ids` that do not exist; absent if all exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unknown: Option<u64>,
}
