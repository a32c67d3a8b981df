//! Access of browsers without an API key: how an application allows it, and the requests and responses
//! of `/web/v1`.

use serde::{Deserialize, Serialize};
use url::{Host, Origin, Url};

use crate::address::is_this_machine;
use crate::json::BodyPresence;
use crate::request::{model, request};
use crate::tag::check_tags;
use crate::violations::{Path, Validator, path};
use crate::{
    AppId, DeviceId, EventType, NotificationId, Platform, PushSubscription, Subscribe,
    Subscription, TAG_NAME_CHARS_MAX, Tag, Timestamp,
};

/// Most origins of one application.
pub const WEB_ORIGINS_MAX: usize = 50;
/// Most tags that browsers may set on their devices.
pub const WEB_TAGS_MAX: usize = 50;
/// Most push services of one application.
pub const WEB_PUSH_SERVICES_MAX: usize = 50;
/// Most events in one request of a browser.
pub const WEB_EVENTS_PER_REQUEST_MAX: usize = 50;
/// Longest language of a browser, in characters (RFC 5646, section 4.4.1).
pub const WEB_LANGUAGE_CHARS_MAX: usize = 35;
/// Longest host of a push service, in characters (RFC 1035, section 3.1).
pub const HOST_CHARS_MAX: usize = 253;
/// Longest origin, in characters: `https://`, a host and a port.
pub const ORIGIN_CHARS_MAX: usize = 8 + HOST_CHARS_MAX + 6;
/// Longest device secret that is accepted, in characters; those of the server are shorter.
pub const WEB_SECRET_CHARS_MAX: usize = 128;
/// Hosts of the push services of Chrome, Firefox, Safari and Edge.
pub const WEB_PUSH_SERVICES_DEFAULT: [&str; 5] = [
    "fcm.googleapis.com",
    "jmt17.google.com",
    "*.push.services.mozilla.com",
    "*.push.apple.com",
    "*.notify.windows.com",
];

model! {
    /// Body of `PUT /admin/v1/apps/:id/web`.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub struct SetWebAccess {
        /// 1 to 50 origins of pages that may subscribe: `https://` and a host, or `http://localhost` with
        /// a port.
        pub allowed_origins: Vec<String> = |object| {
            object.require("allowed_origins");
            object.list("allowed_origins", WEB_ORIGINS_MAX).unwrap_or_default()
        },
        /// Names of the tags that a browser may set on its device; none when absent.
        pub allowed_tags: Option<Vec<String>> = |object| object.list("allowed_tags", WEB_TAGS_MAX),
        /// Hosts of the push services that a subscription may use; `*.` and a domain allow all hosts of
        /// the domain. When absent, those of the common browsers.
        pub push_services: Option<Vec<String>> =
            |object| object.list("push_services", WEB_PUSH_SERVICES_MAX),
    }
}

/// Access of browsers to an application: the validated form of [`SetWebAccess`], and the answer of
/// `GET /admin/v1/apps/:id/web`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WebAccess {
    /// Origins, as browsers send them in the `Origin` header.
    pub allowed_origins: Vec<String>,
    /// Names of the tags that a browser may set on its device.
    pub allowed_tags: Vec<String>,
    /// Hosts of the push services that a subscription may use.
    pub push_services: Vec<String>,
}

impl WebAccess {
    /// Whether pages of the origin have access.
    #[must_use]
    pub fn allows_origin(&self, origin: &str) -> bool {
        self.allowed_origins.iter().any(|allowed| allowed == origin)
    }

    /// Whether a subscription may use a push service at the host.
    #[must_use]
    pub fn allows_push_service(&self, host: &str) -> bool {
        let host = host.to_ascii_lowercase();
        self.push_services.iter().any(|allowed| match allowed.strip_prefix('*') {
            Some(domain) => host.len() > domain.len() && host.ends_with(domain),
            None => host == *allowed,
        })
    }
}

