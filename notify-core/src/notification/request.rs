//! Bodies of `POST /v1/notifications` and `POST /v1/notifications/notify`.

use serde::Serialize;

use crate::json::JsonObject;
use crate::notification::Priority;
use crate::{CreatePoll, Platform, Timestamp};

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

// Building notifications in code, so that the common things are one line and the accident of an
// empty list of devices is an error where it happens.

/// No device id was given: a notification to nobody, which must not become one to everybody.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no device ids: the notification would reach nobody")]
pub struct NoDeviceIds;

impl CreateNotification {
    /// A message to every device of these platforms.
    ///
    /// ```
    /// use notify_core::{CreateNotification, Platform, Priority, Request, Timestamp};
    ///
    /// let notification = CreateNotification::to_platforms([Platform::Ios], "Dinner is ready")
    ///     .tag("hungry")
    ///     .url("myapp://kitchen")
    ///     .priority(Priority::Normal);
    /// assert!(notification.validate(Timestamp(0)).is_ok());
    /// ```
    #[must_use]
    pub fn to_platforms(
        platforms: impl IntoIterator<Item = Platform>,
        text: impl Into<String>,
    ) -> Self {
        Self { text: Some(text.into()), ..Self::on(platforms) }
    }

    /// A message to these Android and iOS devices.
    ///
    /// # Errors
    /// When both lists are empty.
    ///
    /// ```
    /// use notify_core::{CreateNotification, NoDeviceIds};
    ///
    /// let to_two = CreateNotification::to_devices(["phone-1", "phone-2"], [], "Hello")?;
    /// assert_eq!(to_two.android_device_ids.unwrap().len(), 2);
    ///
    /// let nobody: Vec<String> = Vec::new();
    /// let refused = CreateNotification::to_devices(nobody, [], "Hello");
    /// assert_eq!(refused, Err(NoDeviceIds));
    /// # Ok::<(), NoDeviceIds>(())
    /// ```
    pub fn to_devices<I: Into<String>>(
        android: impl IntoIterator<Item = I>,
        ios: impl IntoIterator<Item = I>,
        text: impl Into<String>,
    ) -> Result<Self, NoDeviceIds> {
        let ids = |list: Vec<String>| if list.is_empty() { None } else { Some(list) };
        let android_device_ids = ids(android.into_iter().map(Into::into).collect());
        let ios_device_ids = ids(ios.into_iter().map(Into::into).collect());
        if android_device_ids.is_none() && ios_device_ids.is_none() {
            return Err(NoDeviceIds);
        }
        let text = Some(text.into());
        Ok(Self { text, android_device_ids, ios_device_ids, ..Self::default() })
    }

    /// A message to these devices, whatever their platforms: browsers, Messenger and chat recipients
    /// among them.
    ///
    /// # Errors
    /// When the list is empty.
    ///
    /// ```
    /// use notify_core::{CreateNotification, NoDeviceIds};
    ///
    /// let shipped = CreateNotification::to_any_devices(["chat-77", "phone-1"], "Your order is on its way")?;
    /// assert_eq!(shipped.device_ids.unwrap().len(), 2);
    ///
    /// let nobody: Vec<String> = Vec::new();
    /// assert_eq!(CreateNotification::to_any_devices(nobody, "Hello"), Err(NoDeviceIds));
    /// # Ok::<(), NoDeviceIds>(())
    /// ```
    pub fn to_any_devices<I: Into<String>>(
        ids: impl IntoIterator<Item = I>,
        text: impl Into<String>,
    ) -> Result<Self, NoDeviceIds> {
        let ids: Vec<String> = ids.into_iter().map(Into::into).collect();
        if ids.is_empty() {
            return Err(NoDeviceIds);
        }
        Ok(Self { text: Some(text.into()), device_ids: Some(ids), ..Self::default() })
    }

    /// A poll to every device of these platforms.
    ///
    /// ```
    /// use notify_core::{CreateNotification, CreatePoll, Platform};
    ///
    /// let poll = CreatePoll::text("Coming tonight?", ["yes", "no"]);
    /// let notification = CreateNotification::poll([Platform::Android], poll);
    /// assert!(notification.content.poll.is_some());
    /// ```
    #[must_use]
    pub fn poll(platforms: impl IntoIterator<Item = Platform>, poll: CreatePoll) -> Self {
        let mut notification = Self::on(platforms);
        notification.content.poll = Some(poll);
        notification
    }

    fn on(platforms: impl IntoIterator<Item = Platform>) -> Self {
        Self { platforms: Some(words(platforms)), ..Self::default() }
    }

    /// Only devices that have this tag set to true.
    #[must_use]
    pub fn tag(mut self, name: impl Into<String>) -> Self {
        self.content.tags = Some(vec![name.into()]);
        self
    }

    /// Deep link.
    #[must_use]
    pub fn url(mut self, url: impl Into<String>) -> Self {
        self.content.url = Some(url.into());
        self
    }

