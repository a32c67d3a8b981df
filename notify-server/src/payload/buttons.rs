//! Buttons of Messenger and Telegram: their labels, the links that they can open, and the payload that
//! identifies a poll's answer.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use notify_core::{AnswerId, Content, Message, NewPoll, NotificationId, beginning};
use uuid::Uuid;

use crate::payload::RenderContext;

/// Label of the button that opens the url.
const VIEW: &str = "View";
/// The last character of a text that was cut.
const MARK: char = '…';

/// The label of the button that opens the url, cut to `chars_max` characters.
pub(super) fn view_label<'a>(message: Option<&'a Message>, chars_max: usize) -> Cow<'a, str> {
    let label = message.and_then(|message| message.view_button.as_deref());
    cut(label.unwrap_or(VIEW), chars_max)
}

/// The URL if a button can open it; `None` if it has a custom scheme.
pub(super) fn web_link(url: Option<&str>) -> Option<&str> {
    url.filter(|url| {
        let scheme = url.split(':').next().unwrap_or_default();
        scheme.eq_ignore_ascii_case("https") || scheme.eq_ignore_ascii_case("http")
    })
}

/// The answers of a poll with their labels, cut to `chars_max` characters; empty for a message.
pub(super) fn answers<'a>(
    context: &RenderContext<'a>,
    chars_max: usize,
) -> Vec<(Cow<'a, str>, AnswerId)> {
    match context.content {
        Content::Message(_) => Vec::new(),
        Content::Poll(poll) => {
            labels(poll, chars_max).zip(context.poll_answers.iter().copied()).collect()
        }
    }
}

/// The labels of a poll's answers. An answer with only an image is labelled with its number.
fn labels(poll: &NewPoll, chars_max: usize) -> impl Iterator<Item = Cow<'_, str>> {
    poll.answers.iter().enumerate().map(move |(place, answer)| match answer.text.as_str() {
        "" => Cow::Owned((place + 1).to_string()),
        text => cut(text, chars_max),
    })
}

/// A text of at most `chars_max` characters, ending in [`MARK`] if it was cut. It is cut between two grapheme
/// clusters.
pub(super) fn cut(text: &str, chars_max: usize) -> Cow<'_, str> {
    if text.chars().nth(chars_max).is_none() {
        return Cow::Borrowed(text);
    }
    let mut cut = beginning(text, chars_max.saturating_sub(1)).to_owned();
    cut.push(MARK);
    Cow::Owned(cut)
}

/// The text with a link below it, or the text alone if both together exceed `chars_max` characters.
pub(super) fn with_link<'a>(text: &'a str, link: &str, chars_max: usize) -> Cow<'a, str> {
    let text_and_link = format!("{text}\n{link}");
    let fits = text_and_link.chars().nth(chars_max).is_none();
    if fits { Cow::Owned(text_and_link) } else { Cow::Borrowed(text) }
}

// The payload of a poll's button. It identifies the answer: the button's message contains it, and the
// platform sends it back in the callback when a person presses the button.

const PREFIX: &str = "poll:";

/// The payload for a postback of Messenger, which may have 1,000 characters: `poll:<poll id>:<answer id>`.
#[must_use]
pub(crate) fn messenger_payload(poll: &NotificationId, answer: AnswerId) -> String {
    format!("{PREFIX}{poll}:{answer}")
}

/// The payload for Telegram's `callback_data`, which may have 64 bytes. Both ids are written as the
/// base64url of their 16 bytes, which makes 50 bytes. `None` if the poll's id is not a UUID, because the
/// caller chose it.
#[must_use]
pub(crate) fn telegram_payload(poll: &NotificationId, answer: AnswerId) -> Option<String> {
    let poll = Uuid::try_parse(poll.as_str()).ok()?;
    let [poll, answer] = [poll, answer.0].map(|id| URL_SAFE_NO_PAD.encode(id));
    Some(format!("{PREFIX}{poll}:{answer}"))
}

/// Parses the payload of either platform; `None` for any other text.
#[must_use]
pub(crate) fn parse_payload(text: &str) -> Option<(NotificationId, AnswerId)> {
    let (poll, answer) = text.strip_prefix(PREFIX)?.split_once(':')?;
    let (poll, answer) = (parse_id(poll)?, parse_id(answer)?);
    let poll = NotificationId::new(poll.hyphenated().to_string()).ok()?;
    Some((poll, AnswerId(answer)))
}

/// Parses an id in base64url, or as a hyphenated UUID in lower case.
fn parse_id(text: &str) -> Option<Uuid> {
    if let Ok(bytes) = URL_SAFE_NO_PAD.decode(text)
        && let Ok(id) = Uuid::from_slice(&bytes)
    {
        return Some(id);
    }
    Uuid::try_parse(text).ok().filter(|id| id.hyphenated().to_string() == text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn button_payload_round_trips_and_fits_telegram() {
        let poll = NotificationId::new("01890a5d-ac96-774b-bcce-b302099a8057").unwrap();
        let answer = AnswerId(Uuid::from_u128(0x0189_0a5d_ac96_774b_bcce_b302_099a_8058));
        let long = messenger_payload(&poll, answer);
        let short = telegram_payload(&poll, answer).unwrap();
        assert_eq!(
            long,
            "poll:01890a5d-ac96-774b-bcce-b302099a8057:01890a5d-ac96-774b-bcce-b302099a8058"
        );
        assert_eq!(short, "poll:AYkKXayWd0u8zrMCCZqAVw:AYkKXayWd0u8zrMCCZqAWA");
        assert!(short.len() <= 64);
        for text in [long, short] {
            assert_eq!(parse_payload(&text), Some((poll.clone(), answer)), "{text}");
        }
        let chosen_by_caller = NotificationId::new("my-own").unwrap();
        assert_eq!(telegram_payload(&chosen_by_caller, answer), None);
    }

    #[test]
    fn foreign_button_payloads_are_ignored() {
        for text in [
            "",
            "poll:",
            "poll::",
            "poll:1:2",
            "vote:AYkKXayWd0u8zrMCCZqAVw:AYkKXayWd0u8zrMCCZqAWA",
            "poll:AYkKXayWd0u8zrMCCZqAVw",
            "poll:AYkKXayWd0u8zrMCCZqAVw:AYkKXayWd0u8zrMCCZqAWA:x",
            "poll:01890A5D-AC96-774B-BCCE-B302099A8057:AYkKXayWd0u8zrMCCZqAWA",
        ] {
            assert_eq!(parse_payload(text), None, "{text}");
        }
    }
}
