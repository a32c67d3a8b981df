//! What browsers may do without an API key: how an application allows it, and what a page and its
//! service worker send and get under `/web/v1`.

use serde::{Deserialize, Serialize};
use url::{Host, Origin, Url};

use crate::device::{check_subscription, read_subscription};
use crate::json::{Body, Object};
use crate::request::request;
use crate::tag::{check_tags, read_tag};
use crate::violations::{Findings, Path, path};
use crate::{
    AppId, DeviceId, EventType, NotificationId, Platform, PushSubscription, Subscribe,
    Subscription, TAG_NAME_CHARS_MAX, Tag, Timestamp,
};

/// Most origins of one application.
pub const WEB_ORIGINS_MAX: usize = 50;
/// Most tags that browsers may set on themselves.
pub const WEB_TAGS_MAX: usize = 50;
/// Most push services of one application.
pub const WEB_PUSH_SERVICES_MAX: usize = 50;
/// Most events of one request of a browser.
pub const WEB_EVENTS_PER_REQUEST_MAX: usize = 50;
/// Longest language of a browser, in characters (RFC 5646, section 4.4.1).
pub const WEB_LANGUAGE_CHARS_MAX: usize = 35;
/// Longest host of a push service, in characters (RFC 1035, section 3.1).
pub const HOST_CHARS_MAX: usize = 253;
/// Longest origin, in characters: `https://`, a host and a port.
pub const ORIGIN_CHARS_MAX: usize = 8 + HOST_CHARS_MAX + 6;
/// Longest device secret that is looked at, in characters; ours are shorter.
pub const WEB_SECRET_CHARS_MAX: usize = 128;
/// Hosts of the push services of Chrome, Firefox, Safari and Edge.
pub const WEB_PUSH_SERVICES_DEFAULT: [&str; 5] = [
    "fcm.googleapis.com",
    "jmt17.google.com",
    "*.push.services.mozilla.com",
    "*.push.apple.com",
    "*.notify.windows.com",
];

/// Body of `PUT /admin/v1/apps/:id/web`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SetWebAccess {
    /// Origins of the pages that may subscribe: `https://` and a host, or `http://localhost` with a
    /// port. 1 to 50.
    pub allowed_origins: Vec<String>,
    /// Names of tags that a browser may set on itself; none when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_tags: Option<Vec<String>>,
    /// Hosts that a subscription may name, `*.` before those of a whole domain; those of the known
    /// browsers when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub push_services: Option<Vec<String>>,
}

/// What browsers may do with an application; every rule holds. Also the answer of
/// `GET /admin/v1/apps/:id/web`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WebAccess {
    /// Origins as browsers write them in `Origin`.
    pub allowed_origins: Vec<String>,
    /// Tags that a browser may set on itself.
    pub allowed_tags: Vec<String>,
    /// Hosts that a subscription may name.
    pub push_services: Vec<String>,
}

impl WebAccess {
    /// Whether a page of that origin may call.
    #[must_use]
    pub fn allows_origin(&self, origin: &str) -> bool {
        self.allowed_origins.iter().any(|allowed| allowed == origin)
    }

    /// Whether a browser may be subscribed with a push service of that host.
    #[must_use]
    pub fn allows_push_service(&self, host: &str) -> bool {
        let host = host.to_ascii_lowercase();
        self.push_services.iter().any(|allowed| match allowed.strip_prefix('*') {
            Some(domain) => host.len() > domain.len() && host.ends_with(domain),
            None => host == *allowed,
        })
    }
}

/// Answer of `GET /web/v1/:app_id`: what a page needs to subscribe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WebConfig {
    /// The application.
    pub app: AppId,
    /// `applicationServerKey` of the subscription: an uncompressed P-256 point, base64url.
    pub vapid_public_key: String,
}

/// Body of `POST /web/v1/:app_id/devices`.
#[derive(Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WebSubscribe {
    /// What the browser's `PushSubscription` serialises to.
    pub subscription: PushSubscription,
    /// The device that this browser is already.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_id: Option<String>,
    /// Its secret; comes with `device_id`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_secret: Option<String>,
    /// Language code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub language: Option<String>,
    /// `GMT` or `GMT±HH:MM`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timezone: Option<String>,
    /// Minutes from UTC, as a string.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub utc_offset: Option<String>,
    /// Tags of this browser; each must be among the application's `allowed_tags`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<Tag>>))]
    pub tags: Vec<Tag>,
}

