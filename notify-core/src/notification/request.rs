//! Bodies of `POST /v1/notifications` and `POST /v1/notifications/notify`.

use super::kinds::{
    AndroidJson, CollapseKey, ExtraKey, IosJson, PlatformsUnlessIds, ReportId, SendAt, SendAtLocal,
};
use super::language::TranslationsByLanguage;
use super::valid::CampaignRef;
use crate::field::{
    AnyObject, Flag, HttpUrl, Id, IgnoredByPolls, InMessage, Integer, List, NameOf, Nested,
    Required, Text, Uri, Visible,
};
use crate::json::JsonObject;
use crate::notification::{
    AndroidOptions, Canary, IosOptions, NotificationTranslations, PER_MINUTE_MAX, Priority,
    TITLE_CHARS_MAX, Translation, WebOptions,
};
use crate::platform::Platforms;
use crate::request::model;
use crate::segment::WithSegments;
use crate::tag::TagName;
use crate::{Audience, CreatePoll, DeviceId, Platform, Timestamp, USER_IDS_MAX, UserId};

/// Most device ids in one list, duplicates included.
pub const DEVICE_IDS_MAX: usize = 1_000;
/// Most elements of `tags`.
pub const TAGS_MAX: usize = 1;
/// Fewest web push actions.
pub const WEB_PUSH_ACTIONS_MIN: usize = 1;
/// Most web push actions.
pub const WEB_PUSH_ACTIONS_MAX: usize = 2;
/// Largest `ttl_seconds`, and its default: 28 days.
pub const TTL_SECONDS_MAX: u32 = 2_419_200;
/// How far ahead a notification can be scheduled, in days.
pub const SCHEDULE_AHEAD_DAYS_MAX: i64 = 366;
/// Longest `collapse_key`, in characters.
pub const COLLAPSE_KEY_CHARS_MAX: usize = 64;

model! {
    /// Body of `POST /v1/notifications`. The target is either `platforms`, or one or more lists of device
    /// ids, or a list of user ids.
    #[derive(Debug, Clone, Default, PartialEq)]
    pub struct CreateNotification with CreateNotificationFields {
        /// Main text; required unless the notification is a poll.
        pub text: Option<String> as IgnoredByPolls<Visible>,
        /// All devices of these platforms; at least one platform. Ignored when device ids are given. With
        /// user ids, only their devices of these platforms.
        pub platforms: Option<Vec<String>> as PlatformsUnlessIds,
        /// Ids of Android devices; 1 to 1,000.
        pub android_device_ids: Option<Vec<String>> as List<Id<DeviceId>, 0, DEVICE_IDS_MAX>,
        /// Ids of iOS devices; 1 to 1,000.
        pub ios_device_ids: Option<Vec<String>> as List<Id<DeviceId>, 0, DEVICE_IDS_MAX>,
        /// Ids of devices of any platform; 1 to 1,000.
        pub device_ids: Option<Vec<String>> as List<Id<DeviceId>, 0, DEVICE_IDS_MAX>,
        /// Ids of users, whose devices receive it; 1 to 1,000. Not with device ids. `platforms` may then be
        /// absent; otherwise, only devices of these platforms receive it.
        pub user_ids: Option<Vec<String>> as List<Id<UserId>, 0, USER_IDS_MAX>,
        /// Only devices that meet this condition.
        pub audience: Option<Audience> as WithSegments,
        /// When to send, unix ms; at most 366 days ahead. A time in the past means now, and one before
        /// September 2001 is refused, because it is probably in seconds.
        pub send_at: Option<Timestamp> as SendAt,
        /// Local time of each device at which to send, `YYYY-MM-DDTHH:MM`; not with `send_at`.
        pub send_at_local: Option<String> as SendAtLocal,
        /// How long delivery is attempted after the notification is due, in seconds; 28 days when absent,
        /// 0 for a single attempt.
        pub ttl_seconds: Option<u32> as Integer<0, TTL_SECONDS_MAX>,
        /// `high` or `normal`; `high` when absent.
        pub priority: Option<String> as NameOf<Priority>,
        /// Notifications with the same key replace each other on the device; 1 to 64 visible ASCII
        /// characters.
        pub collapse_key: Option<String> as CollapseKey,
        /// Wakes the app with `url`, `campaign_id` or extra data, and shows nothing; on Android and iOS
        /// alone. Not with a text or anything else that shows.
        pub silent: Option<bool> as Flag,
        /// Whether `{{name|default}}` in texts and titles becomes the attribute `name` of the device or its
        /// user. Braces are text otherwise.
        pub personalize: Option<bool> as Flag,
        /// Most first attempts per minute, over all platforms and servers, 1 to 1,000,000; unlimited when
        /// absent. A twelfth more may fall into a single minute.
        pub per_minute: Option<u32> as Integer<1, PER_MINUTE_MAX>,
        /// A share of the devices that gets the notification first; not with `send_at_local`.
        pub canary: Option<Canary> as Nested<Canary>,
    }
    flatten {
        /// The fields that a report has too.
        pub content: NotificationContent,
    }
}

