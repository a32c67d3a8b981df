//! The message for a browser: the JSON that the service worker shows, which is encrypted later, and the
//! headers that the push service reads (RFC 8030).

use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use notify_core::{ActionButton, Platform, Priority, WebPresentation};
use serde::ser::{Serialize, SerializeMap, Serializer};

use super::{RenderContext, TooLarge, collapse_identity, push_topic};
use crate::payload::WEB_PUSH_BYTES_MAX;
use crate::payload::gapped::{Counting, GappedBody};
use crate::payload::{DisplayFields, fit_title};

/// How long the push service keeps the message for an offline browser, in seconds; `0` for one attempt
/// only (RFC 8030 section 5.2).
const TTL: HeaderName = HeaderName::from_static("ttl");
/// How urgently the browser must be woken (RFC 8030 section 5.3).
const URGENCY: HeaderName = HeaderName::from_static("urgency");
/// A later message with the same value replaces a message that still waits (RFC 8030 section 5.4).
const TOPIC: HeaderName = HeaderName::from_static("topic");

/// A rendered message.
#[derive(Debug, Clone)]
pub(crate) struct Payload {
    /// JSON, to be encrypted for each browser.
    pub(crate) body: Bytes,
    /// Headers that are the same for every browser.
    pub(crate) headers: HeaderMap,
}

/// Renders a notification.
///
/// # Errors
/// When its JSON exceeds [`WEB_PUSH_BYTES_MAX`].
pub(crate) fn render(context: &RenderContext<'_>) -> Result<Payload, TooLarge> {
    let shown = DisplayFields::of(context);
    let body = fit_title(shown.title, WEB_PUSH_BYTES_MAX, |title| {
        let root = Root { title, shown: &shown, tag: collapse_identity(context) };
        let json = serde_json::to_vec(&root).expect("a payload is made of texts and valid JSON");
        let size = json.len();
        (Bytes::from(json), size)
    })
    .map_err(|bytes| TooLarge {
        platform: Platform::Web,
        bytes,
        limit: WEB_PUSH_BYTES_MAX,
    })?;
    Ok(Payload { body, headers: headers(context) })
}

/// Renders a notification whose texts are marks, whatever its size, and cuts it there.
pub(crate) fn render_gapped(context: &RenderContext<'_>, texts: usize) -> (GappedBody, HeaderMap) {
    let shown = DisplayFields::of(context);
    let root = Root { title: shown.title, shown: &shown, tag: collapse_identity(context) };
    let json = serde_json::to_vec(&root).expect("a payload is made of texts and valid JSON");
    let json = Bytes::from(json);
    let body = GappedBody::cut(&json, texts, json.len(), WEB_PUSH_BYTES_MAX, Counting::Json);
    (body, headers(context))
}

fn headers(context: &RenderContext<'_>) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(8);
    headers.insert(TTL, HeaderValue::from(context.ttl_seconds));
    let urgency = match context.priority {
        Priority::High => "high",
        Priority::Normal => "normal",
    };
    headers.insert(URGENCY, HeaderValue::from_static(urgency));
    let topic = push_topic(collapse_identity(context));
    headers.insert(TOPIC, HeaderValue::from_str(&topic).expect("base64url is visible ASCII"));
    headers.insert(CONTENT_ENCODING, HeaderValue::from_static("aes128gcm"));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers
}

/// The options of the Notifications API.
struct Root<'a> {
    title: &'a str,
    shown: &'a DisplayFields<'a>,
    tag: &'a str,
}

impl Serialize for Root<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let shown = self.shown;
        let actions = shown.message.map_or(&[][..], |message| message.web_push_actions.as_slice());
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("title", self.title)?;
        map.serialize_entry("body", shown.text)?;
        if let Some(image) = shown.image_url {
            map.serialize_entry("image", image)?;
        }
        if let Some(url) = shown.url {
            map.serialize_entry("url", url)?;
        }
        if !actions.is_empty() {
            let actions: Vec<_> = actions.iter().map(Action::of).collect();
            map.serialize_entry("actions", &actions)?;
        }
        if let Some(message) = shown.message {
            write_options(&message.web, &mut map)?;
        }
        map.serialize_entry("tag", self.tag)?;
        map.serialize_entry("data", &Data(shown))?;
        map.end()
    }
}

/// Writes the options under their names in the Notifications API.
fn write_options<M: SerializeMap>(options: &WebPresentation, map: &mut M) -> Result<(), M::Error> {
    let urls = [("icon", &options.icon), ("badge", &options.badge)];
    for (name, url) in urls {
        if let Some(url) = url {
            map.serialize_entry(name, url)?;
        }
    }
    let flags = [
        ("requireInteraction", options.require_interaction),
        ("silent", options.silent),
        ("renotify", options.renotify),
    ];
    for (name, flag) in flags {
        if let Some(flag) = flag {
            map.serialize_entry(name, &flag)?;
        }
    }
    Ok(())
}

struct Data<'a>(&'a DisplayFields<'a>);

impl Serialize for Data<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        self.0.write_data(&mut map)?;
        map.end()
    }
}

#[derive(serde::Serialize)]
struct Action<'a> {
    action: &'a str,
    title: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    icon: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<&'a str>,
}

impl<'a> Action<'a> {
    fn of(button: &'a ActionButton) -> Self {
        Self {
            action: &button.action,
            title: &button.title,
            icon: button.icon.as_deref(),
            url: button.url.as_deref(),
        }
    }
}
