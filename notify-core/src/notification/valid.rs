//! Validated forms of notifications, which the server delivers, and the rules of notifications.

use std::collections::HashSet;
use std::hash::Hash;
use std::num::NonZeroU32;

use jiff::civil;
use serde_json::value::RawValue;

use super::{
    AndroidPresentation, COLLAPSE_KEY_CHARS_MAX, CreateNotification, DEVICE_IDS_MAX,
    IosPresentation, IosSettings, Localized, NotificationContent, ReportNotification,
    SCHEDULE_AHEAD_DAYS_MAX, TAGS_MAX, TITLE_CHARS_MAX, TTL_SECONDS_MAX, WEB_PUSH_ACTIONS_MAX,
    WEB_PUSH_ACTIONS_MIN, WebPresentation, WebPushAction,
};
use super::{CanaryPlan, pace, silent, variables};
use crate::json::{BodyPresence, JsonObject};
use crate::request::{parse_with, request};
use crate::time::DAY_MS;
use crate::violations::{Path, REQUIRED, Validator, path};
use crate::wire_enum::wire_enum;
use crate::{
    Audience, CampaignId, Condition, DeviceId, NewPoll, NotificationId, Platform,
    RESERVED_NOTIFICATION_IDS, TAG_NAME_CHARS_MAX, Timestamp, USER_IDS_MAX, UserId, Violations,
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
        let rules = Validator::for_accepted();
        parse_with(rules, body, BodyPresence::Required, now, Self::read, Self::check)
    }

    fn check(self, now: Timestamp, validator: &mut Validator) -> Option<Notification> {
        let target = self.check_target(validator);
        let tag = self.content.check_tag(validator);
        if let Some(audience) = &self.audience {
            audience.check_unexpanded(&path("audience"), validator);
        }
        let schedule = check_schedule(self.send_at, self.send_at_local.as_deref(), now, validator);
        let ttl_seconds = self.ttl_seconds.unwrap_or(TTL_SECONDS_MAX);
        if ttl_seconds > TTL_SECONDS_MAX {
            let what = format_args!("must be at most {TTL_SECONDS_MAX}");
            validator.violation(&path("ttl_seconds"), what);
        }
        let priority = self.priority.as_deref();
        let priority = validator.optional_one_of(&path("priority"), priority).unwrap_or_default();
        let collapse_key = check_collapse_key(self.collapse_key, validator);
        pace::check_per_minute(self.per_minute, validator);
        if self.canary.is_some() && matches!(schedule, Some(Schedule::Local(_))) {
            validator.violation(&path("canary"), "must not be combined with send_at_local");
        }
        let canary = self.canary.map(|canary| canary.check(validator));
        let is_silent = self.silent == Some(true);
        if is_silent {
            silent::check(self.text.as_deref(), &self.content, validator);
        }
        let mut content = check_content(self.text, self.content, is_silent, validator);
        if let (Some(true), Some(Content::Message(message))) = (self.personalize, &mut content) {
            message.is_personal = true;
            variables::check(message, validator);
        }
        Some(Notification {
            recipients: Recipients { target: target?, tag, audience: self.audience },
            content: content?,
            schedule: schedule?,
            passed_send_at: self.send_at.map(Timestamp).filter(|at| *at <= now),
            ttl_seconds,
            priority,
            collapse_key,
            per_minute: self.per_minute.and_then(NonZeroU32::new),
            canary,
        })
    }

    /// Checks the target: users or device ids if there are any, else platforms.
    fn check_target(&self, validator: &mut Validator) -> Option<Target> {
        let lists = [
            ("android_device_ids", self.android_device_ids.as_deref()),
            ("ios_device_ids", self.ios_device_ids.as_deref()),
            ("device_ids", self.device_ids.as_deref()),
        ];
        let has_device_ids = lists.iter().any(|(_, ids)| ids.is_some_and(|ids| !ids.is_empty()));
        let users = self.check_users(has_device_ids, validator);
        if has_device_ids {
            let [mut android, mut ios, any] = lists.map(|(name, ids)| {
                let ids = ids.unwrap_or_default();
                check_ids(&path(name), ids, DEVICE_IDS_MAX, DeviceId::new, validator)
            });
            // An id that is in `device_ids` and in another list counts only in `device_ids`.
            let any_ids: HashSet<&DeviceId> = any.iter().collect();
            android.retain(|id| !any_ids.contains(id));
            ios.retain(|id| !any_ids.contains(id));
            return Some(Target::Devices { android, ios, any });
        }
        let platforms = self.platforms.as_deref();
        // Every list that is given is empty here. An empty list often comes from a mistake of the caller. It
        // must not target all devices.
        let mut empty_lists = lists.iter().filter(|(_, ids)| ids.is_some()).peekable();
        let has_empty_list = empty_lists.peek().is_some();
        if !validator.is_for_accepted() {
            for (name, _) in empty_lists {
                validator.violation(&path(name), EMPTY_IDS);
            }
        }
        let is_silent = self.silent == Some(true);
        if let Some(ids) = users {
            let platforms = match platforms {
                Some(_) => check_platforms(platforms, validator),
                None if is_silent => silent::PLATFORMS.to_vec(),
                None => Platform::ALL.to_vec(),
            };
            if is_silent {
                silent::check_platforms(self.platforms.as_deref(), validator);
            }
            return Some(Target::Users { ids, platforms });
        }
        if has_empty_list && validator.is_for_accepted() {
            // All named devices were erased. If a request names devices, its platforms are ignored.
            return Some(Target::Devices { android: Vec::new(), ios: Vec::new(), any: Vec::new() });
        }
        if has_empty_list && platforms.is_none_or(<[String]>::is_empty) {
            return None;
        }
        if is_silent {
            silent::check_platforms(platforms, validator);
        }
        Some(Target::Platforms(check_platforms(platforms, validator)))
    }
}