model! {
    /// Body of `POST /v1/notifications/notify`.
    #[derive(Debug, Clone, Default, PartialEq)]
    pub struct ReportNotification with ReportNotificationFields {
        /// Id, chosen by the caller; unique within the application.
        pub id: String as Id<ReportId>,
        /// Main text; required unless the notification is a poll.
        pub text: Option<String> as IgnoredByPolls<Visible>,
        /// At least one platform. Required.
        pub platforms: Option<Vec<String>> as Required<Platforms>,
    }
    flatten {
        /// The fields that a created notification has too.
        pub content: NotificationContent,
    }
}

model! {
    /// The fields that a created and a reported notification share, except `text` and `platforms`.
    #[derive(Debug, Clone, Default, PartialEq)]
    pub struct NotificationContent with ContentFields {
        /// Only devices that have this tag set to true; at most one element.
        pub tags: Option<Vec<String>> as List<TagName, 0, TAGS_MAX>,
        /// Another name of `tags`; not with `tags`.
        pub topics: Option<Vec<String>> as List<TagName, 0, TAGS_MAX>,
        /// Title, 1 to 255 characters; the name of the application when absent. The title of
        /// `android_settings` replaces it on Android.
        pub title: Option<String> as IgnoredByPolls<Visible<TITLE_CHARS_MAX>>,
        /// What the notification says in other languages. A device gets its own.
        pub translations: Option<NotificationTranslations> as IgnoredByPolls<TranslationsByLanguage>,
        /// What a click opens: any absolute url, including custom schemes.
        pub url: Option<String> as IgnoredByPolls<InMessage<Uri>>,
        /// Url of the image shown in the notification.
        pub image_url: Option<String> as IgnoredByPolls<InMessage<HttpUrl>>,
        /// Id of the campaign to attach, or `default` for the default one.
        pub campaign_id: Option<String> as IgnoredByPolls<Id<CampaignRef>>,
        /// Key of extra data for the app; required with `custom_json_value`.
        pub custom_json_key: Option<String> as IgnoredByPolls<ExtraKey>,
        /// Extra data for the app; required with `custom_json_key`.
        pub custom_json_value: Option<JsonObject> as IgnoredByPolls<AnyObject>,
        /// Raw payload on Android, sent as `data`; replaces all other settings there.
        pub android_json: Option<JsonObject> as IgnoredByPolls<AndroidJson>,
        /// Raw payload on iOS; replaces all other settings there. Its `aps` requires `alert`, `badge` and
        /// `sound`.
        pub ios_json: Option<JsonObject> as IgnoredByPolls<IosJson>,
        /// Settings on Android.
        pub android_settings: Option<AndroidSettings> as IgnoredByPolls<Nested<AndroidSettings>>,
        /// Settings on iOS.
        pub ios_settings: Option<IosSettings> as IgnoredByPolls<Nested<IosSettings>>,
        /// Settings on Web Push.
        pub web_push_settings: Option<WebPushSettings> as IgnoredByPolls<Nested<WebPushSettings>>,
        /// Settings on Messenger.
        pub social_messenger_settings: Option<MessengerSettings>
            as IgnoredByPolls<Nested<MessengerSettings>>,
        /// How iOS shows the notification.
        pub ios_options: Option<IosOptions> as IgnoredByPolls<Nested<IosOptions>>,
        /// How Android shows the notification.
        pub android_options: Option<AndroidOptions> as IgnoredByPolls<Nested<AndroidOptions>>,
        /// How a browser shows the notification.
        pub web_options: Option<WebOptions> as IgnoredByPolls<Nested<WebOptions>>,
        /// Makes the notification a poll; most other settings are ignored then.
        pub poll: Option<CreatePoll> as Nested<CreatePoll>,
    }
}