/// A browser that holds every rule.
#[derive(Clone, PartialEq, Eq)]
pub struct BrowserSubscription {
    /// Address, language and time zone; it names no device.
    pub subscription: Subscription,
    /// The device that it says it is, with its secret.
    pub known: Option<(DeviceId, String)>,
    /// Tags to set.
    pub tags: Vec<Tag>,
}

/// Answer of `POST /web/v1/:app_id/devices`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WebSubscribed {
    /// Id of the device.
    pub id: DeviceId,
    /// What the browser shows from now on, in `X-Device-Secret`; null when the one it has stays.
    pub device_secret: Option<String>,
}

/// Body of `POST /web/v1/:app_id/devices/:device_id/events`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WebReport {
    /// 1 to 50 events of this browser.
    pub events: Vec<WebReportEvent>,
}

/// One event of a [`WebReport`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WebReportEvent {
    /// `received`, `opened`, `clicked` or `dismissed`.
    #[cfg_attr(feature = "openapi", schema(value_type = EventType))]
    #[serde(rename = "type")]
    pub kind: String,
    /// The notification.
    pub notification_id: String,
    /// When it happened, unix ms; now when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
}

/// An event of a browser that holds every rule; whose it is stands in the path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebEvent {
    /// What happened.
    pub kind: EventType,
    /// The notification.
    pub notification_id: NotificationId,
    /// When; the server's clock when absent.
    pub at: Option<Timestamp>,
}

// Reads and checks what an administrator allows and what browsers send.

request!(SetWebAccess => WebAccess, Body::Required, read_access, check_access);
request!(WebSubscribe => BrowserSubscription, Body::Required, read_browser, check_browser);
request!(WebReport => Vec<WebEvent>, Body::Required, read_report, check_report);

fn read_access(object: &mut Object<'_, '_>) -> SetWebAccess {
    object.require("allowed_origins");
    SetWebAccess {
        allowed_origins: object.strings("allowed_origins", WEB_ORIGINS_MAX).unwrap_or_default(),
        allowed_tags: object.strings("allowed_tags", WEB_TAGS_MAX),
        push_services: object.strings("push_services", WEB_PUSH_SERVICES_MAX),
    }
}

fn check_access(
    request: SetWebAccess,
    _now: Timestamp,
    findings: &mut Findings,
) -> Option<WebAccess> {
    let origins = path("allowed_origins");
    if request.allowed_origins.is_empty() {
        findings.broken(&origins, "must hold at least 1 origin");
    }
    findings.at_most(&origins, request.allowed_origins.len(), WEB_ORIGINS_MAX, "origins");
    let tags = path("allowed_tags");
    let names = request.allowed_tags.unwrap_or_default();
    findings.at_most(&tags, names.len(), WEB_TAGS_MAX, "tags");
    for (place, name) in names.iter().enumerate() {
        findings.required_up_to(&tags.index(place), name.clone(), TAG_NAME_CHARS_MAX);
    }
    let services = path("push_services");
    let hosts = request
        .push_services
        .unwrap_or_else(|| WEB_PUSH_SERVICES_DEFAULT.map(str::to_owned).into());
    findings.at_most(&services, hosts.len(), WEB_PUSH_SERVICES_MAX, "hosts");
    Some(WebAccess {
        allowed_origins: each(&origins, &request.allowed_origins, findings, origin),
        allowed_tags: names,
        push_services: each(&services, &hosts, findings, push_service),
    })
}

/// The texts of a list in their own form, each once.
fn each(
    at: &Path<'_>,
    texts: &[String],
    findings: &mut Findings,
    read: fn(&str) -> Result<String, &'static str>,
) -> Vec<String> {
    let mut all = Vec::with_capacity(texts.len());
    for (place, text) in texts.iter().enumerate() {
        match read(text) {
            Ok(text) if !all.contains(&text) => all.push(text),
            Ok(_) => {}
            Err(rule) => findings.broken(&at.index(place), rule),
        }
    }
    all
}

fn read_browser(object: &mut Object<'_, '_>) -> WebSubscribe {
    object.require("subscription");
    WebSubscribe {
        subscription: object.object("subscription", read_subscription).unwrap_or_default(),
        device_id: object.string("device_id"),
        device_secret: object.string("device_secret"),
        language: object.string("language"),
        timezone: object.string("timezone"),
        utc_offset: object.string("utc_offset"),
        tags: object.objects("tags", WEB_TAGS_MAX, read_tag).unwrap_or_default(),
    }
}

