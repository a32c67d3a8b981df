//! Validated forms of notifications, which the server delivers, and the rules of notifications.

use std::collections::HashSet;
use std::num::NonZeroU32;

use super::{
    AndroidPresentation, AndroidSettings, AndroidSettingsFields, ContentFields, CreateNotification,
    CreateNotificationFields, IosPresentation, IosSettings, IosSettingsFields, Localized,
    MessengerSettings, NotificationContent, ReportNotification, ReportNotificationFields,
    TTL_SECONDS_MAX, WebPresentation, WebPushAction, WebPushActionFields, WebPushSettings,
};
use super::{CanaryPlan, kinds::ReportId, silent, variables};
use crate::field::{Kind, Model, ModelFields, without_duplicates};
use crate::json::{BodyPresence, JsonObject};
use crate::platform::Platforms;
use crate::request::{parse, request};
#[cfg(feature = "openapi")]
use crate::schema::Together;
use crate::violations::{Path, REQUIRED, Validator};
use crate::wire_enum::wire_enum;
use crate::{
    Audience, CampaignId, Condition, DeviceId, NewPoll, NotificationId, Platform, Timestamp,
    UserId, Violations, is_blank,
};

/// The validated form of [`crate::CreateNotification`].
#[derive(Debug, Clone, PartialEq)]
pub struct Notification {
    /// Which devices receive it.
    pub recipients: Recipients,
    /// The content that these devices receive.
    pub content: Content,
    /// When it is due.
    pub schedule: Schedule,
    /// `send_at`, if it had passed at the time of validation: the notification is due now.
    pub passed_send_at: Option<Timestamp>,
    /// How long delivery is attempted after the notification is due, in seconds; 0 for a single attempt.
    pub ttl_seconds: u32,
    /// Priority at the provider.
    pub priority: Priority,
    /// Notifications with the same key replace each other on the device.
    pub collapse_key: Option<String>,
    /// Most first attempts per minute; unlimited when absent.
    pub per_minute: Option<NonZeroU32>,
    /// A share of the devices that gets the notification first.
    pub canary: Option<CanaryPlan>,
}

/// The validated form of [`crate::ReportNotification`].
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// Id, chosen by the caller.
    pub id: NotificationId,
    /// Platforms that it was sent to; not empty, without duplicates.
    pub platforms: Vec<Platform>,
    /// Tag of the devices that it was sent to.
    pub tag: Option<String>,
    /// The content that was sent.
    pub content: Content,
}

/// The devices that receive a notification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recipients {
    /// Devices, users or platforms.
    pub target: Target,
    /// Only devices that have this tag set to true.
    pub tag: Option<String>,
    /// Only devices that meet this condition. It satisfies every rule, except that it can name segments;
    /// [`Recipients::condition`] replaces them.
    pub audience: Option<Audience>,
}

impl Recipients {
    /// The condition with the conditions of its segments; `None` if there is no condition.
    ///
    /// # Errors
    /// When `lookup` does not know a segment, or the condition is too large with its segments.
    pub fn condition(
        &self,
        lookup: &impl Fn(&str) -> Option<Audience>,
    ) -> Result<Option<Condition>, Violations> {
        self.audience.as_ref().map(|audience| audience.resolve(lookup)).transpose()
    }
}

/// The target of a notification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// Devices by id: at least one in total, no id twice.
    Devices {
        /// Android devices.
        android: Vec<DeviceId>,
        /// iOS devices.
        ios: Vec<DeviceId>,
        /// Devices of any platform.
        any: Vec<DeviceId>,
    },
    /// The devices of these users; at least one user, no id twice.
    Users {
        /// Ids of the users.
        ids: Vec<UserId>,
        /// Only devices of these platforms; at least one platform, without duplicates.
        platforms: Vec<Platform>,
    },
    /// All devices of these platforms; at least one platform, without duplicates.
    Platforms(Vec<Platform>),
}

impl Target {
    /// The platforms of the target. The platforms of the devices in `any` are missing, because they are
    /// known only after a lookup of the ids.
    #[must_use]
    pub fn platforms(&self) -> Vec<Platform> {
        match self {
            Self::Platforms(platforms) | Self::Users { platforms, ids: _ } => platforms.clone(),
            Self::Devices { android, ios, any: _ } => {
                let mut platforms = Vec::new();
                if !android.is_empty() {
                    platforms.push(Platform::Android);
                }
                if !ios.is_empty() {
                    platforms.push(Platform::Ios);
                }
                platforms
            }
        }
    }
}