model! {
    /// Settings on Android.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub struct AndroidSettings with AndroidSettingsFields {
        /// Title; the name of the application when absent.
        pub title: Option<String> as Visible,
        /// Name of a sound file in the app's `raw` resources.
        pub sound: Option<String> as Text,
    }
}

model! {
    /// Settings on iOS.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub struct IosSettings with IosSettingsFields {
        /// Number shown on the app icon. Required.
        pub badge: Option<u32> as Required<Integer<0, { u32::MAX }>>,
        /// Name of a sound file, or `default`. Required.
        pub sound: String as Visible,
    }
}

model! {
    /// Settings on Web Push.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub struct WebPushSettings with WebPushSettingsFields {
        /// 1 to 2 action buttons.
        pub actions: Vec<WebPushAction>
            as List<Nested<WebPushAction>, WEB_PUSH_ACTIONS_MIN, WEB_PUSH_ACTIONS_MAX>,
    }
}

model! {
    /// An action button on Web Push.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub struct WebPushAction with WebPushActionFields {
        /// Title.
        pub title: String as Visible,
        /// Url of the icon.
        pub icon: Option<String> as InMessage<HttpUrl>,
        /// Identifies the button; unique within the notification. Generated when absent.
        pub action: Option<String> as Text,
        /// Url that a click opens.
        pub url: Option<String> as InMessage<Uri>,
    }
}

model! {
    /// Settings on Messenger.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub struct MessengerSettings with MessengerSettingsFields {
        /// Label of the button that opens `url`; `View` when absent.
        pub view_button: Option<String> as Visible,
    }
}

/// The list of device ids is empty. Such a notification would have no target, and it must not be sent
/// to all devices instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no device ids: the notification would reach no device")]
pub struct NoDeviceIds;

