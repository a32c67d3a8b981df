//! The fields of the send page, and the request that they make.

use bytes::Bytes;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use notify_core::json::JsonObject;
use notify_core::{
    AndroidSettings, Audience, Canary, CanaryThen, CreateNotification, IosSettings,
    MessengerSettings, NotificationContent, NotificationTranslations, Platform, Request, Timestamp,
    WebPushAction, WebPushSettings,
};
use serde_json::Value;

use super::expressions::{self, ExpressionProblem};
use super::platform_options::PlatformOptions;
use crate::api::console::form::{Form, new_key, number, optional};
use crate::api::console::format;

/// The most buttons of a notification in a browser.
const BUTTONS_MAX: usize = 2;
/// The longest `Idempotency-Key`, in characters.
const KEY_CHARS_MAX: usize = 255;
/// The sound on iOS if only the badge is given.
const DEFAULT_SOUND: &str = "default";
/// How long after UTC a local time begins in the last time zone, UTC−12.
const LAST_ZONE_MS: i64 = 12 * 3_600_000;
/// The fields of a sent notification that do not belong to the next one: its id, and its time.
const NOT_REPEATED: [&str; 3] = ["id", "send_at", "send_at_local"];

/// The input of the send page, as it was entered.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Composer {
    /// Whether `json` is the request, instead of the other fields.
    pub(super) is_json: bool,
    pub(super) json: String,
    pub(super) text: String,
    /// Whether the notification shows nothing.
    pub(super) is_silent: bool,
    /// Whether its texts have variables.
    pub(super) is_personal: bool,
    /// The title on all platforms.
    pub(super) heading: String,
    /// The translations as JSON.
    pub(super) translations: String,
    /// The title on Android.
    pub(super) title: String,
    pub(super) url: String,
    pub(super) image_url: String,
    pub(super) campaign: String,
    /// The names of platforms.
    pub(super) platforms: Vec<String>,
    pub(super) tag: String,
    /// Ids of users, one a line or separated by commas.
    pub(super) users: String,
    /// Ids of devices, one a line.
    pub(super) devices: String,
    /// The condition of the audience, as an expression.
    pub(super) audience: String,
    /// The name of a segment.
    pub(super) segment: String,
    /// When to send, as an `<input type="datetime-local">` writes it; empty for now.
    pub(super) at: String,
    /// Whether `at` is the local time of each device, instead of UTC.
    pub(super) is_local: bool,
    pub(super) priority: String,
    pub(super) ttl: String,
    pub(super) collapse_key: String,
    /// Most first attempts per minute.
    pub(super) per_minute: String,
    pub(super) canary: CanaryFields,
    pub(super) android_sound: String,
    pub(super) badge: String,
    pub(super) ios_sound: String,
    /// The buttons in a browser.
    pub(super) buttons: [Button; BUTTONS_MAX],
    pub(super) view_button: String,
    pub(super) options: PlatformOptions,
    /// The number of devices that the operator typed to confirm it.
    pub(super) confirm: String,
    /// The `Idempotency-Key` of the form.
    pub(super) key: String,
}

/// A button of a notification in a browser.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Button {
    pub(super) title: String,
    pub(super) url: String,
}

/// The fields of a canary.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct CanaryFields {
    /// Empty if there is no canary.
    pub(super) percent: String,
    pub(super) wait_seconds: String,
    pub(super) max_failed_percent: String,
    /// Whether the notification pauses after a canary that did not fail.
    pub(super) pauses: bool,
}

impl CanaryFields {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn compose(&self, problems: &mut Vec<String>) -> Option<Canary> {
        if self.is_empty() {
            return None;
        }
        Some(Canary {
            percent: number(&self.percent, "canary.percent", problems),
            wait_seconds: number(&self.wait_seconds, "canary.wait_seconds", problems),
            max_failed_percent: number(
                &self.max_failed_percent,
                "canary.max_failed_percent",
                problems,
            ),
            then: self.pauses.then(|| CanaryThen::Pause.to_string()),
        })
    }
}

/// The request that a form makes.
pub(super) struct Composed {
    /// The body.
    pub(super) body: Bytes,
    /// The fields that cannot be written into it, each as `path: what`.
    pub(super) problems: Vec<String>,
}

