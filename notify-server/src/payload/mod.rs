//! The messages for each provider. Pure functions turn a validated notification into a payload, its
//! headers and its size, without I/O and without credentials.

pub mod apns;
pub(crate) mod buttons;
pub(crate) mod fcm;
pub(crate) mod gapped;
pub(crate) mod messenger;
mod preview;
pub(crate) mod telegram;
#[cfg(test)]
mod tests;
pub(crate) mod web_push;

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::{BufMut, Bytes, BytesMut};
use notify_core::{
    AnswerId, Content, Extra, Message, NewPoll, Notification, NotificationId, Platform, Priority,
    Timestamp,
};
use serde::Serialize;
use serde::ser::SerializeMap;
use uuid::Uuid;

use self::buttons::{web_link, with_link};
pub(crate) use self::preview::{Preview, PreviewSettings, preview};

/// The public address of a poll. `public_url` may end in a slash.
#[must_use]
pub(crate) fn poll_url(public_url: &str, public_id: Uuid) -> String {
    format!("{}/polls/{public_id}", public_url.trim_end_matches('/'))
}

/// The input of every payload: one notification, from the engine or the API.
#[derive(Debug, Clone, Copy)]
pub struct RenderContext<'a> {
    /// Id of the notification, which is also the id of its poll.
    pub id: &'a NotificationId,
    /// Name of the application: the default title.
    pub app_name: &'a str,
    /// The message or the poll.
    pub content: &'a Content,
    /// URL of the poll's public page; `None` unless the content is a poll.
    pub poll_url: Option<&'a str>,
    /// Ids of the poll's answers, in their order; empty unless the content is a poll.
    pub poll_answers: &'a [AnswerId],
    /// How soon to deliver.
    pub priority: Priority,
    /// The caller's collapse key.
    pub collapse_key: Option<&'a str>,
    /// When the message expires; `None` if there is one attempt only (`ttl_seconds` 0).
    pub expires_at: Option<Timestamp>,
    /// The remaining part of the request's `ttl_seconds`.
    pub ttl_seconds: u32,
}

impl<'a> RenderContext<'a> {
    /// The input for a notification that is due at `due_at`, without the poll of its content.
    #[must_use]
    pub fn of(
        id: &'a NotificationId,
        app_name: &'a str,
        notification: &'a Notification,
        content: &'a Content,
        due_at: Timestamp,
    ) -> Self {
        let ttl_seconds = notification.ttl_seconds;
        Self {
            id,
            app_name,
            content,
            poll_url: None,
            poll_answers: &[],
            priority: notification.priority,
            collapse_key: notification.collapse_key.as_deref(),
            expires_at: expires_at(due_at, ttl_seconds),
            ttl_seconds,
        }
    }
}

/// When a notification expires; `None` if each delivery has one attempt only (`ttl_seconds` 0).
#[must_use]
pub fn expires_at(due_at: Timestamp, ttl_seconds: u32) -> Option<Timestamp> {
    (ttl_seconds > 0).then(|| due_at.plus_ms(i64::from(ttl_seconds) * 1_000))
}

/// A payload that the provider would not accept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the payload for {platform} would be {bytes} {}, {limit} are allowed",
    unit(*.platform)
)]
pub struct TooLarge {
    /// The platform whose limit is exceeded.
    pub platform: Platform,
    /// Size of the payload in bytes. For Messenger and the chat app this is the length of the text in
    /// characters.
    pub bytes: usize,
    /// The provider's limit.
    pub limit: usize,
}

// Bodies that differ only by the device's address.

/// A JSON body with a gap where the address of a device is inserted, as a JSON string.
#[derive(Debug, Clone)]
pub struct BodyTemplate {
    /// The part up to and including the opening quote of the address.
    pub before: Bytes,
    /// The part from the closing quote of the address.
    pub after: Bytes,
}

impl BodyTemplate {
    /// A body with the address as its first member and the members of `rest`, a JSON object, after it.
    /// `before` is the part up to the address, and `close` ends the value that contains the address.
    fn with_members(before: &'static str, close: &'static str, rest: &impl Serialize) -> Self {
        let json = serde_json::to_vec(rest).expect("a message is made of texts");
        let mut after = BytesMut::with_capacity(close.len() + json.len() + 1);
        after.put_slice(close.as_bytes());
        after.put_slice(b",");
        after.put_slice(&json[1..]);
        Self { before: Bytes::from_static(before.as_bytes()), after: after.freeze() }
    }

