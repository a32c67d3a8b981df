//! The body for FCM HTTP v1 (Google, `projects.messages`). It is a template with a gap for the device's
//! registration token.

use std::borrow::Cow;

use bytes::{BufMut, Bytes, BytesMut};
use notify_core::json::JsonObject;
use notify_core::{AndroidPresentation, AndroidVisibility, Platform, Priority};
use serde::{Serialize, Serializer};

use super::{BodyTemplate, RenderContext, TooLarge, collapse_identity};
use crate::payload::FCM_BYTES_MAX;
use crate::payload::gapped::{Counting, GappedBody};
use crate::payload::{DisplayFields, fit_title};

/// A rendered message.
#[derive(Debug, Clone)]
pub(crate) struct Payload {
    /// The body, with a gap for the token.
    pub body: BodyTemplate,
    /// Number of bytes that count towards the limit: see [`render`].
    pub counted_bytes: usize,
}

/// Renders a notification. With `enriched_as_data`, a notification with a campaign or a poll is sent as
/// data only, so that the app's SDK can enrich it.
///
/// # Errors
/// When the keys and values of `data`, `notification` and `android.notification` together exceed
/// [`FCM_BYTES_MAX`]. The token and the delivery options do not count.
pub(crate) fn render(
    context: &RenderContext<'_>,
    enriched_as_data: bool,
) -> Result<Payload, TooLarge> {
    let shown = DisplayFields::of(context);
    let settings_title = shown.message.and_then(|message| message.android_title.as_deref());
    let title = settings_title.unwrap_or(shown.title);
    fit_title(title, FCM_BYTES_MAX, |title| {
        let payload = Message::of(context, &shown, title, enriched_as_data).into_payload();
        let counted_bytes = payload.counted_bytes;
        (payload, counted_bytes)
    })
    .map_err(|bytes| TooLarge { platform: Platform::Android, bytes, limit: FCM_BYTES_MAX })
}

/// Renders a notification whose texts are marks, whatever its size, and cuts the part after the token there.
/// Returns the part before the token too.
pub(crate) fn render_gapped(
    context: &RenderContext<'_>,
    enriched_as_data: bool,
    texts: usize,
) -> (Bytes, GappedBody) {
    let shown = DisplayFields::of(context);
    let settings_title = shown.message.and_then(|message| message.android_title.as_deref());
    let title = settings_title.unwrap_or(shown.title);
    let payload = Message::of(context, &shown, title, enriched_as_data).into_payload();
    let BodyTemplate { before, after } = payload.body;
    let size = payload.counted_bytes;
    (before, GappedBody::cut(&after, texts, size, FCM_BYTES_MAX, Counting::Text))
}

/// The `message` object of a request, without its token.
#[derive(Serialize)]
struct Message<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    notification: Option<Notification<'a>>,
    #[serde(serialize_with = "as_map")]
    data: Vec<Pair<'a>>,
    android: Android<'a>,
}

/// Key and value of `data`, which contains only strings.
type Pair<'a> = (Cow<'a, str>, Cow<'a, str>);

#[derive(Serialize)]
struct Notification<'a> {
    title: &'a str,
    body: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    image: Option<&'a str>,
}

#[derive(Serialize)]
struct Android<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    collapse_key: Option<&'a str>,
    priority: &'static str,
    ttl: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    direct_boot_ok: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    notification: Option<AndroidNotification<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fcm_options: Option<FcmOptions<'a>>,
}

#[derive(Serialize)]
struct FcmOptions<'a> {
    analytics_label: &'a str,
}

#[derive(Serialize)]
struct AndroidNotification<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    sound: Option<&'a str>,
    tag: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    channel_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    icon: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    color: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    notification_count: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    visibility: Option<&'static str>,
}

impl<'a> AndroidNotification<'a> {
    fn of(sound: Option<&'a str>, tag: &'a str, options: Option<&'a AndroidPresentation>) -> Self {
        Self {
            sound,
            tag,
            channel_id: options.and_then(|options| options.channel_id.as_deref()),
            icon: options.and_then(|options| options.icon.as_deref()),
            color: options.and_then(|options| options.color.as_deref()),
            notification_count: options.and_then(|options| options.notification_count),
            visibility: options.and_then(|options| options.visibility).map(|visibility| {
                match visibility {
                    AndroidVisibility::Private => "PRIVATE",
                    AndroidVisibility::Public => "PUBLIC",
                    AndroidVisibility::Secret => "SECRET",
                }
            }),
        }
    }