/// Answer of `GET /web/v1/:app_id`: the data that a page needs to subscribe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WebConfig {
    /// Id of the application.
    pub app: AppId,
    /// `applicationServerKey` of the subscription: an uncompressed P-256 point, base64url.
    pub vapid_public_key: String,
}

model! {
    /// Body of `POST /web/v1/:app_id/devices`.
    // No `Debug`, because of the secret.
    #[derive(Clone, Default, PartialEq, Eq)]
    pub struct WebSubscribe {
        /// The browser's `PushSubscription` as JSON.
        pub subscription: PushSubscription = |object| object.required("subscription"),
        /// Id of the device that this browser is registered as; required with `device_secret`.
        pub device_id: Option<String>,
        /// Secret of the device; required with `device_id`.
        pub device_secret: Option<String>,
        /// Language code.
        pub language: Option<String>,
        /// Time zone of the IANA database, such as `Europe/Vienna`, or offset from UTC, `GMT` or
        /// `GMT±HH:MM`. Takes precedence over `utc_offset`.
        pub timezone: Option<String>,
        /// Offset from UTC in minutes, as a string.
        pub utc_offset: Option<String>,
        /// Tags to set on the device; each must be in the application's `allowed_tags`.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<Tag>>))]
        pub tags: Vec<Tag> = |object| object.list("tags", WEB_TAGS_MAX).unwrap_or_default(),
    }
}

/// The validated form of [`WebSubscribe`].
#[derive(Clone, PartialEq, Eq)]
pub struct BrowserSubscription {
    /// Address, language and time zone, without a device id.
    pub subscription: Subscription,
    /// The device that the browser claims to be; the server checks the secret.
    pub device: Option<DeviceCredentials>,
    /// Tags to set.
    pub tags: Vec<Tag>,
}

/// Id and secret of a device.
#[derive(Clone, PartialEq, Eq)]
pub struct DeviceCredentials {
    /// Id of the device.
    pub device_id: DeviceId,
    /// Its secret.
    pub secret: String,
}

/// Answer of `POST /web/v1/:app_id/devices`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WebSubscribed {
    /// Id of the device.
    pub id: DeviceId,
    /// Secret that the browser sends in `X-Device-Secret` from now on; null if its current secret stays
    /// valid.
    pub device_secret: Option<String>,
}

model! {
    /// Body of `POST /web/v1/:app_id/devices/:device_id/events` and
    /// `POST /device/v1/devices/:device_id/events`.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub struct WebReport {
        /// 1 to 50 events of the device.
        pub events: Vec<WebReportEvent> =
            |object| object.list("events", WEB_EVENTS_PER_REQUEST_MAX).unwrap_or_default(),
    }
}

model! {
    /// One event of a [`WebReport`].
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub struct WebReportEvent {
        /// `received`, `opened`, `clicked` or `dismissed`.
        #[cfg_attr(feature = "openapi", schema(value_type = EventType))]
        #[serde(rename = "type")]
        pub kind: String = |object| object.or_default("type"),
        /// Id of the notification.
        pub notification_id: String,
        /// When it happened, unix ms; now when absent.
        pub at: Option<Timestamp>,
    }
}

/// The validated form of [`WebReportEvent`]; the path of the request has the device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebEvent {
    /// The type of the event.
    pub kind: EventType,
    /// The notification.
    pub notification_id: NotificationId,
    /// When it happened. `None` means the time at which the server receives the event.
    pub at: Option<Timestamp>,
}

request!(SetWebAccess => WebAccess, BodyPresence::Required);
request!(WebSubscribe => BrowserSubscription, BodyPresence::Required);
request!(WebReport => Vec<WebEvent>, BodyPresence::Required);