    /// The body for one address.
    #[must_use]
    pub fn put(&self, address: &str) -> Bytes {
        self.put_with(address, "")
    }

    /// The body for one address with further members after it. Each member begins with a comma.
    fn put_with(&self, address: &str, members: &str) -> Bytes {
        let (quote, rest) = self.after.split_at(1);
        let mut body = BytesMut::with_capacity(
            self.before.len() + address.len() + members.len() + self.after.len(),
        );
        body.put_slice(&self.before);
        let needs_no_escape =
            address.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\'));
        if needs_no_escape {
            body.put_slice(address.as_bytes());
        } else {
            let quoted = serde_json::to_vec(address).expect("a text is valid JSON");
            body.put_slice(&quoted[1..quoted.len() - 1]);
        }
        body.put_slice(quote);
        body.put_slice(members.as_bytes());
        body.put_slice(rest);
        body.freeze()
    }
}

// The displayed content, which is the same on every platform: a message or a poll.

/// Fewest characters that remain of a title that is shortened to fit. A title of at most this length is
/// never shortened.
const TITLE_CHARS_KEPT: usize = 80;

/// Text, image and data of a notification.
struct DisplayFields<'a> {
    /// The message; `None` if the content is a poll.
    message: Option<&'a Message>,
    /// Title.
    title: &'a str,
    /// Main text; the question of a poll.
    text: &'a str,
    /// Deep link; the page of a poll.
    url: Option<&'a str>,
    /// Image.
    image_url: Option<&'a str>,
    /// Campaign, in the form in which devices request it.
    campaign_id: Option<String>,
    /// The extra pair.
    extra: Option<&'a Extra>,
    notification_id: &'a str,
    is_poll: bool,
}

impl<'a> DisplayFields<'a> {
    fn of(context: &RenderContext<'a>) -> Self {
        let notification_id = context.id.as_str();
        match context.content {
            Content::Message(message) => Self {
                message: Some(message),
                title: message.title.as_deref().unwrap_or(context.app_name),
                text: &message.text,
                url: message.url.as_deref(),
                image_url: message.image_url.as_deref(),
                campaign_id: message.campaign.map(|campaign| campaign.to_string()),
                extra: message.extra.as_ref(),
                notification_id,
                is_poll: false,
            },
            Content::Poll(poll) => Self {
                message: None,
                title: context.app_name,
                text: &poll.text,
                url: context.poll_url,
                image_url: poll.image_url.as_deref(),
                campaign_id: None,
                extra: None,
                notification_id,
                is_poll: true,
            },
        }
    }

    /// Whether an enrichment SDK can add content, because there is a campaign or a poll.
    fn is_enriched(&self) -> bool {
        self.is_poll || self.campaign_id.is_some()
    }

    /// Whether it wakes the app and shows nothing.
    fn is_silent(&self) -> bool {
        self.message.is_some_and(|message| message.is_silent)
    }

    /// The data keys with text values that are set.
    fn data_texts(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let poll_id = self.is_poll.then_some(self.notification_id);
        [
            ("notification_id", Some(self.notification_id)),
            ("url", self.url),
            ("image_url", self.image_url),
            ("campaign_id", self.campaign_id.as_deref()),
            ("poll_id", poll_id),
        ]
        .into_iter()
        .filter_map(|(key, value)| value.map(|value| (key, value)))
    }

    /// Writes the data keys, and the extra value as an object.
    fn write_data<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        for (key, value) in self.data_texts() {
            map.serialize_entry(key, value)?;
        }
        if let Some(extra) = self.extra {
            map.serialize_entry(&extra.key, &extra.value)?;
        }
        Ok(())
    }
}

/// Renders a payload with a title. If the payload does not fit, the title is shortened, but not below
/// [`TITLE_CHARS_KEPT`]. `render` returns the payload and its size.
///
/// # Errors
/// The size of the payload with the whole title, if the payload does not fit even with the shortened
/// title.
fn fit_title<T>(
    title: &str,
    limit: usize,
    render: impl Fn(&str) -> (T, usize),
) -> Result<T, usize> {
    const MARK: &str = "…";
    let (payload, size) = render(title);
    if size <= limit {
        return Ok(payload);
    }
    let Some((shortest_end, _)) = title.char_indices().nth(TITLE_CHARS_KEPT) else {
        return Err(size);
    };
    // Each byte that is removed from the title removes at least one byte from the payload.
    let fitting_end = title.len().saturating_sub(size - limit + MARK.len());
    let end = title.floor_char_boundary(fitting_end.max(shortest_end));
    let shortened_title = format!("{}{MARK}", &title[..end]);
    let (shortened_payload, shortened_size) = render(&shortened_title);
    if shortened_size <= limit { Ok(shortened_payload) } else { Err(size) }
}