    /// The number of bytes of its keys and values.
    fn counted_bytes(&self) -> usize {
        let count = self.notification_count.map(|count| count.to_string());
        [
            ("tag", Some(self.tag)),
            ("sound", self.sound),
            ("channel_id", self.channel_id),
            ("icon", self.icon),
            ("color", self.color),
            ("notification_count", count.as_deref()),
            ("visibility", self.visibility),
        ]
        .into_iter()
        .filter_map(|(key, value)| Some(key.len() + value?.len()))
        .sum()
    }
}

impl<'a> Message<'a> {
    fn of(
        context: &RenderContext<'a>,
        shown: &'a DisplayFields<'a>,
        title: &'a str,
        as_data: bool,
    ) -> Self {
        let without_options = Android {
            collapse_key: None,
            priority: match context.priority {
                Priority::High => "HIGH",
                Priority::Normal => "NORMAL",
            },
            ttl: format!("{}s", context.ttl_seconds),
            direct_boot_ok: None,
            notification: None,
            fcm_options: None,
        };
        if let Some(raw) = shown.message.and_then(|message| message.android_json.as_ref()) {
            return Self { notification: None, data: raw_data(raw), android: without_options };
        }
        let options = shown.message.map(|message| &message.android);
        let android = Android {
            direct_boot_ok: options.and_then(|options| options.direct_boot_ok),
            fcm_options: options
                .and_then(|options| options.analytics_label.as_deref())
                .map(|analytics_label| FcmOptions { analytics_label }),
            ..without_options
        };
        let mut data = shown_data(shown);
        if shown.is_silent() {
            let android = Android { collapse_key: context.collapse_key, ..android };
            return Self { notification: None, data, android };
        }
        if as_data && shown.is_enriched() {
            // The app shows the notification from these keys, so they replace an extra pair with the same
            // name.
            data.retain(|(key, _)| !matches!(key.as_ref(), "title" | "body"));
            data.push((Cow::Borrowed("title"), Cow::Borrowed(title)));
            data.push((Cow::Borrowed("body"), Cow::Borrowed(shown.text)));
            // A message without `notification` has no `tag`. Its `collapse_key` is only set if the caller
            // gave one: Google stores messages with four different keys for a device, so a key for each
            // notification would make Google drop others.
            let android = Android { collapse_key: context.collapse_key, ..android };
            return Self { notification: None, data, android };
        }
        Self {
            notification: Some(Notification { title, body: shown.text, image: shown.image_url }),
            data,
            android: Android {
                notification: Some(AndroidNotification::of(
                    shown.message.and_then(|message| message.android_sound.as_deref()),
                    collapse_identity(context),
                    options,
                )),
                ..android
            },
        }
    }

    fn into_payload(self) -> Payload {
        let json = serde_json::to_vec(&self).expect("a message is made of texts");
        let mut after = BytesMut::with_capacity(json.len() + 3);
        after.put_slice(b"\",");
        after.put_slice(&json[1..]);
        after.put_slice(b"}");
        Payload {
            body: BodyTemplate {
                before: Bytes::from_static(br#"{"message":{"token":""#),
                after: after.freeze(),
            },
            counted_bytes: self.counted_bytes(),
        }
    }

    /// The number of bytes that Google counts: the keys and values that the device receives.
    fn counted_bytes(&self) -> usize {
        let field = |key: &str, value: &str| key.len() + value.len();
        let data: usize = self.data.iter().map(|(key, value)| field(key, value)).sum();
        let notification = self.notification.as_ref().map_or(0, |shown| {
            field("title", shown.title)
                + field("body", shown.body)
                + shown.image.map_or(0, |image| field("image", image))
        });
        let android =
            self.android.notification.as_ref().map_or(0, AndroidNotification::counted_bytes);
        data + notification + android
    }
}

/// The data keys, with the extra value as JSON text.
fn shown_data<'a>(shown: &'a DisplayFields<'a>) -> Vec<Pair<'a>> {
    let texts = shown.data_texts().map(|(key, value)| (Cow::Borrowed(key), Cow::Borrowed(value)));
    let extra = shown
        .extra
        .map(|extra| (Cow::Borrowed(extra.key.as_str()), Cow::Borrowed(extra.value.as_str())));
    texts.chain(extra).collect()
}

/// The members of the caller's `android_json`. Strings are unchanged; any other value becomes JSON text.
fn raw_data(raw: &JsonObject) -> Vec<Pair<'static>> {
    raw.members()
        .into_iter()
        .map(|(key, value)| {
            let json = value.get();
            let text = serde_json::from_str::<String>(json).unwrap_or_else(|_| json.to_owned());
            (Cow::Owned(key), Cow::Owned(text))
        })
        .collect()
}

/// Serializes the pairs as an object.
fn as_map<S: Serializer>(pairs: &[Pair<'_>], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(pairs.iter().map(|(key, value)| (key, value)))
}
