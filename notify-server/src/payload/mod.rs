//! What goes on the wire to each provider (B15, B34 to B36), as pure functions: from a validated
//! notification to payload, headers and their size (B16). No I/O and no credentials.

pub mod apns;
pub(crate) mod buttons;
mod collapse;
pub(crate) mod fcm;
pub(crate) mod messenger;
mod preview;
pub(crate) mod telegram;
#[cfg(test)]
mod tests;
pub(crate) mod web_push;

use bytes::{BufMut, Bytes, BytesMut};
use notify_core::{
    AnswerId, Content, Extra, Message, NewPoll, NotificationId, Platform, Priority, Timestamp,
};
use serde::Serialize;
use serde::ser::SerializeMap;
use uuid::Uuid;

use self::buttons::{web_link, with_link};
pub(crate) use self::preview::{Preview, PreviewSettings, preview};

/// The public address of a poll (B32). `public_url` may end in a slash.
#[must_use]
pub(crate) fn poll_url(public_url: &str, public_id: Uuid) -> String {
    format!("{}/polls/{public_id}", public_url.trim_end_matches('/'))
}

/// What every payload is made from: one notification, as the engine or the API sees it.
#[derive(Debug, Clone, Copy)]
pub struct Outgoing<'a> {
    /// Id of the notification; a poll has the same (B14).
    pub id: &'a NotificationId,
    /// Name of the application: the title where the request names none (B34).
    pub app_name: &'a str,
    /// What is shown.
    pub content: &'a Content,
    /// Public page of the poll, when the content is one (B34).
    pub poll_url: Option<&'a str>,
    /// Ids of the poll's answers, in their order; empty unless the content is a poll.
    pub poll_answers: &'a [AnswerId],
    /// How soon to deliver.
    pub priority: Priority,
    /// The caller's own key of replacement (B36).
    pub collapse_key: Option<&'a str>,
    /// When the last try is worth making; `None` means one try (B19: `ttl_seconds` 0).
    pub expires_at: Option<Timestamp>,
    /// What is left of `ttl_seconds`.
    pub ttl_seconds: u32,
}

/// A payload that no provider would take (B16).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the payload for {platform} would be {bytes} {}, {limit} are allowed",
    unit(*.platform)
)]
pub struct TooLarge {
    /// The platform whose limit is broken.
    pub platform: Platform,
    /// Size of the payload; of the text in characters on Messenger and the chat app.
    pub bytes: usize,
    /// What the provider allows.
    pub limit: usize,
}

// A body that is the same for every device but for the address inside it.

/// A JSON body, cut where the address of a device goes in as a string.
#[derive(Debug, Clone)]
pub struct Around {
    /// Up to and with the opening quote of the address.
    pub before: Bytes,
    /// From its closing quote on.
    pub after: Bytes,
}

impl Around {
    /// A body that begins with `before` and goes on with the members of `rest`, a JSON object.
    /// `close` ends what the address stands in.
    fn members(before: &'static str, close: &'static str, rest: &impl Serialize) -> Self {
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
        let mut body =
            BytesMut::with_capacity(self.before.len() + address.len() + self.after.len());
        body.put_slice(&self.before);
        let plain =
            address.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\'));
        if plain {
            body.put_slice(address.as_bytes());
        } else {
            let quoted = serde_json::to_vec(address).expect("a text is valid JSON");
            body.put_slice(&quoted[1..quoted.len() - 1]);
        }
        body.put_slice(&self.after);
        body.freeze()
    }
}

// What a notification shows, the same on every platform: a message or a poll (B14, B34).

/// Fewest characters of a title that is shortened to fit (B16); a shorter one is never touched.
const TITLE_CHARS_KEPT: usize = 80;

/// Text, image and data of a notification.
struct Shown<'a> {
    /// The message, unless it is a poll.
    message: Option<&'a Message>,
    /// Main text; the question of a poll.
    text: &'a str,
    /// Deep link; the page of a poll.
    url: Option<&'a str>,
    /// Image.
    image_url: Option<&'a str>,
    /// Campaign, as the devices ask for it.
    campaign_id: Option<String>,
    /// The extra pair (B16).
    extra: Option<&'a Extra>,
    notification_id: &'a str,
    is_poll: bool,
}

impl<'a> Shown<'a> {
    fn of(outgoing: &Outgoing<'a>) -> Self {
        let notification_id = outgoing.id.as_str();
        match outgoing.content {
            Content::Message(message) => Self {
                message: Some(message),
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
                text: &poll.text,
                url: outgoing.poll_url,
                image_url: poll.image_url.as_deref(),
                campaign_id: None,
                extra: None,
                notification_id,
                is_poll: true,
            },
        }
    }

    /// Whether an enrichment SDK has something to add: a campaign or a poll (B34a).
    fn is_enriched(&self) -> bool {
        self.is_poll || self.campaign_id.is_some()
    }

    /// The data keys that hold text, those that are set (B34).
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

    /// Writes the data keys, the extra value as the object it is.
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

/// Renders with the title, cut only where the whole would not fit and the title is long (B16).
/// `render` answers the payload and its size.
///
/// # Errors
/// The size of the payload with its whole title, when even the shortened one does not fit.
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
    let Some((kept, _)) = title.char_indices().nth(TITLE_CHARS_KEPT) else {
        return Err(size);
    };
    // A byte taken from the title takes at least one from the payload.
    let end = title.len().saturating_sub(size - limit + MARK.len()).max(kept);
    let shortened = format!("{}{MARK}", &title[..title.floor_char_boundary(end)]);
    let (payload, shortened_size) = render(&shortened);
    if shortened_size <= limit { Ok(payload) } else { Err(size) }
}

// What Messenger and Telegram cannot carry of a notification (B16), in words for who previews it.