/// The content of a notification.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// A message.
    Message(Box<Message>),
    /// A poll.
    Poll(NewPoll),
}

impl Content {
    /// The raw payload that replaces all other settings on Android.
    #[must_use]
    pub fn android_json(&self) -> Option<&JsonObject> {
        match self {
            Self::Message(message) => message.android_json.as_ref(),
            Self::Poll(_) => None,
        }
    }

    /// The raw payload that replaces all other settings on iOS.
    #[must_use]
    pub fn ios_json(&self) -> Option<&JsonObject> {
        match self {
            Self::Message(message) => message.ios_json.as_ref(),
            Self::Poll(_) => None,
        }
    }

    /// Whether it wakes the app and shows nothing.
    #[must_use]
    pub fn is_silent(&self) -> bool {
        match self {
            Self::Message(message) => message.is_silent,
            Self::Poll(_) => false,
        }
    }

    /// The campaign attached to the notification.
    #[must_use]
    pub fn campaign(&self) -> Option<CampaignRef> {
        match self {
            Self::Message(message) => message.campaign,
            Self::Poll(_) => None,
        }
    }

    /// The id of the campaign, unless it is the default campaign, which can change.
    #[must_use]
    pub fn campaign_id(&self) -> Option<&CampaignId> {
        let Self::Message(message) = self else { return None };
        match &message.campaign {
            Some(CampaignRef::Id(id)) => Some(id),
            Some(CampaignRef::Default) | None => None,
        }
    }
}

/// The message of a notification.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Message {
    /// Main text; empty only if the message is silent.
    pub text: String,
    /// Title; the name of the application when absent.
    pub title: Option<String>,
    /// What it says in other languages; no language twice.
    pub translations: Vec<Localized>,
    /// What a click opens: an absolute url of any scheme.
    pub url: Option<String>,
    /// Url of an image.
    pub image_url: Option<String>,
    /// Campaign to attach.
    pub campaign: Option<CampaignRef>,
    /// Extra data for the app.
    pub extra: Option<Extra>,
    /// Raw payload on Android.
    pub android_json: Option<JsonObject>,
    /// Raw payload on iOS; its `aps` has `alert`, `badge` and `sound`.
    pub ios_json: Option<JsonObject>,
    /// Title on Android, which replaces `title` there.
    pub android_title: Option<String>,
    /// Sound on Android.
    pub android_sound: Option<String>,
    /// Badge and sound on iOS.
    pub ios_alert: Option<IosAlert>,
    /// Action buttons on Web Push; at most two.
    pub web_push_actions: Vec<ActionButton>,
    /// Label of the button on Messenger and the chat app that opens the url; `View` when absent.
    pub view_button: Option<String>,
    /// Whether it wakes the app and shows nothing; only on Android and iOS.
    pub is_silent: bool,
    /// Whether its texts and titles are templates with variables.
    pub is_personal: bool,
    /// How iOS shows it.
    pub ios: IosPresentation,
    /// How Android shows it.
    pub android: AndroidPresentation,
    /// How a browser shows it.
    pub web: WebPresentation,
}

/// Badge and sound on iOS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IosAlert {
    /// Number shown on the app icon.
    pub badge: u32,
    /// Name of a sound file, or `default`.
    pub sound: String,
}

/// An action button on Web Push.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActionButton {
    /// Title.
    pub title: String,
    /// Url of the icon.
    pub icon: Option<String>,
    /// Identifies the button; unique within the notification.
    pub action: String,
    /// Url that a click opens.
    pub url: Option<String>,
}

/// Extra data for the app.
#[derive(Debug, Clone, PartialEq)]
pub struct Extra {
    /// Key, in addition to those of the server.
    pub key: String,
    /// Value, as the caller wrote it.
    pub value: JsonObject,
}

/// The campaign of a notification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CampaignRef {
    /// The default campaign at the time when a device requests the enrichment.
    Default,
    /// The campaign with this id.
    Id(CampaignId),
}

impl std::fmt::Display for CampaignRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::Id(id) => id.fmt(f),
        }
    }
}

