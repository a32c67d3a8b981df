//! Payload and headers for APNs (Apple, "Generating a remote notification"). The provider adds the path,
//! the topic and the authorization.

use bytes::Bytes;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use notify_core::{IosPresentation, Platform, Priority};
use serde::ser::{Serialize, SerializeMap, Serializer};
use uuid::Uuid;

use super::{
    APNS_COLLAPSE_ID_BYTES_MAX, RenderContext, TooLarge, collapse_header, collapse_identity,
};
use crate::payload::APNS_BYTES_MAX;
use crate::payload::gapped::{Counting, GappedBody};
use crate::payload::{DisplayFields, fit_title};

/// The kind of message; required since watchOS 6.
pub const PUSH_TYPE: HeaderName = HeaderName::from_static("apns-push-type");
/// `10` to deliver immediately; `5` to deliver when the power state of the device allows it.
pub const PRIORITY: HeaderName = HeaderName::from_static("apns-priority");
/// The Unix time in seconds until which Apple keeps the message; `0` for one attempt only.
pub const EXPIRATION: HeaderName = HeaderName::from_static("apns-expiration");
/// A later message with the same value replaces this one on the device.
pub const COLLAPSE_ID: HeaderName = HeaderName::from_static("apns-collapse-id");
/// Topic of the message: the bundle id of the app.
pub const TOPIC: HeaderName = HeaderName::from_static("apns-topic");
/// UUID of the message; see [`delivery_id`].
pub const ID: HeaderName = HeaderName::from_static("apns-id");

/// A rendered message.
#[derive(Debug, Clone)]
pub struct Payload {
    /// JSON.
    pub body: Bytes,
    /// Headers that are the same for every device. `apns-id` is the id of the notification; the provider
    /// replaces it with [`delivery_id`].
    pub headers: HeaderMap,
}

/// Renders a notification.
///
/// # Errors
/// When the JSON exceeds the 4,096 bytes that APNs accepts.
pub fn render(context: &RenderContext<'_>) -> Result<Payload, TooLarge> {
    let shown = DisplayFields::of(context);
    let too_large = |bytes| TooLarge { platform: Platform::Ios, bytes, limit: APNS_BYTES_MAX };
    let raw = shown.message.and_then(|message| message.ios_json.as_ref());
    let body = match raw {
        Some(raw) if raw.as_str().len() > APNS_BYTES_MAX => {
            return Err(too_large(raw.as_str().len()));
        }
        Some(raw) => Bytes::copy_from_slice(raw.as_str().as_bytes()),
        None => fit_title(shown.title, APNS_BYTES_MAX, |title| {
            let json = serde_json::to_vec(&Root { title, shown: &shown })
                .expect("a payload is made of texts, numbers and valid JSON");
            let size = json.len();
            (Bytes::from(json), size)
        })
        .map_err(too_large)?,
    };
    Ok(Payload { body, headers: headers(context) })
}

/// Renders a notification whose texts are marks, whatever its size, and cuts it there.
pub(crate) fn render_gapped(context: &RenderContext<'_>, texts: usize) -> (GappedBody, HeaderMap) {
    let shown = DisplayFields::of(context);
    let raw = shown.message.and_then(|message| message.ios_json.as_ref());
    let json = match raw {
        Some(raw) => Bytes::copy_from_slice(raw.as_str().as_bytes()),
        None => serde_json::to_vec(&Root { title: shown.title, shown: &shown })
            .expect("a payload is made of texts, numbers and valid JSON")
            .into(),
    };
    let body = GappedBody::cut(&json, texts, json.len(), APNS_BYTES_MAX, Counting::Json);
    (body, headers(context))
}

/// The UUID of one delivery, derived from the notification's UUID and the device token. It is the same for
/// every attempt.
#[must_use]
pub fn delivery_id(notification: &Uuid, device_token: &str) -> Uuid {
    Uuid::new_v5(notification, device_token.as_bytes())
}