/// What is left out or shortened; nothing on platforms that are not chats.
#[must_use]
pub(crate) fn left_out(outgoing: &Outgoing<'_>, platform: Platform) -> Vec<String> {
    let (label_chars_max, answers_max) = match platform {
        Platform::Android | Platform::Ios | Platform::Web => return Vec::new(),
        Platform::FbMessenger => (messenger::LABEL_CHARS_MAX, messenger::QUICK_REPLIES_MAX),
        Platform::ChatApp => (telegram::LABEL_CHARS_MAX, telegram::BUTTONS_MAX - 1),
    };
    let shown = Shown::of(outgoing);
    let mut all = Vec::new();
    let link = web_link(shown.url);
    if shown.url.is_some() && link.is_none() {
        all.push("the url has a custom scheme, which no button opens here: left out".to_owned());
    }
    match platform {
        Platform::FbMessenger => of_messenger(&shown, link, &mut all),
        Platform::ChatApp => of_telegram(&shown, &mut all),
        Platform::Android | Platform::Ios | Platform::Web => {}
    }
    let own_label = shown.message.and_then(|message| message.view_button.as_deref());
    if link.is_some() && own_label.is_some_and(|label| is_longer(label, label_chars_max)) {
        all.push(format!("view_button is shortened to {label_chars_max} characters"));
    }
    match outgoing.content {
        Content::Message(_) => {}
        Content::Poll(poll) => of_poll(poll, label_chars_max, answers_max, &mut all),
    }
    all
}

fn of_messenger(shown: &Shown<'_>, link: Option<&str>, all: &mut Vec<String>) {
    if shown.image_url.is_some() && messenger::is_cut_beside_image(shown.text) {
        all.push("the text is shortened to fit beside the image".to_owned());
    }
    let without_card = shown.image_url.is_none();
    if without_card && link.is_some_and(|url| messenger::has_no_room(shown.text, url)) {
        all.push("the url does not fit below the text: left out".to_owned());
    }
}

fn of_telegram(shown: &Shown<'_>, all: &mut Vec<String>) {
    let Some(image) = shown.image_url else { return };
    if !is_longer(shown.text, telegram::CAPTION_CHARS_MAX) {
        return;
    }
    let whole = with_link(shown.text, image, TELEGRAM_CHARS_MAX);
    all.push(if whole.len() > shown.text.len() {
        "the text is too long for a caption: the image goes as a link below it".to_owned()
    } else {
        "the text is too long for a caption and for the image's link: the image is left out"
            .to_owned()
    });
}

fn of_poll(poll: &NewPoll, label_chars_max: usize, answers_max: usize, all: &mut Vec<String>) {
    if poll.answers.len() > answers_max {
        all.push(format!("over {answers_max} answers: they are chosen on the poll's page alone"));
    } else if poll.answers.iter().any(|answer| is_longer(&answer.text, label_chars_max)) {
        all.push(format!("labels of answers are shortened to {label_chars_max} characters"));
    }
    if poll.answers.iter().any(|answer| answer.image_url.is_some()) {
        all.push("the images of answers show on the poll's page alone".to_owned());
    }
}

fn is_longer(text: &str, chars_max: usize) -> bool {
    text.chars().nth(chars_max).is_some()
}

// The providers' limits (B16), checked for every targeted platform before anything is accepted.

/// Most bytes of JSON on APNs.
const APNS_BYTES_MAX: usize = 4_096;
/// Most bytes of keys and values together on FCM; what counts is said at [`fcm::render`].
const FCM_BYTES_MAX: usize = 4_096;
/// Most bytes of JSON on Web Push: 4,096 less what encryption adds (RFC 8291 section 4).
const WEB_PUSH_BYTES_MAX: usize = 3_993;
/// Most Unicode characters of text on Messenger.
const MESSENGER_CHARS_MAX: usize = 2_000;
/// Most Unicode characters of text on Telegram.
const TELEGRAM_CHARS_MAX: usize = 4_096;

/// Checks that every platform's provider would take the notification (B16).
///
/// # Errors
/// Every platform whose limit it would exceed, with size and limit.
pub(crate) fn check_size(
    outgoing: &Outgoing<'_>,
    platforms: &[Platform],
    fcm_enriched_as_data: bool,
) -> Result<(), Vec<TooLarge>> {
    let broken: Vec<TooLarge> = platforms
        .iter()
        .filter_map(|platform| check_platform(outgoing, *platform, fcm_enriched_as_data).err())
        .collect();
    if broken.is_empty() { Ok(()) } else { Err(broken) }
}

fn check_platform(
    outgoing: &Outgoing<'_>,
    platform: Platform,
    fcm_enriched_as_data: bool,
) -> Result<(), TooLarge> {
    match platform {
        Platform::Ios => apns::render(outgoing).map(drop),
        Platform::Android => fcm::render(outgoing, fcm_enriched_as_data).map(drop),
        Platform::Web => web_push::render(outgoing).map(drop),
        Platform::FbMessenger => check_text(outgoing, platform, MESSENGER_CHARS_MAX),
        Platform::ChatApp => check_text(outgoing, platform, TELEGRAM_CHARS_MAX),
    }
}

/// Checks a limit that is one of the text, in Unicode characters.
fn check_text(outgoing: &Outgoing<'_>, platform: Platform, limit: usize) -> Result<(), TooLarge> {
    let chars = Shown::of(outgoing).text.chars().count();
    if chars <= limit { Ok(()) } else { Err(TooLarge { platform, bytes: chars, limit }) }
}

/// What the limit of a platform counts.
fn unit(platform: Platform) -> &'static str {
    match platform {
        Platform::Android | Platform::Ios | Platform::Web => "bytes",
        Platform::FbMessenger | Platform::ChatApp => "characters",
    }
}
