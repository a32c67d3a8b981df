//! What goes to the chat app (B16, B34; Telegram, `sendMessage`, `sendPhoto`): a text or a photo
//! with inline buttons; no `parse_mode`, so that no text can be taken for markup. The body is cut
//! where the chat goes in.

use std::borrow::Cow;

use notify_core::Platform;
use serde::Serialize;

use super::buttons::{answers, view_label, web_link, with_link};
use super::{Around, Outgoing, TooLarge};
use crate::payload::Shown;
use crate::payload::buttons;
use crate::payload::{TELEGRAM_CHARS_MAX, check_text};

/// Longest caption of a photo, in characters.
pub(super) const CAPTION_CHARS_MAX: usize = 1_024;
/// Longest label of a button. Telegram names no limit; a longer one is not readable.
pub(super) const LABEL_CHARS_MAX: usize = 64;
/// Most buttons below a message.
pub(super) const BUTTONS_MAX: usize = 100;

/// One call of the Bot API.
#[derive(Debug, Clone)]
pub struct Form {
    /// Name of the method.
    pub method: &'static str,
    /// Its parameters around the chat.
    pub body: Around,
}

/// A message, and a plainer form of it for when Telegram refuses the first one for its looks.
#[derive(Debug, Clone)]
pub struct Forms {
    /// As it should look.
    pub first: Form,
    /// A photo as a text with its link.
    pub plainer: Option<Form>,
}

/// Renders a notification.
///
/// # Errors
/// When its text is over [`TELEGRAM_CHARS_MAX`] (B16).
pub(crate) fn render(outgoing: &Outgoing<'_>) -> Result<Forms, TooLarge> {
    check_text(outgoing, Platform::ChatApp, TELEGRAM_CHARS_MAX)?;
    let shown = Shown::of(outgoing);
    let keyboard = Keyboard::of(outgoing, &shown);
    let Some(photo) = shown.image_url else {
        return Ok(Forms { first: message(Cow::Borrowed(shown.text), &keyboard), plainer: None });
    };
    let plainer = message(with_link(shown.text, photo, TELEGRAM_CHARS_MAX), &keyboard);
    if shown.text.chars().nth(CAPTION_CHARS_MAX).is_some() {
        return Ok(Forms { first: plainer, plainer: None });
    }
    let photo = Photo { photo, caption: shown.text, reply_markup: keyboard.shown() };
    Ok(Forms { first: form("sendPhoto", &photo), plainer: Some(plainer) })
}

fn message(text: Cow<'_, str>, keyboard: &Keyboard<'_>) -> Form {
    form("sendMessage", &Message { text, reply_markup: keyboard.shown() })
}

fn form(method: &'static str, parameters: &impl Serialize) -> Form {
    Form { method, body: Around::members(r#"{"chat_id":""#, "\"", parameters) }
}

#[derive(Serialize)]
struct Message<'a> {
    text: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reply_markup: Option<&'a Keyboard<'a>>,
}

#[derive(Serialize)]
struct Photo<'a> {
    photo: &'a str,
    caption: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reply_markup: Option<&'a Keyboard<'a>>,
}

/// Buttons, one a row.
#[derive(Serialize)]
struct Keyboard<'a> {
    inline_keyboard: Vec<[Button<'a>; 1]>,
}

#[derive(Serialize)]
struct Button<'a> {
    text: Cow<'a, str>,
    #[serde(flatten)]
    does: Does<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Does<'a> {
    /// Opens a page.
    Url(&'a str),
    /// Tells the bot, in at most 64 bytes.
    CallbackData(String),
}

impl<'a> Keyboard<'a> {
    /// A poll's answers, then the link. More answers than there is room for are voted on at the
    /// poll's page alone.
    fn of(outgoing: &Outgoing<'a>, shown: &Shown<'a>) -> Self {
        let link = web_link(shown.url)
            .map(|url| (view_label(shown.message, LABEL_CHARS_MAX), Does::Url(url)));
        let answers: Vec<_> = answers(outgoing, LABEL_CHARS_MAX)
            .into_iter()
            .filter_map(|(text, answer)| {
                let data = buttons::short(outgoing.id, answer)?;
                Some((text, Does::CallbackData(data)))
            })
            .collect();
        let has_room = answers.len() < BUTTONS_MAX;
        let buttons = answers.into_iter().filter(|_| has_room).chain(link);
        Self { inline_keyboard: buttons.map(|(text, does)| [Button { text, does }]).collect() }
    }

    fn shown(&self) -> Option<&Self> {
        (!self.inline_keyboard.is_empty()).then_some(self)
    }
}