/// When a notification is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Schedule {
    /// Immediately.
    Now,
    /// At this instant.
    At(Timestamp),
    /// At this local time of each device.
    Local(LocalTime),
}

/// A date and time without a time zone: unix ms as if it were UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct LocalTime(pub i64);

wire_enum! {
    /// Priority at the provider.
    #[derive(Default)]
    pub enum Priority {
        /// Deliver immediately and wake the device.
        #[default]
        High = "high",
        /// Deliver when it suits the device's power management.
        Normal = "normal",
    }
}

request!(CreateNotification => Notification, BodyPresence::Required);
request!(ReportNotification => Report, BodyPresence::Required);

impl CreateNotification {
    /// Parses a request that the server accepted earlier. The lengths of texts are not checked: an older
    /// version with larger limits may have accepted the request, and it must still be delivered. A list of
    /// ids may be empty, because the ids of erased devices and users are removed from it.
    ///
    /// # Errors
    /// Every other violation.
    pub fn parse_accepted(body: &[u8], now: Timestamp) -> Result<Notification, Violations> {
        let rules = Validator::at(now).for_accepted();
        parse::<Self>(rules, body, BodyPresence::Required)
    }
}

impl Model for CreateNotification {
    type Valid = Notification;

    fn check(&self, at: &Path<'_>, validator: &mut Validator) -> Option<Notification> {
        let is_poll = self.content.poll.is_some();
        let is_silent = self.silent == Some(true);
        let fields = if is_poll && self.text.is_some() {
            Self { text: None, ..self.clone() }.check_fields(at, validator)
        } else {
            self.check_fields(at, validator)
        };
        let platforms = self.check_target(is_silent, at, validator);
        if is_silent {
            silent::check(self.text.as_deref(), &self.content, validator);
        }
        let content = self.content.check(at, validator);
        if !is_silent && !is_poll && self.text.as_deref().is_none_or(is_blank) {
            validator.violation(&at.field("text"), REQUIRED);
        }
        let has_local_time = self.send_at_local.as_ref().is_some_and(|text| !text.is_empty());
        if has_local_time && self.send_at.is_some() {
            let what = "must not be combined with send_at";
            validator.violation(&at.field("send_at_local"), what);
        }
        if has_local_time && self.canary.is_some() {
            let what = "must not be combined with send_at_local";
            validator.violation(&at.field("canary"), what);
        }
        let now = validator.now();
        let (tag, mut content) = content?;
        content = content.with_text(self.text.clone().filter(|text| !is_blank(text)), is_silent);
        if let (Some(true), Content::Message(message)) = (self.personalize, &mut content) {
            message.is_personal = true;
            variables::check(message, validator);
        }
        let mut fields = fields?;
        let schedule = match (fields.send_at_local, fields.send_at) {
            (Some(local), _) => Schedule::Local(local),
            (None, Some(at)) if at > now => Schedule::At(at),
            (None, _) => Schedule::Now,
        };
        let passed_send_at = fields.send_at.filter(|at| *at <= now);
        Some(Notification {
            content,
            schedule,
            passed_send_at,
            ttl_seconds: fields.ttl_seconds.unwrap_or(TTL_SECONDS_MAX),
            priority: fields.priority.unwrap_or_default(),
            collapse_key: fields.collapse_key.take(),
            per_minute: fields.per_minute.and_then(NonZeroU32::new),
            canary: fields.canary,
            recipients: Recipients {
                tag,
                audience: fields.audience.take(),
                target: fields.target(platforms),
            },
        })
    }

    #[cfg(feature = "openapi")]
    fn together() -> Together {
        super::schema::created()
    }
}

/// The violation for a list of ids that is given and empty.
const EMPTY_IDS: &str = "must hold at least 1 id when it is given";