/// The segment and the expression that make a condition.
fn audience_fields(condition: &Value) -> (String, String) {
    let Ok(audience) = Audience::from_json(&condition.to_string()) else {
        return (String::new(), String::new());
    };
    let parts = match &audience {
        Audience::Segment(name) => return (name.clone(), String::new()),
        Audience::All(parts) => &parts[..],
        Audience::Any(_)
        | Audience::Not(_)
        | Audience::Tag(_)
        | Audience::Attribute { .. }
        | Audience::Field { .. } => &[],
    };
    if let [Audience::Segment(name), rest @ ..] = parts
        && let Some(rest) = rest.iter().cloned().reduce(Audience::and)
        && Audience::segment(name).and(rest.clone()) == audience
    {
        return (name.clone(), rest.to_string());
    }
    (String::new(), audience.to_string())
}

impl Composer {
    /// An empty form.
    pub(super) fn empty() -> Self {
        Self { key: new_key(), ..Self::default() }
    }

    /// A submitted form.
    pub(super) fn of_form(form: &Form) -> Self {
        let text = |name: &str| form.text(name).to_owned();
        let key = form.text("key");
        let is_key = (1..=KEY_CHARS_MAX).contains(&key.len())
            && key.bytes().all(|byte| byte.is_ascii_graphic());
        let mut composer = Self {
            is_json: form.text("mode") == "json",
            json: form.lines("json"),
            text: form.lines("text"),
            is_silent: form.text("silent") == "1",
            is_personal: form.text("personalize") == "1",
            heading: text("heading"),
            translations: form.lines("translations"),
            title: text("title"),
            url: text("url"),
            image_url: text("image_url"),
            campaign: text("campaign"),
            platforms: form.all("platform").map(str::to_owned).collect(),
            tag: text("tag"),
            users: form.lines("users"),
            devices: form.lines("devices"),
            audience: form.lines("audience"),
            segment: form.lines("segment"),
            at: text("at"),
            is_local: form.text("local") == "1",
            priority: text("priority"),
            ttl: text("ttl"),
            collapse_key: text("collapse_key"),
            per_minute: text("per_minute"),
            canary: CanaryFields {
                percent: text("canary_percent"),
                wait_seconds: text("canary_wait"),
                max_failed_percent: text("canary_max_failed"),
                pauses: form.text("canary_pause") == "1",
            },
            android_sound: text("android_sound"),
            badge: text("badge"),
            ios_sound: text("ios_sound"),
            buttons: ["1", "2"].map(|place| Button {
                title: text(&format!("button_{place}")),
                url: text(&format!("button_{place}_url")),
            }),
            view_button: text("view_button"),
            options: PlatformOptions::of_form(form),
            confirm: text("confirm"),
            key: if is_key { key.to_owned() } else { new_key() },
        };
        if composer.is_json && composer.json.trim().is_empty() {
            // The JSON begins with what the fields say.
            composer.is_json = false;
            composer.json = composer.pretty();
            composer.is_json = true;
        }
        composer
    }

    /// The form that sends a notification again. It is JSON if the fields cannot express the request.
    pub(super) fn of_request(request: &JsonObject) -> Self {
        let members = request.members().into_iter();
        let kept: Vec<String> = members
            .filter(|(name, value)| !NOT_REPEATED.contains(&name.as_str()) && value.get() != "null")
            .map(|(name, value)| format!("{}:{}", Value::from(name), value.get()))
            .collect();
        let json = format!("{{{}}}", kept.join(","));
        let request: Value = serde_json::from_str(&json).unwrap_or_default();
        let composer = Self::of_fields(&request);
        let Composed { body, .. } = composer.compose();
        let is_same = serde_json::from_slice::<Value>(&body).is_ok_and(|again| again == request);
        if is_same {
            composer
        } else {
            Self { is_json: true, json: format::pretty_json(&json), ..Self::empty() }
        }
    }