// The collapse identity of a message, which is the same in every attempt: a message that is sent again
// after a crash replaces the first one on the device instead of being shown twice.

/// Longest `apns-collapse-id`, in bytes (Apple, "Sending notification requests to APNs").
const APNS_COLLAPSE_ID_BYTES_MAX: usize = 64;

/// Longest `Topic` of a push message, in bytes (RFC 8030 §5.4).
const TOPIC_BYTES_MAX: usize = 32;

/// The collapse identity: the caller's `collapse_key`, or the notification's id if there is none.
fn collapse_identity<'a>(message: &RenderContext<'a>) -> &'a str {
    message.collapse_key.unwrap_or_else(|| message.id.as_str())
}

/// The identity as a header value of at most `bytes_max` bytes. It is unchanged if it fits and is visible
/// ASCII. Otherwise its hash is used.
fn collapse_header(identity: &str, bytes_max: usize) -> Cow<'_, str> {
    let fits = identity.len() <= bytes_max && identity.bytes().all(|byte| byte.is_ascii_graphic());
    if fits { Cow::Borrowed(identity) } else { Cow::Owned(short_hash(identity, bytes_max)) }
}

/// The identity as a `Topic` header. It is unchanged if it fits and is valid base64url, which a push
/// service may require. Otherwise its hash is used.
fn push_topic(identity: &str) -> Cow<'_, str> {
    let fits =
        (1..=TOPIC_BYTES_MAX).contains(&identity.len()) && URL_SAFE_NO_PAD.decode(identity).is_ok();
    if fits { Cow::Borrowed(identity) } else { Cow::Owned(short_hash(identity, TOPIC_BYTES_MAX)) }
}

/// The first `bytes_max` characters of the identity's hash in base64url.
fn short_hash(identity: &str, bytes_max: usize) -> String {
    let hash = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, identity.as_bytes());
    let mut text = URL_SAFE_NO_PAD.encode(hash.as_ref());
    text.truncate(bytes_max);
    text
}

// Notes for a preview on the parts of a notification that Messenger and Telegram do not support.

/// Notes on the parts that are left out or shortened. Empty for platforms that are not chats.
#[must_use]
pub(crate) fn unsupported(context: &RenderContext<'_>, platform: Platform) -> Vec<String> {
    let (label_chars_max, answers_max) = match platform {
        Platform::Android | Platform::Ios | Platform::Web => return Vec::new(),
        Platform::FbMessenger => (messenger::LABEL_CHARS_MAX, messenger::QUICK_REPLIES_MAX),
        Platform::ChatApp => (telegram::LABEL_CHARS_MAX, telegram::BUTTONS_MAX - 1),
    };
    let shown = DisplayFields::of(context);
    let mut notes = Vec::new();
    if shown.message.is_some_and(|message| message.title.is_some()) {
        notes.push("the title is left out: messages have none here".to_owned());
    }
    let link = web_link(shown.url);
    if shown.url.is_some() && link.is_none() {
        notes.push("the url has a custom scheme, which no button opens here: left out".to_owned());
    }
    match platform {
        Platform::FbMessenger => note_messenger(&shown, link, &mut notes),
        Platform::ChatApp => note_telegram(&shown, &mut notes),
        Platform::Android | Platform::Ios | Platform::Web => {}
    }
    let view_button = shown.message.and_then(|message| message.view_button.as_deref());
    if link.is_some() && view_button.is_some_and(|label| is_longer(label, label_chars_max)) {
        notes.push(format!("view_button is shortened to {label_chars_max} characters"));
    }
    match context.content {
        Content::Message(_) => {}
        Content::Poll(poll) => note_poll(poll, label_chars_max, answers_max, &mut notes),
    }
    notes
}