    /// Image shown with the notification.
    #[must_use]
    pub fn image_url(mut self, url: impl Into<String>) -> Self {
        self.content.image_url = Some(url.into());
        self
    }

    /// Campaign to attach, by id or `default`.
    #[must_use]
    pub fn campaign(mut self, id: impl Into<String>) -> Self {
        self.content.campaign_id = Some(id.into());
        self
    }

    /// Extra data for the application.
    #[must_use]
    pub fn extra(mut self, key: impl Into<String>, value: JsonObject) -> Self {
        self.content.custom_json_key = Some(key.into());
        self.content.custom_json_value = Some(value);
        self
    }

    /// Title and sound on Android; what is `None` takes its default.
    #[must_use]
    pub fn android_settings(mut self, settings: AndroidSettings) -> Self {
        self.content.android_settings = Some(settings);
        self
    }

    /// Number on the app icon and sound on iOS; `default` is the regular sound.
    #[must_use]
    pub fn ios_settings(mut self, badge: u32, sound: impl Into<String>) -> Self {
        self.content.ios_settings = Some(IosSettings { badge: Some(badge), sound: sound.into() });
        self
    }

    /// Adds a button on Web Push; there can be two.
    ///
    /// ```
    /// use notify_core::{CreateNotification, Platform, Request, Timestamp, WebPushAction};
    ///
    /// let reply = WebPushAction { title: "Reply".into(), ..Default::default() };
    /// let open = WebPushAction {
    ///     title: "Open".into(),
    ///     url: Some("https://example.com/inbox".into()),
    ///     ..Default::default()
    /// };
    /// let notification = CreateNotification::to_platforms([Platform::Web], "New mail")
    ///     .web_push_action(reply)
    ///     .web_push_action(open);
    /// assert!(notification.validate(Timestamp(0)).is_ok());
    /// ```
    #[must_use]
    pub fn web_push_action(mut self, action: WebPushAction) -> Self {
        let settings = self.content.web_push_settings.get_or_insert_default();
        settings.actions.push(action);
        self
    }

    /// Text of the button on Messenger and in the chat app.
    #[must_use]
    pub fn view_button(mut self, text: impl Into<String>) -> Self {
        let settings = MessengerSettings { view_button: Some(text.into()) };
        self.content.social_messenger_settings = Some(settings);
        self
    }

    /// Raw payload on Android; overrides every other setting there.
    #[must_use]
    pub fn android_json(mut self, payload: JsonObject) -> Self {
        self.content.android_json = Some(payload);
        self
    }

    /// Raw payload on iOS; overrides every other setting there.
    #[must_use]
    pub fn ios_json(mut self, payload: JsonObject) -> Self {
        self.content.ios_json = Some(payload);
        self
    }

    /// When to send; in the past means now.
    #[must_use]
    pub fn send_at(mut self, at: Timestamp) -> Self {
        self.send_at = Some(at.as_ms());
        self
    }

    /// At which wall-clock time of each device to send, as `YYYY-MM-DDTHH:MM`; not with
    /// [`send_at`](Self::send_at).
    #[must_use]
    pub fn send_at_local(mut self, wall_clock: impl Into<String>) -> Self {
        self.send_at_local = Some(wall_clock.into());
        self
    }

    /// How long a delivery is worth trying, in seconds.
    #[must_use]
    pub fn ttl_seconds(mut self, seconds: u32) -> Self {
        self.ttl_seconds = Some(seconds);
        self
    }

    /// How soon the provider should deliver it.
    #[must_use]
    pub fn priority(mut self, priority: Priority) -> Self {
        self.priority = Some(priority.as_str().to_owned());
        self
    }

    /// Notifications of one key replace each other on the device.
    #[must_use]
    pub fn collapse_key(mut self, key: impl Into<String>) -> Self {
        self.collapse_key = Some(key.into());
        self
    }
}

impl ReportNotification {
    /// A message that the caller delivers by its own means, under its own id.
    ///
    /// ```
    /// use notify_core::{Platform, ReportNotification, Request, Timestamp};
    ///
    /// let mut report = ReportNotification::new("issue-5", [Platform::Ios], "The May issue is out");
    /// report.content.campaign_id = Some("default".into());
    /// assert!(report.validate(Timestamp(0)).is_ok());
    /// ```
    #[must_use]
    pub fn new(
        id: impl Into<String>,
        platforms: impl IntoIterator<Item = Platform>,
        text: impl Into<String>,
    ) -> Self {
        Self {
            id: id.into(),
            text: Some(text.into()),
            platforms: Some(words(platforms)),
            content: NotificationContent::default(),
        }
    }
}

fn words(platforms: impl IntoIterator<Item = Platform>) -> Vec<String> {
    platforms.into_iter().map(|platform| platform.as_str().to_owned()).collect()
}