    fn of_fields(request: &Value) -> Self {
        let text = |value: &Value| match value {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => String::new(),
        };
        let texts = |value: &Value| -> Vec<String> {
            value.as_array().into_iter().flatten().map(text).collect()
        };
        let actions = &request["web_push_settings"]["actions"];
        let (segment, audience) = audience_fields(&request["audience"]);
        Self {
            text: text(&request["text"]),
            is_silent: request["silent"] == true,
            is_personal: request["personalize"] == true,
            heading: text(&request["title"]),
            translations: match &request["translations"] {
                Value::Null => String::new(),
                given => format::pretty_json(&given.to_string()),
            },
            title: text(&request["android_settings"]["title"]),
            url: text(&request["url"]),
            image_url: text(&request["image_url"]),
            campaign: text(&request["campaign_id"]),
            platforms: texts(&request["platforms"]),
            tag: text(&request["tags"][0]),
            users: texts(&request["user_ids"]).join("\n"),
            devices: texts(&request["device_ids"]).join("\n"),
            audience,
            segment,
            priority: text(&request["priority"]),
            ttl: text(&request["ttl_seconds"]),
            collapse_key: text(&request["collapse_key"]),
            per_minute: text(&request["per_minute"]),
            canary: CanaryFields {
                percent: text(&request["canary"]["percent"]),
                wait_seconds: text(&request["canary"]["wait_seconds"]),
                max_failed_percent: text(&request["canary"]["max_failed_percent"]),
                pauses: request["canary"]["then"] == CanaryThen::Pause.as_str(),
            },
            android_sound: text(&request["android_settings"]["sound"]),
            badge: text(&request["ios_settings"]["badge"]),
            ios_sound: text(&request["ios_settings"]["sound"]),
            buttons: [0, 1].map(|place| Button {
                title: text(&actions[place]["title"]),
                url: text(&actions[place]["url"]),
            }),
            view_button: text(&request["social_messenger_settings"]["view_button"]),
            options: PlatformOptions::of_request(request),
            ..Self::empty()
        }
    }

    /// The request.
    pub(super) fn compose(&self) -> Composed {
        if self.is_json {
            let body = Bytes::copy_from_slice(self.json.as_bytes());
            return Composed { body, problems: Vec::new() };
        }
        let mut problems = Vec::new();
        let (send_at, send_at_local) = self.send_at(&mut problems);
        let ttl_seconds = number(&self.ttl, "ttl_seconds", &mut problems);
        let request = CreateNotification {
            text: optional(&self.text),
            platforms: Some(self.platforms.clone()).filter(|platforms| !platforms.is_empty()),
            device_ids: Some(self.device_ids()).filter(|ids| !ids.is_empty()),
            // A list without an id is refused, so that it does not widen the target.
            user_ids: (!self.users.trim().is_empty()).then(|| self.user_ids()),
            audience: self.condition(&mut problems),
            content: self.content(&mut problems),
            send_at,
            send_at_local,
            ttl_seconds,
            priority: optional(&self.priority),
            collapse_key: optional(&self.collapse_key),
            silent: self.is_silent.then_some(true),
            personalize: self.is_personal.then_some(true),
            per_minute: number(&self.per_minute, "per_minute", &mut problems),
            canary: self.canary.compose(&mut problems),
            ..CreateNotification::default()
        };
        let body = serde_json::to_vec(&request).expect("a request is made of texts and numbers");
        Composed { body: body.into(), problems }
    }

    fn content(&self, problems: &mut Vec<String>) -> NotificationContent {
        let android =
            AndroidSettings { title: optional(&self.title), sound: optional(&self.android_sound) };
        let badge = number(&self.badge, "ios_settings.badge", problems);
        // A badge that is no number has its problem already, without the one that it is missing.
        let has_ios = badge.is_some() || (self.badge.is_empty() && !self.ios_sound.is_empty());
        let sound = if self.ios_sound.is_empty() { DEFAULT_SOUND } else { &self.ios_sound };
        let ios = IosSettings { badge, sound: sound.to_owned() };
        let actions: Vec<WebPushAction> = self
            .buttons
            .iter()
            .filter(|button| **button != Button::default())
            .map(|button| WebPushAction {
                title: button.title.clone(),
                url: optional(&button.url),
                ..WebPushAction::default()
            })
            .collect();
        let mut content = NotificationContent {
            title: optional(&self.heading),
            translations: self.translations(problems),
            tags: optional(&self.tag).map(|tag| vec![tag]),
            url: optional(&self.url),
            image_url: optional(&self.image_url),
            campaign_id: optional(&self.campaign),
            android_settings: Some(android)
                .filter(|android| *android != AndroidSettings::default()),
            ios_settings: has_ios.then_some(ios),
            web_push_settings: (!actions.is_empty()).then_some(WebPushSettings { actions }),
            social_messenger_settings: optional(&self.view_button)
                .map(|label| MessengerSettings { view_button: Some(label) }),
            ..NotificationContent::default()
        };
        self.options.add_to(&mut content, problems);
        content
    }

