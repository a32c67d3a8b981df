//! The calls of Telegram's Bot API (`sendMessage`, `sendPhoto`): a text or a photo, with inline buttons.
//! There is no `parse_mode`, so that Telegram interprets no text as markup. The body has a gap for the
//! chat.

use std::borrow::Cow;

use notify_core::Platform;
use serde::Serialize;

use super::buttons::{answers, view_label, web_link, with_link};
use super::{BodyTemplate, RenderContext, TooLarge};
use crate::payload::DisplayFields;
use crate::payload::buttons;
use crate::payload::{TELEGRAM_CHARS_MAX, check_text};

/// Longest caption of a photo, in characters.
pub(super) const CAPTION_CHARS_MAX: usize = 1_024;
/// Longest label of a button, in characters. Telegram has no limit, but a longer label is not readable.
pub(super) const LABEL_CHARS_MAX: usize = 64;
/// Most buttons below a message.
pub(super) const BUTTONS_MAX: usize = 100;

/// One call of the Bot API.
#[derive(Debug, Clone)]
pub struct BotCall {
    /// Name of the method.
    pub method: &'static str,
    /// The parameters, with a gap for the chat.
    pub body: BodyTemplate,
}

/// A message, and a fallback for when Telegram refuses its photo or markup.
#[derive(Debug, Clone)]
pub struct BotCalls {
    /// The message.
    pub first: BotCall,
    /// The text with a link to the photo; `None` if the message has no photo.
    pub fallback: Option<BotCall>,
}

/// Renders a notification.
///
/// # Errors
/// When its text exceeds [`TELEGRAM_CHARS_MAX`].
pub(crate) fn render(context: &RenderContext<'_>) -> Result<BotCalls, TooLarge> {
    check_text(context, Platform::ChatApp, TELEGRAM_CHARS_MAX)?;
    let shown = DisplayFields::of(context);
    let keyboard = Keyboard::of(context, &shown);
    let Some(photo) = shown.image_url else {
        return Ok(BotCalls {
            first: text_call(Cow::Borrowed(shown.text), &keyboard),
            fallback: None,
        });
    };
    let text_with_link = text_call(with_link(shown.text, photo, TELEGRAM_CHARS_MAX), &keyboard);
    if shown.text.chars().nth(CAPTION_CHARS_MAX).is_some() {
        return Ok(BotCalls { first: text_with_link, fallback: None });
    }
    let photo = Photo { photo, caption: shown.text, reply_markup: keyboard.non_empty() };
    Ok(BotCalls { first: bot_call("sendPhoto", &photo), fallback: Some(text_with_link) })
}

fn text_call(text: Cow<'_, str>, keyboard: &Keyboard<'_>) -> BotCall {
    bot_call("sendMessage", &Message { text, reply_markup: keyboard.non_empty() })
}

fn bot_call(method: &'static str, parameters: &impl Serialize) -> BotCall {
    BotCall { method, body: BodyTemplate::with_members(r#"{"chat_id":""#, "\"", parameters) }
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

/// Buttons, one per row.
#[derive(Serialize)]
struct Keyboard<'a> {
    inline_keyboard: Vec<[Button<'a>; 1]>,
}

#[derive(Serialize)]
struct Button<'a> {
    text: Cow<'a, str>,
    #[serde(flatten)]
    action: Action<'a>,
}

/// The action of a button.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Action<'a> {
    /// Opens a page.
    Url(&'a str),
    /// Sends these data to the bot, at most 64 bytes.
    CallbackData(String),
}

impl<'a> Keyboard<'a> {
    /// The buttons for a poll's answers, and then the link. If a poll has too many answers, there is only
    /// the link, and people vote on the poll's page.
    fn of(context: &RenderContext<'a>, shown: &DisplayFields<'a>) -> Self {
        let link = web_link(shown.url)
            .map(|url| (view_label(shown.message, LABEL_CHARS_MAX), Action::Url(url)));
        let answers: Vec<_> = answers(context, LABEL_CHARS_MAX)
            .into_iter()
            .filter_map(|(text, answer)| {
                let data = buttons::telegram_payload(context.id, answer)?;
                Some((text, Action::CallbackData(data)))
            })
            .collect();
        // One button is left for the link.
        let shown_answers = if answers.len() < BUTTONS_MAX { answers } else { Vec::new() };
        let buttons = shown_answers.into_iter().chain(link);
        Self { inline_keyboard: buttons.map(|(text, action)| [Button { text, action }]).collect() }
    }

    /// The keyboard; `None` if it has no buttons.
    fn non_empty(&self) -> Option<&Self> {
        (!self.inline_keyboard.is_empty()).then_some(self)
    }
}