/// The violation for a list of ids that is given and empty.
const EMPTY_IDS: &str = "must hold at least 1 id when it is given";

impl CreateNotification {
    /// Checks the ids of users. Returns `None` when they are not given.
    fn check_users(&self, has_device_ids: bool, validator: &mut Validator) -> Option<Vec<UserId>> {
        let ids = self.user_ids.as_deref()?;
        let at = path("user_ids");
        if ids.is_empty() {
            if !validator.is_for_accepted() {
                validator.violation(&at, EMPTY_IDS);
            }
        } else if has_device_ids {
            validator.violation(&at, "must not be combined with device ids");
        }
        Some(check_ids(&at, ids, USER_IDS_MAX, UserId::new, validator))
    }
}

impl ReportNotification {
    fn check(self, _now: Timestamp, validator: &mut Validator) -> Option<Report> {
        let id = validator.id(&path("id"), &self.id, |text| {
            if RESERVED_NOTIFICATION_IDS.contains(&text) {
                return Err("must not be `notify` or `preview`");
            }
            NotificationId::new(text)
        });
        let platforms = check_platforms(self.platforms.as_deref(), validator);
        let tag = self.content.check_tag(validator);
        let content = check_content(self.text, self.content, false, validator);
        Some(Report { id: id?, platforms, tag, content: content? })
    }
}

/// Checks a list of ids. Returns the valid ids without duplicates.
fn check_ids<'t, I: Clone + Eq + Hash>(
    at: &Path<'_>,
    ids: &'t [String],
    ids_max: usize,
    parse: fn(&'t str) -> Result<I, &'static str>,
    validator: &mut Validator,
) -> Vec<I> {
    validator.max_len(at, ids.len(), ids_max, "ids");
    let mut seen = HashSet::with_capacity(ids.len());
    let mut valid = Vec::with_capacity(ids.len());
    for (index, id) in ids.iter().enumerate() {
        // Not `id`: for an empty element, "must not be empty" is clearer than "is required".
        let id = validator.optional_id(&at.index(index), Some(id.as_str()), parse);
        valid.extend(id.filter(|id| seen.insert(id.clone())));
    }
    valid
}

pub(crate) fn check_platforms(
    platforms: Option<&[String]>,
    validator: &mut Validator,
) -> Vec<Platform> {
    let at = path("platforms");
    let platforms = platforms.unwrap_or_default();
    if platforms.is_empty() {
        let names = Platform::NAMES.join(", ");
        validator.violation(&at, format_args!("must contain at least one of {names}"));
    }
    let mut valid = Vec::new();
    for (index, name) in platforms.iter().enumerate() {
        match name.parse() {
            Ok(platform) if valid.contains(&platform) => {}
            Ok(platform) => valid.push(platform),
            Err(unknown) => validator.violation(&at.index(index), unknown),
        }
    }
    valid
}

