//! Bodies of `POST /v1/notifications` and `POST /v1/notifications/notify`.

use serde::Serialize;

#[cfg(feature = "openapi")]
use super::Priority;
#[cfg(feature = "openapi")]
use crate::Platform;
use crate::{CreatePoll, json::JsonObject};

/// Most device ids of one list; checked before duplicates are removed.
pub const DEVICE_IDS_MAX: usize = 1_000;
/// Most elements of `tags`.
pub const TAGS_MAX: usize = 1;
/// Fewest web push actions.
pub const WEB_PUSH_ACTIONS_MIN: usize = 1;
/// Most web push actions.
pub const WEB_PUSH_ACTIONS_MAX: usize = 2;
/// Longest `ttl_seconds` and its default: 28 days.
pub const TTL_SECONDS_MAX: u32 = 2_419_200;
/// How far ahead a notification can be scheduled, in days.
pub const SCHEDULE_AHEAD_DAYS_MAX: i64 = 366;
/// Longest `collapse_key`, in characters.
pub const COLLAPSE_KEY_CHARS_MAX: usize = 64;

/// Body of `POST /v1/notifications`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CreateNotification {
    /// Main text; required unless the notification is a poll.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// At least one platform; ignored when device ids are used.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<Platform>>))]
    pub platforms: Option<Vec<String>>,
    /// Specific Android devices; at most 1,000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub android_device_ids: Option<Vec<String>>,
    /// Specific iOS devices; at most 1,000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ios_device_ids: Option<Vec<String>>,
    /// Specific devices of any platform; at most 1,000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_ids: Option<Vec<String>>,
    /// Everything that a report has too.
    #[serde(flatten)]
    pub content: NotificationContent,
    /// When to send, unix ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub send_at: Option<i64>,
    /// Wall-clock time of each device, `YYYY-MM-DDTHH:MM`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub send_at_local: Option<String>,
    /// How long a delivery is worth trying, from the moment it is due.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_seconds: Option<u32>,
    /// `high` or `normal`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Priority>))]
    pub priority: Option<String>,
    /// Notifications of one key replace each other on the device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collapse_key: Option<String>,
}

/// Body of `POST /v1/notifications/notify`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ReportNotification {
    /// The caller's own id; unique within the application.
    pub id: String,
    /// Main text; required unless the notification is a poll.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// At least one platform.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<Platform>>))]
    pub platforms: Option<Vec<String>>,
    /// Everything that a created notification has too.
    #[serde(flatten)]
    pub content: NotificationContent,
}

/// The fields that a creation and a report share, but for `text` and `platforms`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NotificationContent {
    /// Only devices that have these tags set to true; one element.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tags: Option<Vec<String>>,
    /// Deep link.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Image shown in the notification layout.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_url: Option<String>,
    /// Campaign to attach, or `default`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub campaign_id: Option<String>,
    /// Key of an extra JSON object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub custom_json_key: Option<String>,
    /// Value of the extra JSON object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub custom_json_value: Option<JsonObject>,
    /// Raw payload on Android, sent under `data`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub android_json: Option<JsonObject>,
    /// Raw payload on iOS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ios_json: Option<JsonObject>,
    /// Settings on Android.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub android_settings: Option<AndroidSettings>,
    /// Settings on iOS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ios_settings: Option<IosSettings>,
    /// Settings on Web Push.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub web_push_settings: Option<WebPushSettings>,
    /// Settings on Messenger.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub social_messenger_settings: Option<MessengerSettings>,
    /// Makes the notification a poll.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub poll: Option<CreatePoll>,
}

/// `AndroidSettings`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AndroidSettings {
    /// Notification title; the application's name when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Sound file in the app's raw resource folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sound: Option<String>,
}

/// `IOSSettings`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct IosSettings {
    /// Number shown on the app icon. Required: `None` is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = u32, required = true))]
    pub badge: Option<u32>,
    /// Sound file; `default` for the regular sound. Required: empty is refused.
    pub sound: String,
}

/// `WebPushSettings`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WebPushSettings {
    /// 1 to 2 action buttons.
    pub actions: Vec<WebPushAction>,
}

/// `WebPushAction`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WebPushAction {
    /// Button title.
    pub title: String,
    /// Button icon url.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub icon: Option<String>,
    /// Unique string identifying the clicked action.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// Url launched after a click.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// Messenger settings object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MessengerSettings {
    /// Button text when the message is built with a template; `View` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub view_button: Option<String>,
}
