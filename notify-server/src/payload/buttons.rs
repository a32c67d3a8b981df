//! What buttons of chat platforms have in common: their labels, and which links they can carry.

use std::borrow::Cow;

use super::Outgoing;
use notify_core::{AnswerId, Content, Message, NewPoll};

/// Label of the button that opens the url (spec 2.6).
const VIEW: &str = "View";
/// Stands for what was cut off.
const MARK: char = '…';

/// The label of the button that opens the url, cut to so many characters.
pub(super) fn view_label<'a>(message: Option<&'a Message>, chars_max: usize) -> Cow<'a, str> {
    let own = message.and_then(|message| message.view_button.as_deref());
    cut(own.unwrap_or(VIEW), chars_max)
}

/// A url that a button can open: one with a custom scheme is left out (B16).
pub(super) fn web_link(url: Option<&str>) -> Option<&str> {
    url.filter(|url| {
        let scheme = url.split(':').next().unwrap_or_default();
        scheme.eq_ignore_ascii_case("https") || scheme.eq_ignore_ascii_case("http")
    })
}

/// The answers of a poll with their labels, cut to so many characters; none of a message.
pub(super) fn answers<'a>(
    outgoing: &Outgoing<'a>,
    chars_max: usize,
) -> Vec<(Cow<'a, str>, AnswerId)> {
    match outgoing.content {
        Content::Message(_) => Vec::new(),
        Content::Poll(poll) => {
            labels(poll, chars_max).zip(outgoing.poll_answers.iter().copied()).collect()
        }
    }
}

/// An answer that is an image alone goes by its number.
fn labels(poll: &NewPoll, chars_max: usize) -> impl Iterator<Item = Cow<'_, str>> {
    poll.answers.iter().enumerate().map(move |(place, answer)| match answer.text.as_str() {
        "" => Cow::Owned((place + 1).to_string()),
        text => cut(text, chars_max),
    })
}

/// A text of at most so many characters, the last one a mark where something is missing.
pub(super) fn cut(text: &str, chars_max: usize) -> Cow<'_, str> {
    if text.chars().nth(chars_max).is_none() {
        return Cow::Borrowed(text);
    }
    let kept = text.chars().take(chars_max.saturating_sub(1));
    Cow::Owned(kept.chain([MARK]).collect())
}

/// The text with a link below it, where both fit.
pub(super) fn with_link<'a>(text: &'a str, link: &str, chars_max: usize) -> Cow<'a, str> {
    let whole = format!("{text}\n{link}");
    if whole.chars().nth(chars_max).is_none() { Cow::Owned(whole) } else { Cow::Borrowed(text) }
}