/// The `apns-id` of a delivery to a device with that token, for a preview.
pub(super) fn placeholder_id(notification: &str, device_token: &str) -> HeaderValue {
    header_value(&delivery_id(&notification_uuid(notification), device_token).to_string())
}

fn headers(context: &RenderContext<'_>) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(8);
    // A payload with an `alert`, such as one of `ios_json`, must not be `background`. Apple refuses
    // `background` with another priority than 5.
    let (push_type, priority) = match context.priority {
        _ if context.content.is_silent() => ("background", "5"),
        Priority::High => ("alert", "10"),
        Priority::Normal => ("alert", "5"),
    };
    headers.insert(PUSH_TYPE, HeaderValue::from_static(push_type));
    headers.insert(PRIORITY, HeaderValue::from_static(priority));
    let expiration = context.expires_at.map_or(0, |at| at.as_seconds());
    headers.insert(EXPIRATION, HeaderValue::from(expiration));
    let identity = collapse_identity(context);
    let collapse_id = collapse_header(identity, APNS_COLLAPSE_ID_BYTES_MAX);
    headers.insert(COLLAPSE_ID, header_value(&collapse_id));
    headers.insert(ID, header_value(&notification_uuid(context.id.as_str()).to_string()));
    headers
}

/// The notification's id as a UUID, or a UUID derived from it.
fn notification_uuid(id: &str) -> Uuid {
    Uuid::try_parse(id).unwrap_or_else(|_| Uuid::new_v5(&Uuid::NAMESPACE_OID, id.as_bytes()))
}

/// A header value from a text of visible ASCII.
fn header_value(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).expect("made of visible ASCII")
}

/// `aps` and the data keys.
struct Root<'a> {
    title: &'a str,
    shown: &'a DisplayFields<'a>,
}

impl Serialize for Root<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("aps", &Aps(self))?;
        self.shown.write_data(&mut map)?;
        map.end()
    }
}

struct Aps<'a>(&'a Root<'a>);

impl Serialize for Aps<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Root { title, shown } = self.0;
        if shown.is_silent() {
            let mut map = serializer.serialize_map(None)?;
            map.serialize_entry("content-available", &1)?;
            return map.end();
        }
        let ios = shown.message.and_then(|message| message.ios_alert.as_ref());
        let mut map = serializer.serialize_map(None)?;
        let options = shown.message.map(|message| &message.ios);
        let subtitle = options.and_then(|options| options.subtitle.as_deref());
        map.serialize_entry("alert", &Alert { title, subtitle, body: shown.text })?;
        if let Some(ios) = ios {
            map.serialize_entry("badge", &ios.badge)?;
        }
        map.serialize_entry("sound", ios.map_or("default", |ios| ios.sound.as_str()))?;
        if let Some(options) = options {
            write_options(options, &mut map)?;
        }
        let is_enriched = shown.image_url.is_some() || shown.campaign_id.is_some();
        let mutable_content = options.and_then(|options| options.mutable_content);
        if mutable_content.unwrap_or(is_enriched) {
            map.serialize_entry("mutable-content", &1)?;
        }
        map.end()
    }
}

/// Writes the options that are members of `aps` of their own.
fn write_options<M: SerializeMap>(options: &IosPresentation, map: &mut M) -> Result<(), M::Error> {
    if let Some(thread_id) = &options.thread_id {
        map.serialize_entry("thread-id", thread_id)?;
    }
    if let Some(category) = &options.category {
        map.serialize_entry("category", category)?;
    }
    if let Some(level) = options.interruption_level {
        map.serialize_entry("interruption-level", &level)?;
    }
    if let Some(score) = options.relevance_score {
        map.serialize_entry("relevance-score", &score)?;
    }
    Ok(())
}

#[derive(serde::Serialize)]
struct Alert<'a> {
    title: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    subtitle: Option<&'a str>,
    body: &'a str,
}
