//! What a notification shows, the same on every platform: a message or a poll (B14, B34).

use notify_core::{Content, Extra, Message};
use serde::ser::SerializeMap;

use super::Outgoing;

/// Fewest characters of a title that is shortened to fit (B16); a shorter one is never touched.
const TITLE_CHARS_KEPT: usize = 80;

/// Text, image and data of a notification.
pub(super) struct Shown<'a> {
    /// The message, unless it is a poll.
    pub(super) message: Option<&'a Message>,
    /// Main text; the question of a poll.
    pub(super) text: &'a str,
    /// Deep link; the page of a poll.
    pub(super) url: Option<&'a str>,
    /// Image.
    pub(super) image_url: Option<&'a str>,
    /// Campaign, as the devices ask for it.
    pub(super) campaign_id: Option<String>,
    /// The extra pair (B16).
    pub(super) extra: Option<&'a Extra>,
    notification_id: &'a str,
    is_poll: bool,
}

impl<'a> Shown<'a> {
    pub(super) fn of(outgoing: &Outgoing<'a>) -> Self {
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
    pub(super) fn is_enriched(&self) -> bool {
        self.is_poll || self.campaign_id.is_some()
    }

    /// The data keys that hold text, those that are set (B34).
    pub(super) fn data_texts(&self) -> impl Iterator<Item = (&'static str, &str)> {
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
    pub(super) fn write_data<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
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
pub(super) fn fit_title<T>(
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
