//! Access of browsers without an API key: how an application allows it, and the requests and responses
//! of `/web/v1`.

use serde::{Deserialize, Serialize};
#[cfg(feature = "openapi")]
use serde_json::json;
use url::{Host, Origin, Url};

use crate::address::is_this_machine;
use crate::device::{TimeZone, UtcOffset};
use crate::field::{
    Id, Instant, List, Model, ModelFields, NameOf, Nested, Text, TextKind, without_duplicates,
};
use crate::json::BodyPresence;
use crate::request::{model, request};
#[cfg(feature = "openapi")]
use crate::schema::{Schemas, Together, given, unset};
use crate::tag::{TagName, Tags};
use crate::violations::{Path, Validator};
use crate::{
    AppId, DeviceDetails, DeviceId, Endpoint, EventType, NotificationId, PushSubscription,
    Subscription, Tag, Timestamp,
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
    pub struct SetWebAccess with SetWebAccessFields {
        /// 1 to 50 origins of pages that may subscribe: `https://` and a host, or `http://localhost` with
        /// a port.
        pub allowed_origins: Vec<String> as List<PageOrigin, 1, WEB_ORIGINS_MAX>,
        /// Names of the tags that a browser may set on its device; none when absent.
        pub allowed_tags: Option<Vec<String>> as List<TagName, 0, WEB_TAGS_MAX>,
        /// Hosts of the push services that a subscription may use; `*.` and a domain allow all hosts of
        /// the domain. When absent, those of the common browsers.
        pub push_services: Option<Vec<String>> as List<PushServiceHost, 0, WEB_PUSH_SERVICES_MAX>,
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
    pub struct WebSubscribe with WebSubscribeFields {
        /// The browser's `PushSubscription` as JSON.
        pub subscription: PushSubscription as Nested<PushSubscription>,
        /// Id of the device that this browser is registered as; required with `device_secret`.
        pub device_id: Option<String> as Id<DeviceId>,
        /// Secret of the device; required with `device_id`.
        pub device_secret: Option<String> as Text<WEB_SECRET_CHARS_MAX>,
        /// Language code.
        pub language: Option<String> as BrowserLanguage,
        /// Time zone of the IANA database, such as `Europe/Vienna`, or offset from UTC, `GMT` or
        /// `GMT±HH:MM`. Takes precedence over `utc_offset`.
        pub timezone: Option<String> as TimeZone,
        /// Offset from UTC in minutes, as a string.
        pub utc_offset: Option<String> as UtcOffset,
        /// Tags to set on the device; each must be in the application's `allowed_tags`.
        pub tags: Option<Vec<Tag>> as Tags<WEB_TAGS_MAX>,
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
    pub struct WebReport with WebReportFields {
        /// 1 to 50 events of the device.
        pub events: Vec<WebReportEvent>
            as List<Nested<WebReportEvent>, 1, WEB_EVENTS_PER_REQUEST_MAX>,
    }
}

model! {
    /// One event of a [`WebReport`].
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub struct WebReportEvent => #[derive(Debug, Clone, PartialEq, Eq)] pub WebEvent {
        /// `received`, `opened`, `clicked` or `dismissed`.
        pub kind ("type"): String as NameOf<EventType> => EventType,
        /// Id of the notification.
        pub notification_id: String as Id<NotificationId> => NotificationId,
        /// When it happened, unix ms; now when absent.
        pub at: Option<Timestamp> as Instant,
    }
}

request!(SetWebAccess => WebAccess, BodyPresence::Required);
request!(WebSubscribe => BrowserSubscription, BodyPresence::Required);
request!(WebReport => Vec<WebEvent>, BodyPresence::Required);

impl Model for SetWebAccess {
    type Valid = WebAccess;

    fn check(&self, at: &Path<'_>, validator: &mut Validator) -> Option<WebAccess> {
        let fields = self.check_fields(at, validator)?;
        let push_services = fields
            .push_services
            .unwrap_or_else(|| WEB_PUSH_SERVICES_DEFAULT.map(str::to_owned).into());
        Some(WebAccess {
            allowed_origins: without_duplicates(fields.allowed_origins),
            allowed_tags: fields.allowed_tags.unwrap_or_default(),
            push_services: without_duplicates(push_services),
        })
    }
}

/// The origin of a page, in the form in which browsers send it.
pub(crate) struct PageOrigin;

impl TextKind for PageOrigin {
    type Valid = String;

    fn check_text(raw: &str, at: &Path<'_>, validator: &mut Validator) -> Option<String> {
        normalize_origin(raw).map_err(|rule| validator.violation(at, rule)).ok()
    }

    #[cfg(feature = "openapi")]
    fn text_schema(_: &mut Schemas) -> serde_json::Value {
        json!({ "type": "string", "minLength": 1, "maxLength": ORIGIN_CHARS_MAX })
    }
}

/// The host of a push service in lower case, or `*.` and a domain.
pub(crate) struct PushServiceHost;

impl TextKind for PushServiceHost {
    type Valid = String;

    fn check_text(raw: &str, at: &Path<'_>, validator: &mut Validator) -> Option<String> {
        normalize_push_service(raw).map_err(|rule| validator.violation(at, rule)).ok()
    }

    #[cfg(feature = "openapi")]
    fn text_schema(_: &mut Schemas) -> serde_json::Value {
        // `*.` can precede the host.
        json!({ "type": "string", "minLength": 1, "maxLength": HOST_CHARS_MAX + 2 })
    }
}

impl Model for WebSubscribe {
    type Valid = BrowserSubscription;

    fn check(&self, at: &Path<'_>, validator: &mut Validator) -> Option<BrowserSubscription> {
        let fields = self.check_fields(at, validator);
        check_credentials(&self.device_id, &self.device_secret, at, validator);
        let fields = fields?;
        let (details, timezone_minutes) =
            DeviceDetails::in_zone(fields.language, fields.timezone, fields.utc_offset);
        let subscription = Subscription {
            device_id: None,
            endpoint: Endpoint::Web(fields.subscription),
            utc_offset_minutes: timezone_minutes.unwrap_or(0),
            timezone_minutes,
            user_id: None,
            details,
        };
        let device = DeviceCredentials::of(fields.device_id, fields.device_secret);
        Some(BrowserSubscription { subscription, device, tags: fields.tags.unwrap_or_default() })
    }

    #[cfg(feature = "openapi")]
    fn together() -> Together {
        Together {
            about: "`device_id` and `device_secret` require each other.",
            keywords: id_with_secret(),
        }
    }
}

/// Checks that an id and its secret require each other.
pub(crate) fn check_credentials(
    device_id: &Option<String>,
    secret: &Option<String>,
    at: &Path<'_>,
    validator: &mut Validator,
) {
    let has_secret = secret.as_ref().is_some_and(|secret| !secret.is_empty());
    match (device_id.is_some(), has_secret) {
        (false, true) => {
            validator.violation(&at.field("device_id"), "is required with device_secret");
        }
        (true, false) => {
            validator.violation(&at.field("device_secret"), "is required with device_id");
        }
        (true, true) | (false, false) => {}
    }
}

/// The keywords of [`check_credentials`].
#[cfg(feature = "openapi")]
pub(crate) fn id_with_secret() -> serde_json::Value {
    json!({ "anyOf": [
        { "properties": { "device_id": { "type": "null" }, "device_secret": unset() } },
        {
            "required": ["device_id", "device_secret"],
            "properties": { "device_id": given(), "device_secret": given() },
        },
    ] })
}

impl DeviceCredentials {
    pub(crate) fn of(device_id: Option<DeviceId>, secret: Option<String>) -> Option<Self> {
        Some(Self { device_id: device_id?, secret: secret? })
    }
}

/// The language of a browser. Strangers set it, and administrators read it, so it cannot be any text.
pub(crate) struct BrowserLanguage;

impl TextKind for BrowserLanguage {
    type Valid = String;

    fn check_text(raw: &str, at: &Path<'_>, validator: &mut Validator) -> Option<String> {
        if !is_language(raw) {
            validator.violation(at, "must be a language code, such as en or pt-BR");
        }
        Some(raw.to_owned())
    }

    #[cfg(feature = "openapi")]
    fn text_schema(_: &mut Schemas) -> serde_json::Value {
        let pattern = "^[A-Za-z0-9_-]+$";
        json!({ "type": "string", "maxLength": WEB_LANGUAGE_CHARS_MAX, "pattern": pattern })
    }
}

/// Whether a text has the form of a language tag (RFC 5646, section 2.1). Underscores are accepted in place
/// of hyphens.
fn is_language(text: &str) -> bool {
    let is_in_tag = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    text.len() <= WEB_LANGUAGE_CHARS_MAX && text.bytes().all(is_in_tag)
}

impl Model for WebReport {
    type Valid = Vec<WebEvent>;

    fn check(&self, at: &Path<'_>, validator: &mut Validator) -> Option<Vec<WebEvent>> {
        Some(self.check_fields(at, validator)?.events)
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