    /// The translations. If they cannot be read, the request has none.
    fn translations(&self, problems: &mut Vec<String>) -> Option<NotificationTranslations> {
        let json = self.translations.trim();
        if json.is_empty() {
            return None;
        }
        let Ok(object) = JsonObject::new(json) else {
            problems.push("translations: must be a JSON object".to_owned());
            return None;
        };
        let body = format!(r#"{{"translations":{}}}"#, object.as_str());
        match CreateNotification::from_json(body.as_bytes()) {
            Ok(request) => request.content.translations,
            Err(violations) => {
                problems.extend(violations.into_vec());
                None
            }
        }
    }

    /// `send_at` or `send_at_local`.
    fn send_at(&self, problems: &mut Vec<String>) -> (Option<Timestamp>, Option<String>) {
        if self.at.is_empty() {
            return (None, None);
        }
        let Ok(at) = self.at.parse::<DateTime>() else {
            problems.push("send_at: must be a date and a time".to_owned());
            return (None, None);
        };
        if self.is_local {
            return (None, Some(at.strftime("%Y-%m-%dT%H:%M").to_string()));
        }
        match at.to_zoned(TimeZone::UTC) {
            Ok(at) => (Some(Timestamp(at.timestamp().as_millisecond())), None),
            Err(_) => {
                problems.push("send_at: must be a date and a time".to_owned());
                (None, None)
            }
        }
    }

    /// Whether the time has passed, in UTC or in every time zone. A request with such a time is sent at once.
    pub(super) fn is_past(&self, now: Timestamp) -> bool {
        let Ok(at) = self.at.parse::<DateTime>() else { return false };
        let Ok(at) = at.to_zoned(TimeZone::UTC) else { return false };
        let last_zone_ms = if self.is_local { LAST_ZONE_MS } else { 0 };
        !self.is_json && at.timestamp().as_millisecond() + last_zone_ms <= now.as_ms()
    }

    /// The condition of `audience` and `segment`. It is invalid if the expression is wrong, so that no request
    /// goes to more devices than the operator meant.
    fn condition(&self, problems: &mut Vec<String>) -> Option<Audience> {
        let audience = match self.expression() {
            Some(Ok(audience)) => Some(audience),
            Some(Err(problem)) => {
                problems.push(format!("audience: {}", problem.what));
                return Some(Audience::Any(Vec::new()));
            }
            None => None,
        };
        let segment = optional(&self.segment).map(Audience::segment);
        match (segment, audience) {
            (Some(segment), Some(audience)) => Some(segment.and(audience)),
            (segment, audience) => segment.or(audience),
        }
    }

    /// The condition of `audience`.
    fn expression(&self) -> Option<Result<Audience, ExpressionProblem>> {
        (!self.audience.trim().is_empty()).then(|| expressions::parse(&self.audience))
    }

    /// Why the text of `audience` is not a valid expression.
    pub(super) fn expression_problem(&self) -> Option<ExpressionProblem> {
        if self.is_json { None } else { self.expression()?.err() }
    }

    fn user_ids(&self) -> Vec<String> {
        let ids = self.users.split([',', '\n']).map(str::trim);
        ids.filter(|id| !id.is_empty()).map(str::to_owned).collect()
    }

    fn device_ids(&self) -> Vec<String> {
        let ids = self.devices.lines().filter(|id| !id.trim().is_empty());
        ids.map(str::to_owned).collect()
    }

    /// The request as people read it.
    pub(super) fn pretty(&self) -> String {
        let Composed { body, .. } = self.compose();
        let json = String::from_utf8_lossy(&body).into_owned();
        let is_json = serde_json::from_str::<Value>(&json).is_ok();
        if is_json { format::pretty_json(&json) } else { json }
    }

    /// Whether the fields name users, devices or platforms.
    pub(super) fn has_target(&self) -> bool {
        self.is_json
            || !self.platforms.is_empty()
            || !self.devices.trim().is_empty()
            || self.has_users()
    }

    /// Whether the fields name users.
    pub(super) fn has_users(&self) -> bool {
        !self.is_json && !self.users.trim().is_empty()
    }

    /// The command that sends the same notification; `None` if it has no option for a field.
    pub(super) fn command(&self) -> Option<String> {
        let Composed { problems, .. } = self.compose();
        let has_button = self.buttons.iter().any(|button| *button != Button::default());
        let has_only_separators = self.has_users() && self.user_ids().is_empty();
        if self.is_json
            || has_button
            || has_only_separators
            || !self.options.is_empty()
            || self.text.is_empty() != self.is_silent
            || !problems.is_empty()
        {
            return None;
        }
        let one = |name: &'static str, value: &str| optional(value).map(|value| (name, value));
        let each = |name: &'static str, values: Vec<String>| {
            values.into_iter().map(move |value| (name, value))
        };
        let mut options: Vec<(&str, String)> = Vec::new();
        options.extend(one("text", &self.text));
        options.extend(each("platform", self.platforms.clone()));
        options.extend(each("user", self.user_ids()));
        options.extend(each("device", self.device_ids()));
        options.extend(one("tag", &self.tag));
        options.extend(one("audience", self.audience.trim()));
        options.extend(one("segment", &self.segment));
        options.extend(one("url", &self.url));
        options.extend(one("image-url", &self.image_url));
        options.extend(one("campaign", &self.campaign));
        options.extend(one("title", &self.heading));
        options.extend(one("translations", self.translations.trim()));
        options.extend(one("android-title", &self.title));
        options.extend(one("android-sound", &self.android_sound));
        if !self.badge.is_empty() {
            let sound = optional(&self.ios_sound).unwrap_or_else(|| DEFAULT_SOUND.to_owned());
            options.extend(one("ios-badge", &self.badge));
            options.push(("ios-sound", sound));
        } else if !self.ios_sound.is_empty() {
            return None;
        }
        options.extend(one("view-button", &self.view_button));
        options.extend(match self.send_at(&mut Vec::new()) {
            (Some(at), _) => Some(("send-at", at.as_ms().to_string())),
            (None, Some(at)) => Some(("send-at-local", at)),
            (None, None) => None,
        });
        options.extend(one("ttl", &self.ttl));
        options.extend(one("priority", &self.priority));
        options.extend(one("collapse-key", &self.collapse_key));
        options.extend(one("per-minute", &self.per_minute));
        options.extend(one("canary", &self.canary.percent));
        options.extend(one("canary-wait", &self.canary.wait_seconds));
        options.extend(one("canary-max-failed", &self.canary.max_failed_percent));
        let flags = [
            (self.is_silent, " --silent"),
            (self.is_personal && !self.is_silent, " --personalize"),
            (self.canary.pauses, " --canary-pause"),
        ];
        let flags = flags.iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| *flag);
        let flags: String = flags.collect();
        let options = options.iter().map(|(name, value)| {
            let value = format::argument(value);
            // A value that begins with `-` could be read as an option.
            let separator = if value.trim_start_matches('\'').starts_with('-') { '=' } else { ' ' };
            format!(" --{name}{separator}{value}")
        });
        Some(format!("notify send{flags}{}", options.collect::<String>()))
    }

    /// Whether the fields have a text, or need none.
    pub(super) fn has_text(&self) -> bool {
        self.is_json || self.is_silent || !self.text.trim().is_empty()
    }

    /// Whether the box of a platform is ticked.
    pub(super) fn targets(&self, platform: Platform) -> bool {
        self.platforms.iter().any(|name| name == platform.as_str())
    }

    /// Whether a setting of a single platform is given.
    pub(super) fn has_platform_settings(&self) -> bool {
        let texts =
            [&self.title, &self.android_sound, &self.badge, &self.ios_sound, &self.view_button];
        texts.iter().any(|text| !text.is_empty())
            || self.buttons.iter().any(|button| *button != Button::default())
            || !self.options.is_empty()
    }

    /// Whether a setting of the delivery is given.
    pub(super) fn has_delivery_settings(&self) -> bool {
        let texts = [&self.priority, &self.ttl, &self.collapse_key, &self.per_minute];
        texts.iter().any(|text| !text.is_empty()) || !self.canary.is_empty()
    }

    /// The number of devices that the operator typed.
    pub(super) fn confirmed(&self) -> Option<u64> {
        let digits: String =
            self.confirm.chars().filter(|char| !matches!(char, ',' | '.' | ' ' | '\'')).collect();
        digits.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(fields: &str) -> Form {
        Form::parse(&Bytes::copy_from_slice(fields.as_bytes())).unwrap()
    }

    fn sent_again(request: &str) -> Composer {
        Composer::of_request(&JsonObject::new(request).unwrap())
    }

    fn body(composer: &Composer) -> Value {
        serde_json::from_slice(&composer.compose().body).unwrap()
    }

    #[test]
    fn an_empty_form_targets_nothing() {
        let composer = Composer::of_form(&form("mode=fields&text="));
        assert_eq!(composer.compose().body, "{}");
        assert!(!composer.has_target() && !composer.has_text());
        assert_ne!(composer.key, Composer::of_form(&form("key=")).key, "a new key");
        assert_eq!(Composer::of_form(&form("key=k1")).key, "k1");
    }

    #[test]
    fn fields_make_the_request() {
        let composer = Composer::of_form(&form(
            "text=one%0D%0Atwo&platform=ios&platform=web&tag=vip&url=https%3A%2F%2Fshop.example&\
             at=2026-11-24T10%3A30&button_1=Open&ttl=60&badge=2&ios_sound=default",
        ));
        let expected = serde_json::json!({
            "text": "one\ntwo", "platforms": ["ios", "web"], "tags": ["vip"],
            "url": "https://shop.example", "send_at": 1_795_516_200_000_i64, "ttl_seconds": 60,
            "ios_settings": {"badge": 2, "sound": "default"},
            "web_push_settings": {"actions": [{"title": "Open"}]},
        });
        assert_eq!(body(&composer), expected);
        let local = Composer { is_local: true, ..composer };
        assert_eq!(body(&local)["send_at_local"], "2026-11-24T10:30");
        let wrong = Composer::of_form(&form("ttl=soon&badge=x&at=tomorrow"));
        assert_eq!(
            wrong.compose().problems,
            [
                "send_at: must be a date and a time",
                "ttl_seconds: must be a whole number",
                "ios_settings.badge: must be a whole number"
            ]
        );
    }

    #[test]
    fn title_and_translations_fill_the_request_and_back() {
        let composer = Composer::of_form(&form(
            "text=Hi&heading=Shop&translations=%7B%22de%22%3A%7B%22text%22%3A%22Hallo%22%7D%7D",
        ));
        let expected = serde_json::json!({"text": "Hi", "title": "Shop",
            "translations": {"de": {"text": "Hallo"}}});
        assert_eq!(body(&composer), expected);
        let again = sent_again(&expected.to_string());
        assert!(!again.is_json && again.heading == "Shop", "{again:?}");
        assert!(again.translations.contains("\"text\": \"Hallo\""), "{}", again.translations);
        for (written, problem) in [
            ("%7B%22de%22", "translations: must be a JSON object"),
            ("[]", "translations: must be a JSON object"),
            ("%7B%7D%2C%22silent%22%3Atrue%7D", "translations: must be a JSON object"),
            ("%7B%22de%22%3A1%7D", "translations.de: expected an object"),
        ] {
            let wrong = Composer::of_form(&form(&format!("text=Hi&translations={written}")));
            assert_eq!(wrong.compose().problems, [problem]);
            assert!(body(&wrong).get("translations").is_none() && wrong.command().is_none());
        }
    }

    #[test]
    fn options_make_their_objects() {
        let composer = Composer::of_form(&form(
            "text=Hi&ios_options.subtitle=Soon&ios_options.relevance_score=0.5\
             &ios_options.mutable_content=false&android_options.color=%23ff8800\
             &android_options.notification_count=2&web_options.renotify=true",
        ));
        let expected = serde_json::json!({
            "text": "Hi",
            "ios_options": {"subtitle": "Soon", "relevance_score": 0.5, "mutable_content": false},
            "android_options": {"color": "#ff8800", "notification_count": 2},
            "web_options": {"renotify": true},
        });
        assert_eq!(body(&composer), expected);
        assert_eq!(composer.command(), None, "the command has no option for them");
        let again = sent_again(&expected.to_string());
        assert!(!again.is_json && again.options == composer.options, "{again:?}");
        let wrong = Composer::of_form(&form(
            "ios_options.relevance_score=much&android_options.notification_count=x\
             &web_options.silent=maybe",
        ));
        assert_eq!(
            wrong.compose().problems,
            [
                "web_options.silent: must be true or false",
                "ios_options.relevance_score: must be a number",
                "android_options.notification_count: must be a whole number",
            ]
        );
    }

    #[test]
    fn rate_and_canary_fill_the_request_and_back() {
        let composer = Composer::of_form(&form(
            "text=Hi&platform=ios&per_minute=600&canary_percent=5&canary_wait=60\
             &canary_max_failed=1&canary_pause=1",
        ));
        let expected = serde_json::json!({"text": "Hi", "platforms": ["ios"], "per_minute": 600,
            "canary": {"percent": 5, "wait_seconds": 60, "max_failed_percent": 1,
                "then": "pause"}});
        assert_eq!(body(&composer), expected);
        let again = sent_again(&expected.to_string());
        assert!(!again.is_json && again.canary == composer.canary, "{again:?}");
        assert_eq!(
            composer.command().as_deref(),
            Some(
                "notify send --canary-pause --text Hi --platform ios --per-minute 600 --canary 5 \
                 --canary-wait 60 --canary-max-failed 1"
            )
        );
        assert!(composer.has_delivery_settings());
        let wrong = Composer::of_form(&form("per_minute=x&canary_percent=y&canary_pause=1"));
        assert_eq!(
            wrong.compose().problems,
            ["per_minute: must be a whole number", "canary.percent: must be a whole number"]
        );
    }

    #[test]
    fn a_badge_alone_has_the_default_sound_and_a_wrong_one_is_left_out() {
        let badge = Composer::of_form(&form("badge=2"));
        assert_eq!(
            body(&badge)["ios_settings"],
            serde_json::json!({"badge": 2, "sound": "default"})
        );
        let wrong = Composer::of_form(&form("badge=x&ios_sound=ping"));
        assert!(body(&wrong).get("ios_settings").is_none());
        assert_eq!(wrong.compose().problems.len(), 1);
    }

    #[test]
    fn a_time_is_past_in_utc_or_in_every_time_zone() {
        let utc = Composer { at: "2026-11-24T10:30".to_owned(), ..Composer::default() };
        let at = 1_795_516_200_000;
        assert!(utc.is_past(Timestamp(at)) && !utc.is_past(Timestamp(at - 1)));
        let local = Composer { is_local: true, ..utc.clone() };
        assert!(!local.is_past(Timestamp(at)) && local.is_past(Timestamp(at + LAST_ZONE_MS)));
        let json = Composer { is_json: true, ..utc };
        assert!(!json.is_past(Timestamp(at)) && !Composer::empty().is_past(Timestamp(at)));
    }

    #[test]
    fn a_sent_notification_fills_the_fields_or_stays_json() {
        let simple = sent_again(
            r#"{"text": "Hi", "platforms": ["android"], "tags": ["vip"], "url": null,
                "android_settings": {"title": "T"}, "send_at": 1795516200000}"#,
        );
        assert!(!simple.is_json && simple.title == "T" && simple.at.is_empty(), "{simple:?}");
        let extra = sent_again(
            r#"{"id": "own-1", "platforms": ["ios"], "text": "Hi", "custom_json_key": "k",
                "custom_json_value": {"total": 9.90}}"#,
        );
        assert!(extra.is_json && extra.text.is_empty(), "{extra:?}");
        assert!(extra.json.contains("\"total\": 9.90") && !extra.json.contains("own-1"));
    }

    #[test]
    fn users_are_separated_by_lines_or_commas_and_an_empty_list_is_sent() {
        let composer = Composer::of_form(&form("text=Hi&users=ada,+bob%0D%0A%0D%0Acy,"));
        assert_eq!(
            body(&composer),
            serde_json::json!({"text": "Hi", "user_ids": ["ada", "bob", "cy"]})
        );
        let no_ids = Composer::of_form(&form("text=Hi&users=+,&platform=ios"));
        assert_eq!(body(&no_ids)["user_ids"], serde_json::json!([]));
        assert!(no_ids.has_target() && no_ids.command().is_none());
    }

    #[test]
    fn segment_and_expression_make_one_condition() {
        let condition = |fields: &str| body(&Composer::of_form(&form(fields)))["audience"].clone();
        let vip = serde_json::json!({"tag": "vip"});
        let fans = serde_json::json!({"segment": "fans"});
        assert_eq!(condition("audience=+"), Value::Null);
        assert_eq!(condition("audience=tag+%3D+vip"), vip);
        assert_eq!(condition("segment=fans"), fans);
        let both = serde_json::json!({"all": [fans, vip]});
        assert_eq!(condition("segment=fans&audience=tag+%3D+vip"), both);
    }

    #[test]
    fn a_wrong_expression_makes_a_request_that_is_refused() {
        let wrong = Composer::of_form(&form("text=Hi&platform=ios&audience=tag+vip&segment=fans"));
        assert_eq!(body(&wrong)["audience"], serde_json::json!({"any": []}));
        assert_eq!(wrong.compose().problems, ["audience: `tag` takes only `=`"]);
        assert!(wrong.expression_problem().is_some() && wrong.command().is_none());
    }

    #[test]
    fn a_sent_audience_fills_the_fields() {
        for (audience, segment, expression) in [
            (r#"{"segment": "fans"}"#, "fans", ""),
            (r#"{"tag": "vip"}"#, "", "tag = vip"),
            (r#"{"all": [{"segment": "fans"}, {"tag": "vip"}]}"#, "fans", "tag = vip"),
            (
                r#"{"all": [{"segment": "a"}, {"segment": "b"}, {"tag": "c"}]}"#,
                "a",
                "segment = b and tag = c",
            ),
            (
                r#"{"all": [{"segment": "a"}, {"all": [{"tag": "b"}, {"tag": "c"}]}]}"#,
                "",
                "segment = a and (tag = b and tag = c)",
            ),
            (r#"{"any": [{"segment": "a"}, {"tag": "b"}]}"#, "", "segment = a or tag = b"),
        ] {
            let request =
                format!(r#"{{"text": "Hi", "user_ids": ["ada"], "audience": {audience}}}"#);
            let composer = sent_again(&request);
            assert!(!composer.is_json, "{audience}");
            assert_eq!(
                (composer.segment.as_str(), composer.audience.as_str()),
                (segment, expression)
            );
            assert_eq!(composer.users, "ada");
        }
        let unusual = r#"{"text": "Hi", "platforms": ["ios"], "audience": {"attribute": "seats", "is": 3.0}}"#;
        assert!(sent_again(unusual).is_json, "the number would be written in another way");
        assert!(sent_again(r#"{"text": "Hi", "user_ids": ["a,b"]}"#).is_json);
    }

    #[test]
    fn the_command_has_an_option_for_each_field() {
        let command = |fields: &str| Composer::of_form(&form(fields)).command();
        assert_eq!(
            command(
                "text=It's+here&platform=ios&users=ada%0D%0A-x&tag=vip&audience=plan+%3D+pro\
                 &segment=my+fans&badge=2&at=2026-11-24T10:30&ttl=600"
            )
            .unwrap(),
            "notify send --text 'It'\\''s here' --platform ios --user ada --user=-x --tag vip \
             --audience 'plan = pro' --segment 'my fans' --ios-badge 2 --ios-sound default \
             --send-at 1795516200000 --ttl 600"
        );
        assert_eq!(
            command("silent=1&platform=ios&url=shop://inbox").unwrap(),
            "notify send --silent --platform ios --url shop://inbox"
        );
        for fields in
            ["mode=json&json={}", "platform=ios", "text=Hi&button_1=Open", "text=Hi&ios_sound=ping"]
        {
            assert_eq!(command(fields), None, "{fields}");
        }
    }

    #[test]
    fn json_begins_with_the_fields_and_is_then_sent_as_written() {
        let composer = Composer::of_form(&form("mode=json&json=&text=Hi&platform=ios"));
        assert_eq!(
            composer.json,
            "{\n  \"text\": \"Hi\",\n  \"platforms\": [\n    \"ios\"\n  ]\n}"
        );
        let composer = Composer::of_form(&form("mode=json&json={\"text\"%3A1,}&text=Hi"));
        assert_eq!(composer.compose().body, "{\"text\":1,}");
    }

    #[test]
    fn a_typed_number_may_have_separators() {
        let typed = |confirm: &str| {
            Composer { confirm: confirm.to_owned(), ..Composer::default() }.confirmed()
        };
        for text in ["1204", "1,204", "1.204", "1 204", "1'204"] {
            assert_eq!(typed(text), Some(1_204), "{text}");
        }
        assert_eq!((typed(""), typed("all")), (None, None));
    }
}