fn note_messenger(shown: &DisplayFields<'_>, link: Option<&str>, notes: &mut Vec<String>) {
    if shown.image_url.is_some() && messenger::is_cut_to_fit_image(shown.text) {
        notes.push("the text is shortened to fit beside the image".to_owned());
    }
    // With an image the message is a card, which has a place for the link.
    let is_card = shown.image_url.is_some();
    if !is_card && link.is_some_and(|url| messenger::has_no_room(shown.text, url)) {
        notes.push("the url does not fit below the text: left out".to_owned());
    }
}

fn note_telegram(shown: &DisplayFields<'_>, notes: &mut Vec<String>) {
    let Some(image) = shown.image_url else { return };
    if !is_longer(shown.text, telegram::CAPTION_CHARS_MAX) {
        return;
    }
    let text_and_link = with_link(shown.text, image, TELEGRAM_CHARS_MAX);
    let link_fits = text_and_link.len() > shown.text.len();
    notes.push(if link_fits {
        "the text is too long for a caption: the image goes as a link below it".to_owned()
    } else {
        "the text is too long for a caption and for the image's link: the image is left out"
            .to_owned()
    });
}

fn note_poll(poll: &NewPoll, label_chars_max: usize, answers_max: usize, notes: &mut Vec<String>) {
    if poll.answers.len() > answers_max {
        notes.push(format!("over {answers_max} answers: they are chosen on the poll's page alone"));
    } else if poll.answers.iter().any(|answer| is_longer(&answer.text, label_chars_max)) {
        notes.push(format!("labels of answers are shortened to {label_chars_max} characters"));
    }
    if poll.answers.iter().any(|answer| answer.image_url.is_some()) {
        notes.push("the images of answers show on the poll's page alone".to_owned());
    }
}

fn is_longer(text: &str, chars_max: usize) -> bool {
    text.chars().nth(chars_max).is_some()
}

// The limits of the providers. They are checked for every targeted platform before a notification is
// accepted.

/// Most bytes of JSON on APNs.
const APNS_BYTES_MAX: usize = 4_096;
/// Most bytes of keys and values together on FCM, as [`fcm::render`] counts them.
const FCM_BYTES_MAX: usize = 4_096;
/// Most bytes of JSON on Web Push: 4,096 minus the overhead of encryption (RFC 8291 section 4).
const WEB_PUSH_BYTES_MAX: usize = 3_993;
/// Most Unicode characters of text on Messenger.
const MESSENGER_CHARS_MAX: usize = 2_000;
/// Most Unicode characters of text on Telegram.
const TELEGRAM_CHARS_MAX: usize = 4_096;

/// Checks that every platform's provider would accept the content of `context`.
///
/// # Errors
/// Each platform whose limit would be exceeded, with size and limit.
pub(crate) fn check_size(
    context: &RenderContext<'_>,
    platforms: &[Platform],
    fcm_enriched_as_data: bool,
) -> Result<(), Vec<TooLarge>> {
    let too_large: Vec<TooLarge> = platforms
        .iter()
        .filter_map(|platform| check_platform(context, *platform, fcm_enriched_as_data).err())
        .collect();
    if too_large.is_empty() { Ok(()) } else { Err(too_large) }
}

fn check_platform(
    context: &RenderContext<'_>,
    platform: Platform,
    fcm_enriched_as_data: bool,
) -> Result<(), TooLarge> {
    match platform {
        Platform::Ios => apns::render(context).map(drop),
        Platform::Android => fcm::render(context, fcm_enriched_as_data).map(drop),
        Platform::Web => web_push::render(context).map(drop),
        Platform::FbMessenger => check_text(context, platform, MESSENGER_CHARS_MAX),
        Platform::ChatApp => check_text(context, platform, TELEGRAM_CHARS_MAX),
    }
}

/// Checks a limit of the text, in Unicode characters.
fn check_text(
    context: &RenderContext<'_>,
    platform: Platform,
    limit: usize,
) -> Result<(), TooLarge> {
    let chars = DisplayFields::of(context).text.chars().count();
    if chars <= limit { Ok(()) } else { Err(TooLarge { platform, bytes: chars, limit }) }
}

/// The unit of a platform's limit.
fn unit(platform: Platform) -> &'static str {
    match platform {
        Platform::Android | Platform::Ios | Platform::Web => "bytes",
        Platform::FbMessenger | Platform::ChatApp => "characters",
    }
}