impl NotificationContent {
    /// Checks `tags`, or `topics`, which is another name of the same field. Returns the tag.
    fn check_tag(&self, validator: &mut Validator) -> Option<String> {
        let (tags, topics) = (self.tags.as_deref(), self.topics.as_deref());
        if tags.is_some() && topics.is_some() {
            validator.violation(&path("topics"), "must not be combined with tags");
        }
        let of_topics = topics.and_then(|topics| check_tag(&path("topics"), topics, validator));
        tags.and_then(|tags| check_tag(&path("tags"), tags, validator)).or(of_topics)
    }
}

/// Checks a list that has at most one tag ([`TAGS_MAX`]). Returns that tag.
fn check_tag(at: &Path<'_>, tags: &[String], validator: &mut Validator) -> Option<String> {
    validator.max_len(at, tags.len(), TAGS_MAX, "tag");
    for (index, tag) in tags.iter().enumerate() {
        if tag.is_empty() {
            validator.violation(&at.index(index), "must not be empty");
        }
        validator.text_up_to(&at.index(index), Some(tag.clone()), TAG_NAME_CHARS_MAX);
    }
    tags.first().cloned()
}

/// The earliest `send_at`, in unix milliseconds: September 2001. A smaller number is probably in seconds.
pub const SEND_AT_MS_MIN: i64 = 1_000_000_000_000;

const AHEAD_MS_MAX: i64 = SCHEDULE_AHEAD_DAYS_MAX * DAY_MS;
const TOO_FAR: &str = "must be at most 366 days ahead";

fn check_schedule(
    send_at: Option<i64>,
    send_at_local: Option<&str>,
    now: Timestamp,
    validator: &mut Validator,
) -> Option<Schedule> {
    let latest = now.plus_ms(AHEAD_MS_MAX);
    let local_text = send_at_local.filter(|text| !text.is_empty());
    let at = validator.instant(&path("send_at"), send_at);
    if at.is_some_and(|at| at > latest) {
        validator.violation(&path("send_at"), TOO_FAR);
    }
    if let Some(Timestamp(ms @ ..SEND_AT_MS_MIN)) = at
        && !validator.is_for_accepted()
    {
        let what = format_args!("must be unix milliseconds: is {ms} in seconds?");
        validator.violation(&path("send_at"), what);
    }
    let local_path = path("send_at_local");
    let local = local_text.and_then(|text| {
        let local = parse_local_time(text);
        match local {
            None => {
                validator.violation(&local_path, "must be a date and time as YYYY-MM-DDTHH:MM");
            }
            Some(local) if local.0 > latest.as_ms() => validator.violation(&local_path, TOO_FAR),
            Some(_) => {}
        }
        local
    });
    if send_at.is_some() && local_text.is_some() {
        validator.violation(&local_path, "must not be combined with send_at");
    }
    match (send_at, local_text) {
        (None, None) => Some(Schedule::Now),
        (_, Some(_)) => local.map(Schedule::Local),
        (Some(_), None) => at.map(|at| if at > now { Schedule::At(at) } else { Schedule::Now }),
    }
}

/// Parses `YYYY-MM-DDTHH:MM` and no other form; the day must exist in the calendar.
pub(crate) fn parse_local_time(text: &str) -> Option<LocalTime> {
    const FORM: &[u8] = b"0000-00-00T00:00";
    let has_form = text.len() == FORM.len()
        && text.bytes().zip(FORM).all(|(byte, form_byte)| match form_byte {
            b'0' => byte.is_ascii_digit(),
            separator => byte == *separator,
        });
    if !has_form {
        return None;
    }
    let year: i16 = text[0..4].parse().ok()?;
    let two_digits = |start: usize| text[start..start + 2].parse::<i8>().ok();
    let date = civil::Date::new(year, two_digits(5)?, two_digits(8)?).ok()?;
    let time = civil::Time::new(two_digits(11)?, two_digits(14)?, 0, 0).ok()?;
    let since_1970 = date.to_datetime(time).duration_since(civil::date(1970, 1, 1).at(0, 0, 0, 0));
    i64::try_from(since_1970.as_millis()).ok().map(LocalTime)
}

