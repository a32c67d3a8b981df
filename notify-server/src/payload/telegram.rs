//! The calls of Telegram's Bot API (`sendMessage`, `sendPhoto`): a text or a photo, with inline buttons.
//! There is no `parse_mode`, so that Telegram interprets no text as markup. The body has a gap for the
//! chat.

use std::borrow::Cow;

use bytes::Bytes;
use notify_core::{Platform, split_topic};
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

impl BotCall {
    /// The body for a recipient as [`notify_core::chat_id`] spells it: a chat, or a topic of a group.
    #[must_use]
    pub fn body_for(&self, recipient: &str) -> Bytes {
        match split_topic(recipient) {
            (chat, Some(topic)) => {
                self.body.put_with(chat, &format!(",\"message_thread_id\":{topic}"))
            }
            (chat, None) => self.body.put(chat),
        }
    }
}

/// A message in all its forms. If Telegram refuses the photo or the buttons, a form without them is sent.
#[derive(Debug, Clone)]
pub struct BotCalls {
    /// With the photo: with all buttons, and with fewer and fewer buttons. Empty if the message has no photo.
    pub with_photo: Vec<BotCall>,
    /// As a text, with a link to the photo if there is one: with the same buttons in the same order.
    pub as_text: Vec<BotCall>,
}

impl BotCalls {
    /// The message with its photo and all its buttons.
    ///
    /// # Panics
    /// Never: there is always a text.
    #[must_use]
    pub fn first(&self) -> &BotCall {
        self.with_photo.first().or(self.as_text.first()).expect("there is a text")
    }
}

/// Renders a notification.
///
/// # Errors
/// When its text exceeds [`TELEGRAM_CHARS_MAX`].
pub(crate) fn render(context: &RenderContext<'_>) -> Result<BotCalls, TooLarge> {
    check_text(context, Platform::ChatApp, TELEGRAM_CHARS_MAX)?;
    let shown = DisplayFields::of(context);
    let keyboards = Keyboard::of(context, &shown).with_fewer_buttons();
    let text = match shown.image_url {
        Some(photo) => with_link(shown.text, photo, TELEGRAM_CHARS_MAX),
        None => Cow::Borrowed(shown.text),
    };
    let fits_caption = shown.text.chars().nth(CAPTION_CHARS_MAX).is_none();
    let photo = shown.image_url.filter(|_| fits_caption);
    let with_photo = photo.into_iter().flat_map(|photo| {
        keyboards.iter().map(move |keyboard| {
            let reply_markup = keyboard.non_empty();
            bot_call("sendPhoto", &Photo { photo, caption: shown.text, reply_markup })
        })
    });
    let as_text = keyboards.iter().map(|keyboard| {
        bot_call("sendMessage", &Message { text: &text, reply_markup: keyboard.non_empty() })
    });
    Ok(BotCalls { with_photo: with_photo.collect(), as_text: as_text.collect() })
}

fn bot_call(method: &'static str, parameters: &impl Serialize) -> BotCall {
    BotCall { method, body: BodyTemplate::with_members(r#"{"chat_id":""#, "\"", parameters) }
}

#[derive(Serialize)]
struct Message<'a> {
    text: &'a str,
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
#[derive(Clone, Serialize)]
struct Keyboard<'a> {
    inline_keyboard: Vec<[Button<'a>; 1]>,
}

#[derive(Clone, Serialize)]
struct Button<'a> {
    text: Cow<'a, str>,
    #[serde(flatten)]
    action: Action<'a>,
}

/// The action of a button.
#[derive(Clone, Serialize)]
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

    /// This keyboard, then the answers without the link, then no buttons. None of them is repeated.
    fn with_fewer_buttons(self) -> Vec<Self> {
        let mut answers = self.clone();
        answers.inline_keyboard.retain(|[button]| !matches!(button.action, Action::Url(_)));
        let none = Self { inline_keyboard: Vec::new() };
        let mut keyboards = vec![self, answers, none];
        keyboards.dedup_by_key(|keyboard| keyboard.inline_keyboard.len());
        keyboards
    }

    /// The keyboard; `None` if it has no buttons.
    fn non_empty(&self) -> Option<&Self> {
        (!self.inline_keyboard.is_empty()).then_some(self)
    }
}