impl CreateNotification {
    /// Checks that there is one target: device ids, users or platforms. Returns the platforms, unless device
    /// ids are the target.
    fn check_target(
        &self,
        is_silent: bool,
        at: &Path<'_>,
        validator: &mut Validator,
    ) -> Vec<Platform> {
        let lists = [
            ("android_device_ids", &self.android_device_ids),
            ("ios_device_ids", &self.ios_device_ids),
            ("device_ids", &self.device_ids),
        ];
        let has_device_ids =
            lists.iter().any(|(_, ids)| ids.as_ref().is_some_and(|ids| !ids.is_empty()));
        if has_device_ids && self.user_ids.as_ref().is_some_and(|ids| !ids.is_empty()) {
            let what = "must not be combined with device ids";
            validator.violation(&at.field("user_ids"), what);
        }
        // An empty list often comes from a mistake of the caller. It must not target all devices.
        let unused_lists = lists.into_iter().filter(|_| !has_device_ids);
        let lists_in_use = unused_lists.chain([("user_ids", &self.user_ids)]);
        let mut has_empty_list = false;
        for (name, _) in lists_in_use.filter(|(_, ids)| ids.as_ref().is_some_and(Vec::is_empty)) {
            has_empty_list = true;
            if !validator.is_for_accepted() {
                validator.violation(&at.field(name), EMPTY_IDS);
            }
        }
        if has_device_ids {
            return Vec::new();
        }
        let platforms = match &self.platforms {
            Some(platforms) => platforms,
            None if self.user_ids.is_some() && is_silent => return silent::PLATFORMS.to_vec(),
            None if self.user_ids.is_some() => return Platform::ALL.to_vec(),
            None => &Vec::new(),
        };
        // The devices of an accepted request were all erased. A new request has its violation already.
        let is_checked = !platforms.is_empty() && !validator.is_for_accepted();
        if has_empty_list && self.user_ids.is_none() && !is_checked {
            return Vec::new();
        }
        if is_silent {
            silent::check_platforms(platforms, validator);
        }
        Platforms::check(platforms, &at.field("platforms"), validator).unwrap_or_default()
    }
}

impl CreateNotificationFields {
    /// The target: users or device ids if they are given, else platforms.
    fn target(self, platforms: Vec<Platform>) -> Target {
        if let Some(ids) = self.user_ids {
            return Target::Users { ids: without_duplicates(ids), platforms };
        }
        let lists = [self.android_device_ids, self.ios_device_ids, self.device_ids];
        if lists.iter().all(Option::is_none) {
            return Target::Platforms(platforms);
        }
        // Without any id, all named devices were erased. The platforms of the request are ignored then too.
        let [mut android, mut ios, any] =
            lists.map(|ids| without_duplicates(ids.unwrap_or_default()));
        // An id that is in `device_ids` and in another list counts only in `device_ids`.
        let any_ids: HashSet<&DeviceId> = any.iter().collect();
        android.retain(|id| !any_ids.contains(id));
        ios.retain(|id| !any_ids.contains(id));
        Target::Devices { android, ios, any }
    }
}

impl Model for ReportNotification {
    type Valid = Report;

    fn check(&self, at: &Path<'_>, validator: &mut Validator) -> Option<Report> {
        let is_poll = self.content.poll.is_some();
        let fields = if is_poll && self.text.is_some() {
            Self { text: None, ..self.clone() }.check_fields(at, validator)
        } else {
            self.check_fields(at, validator)
        };
        let content = self.content.check(at, validator);
        if !is_poll && self.text.as_deref().is_none_or(is_blank) {
            validator.violation(&at.field("text"), REQUIRED);
        }
        let ReportNotificationFields { id: ReportId(id), text, platforms } = fields?;
        let (tag, content) = content?;
        Some(Report { id, platforms: platforms?, tag, content: content.with_text(text, false) })
    }

    #[cfg(feature = "openapi")]
    fn together() -> Together {
        super::schema::reported()
    }
}

impl NotificationContent {
    /// Checks the content. A poll ignores all settings but the tag. Returns the tag and the content without
    /// its text.
    fn check(&self, at: &Path<'_>, validator: &mut Validator) -> Option<(Option<String>, Content)> {
        let fields = if self.poll.is_some() {
            let (tags, topics, poll) = (self.tags.clone(), self.topics.clone(), self.poll.clone());
            Self { tags, topics, poll, ..Self::default() }.check_fields(at, validator)
        } else {
            self.check_fields(at, validator)
        };
        if self.tags.is_some() && self.topics.is_some() {
            validator.violation(&at.field("topics"), "must not be combined with tags");
        }
        if self.poll.is_none() {
            let has_key = self.custom_json_key.as_ref().is_some_and(|key| !key.is_empty());
            match (has_key, self.custom_json_value.is_some()) {
                (true, false) => {
                    let what = "is required with custom_json_key";
                    validator.violation(&at.field("custom_json_value"), what);
                }
                (false, true) => {
                    let what = "is required with custom_json_value";
                    validator.violation(&at.field("custom_json_key"), what);
                }
                (true, true) | (false, false) => {}
            }
        }
        let mut fields = fields?;
        let tag = fields.tags.take().or(fields.topics.take());
        let tag = tag.and_then(|tags| tags.into_iter().next());
        let content = match fields.poll.take() {
            Some(poll) => Content::Poll(poll),
            None => Content::Message(Box::new(fields.into_message())),
        };
        Some((tag, content))
    }
}