fn check_collapse_key(key: Option<String>, validator: &mut Validator) -> Option<String> {
    let key = key.filter(|key| !key.is_empty())?;
    let is_visible = key.bytes().all(|byte| byte.is_ascii_graphic());
    if !is_visible || key.len() > COLLAPSE_KEY_CHARS_MAX {
        let what = format_args!("must be 1 to {COLLAPSE_KEY_CHARS_MAX} visible ASCII characters");
        validator.violation(&path("collapse_key"), what);
    }
    Some(key)
}

/// Checks the content. A poll ignores all other settings.
fn check_content(
    text: Option<String>,
    content: NotificationContent,
    is_silent: bool,
    validator: &mut Validator,
) -> Option<Content> {
    match content.poll {
        Some(poll) => poll.check(&path("poll"), validator).map(Content::Poll),
        None => {
            let message = check_message(text.unwrap_or_default(), content, is_silent, validator);
            Some(Content::Message(Box::new(message)))
        }
    }
}

fn check_message(
    text: String,
    content: NotificationContent,
    is_silent: bool,
    validator: &mut Validator,
) -> Message {
    // A silent message has no text.
    let text = if is_silent { String::new() } else { validator.required(&path("text"), text) };
    let android = content.android_settings.unwrap_or_default();
    let android_path = path("android_settings");
    let messenger = content.social_messenger_settings.unwrap_or_default();
    let messenger_path = path("social_messenger_settings");
    if let Some(android_json) = &content.android_json {
        check_android_json(android_json, validator);
    }
    if let Some(ios_json) = &content.ios_json {
        check_ios_json(ios_json, validator);
    }
    Message {
        text,
        title: validator.visible_up_to(&path("title"), content.title, TITLE_CHARS_MAX),
        translations: content
            .translations
            .map(|translations| translations.check(&path("translations"), validator))
            .unwrap_or_default(),
        url: validator.wire_uri(&path("url"), content.url),
        image_url: validator.wire_http_url(&path("image_url"), content.image_url),
        campaign: check_campaign(content.campaign_id.as_deref(), validator),
        extra: check_extra(content.custom_json_key, content.custom_json_value, validator),
        android_json: content.android_json,
        ios_json: content.ios_json,
        android_title: validator.visible(&android_path.field("title"), android.title),
        android_sound: validator.text(&android_path.field("sound"), android.sound),
        ios_alert: content.ios_settings.and_then(|settings| settings.check(validator)),
        web_push_actions: content
            .web_push_settings
            .map(|settings| check_actions(settings.actions, validator))
            .unwrap_or_default(),
        view_button: validator.visible(&messenger_path.field("view_button"), messenger.view_button),
        is_silent,
        is_personal: false,
        ios: content.ios_options.unwrap_or_default().check(validator),
        android: content.android_options.unwrap_or_default().check(validator),
        web: content.web_options.unwrap_or_default().check(validator),
    }
}

fn check_campaign(id: Option<&str>, validator: &mut Validator) -> Option<CampaignRef> {
    validator.optional_id(&path("campaign_id"), id, |id| match id {
        "default" => Ok(CampaignRef::Default),
        id => id
            .parse()
            .map(CampaignRef::Id)
            .map_err(|_| "must be the id of a campaign, or `default`"),
    })
}

/// Checks the extra data. Its key and its value require each other.
fn check_extra(
    key: Option<String>,
    value: Option<JsonObject>,
    validator: &mut Validator,
) -> Option<Extra> {
    let key_path = path("custom_json_key");
    let key = validator.text(&key_path, key);
    if let Some(key) = &key {
        if KEYS_USED.contains(&key.as_str()) {
            validator.violation(&key_path, "is a key that the payload already uses");
        }
        if is_reserved_by_fcm(key) {
            validator.violation(&key_path, RESERVED_BY_FCM);
        }
    }
    match (key, value) {
        (Some(key), Some(value)) => Some(Extra { key, value }),
        (Some(_), None) => {
            validator.violation(&path("custom_json_value"), "is required with custom_json_key");
            None
        }
        (None, Some(_)) => {
            validator.violation(&key_path, "is required with custom_json_value");
            None
        }
        (None, None) => None,
    }
}