impl SetWebAccess {
    fn check(self, _now: Timestamp, validator: &mut Validator) -> Option<WebAccess> {
        let origins = path("allowed_origins");
        if self.allowed_origins.is_empty() {
            validator.violation(&origins, "must hold at least 1 origin");
        }
        validator.max_len(&origins, self.allowed_origins.len(), WEB_ORIGINS_MAX, "origins");
        let tags = path("allowed_tags");
        let names = self.allowed_tags.unwrap_or_default();
        validator.max_len(&tags, names.len(), WEB_TAGS_MAX, "tags");
        for (index, name) in names.iter().enumerate() {
            validator.required_up_to(&tags.index(index), name.clone(), TAG_NAME_CHARS_MAX);
        }
        let services = path("push_services");
        let hosts = self
            .push_services
            .unwrap_or_else(|| WEB_PUSH_SERVICES_DEFAULT.map(str::to_owned).into());
        validator.max_len(&services, hosts.len(), WEB_PUSH_SERVICES_MAX, "hosts");
        Some(WebAccess {
            allowed_origins: normalize_each(
                &origins,
                &self.allowed_origins,
                validator,
                normalize_origin,
            ),
            allowed_tags: names,
            push_services: normalize_each(&services, &hosts, validator, normalize_push_service),
        })
    }
}

/// Converts each element of a list to its normal form, and removes duplicates.
fn normalize_each(
    at: &Path<'_>,
    texts: &[String],
    validator: &mut Validator,
    normalize: fn(&str) -> Result<String, &'static str>,
) -> Vec<String> {
    let mut all = Vec::with_capacity(texts.len());
    for (index, text) in texts.iter().enumerate() {
        match normalize(text) {
            Ok(text) if !all.contains(&text) => all.push(text),
            Ok(_) => {}
            Err(rule) => validator.violation(&at.index(index), rule),
        }
    }
    all
}

impl WebSubscribe {
    fn check(self, now: Timestamp, validator: &mut Validator) -> Option<BrowserSubscription> {
        let id_path = path("device_id");
        let device_id = validator.optional_id(&id_path, self.device_id.as_deref(), DeviceId::new);
        let secret_path = path("device_secret");
        let secret = validator.text_up_to(&secret_path, self.device_secret, WEB_SECRET_CHARS_MAX);
        if device_id.is_none() && secret.is_some() {
            validator.violation(&id_path, "is required with device_secret");
        }
        if device_id.is_some() && secret.is_none() {
            validator.violation(&secret_path, "is required with device_id");
        }
        let tags = check_tags(self.tags, WEB_TAGS_MAX, validator);
        // Anonymous clients set the language, and administrators read it, so it cannot be any text.
        if self.language.as_deref().is_some_and(|text| !text.is_empty() && !is_language(text)) {
            let what = "must be a language code, such as en or pt-BR";
            validator.violation(&path("language"), what);
        }
        let subscribe = Subscribe {
            platform: Platform::Web.to_string(),
            subscription: Some(self.subscription),
            language: self.language,
            timezone: self.timezone,
            utc_offset: self.utc_offset,
            ..Subscribe::default()
        };
        let subscription = subscribe.check(now, validator)?;
        let device = device_id
            .zip(secret)
            .map(|(device_id, secret)| DeviceCredentials { device_id, secret });
        Some(BrowserSubscription { subscription, device, tags })
    }
}

/// Whether a text has the form of a language tag (RFC 5646, section 2.1). Underscores are accepted in place
/// of hyphens.
fn is_language(text: &str) -> bool {
    let is_in_tag = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    text.len() <= WEB_LANGUAGE_CHARS_MAX && text.bytes().all(is_in_tag)
}

impl WebReport {
    fn check(self, _now: Timestamp, validator: &mut Validator) -> Option<Vec<WebEvent>> {
        let events = path("events");
        if self.events.is_empty() {
            validator.violation(&events, "must hold at least 1 event");
        }
        validator.max_len(&events, self.events.len(), WEB_EVENTS_PER_REQUEST_MAX, "events");
        let mut valid = Vec::with_capacity(self.events.len());
        for (index, event) in self.events.iter().enumerate() {
            valid.extend(event.check(&events.index(index), validator));
        }
        Some(valid)
    }
}

