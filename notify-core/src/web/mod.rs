//! What browsers may do without an API key: how an application allows it, and what a page and its
//! service worker send and get under `/web/v1`.

use serde::{Deserialize, Serialize};

mod check;
mod origin;

use crate::{
    AppId, DeviceId, EventType, NotificationId, PushSubscription, Subscription, Tag, Timestamp,
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