impl IosSettings {
    fn check(self, validator: &mut Validator) -> Option<IosAlert> {
        let at = path("ios_settings");
        if self.badge.is_none() {
            validator.violation(&at.field("badge"), REQUIRED);
        }
        let sound = validator.required(&at.field("sound"), self.sound);
        Some(IosAlert { badge: self.badge?, sound })
    }
}

fn check_actions(actions: Vec<WebPushAction>, validator: &mut Validator) -> Vec<ActionButton> {
    let settings = path("web_push_settings");
    let at = settings.field("actions");
    if !(WEB_PUSH_ACTIONS_MIN..=WEB_PUSH_ACTIONS_MAX).contains(&actions.len()) {
        let (min, max) = (WEB_PUSH_ACTIONS_MIN, WEB_PUSH_ACTIONS_MAX);
        validator.violation(&at, format_args!("must hold {min} to {max} actions"));
    }
    let mut names: Vec<String> = Vec::with_capacity(actions.len());
    for (index, action) in actions.iter().enumerate() {
        let Some(name) = action.action.as_ref().filter(|name| !name.is_empty()) else { continue };
        if names.contains(name) {
            let name_path = at.index(index);
            let what = "must not be shared by two actions";
            validator.violation(&name_path.field("action"), what);
        }
        names.push(name.clone());
    }
    let mut valid = Vec::with_capacity(actions.len());
    for (index, mut action) in actions.into_iter().enumerate() {
        let given_name = action.action.take().filter(|name| !name.is_empty());
        let name = given_name.unwrap_or_else(|| unused_name(&mut names, index));
        valid.push(action.check(name, &at.index(index), validator));
    }
    valid
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

impl WebPushAction {
    fn check(self, name: String, at: &Path<'_>, validator: &mut Validator) -> ActionButton {
        ActionButton {
            title: validator.required(&at.field("title"), self.title),
            icon: validator.wire_http_url(&at.field("icon"), self.icon),
            action: validator.text(&at.field("action"), Some(name)).unwrap_or_default(),
            url: validator.wire_uri(&at.field("url"), self.url),
        }
    }
}

/// Data keys that FCM reserves, in addition to all that start with `google` or `gcm.`.
pub const FCM_KEYS_RESERVED: [&str; 3] = ["from", "gcm", "message_type"];
const FCM_PREFIXES_RESERVED: [&str; 2] = ["google", "gcm."];
const RESERVED_BY_FCM: &str = "is a key that FCM reserves";
/// Keys that the server's payloads use.
const KEYS_USED: [&str; 6] =
    ["aps", "notification_id", "campaign_id", "url", "image_url", "poll_id"];
/// Required members of `aps` in a raw payload.
const APS_REQUIRED: [&str; 3] = ["alert", "badge", "sound"];

fn check_android_json(payload: &JsonObject, validator: &mut Validator) {
    for (key, _) in payload.members() {
        if is_reserved_by_fcm(&key) {
            validator.violation(&path("android_json").field(&key), RESERVED_BY_FCM);
        }
    }
}

fn check_ios_json(payload: &JsonObject, validator: &mut Validator) {
    let at = path("ios_json");
    let aps_path = at.field("aps");
    let Some(aps) = member(payload, "aps") else {
        validator.violation(&aps_path, REQUIRED);
        return;
    };
    let Ok(aps) = serde_json::from_str::<JsonObject>(aps.get()) else {
        validator.violation(&aps_path, "must be an object");
        return;
    };
    for key in APS_REQUIRED {
        if member(&aps, key).is_none() {
            validator.violation(&aps_path.field(key), REQUIRED);
        }
    }
}

fn member(object: &JsonObject, key: &str) -> Option<Box<RawValue>> {
    object.members().into_iter().find(|(name, _)| name == key).map(|(_, value)| value)
}

fn is_reserved_by_fcm(key: &str) -> bool {
    FCM_KEYS_RESERVED.contains(&key)
        || FCM_PREFIXES_RESERVED.iter().any(|prefix| key.starts_with(prefix))
}
