//! Building notifications in code, so that the common things are one line and the accident of an
//! empty list of devices is an error where it happens.

use super::{
    AndroidSettings, CreateNotification, IosSettings, MessengerSettings, NotificationContent,
    Priority, ReportNotification, WebPushAction,
};
use crate::{CreatePoll, Platform, Timestamp, json::JsonObject};

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