impl ContentFields {
    fn into_message(self) -> Message {
        let android = self.android_settings;
        let (android_title, android_sound) =
            android.map_or((None, None), |settings| (settings.title, settings.sound));
        Message {
            text: String::new(),
            title: self.title,
            translations: self.translations.unwrap_or_default(),
            url: self.url,
            image_url: self.image_url,
            campaign: self.campaign_id,
            extra: self
                .custom_json_key
                .zip(self.custom_json_value)
                .map(|(key, value)| Extra { key, value }),
            android_json: self.android_json,
            ios_json: self.ios_json,
            android_title,
            android_sound,
            ios_alert: self.ios_settings,
            web_push_actions: self.web_push_settings.unwrap_or_default(),
            view_button: self.social_messenger_settings.flatten(),
            is_silent: false,
            is_personal: false,
            ios: self.ios_options.unwrap_or_default(),
            android: self.android_options.unwrap_or_default(),
            web: self.web_options.unwrap_or_default(),
        }
    }
}

impl Content {
    /// The content with the text of a message. A silent message has none.
    fn with_text(mut self, text: Option<String>, is_silent: bool) -> Self {
        if let Self::Message(message) = &mut self {
            message.text = text.unwrap_or_default();
            message.is_silent = is_silent;
        }
        self
    }
}

impl Model for AndroidSettings {
    type Valid = AndroidSettingsFields;

    fn check(&self, at: &Path<'_>, validator: &mut Validator) -> Option<AndroidSettingsFields> {
        self.check_fields(at, validator)
    }
}

impl Model for IosSettings {
    type Valid = IosAlert;

    fn check(&self, at: &Path<'_>, validator: &mut Validator) -> Option<IosAlert> {
        let IosSettingsFields { badge, sound } = self.check_fields(at, validator)?;
        Some(IosAlert { badge: badge?, sound })
    }
}

impl Model for MessengerSettings {
    type Valid = Option<String>;

    fn check(&self, at: &Path<'_>, validator: &mut Validator) -> Option<Option<String>> {
        Some(self.check_fields(at, validator)?.view_button)
    }
}

impl Model for WebPushSettings {
    type Valid = Vec<ActionButton>;

    fn check(&self, at: &Path<'_>, validator: &mut Validator) -> Option<Vec<ActionButton>> {
        let fields = self.check_fields(at, validator);
        let given = |action: &WebPushAction| action.action.clone().filter(|name| !name.is_empty());
        let mut names: Vec<String> = Vec::with_capacity(self.actions.len());
        for (index, action) in self.actions.iter().enumerate() {
            let Some(name) = given(action) else { continue };
            if names.contains(&name) {
                let at = at.field("actions");
                let what = "must not be shared by two actions";
                validator.violation(&at.index(index).field("action"), what);
            }
            names.push(name);
        }
        let actions = fields?.actions.into_iter().enumerate();
        let button = |(index, action): (usize, WebPushActionFields)| ActionButton {
            title: action.title,
            icon: action.icon,
            action: action.action.unwrap_or_else(|| unused_name(&mut names, index)),
            url: action.url,
        };
        Some(actions.map(button).collect())
    }
}

impl Model for WebPushAction {
    type Valid = WebPushActionFields;

    fn check(&self, at: &Path<'_>, validator: &mut Validator) -> Option<WebPushActionFields> {
        self.check_fields(at, validator)
    }
}

/// `action-N` with the number of the button, or the next higher number that is not used.
fn unused_name(names: &mut Vec<String>, index: usize) -> String {
    let mut number = index + 1;
    let name = loop {
        let name = format!("action-{number}");
        if !names.contains(&name) {
            break name;
        }
        number += 1;
    };
    names.push(name.clone());
    name
}