/// The list of user ids is empty. Such a notification would have no target, and it must not be sent to all
/// devices instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no user ids: the notification would reach no device")]
pub struct NoUserIds;

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
        Self { text: Some(text.into()), ..Self::for_platforms(platforms) }
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
    /// let none: Vec<String> = Vec::new();
    /// let refused = CreateNotification::to_devices(none, [], "Hello");
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

    /// A message to these devices of any platform, including browsers, Messenger and the chat app.
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
    /// let none: Vec<String> = Vec::new();
    /// assert_eq!(CreateNotification::to_any_devices(none, "Hello"), Err(NoDeviceIds));
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

    /// A message to the devices of these users, on every platform.
    ///
    /// # Errors
    /// When the list is empty.
    ///
    /// ```
    /// use notify_core::{CreateNotification, NoUserIds, Platform};
    ///
    /// let shipped = CreateNotification::to_users(["user-7"], "Your order is on its way")?
    ///     .on_platforms([Platform::Android, Platform::Ios]);
    /// assert_eq!(shipped.user_ids.unwrap().len(), 1);
    ///
    /// let no_ids: Vec<String> = Vec::new();
    /// assert_eq!(CreateNotification::to_users(no_ids, "Hello"), Err(NoUserIds));
    /// # Ok::<(), NoUserIds>(())
    /// ```
    pub fn to_users<I: Into<String>>(
        ids: impl IntoIterator<Item = I>,
        text: impl Into<String>,
    ) -> Result<Self, NoUserIds> {
        let ids: Vec<String> = ids.into_iter().map(Into::into).collect();
        if ids.is_empty() {
            return Err(NoUserIds);
        }
        Ok(Self { text: Some(text.into()), user_ids: Some(ids), ..Self::default() })
    }

    /// A silent notification to every device of these platforms: it wakes the app and shows nothing. It
    /// needs a url, a campaign or extra data, and goes only to Android and iOS. Use
    /// [`silent`](Self::silent) for other targets.
    ///
    /// ```
    /// use notify_core::{CreateNotification, Platform, Request, Timestamp, json::JsonObject};
    ///
    /// let changed = JsonObject::new(r#"{"inbox": 7}"#)?;
    /// let refresh = CreateNotification::silent_to_platforms([Platform::Android, Platform::Ios])
    ///     .extra("changed", changed);
    /// assert!(refresh.validate(Timestamp(0)).is_ok());
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    #[must_use]
    pub fn silent_to_platforms(platforms: impl IntoIterator<Item = Platform>) -> Self {
        Self::for_platforms(platforms).silent()
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
        let mut notification = Self::for_platforms(platforms);
        notification.content.poll = Some(poll);
        notification
    }

    fn for_platforms(platforms: impl IntoIterator<Item = Platform>) -> Self {
        Self { platforms: Some(names(platforms)), ..Self::default() }
    }

    /// Of the devices of users, only those of these platforms; at least one platform.
    #[must_use]
    pub fn on_platforms(mut self, platforms: impl IntoIterator<Item = Platform>) -> Self {
        self.platforms = Some(names(platforms));
        self
    }

    /// Replaces `{{name|default}}` in texts and titles with the attribute of each device.
    ///
    /// ```
    /// use notify_core::{CreateNotification, Platform, Request, Timestamp};
    ///
    /// let notification =
    ///     CreateNotification::to_platforms([Platform::Ios], "Hello {{first_name|there}}!").personalize();
    /// assert!(notification.validate(Timestamp(0)).is_ok());
    /// ```
    #[must_use]
    pub fn personalize(mut self) -> Self {
        self.personalize = Some(true);
        self
    }

    /// Makes the notification silent: it wakes the app and shows nothing. Removes the text.
    #[must_use]
    pub fn silent(mut self) -> Self {
        self.text = None;
        self.silent = Some(true);
        self
    }

    /// Only devices that meet this condition.
    ///
    /// ```
    /// use notify_core::{Audience, CreateNotification, Platform, Request, Timestamp};
    ///
    /// let notification = CreateNotification::to_platforms([Platform::Ios], "We miss you")
    ///     .audience(Audience::last_active_at().within_days(30).negate());
    /// assert!(notification.validate(Timestamp(0)).is_ok());
    /// ```
    #[must_use]
    pub fn audience(mut self, audience: Audience) -> Self {
        self.audience = Some(audience);
        self
    }

    /// Title; the name of the application when absent.
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.content.title = Some(title.into());
        self
    }

    /// What the notification says to devices with this language, such as `de` or `pt-BR`.
    ///
    /// ```
    /// use notify_core::{CreateNotification, Platform, Request, Timestamp, Translation};
    ///
    /// let notification = CreateNotification::to_platforms([Platform::Ios], "Dinner is ready")
    ///     .title("Kitchen")
    ///     .translation("de", Translation::text("Das Essen ist fertig").titled("Küche"));
    /// assert!(notification.validate(Timestamp(0)).is_ok());
    /// ```
    #[must_use]
    pub fn translation(mut self, language: impl Into<String>, translation: Translation) -> Self {
        let translations = self.content.translations.get_or_insert_default();
        translations.0.insert(language.into(), Some(translation));
        self
    }

    /// Only devices that have this tag set to true.
    #[must_use]
    pub fn tag(mut self, name: impl Into<String>) -> Self {
        self.content.tags = Some(vec![name.into()]);
        self
    }

    /// Sets what a click opens: any absolute url, including custom schemes.
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

    /// Title and sound on Android.
    #[must_use]
    pub fn android_settings(mut self, settings: AndroidSettings) -> Self {
        self.content.android_settings = Some(settings);
        self
    }

    /// Number on the app icon and sound on iOS; `default` is the default sound.
    #[must_use]
    pub fn ios_settings(mut self, badge: u32, sound: impl Into<String>) -> Self {
        self.content.ios_settings = Some(IosSettings { badge: Some(badge), sound: sound.into() });
        self
    }

    /// Adds an action button on Web Push; at most two.
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

    /// Label of the button on Messenger and the chat app that opens the url.
    #[must_use]
    pub fn view_button(mut self, text: impl Into<String>) -> Self {
        let settings = MessengerSettings { view_button: Some(text.into()) };
        self.content.social_messenger_settings = Some(settings);
        self
    }

    /// How iOS shows the notification.
    ///
    /// ```
    /// use notify_core::{CreateNotification, InterruptionLevel, IosOptions, Platform, Request, Timestamp};
    ///
    /// let notification = CreateNotification::to_platforms([Platform::Ios], "Your taxi is here")
    ///     .ios_options(IosOptions {
    ///         subtitle: Some("At the main entrance".into()),
    ///         interruption_level: Some(InterruptionLevel::TimeSensitive.to_string()),
    ///         ..IosOptions::default()
    ///     });
    /// assert!(notification.validate(Timestamp(0)).is_ok());
    /// ```
    #[must_use]
    pub fn ios_options(mut self, options: IosOptions) -> Self {
        self.content.ios_options = Some(options);
        self
    }

    /// How Android shows the notification.
    #[must_use]
    pub fn android_options(mut self, options: AndroidOptions) -> Self {
        self.content.android_options = Some(options);
        self
    }

    /// How a browser shows the notification.
    #[must_use]
    pub fn web_options(mut self, options: WebOptions) -> Self {
        self.content.web_options = Some(options);
        self
    }

    /// Raw payload on Android; replaces all other settings there.
    #[must_use]
    pub fn android_json(mut self, payload: JsonObject) -> Self {
        self.content.android_json = Some(payload);
        self
    }

    /// Raw payload on iOS; replaces all other settings there.
    #[must_use]
    pub fn ios_json(mut self, payload: JsonObject) -> Self {
        self.content.ios_json = Some(payload);
        self
    }

    /// When to send; a time in the past means now.
    #[must_use]
    pub fn send_at(mut self, at: Timestamp) -> Self {
        self.send_at = Some(at);
        self
    }

    /// Local time of each device at which to send, as `YYYY-MM-DDTHH:MM`; not with
    /// [`send_at`](Self::send_at).
    #[must_use]
    pub fn send_at_local(mut self, wall_clock: impl Into<String>) -> Self {
        self.send_at_local = Some(wall_clock.into());
        self
    }

    /// How long delivery is attempted after the notification is due, in seconds; 0 for a single attempt.
    #[must_use]
    pub fn ttl_seconds(mut self, seconds: u32) -> Self {
        self.ttl_seconds = Some(seconds);
        self
    }

    /// Priority at the provider.
    #[must_use]
    pub fn priority(mut self, priority: Priority) -> Self {
        self.priority = Some(priority.to_string());
        self
    }

    /// Notifications with the same key replace each other on the device.
    #[must_use]
    pub fn collapse_key(mut self, key: impl Into<String>) -> Self {
        self.collapse_key = Some(key.into());
        self
    }
}

impl ReportNotification {
    /// Reports a message that the caller delivers by other means, under an id of the caller's choice.
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
            platforms: Some(names(platforms)),
            content: NotificationContent::default(),
        }
    }
}

fn names(platforms: impl IntoIterator<Item = Platform>) -> Vec<String> {
    platforms.into_iter().map(|platform| platform.to_string()).collect()
}