fn check_browser(
    request: WebSubscribe,
    now: Timestamp,
    findings: &mut Findings,
) -> Option<BrowserSubscription> {
    let id = path("device_id");
    let device = findings.optional_id(&id, request.device_id.as_deref(), DeviceId::new);
    let at = path("device_secret");
    let secret = findings.text_up_to(&at, request.device_secret, WEB_SECRET_CHARS_MAX);
    if device.is_none() && secret.is_some() {
        findings.broken(&id, "is required with device_secret");
    }
    if device.is_some() && secret.is_none() {
        findings.broken(&at, "is required with device_id");
    }
    let tags = check_tags(request.tags, WEB_TAGS_MAX, findings);
    // A stranger may call this, and administrators read what is kept of it.
    if request.language.as_deref().is_some_and(|text| !text.is_empty() && !is_language(text)) {
        findings.broken(&path("language"), "must be a language code, such as en or pt-BR");
    }
    let subscribe = Subscribe {
        platform: Platform::Web.as_str().to_owned(),
        subscription: Some(request.subscription),
        language: request.language,
        timezone: request.timezone,
        utc_offset: request.utc_offset,
        ..Subscribe::default()
    };
    let subscription = check_subscription(subscribe, now, findings)?;
    Some(BrowserSubscription { subscription, known: device.zip(secret), tags })
}

/// Whether it has the form of a language tag (RFC 5646, section 2.1), as browsers give them.
fn is_language(text: &str) -> bool {
    let is_in_tag = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    text.len() <= WEB_LANGUAGE_CHARS_MAX && text.bytes().all(is_in_tag)
}

fn read_report(object: &mut Object<'_, '_>) -> WebReport {
    let events = object.objects("events", WEB_EVENTS_PER_REQUEST_MAX, |event| WebReportEvent {
        kind: event.required_string("type"),
        notification_id: event.required_string("notification_id"),
        at: event.instant("at").map(Timestamp),
    });
    WebReport { events: events.unwrap_or_default() }
}

fn check_report(
    request: WebReport,
    _now: Timestamp,
    findings: &mut Findings,
) -> Option<Vec<WebEvent>> {
    let WebReport { events: reported } = request;
    let events = path("events");
    if reported.is_empty() {
        findings.broken(&events, "must hold at least 1 event");
    }
    findings.at_most(&events, reported.len(), WEB_EVENTS_PER_REQUEST_MAX, "events");
    let mut valid = Vec::with_capacity(reported.len());
    for (place, event) in reported.iter().enumerate() {
        valid.extend(check_event(&events.index(place), event, findings));
    }
    Some(valid)
}

fn check_event(at: &Path<'_>, event: &WebReportEvent, findings: &mut Findings) -> Option<WebEvent> {
    let kind = findings.word(&at.field("type"), &event.kind, &EventType::ALL, EventType::as_str);
    let id = at.field("notification_id");
    let notification_id = findings.id(&id, &event.notification_id, NotificationId::new);
    let happened = findings.instant(&at.field("at"), event.at.map(Timestamp::as_ms));
    Some(WebEvent { kind: kind?, notification_id: notification_id?, at: happened })
}

// Origins and hosts as an administrator writes them.

/// The origin as browsers write it in `Origin` (RFC 6454, section 6.2). Plain `http` is for this
/// machine alone: nowhere else do browsers subscribe without TLS.
fn origin(text: &str) -> Result<String, &'static str> {
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
    let is_local = match url.host() {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    match (url.scheme(), url.origin()) {
        ("https", origin @ Origin::Tuple(..)) => Ok(origin.ascii_serialization()),
        ("http", origin @ Origin::Tuple(..)) if is_local => Ok(origin.ascii_serialization()),
        ("http", _) => Err("must be https, but for localhost"),
        _ => Err(RULE),
    }
}

/// The host of a push service in lower case, `*.` before those of a whole domain.
fn push_service(text: &str) -> Result<String, &'static str> {
    const RULE: &str = "must be a host, such as push.example or *.push.example";
    let host = text.to_ascii_lowercase();
    let name = host.strip_prefix("*.").unwrap_or(&host);
    let is_in_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-.[]:".contains(&byte);
    let fits = !name.is_empty() && name.len() <= HOST_CHARS_MAX && name.bytes().all(is_in_name);
    // What is read as something else than it was written, such as a port, is no host.
    let read = Host::parse(name).map_err(|_| RULE)?;
    if fits && read.to_string() == name { Ok(host) } else { Err(RULE) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_kept_as_browsers_write_it() {
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
            assert_eq!(origin(text).ok().as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn a_push_service_is_a_host() {
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
            assert_eq!(push_service(text).ok().as_deref(), expected, "{text}");
        }
    }
}
