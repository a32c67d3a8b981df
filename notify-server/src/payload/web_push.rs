//! What goes to a browser (B34, B36): the JSON that the service worker shows, before encryption.

use bytes::Bytes;
use notify_core::{ActionButton, Platform};
use serde::ser::{Serialize, SerializeMap, Serializer};

use super::shown::{Shown, fit_title};
use super::size::WEB_PUSH_BYTES_MAX;
use super::{Outgoing, TooLarge, collapse};

/// Renders a notification's JSON.
///
/// # Errors
/// When it is over [`WEB_PUSH_BYTES_MAX`].
pub(super) fn render(outgoing: &Outgoing<'_>) -> Result<Bytes, TooLarge> {
    let shown = Shown::of(outgoing);
    fit_title(outgoing.app_name, WEB_PUSH_BYTES_MAX, |title| {
        let root = Root { title, shown: &shown, tag: collapse::identity(outgoing) };
        let json = serde_json::to_vec(&root).expect("a payload is made of texts and valid JSON");
        let size = json.len();
        (Bytes::from(json), size)
    })
    .map_err(|bytes| TooLarge { platform: Platform::Web, bytes, limit: WEB_PUSH_BYTES_MAX })
}

/// The options of the Notifications API.
struct Root<'a> {
    title: &'a str,
    shown: &'a Shown<'a>,
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
        map.serialize_entry("tag", self.tag)?;
        map.serialize_entry("data", &Data(shown))?;
        map.end()
    }
}

struct Data<'a>(&'a Shown<'a>);

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