impl WebReportEvent {
    fn check(&self, at: &Path<'_>, validator: &mut Validator) -> Option<WebEvent> {
        let kind = validator.one_of(&at.field("type"), &self.kind);
        let notification_id =
            validator.id(&at.field("notification_id"), &self.notification_id, NotificationId::new);
        let happened_at = validator.instant(&at.field("at"), self.at.map(Timestamp::as_ms));
        Some(WebEvent { kind: kind?, notification_id: notification_id?, at: happened_at })
    }
}

/// Converts an origin to the form in which browsers send it in `Origin` (RFC 6454, section 6.2). Returns
/// the violated rule of an invalid origin. `http` is accepted only for the local host: for other hosts,
/// browsers require TLS to subscribe.
fn normalize_origin(text: &str) -> Result<String, &'static str> {
    const RULE: &str = "must be an origin, such as https://shop.example";
    if text.chars().nth(ORIGIN_CHARS_MAX).is_some() {
        return Err(RULE);
    }
    if text == "*" || text == "null" {
        return Err("must be one origin: there is no wildcard");
    }
    let url = Url::parse(text).map_err(|_| RULE)?;
    let is_bare = url.path() == "/" && url.query().is_none() && url.fragment().is_none();
    if !is_bare || !url.username().is_empty() || url.password().is_some() {
        return Err(RULE);
    }
    let is_local = is_this_machine(&url);
    match (url.scheme(), url.origin()) {
        ("https", origin @ Origin::Tuple(..)) => Ok(origin.ascii_serialization()),
        ("http", origin @ Origin::Tuple(..)) if is_local => Ok(origin.ascii_serialization()),
        ("http", _) => Err("must be https, but for localhost"),
        _ => Err(RULE),
    }
}

/// Converts the host of a push service to lower case. `*.` and a domain stand for all hosts of the
/// domain. Returns the violated rule of an invalid host.
fn normalize_push_service(text: &str) -> Result<String, &'static str> {
    const RULE: &str = "must be a host, such as push.example or *.push.example";
    let host = text.to_ascii_lowercase();
    let name = host.strip_prefix("*.").unwrap_or(&host);
    let is_in_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-.[]:".contains(&byte);
    let is_host_name =
        !name.is_empty() && name.len() <= HOST_CHARS_MAX && name.bytes().all(is_in_name);
    // `Host::parse` converts some texts to another host, such as a number to an IPv4 address. These are
    // refused: the allowed host would not be the one that the administrator reads.
    let parsed = Host::parse(name).map_err(|_| RULE)?;
    if is_host_name && parsed.to_string() == name { Ok(host) } else { Err(RULE) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_normalized() {
        for (text, expected) in [
            ("https://shop.example", Some("https://shop.example")),
            ("https://Shop.Example:443/", Some("https://shop.example")),
            ("https://shop.example:8443", Some("https://shop.example:8443")),
            ("https://bücher.example", Some("https://xn--bcher-kva.example")),
            ("http://localhost:8000", Some("http://localhost:8000")),
            ("http://app.localhost", Some("http://app.localhost")),
            ("http://127.0.0.1:5", Some("http://127.0.0.1:5")),
            ("http://[::1]:5", Some("http://[::1]:5")),
            ("http://shop.example", None),
            ("http://localhost.shop.example", None),
            ("https://shop.example/path", None),
            ("https://shop.example?q", None),
            ("https://me@shop.example", None),
            ("https://*.shop.example/x", None),
            ("ftp://shop.example", None),
            ("file:///tmp", None),
            ("shop.example", None),
            ("null", None),
            ("*", None),
            ("", None),
        ] {
            assert_eq!(normalize_origin(text).ok().as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn push_services_are_hosts() {
        for (text, expected) in [
            ("FCM.googleapis.com", Some("fcm.googleapis.com")),
            ("*.push.apple.com", Some("*.push.apple.com")),
            ("127.0.0.1", Some("127.0.0.1")),
            ("[::1]", Some("[::1]")),
            ("push.example:443", None),
            ("https://push.example", None),
            ("*", None),
            ("*.", None),
            ("a.*.example", None),
            ("2130706433", None),
            ("", None),
        ] {
            assert_eq!(normalize_push_service(text).ok().as_deref(), expected, "{text}");
        }
    }
}
