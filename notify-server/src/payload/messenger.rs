//! The body for Messenger (Meta, "Send API", "Generic template", "Button template"). It is a text, or a
//! template if there is a URL or an image, and has a gap for the recipient.

use std::borrow::Cow;

use notify_core::{Platform, beginning};
use serde::Serialize;

use super::buttons::{answers, cut, view_label, web_link, with_link};
use super::{BodyTemplate, RenderContext, TooLarge};
use crate::payload::DisplayFields;
use crate::payload::buttons;
use crate::payload::{MESSENGER_CHARS_MAX, check_text};

/// Longest title, and longest subtitle, of a generic template.
const TITLE_CHARS_MAX: usize = 80;
/// Longest text of a button template.
const BUTTON_TEMPLATE_CHARS_MAX: usize = 640;
/// Longest label of a button or quick reply.
pub(super) const LABEL_CHARS_MAX: usize = 20;
/// Most buttons of a template.
const BUTTONS_MAX: usize = 3;
/// Most quick replies.
pub(super) const QUICK_REPLIES_MAX: usize = 13;

/// A message in both its forms.
#[derive(Debug, Clone)]
pub struct MessengerForms {
    /// The message.
    pub first: BodyTemplate,
    /// The text alone, with the links of the message below it, for the case that Messenger refuses a part of
    /// the first form. `None` if that is a text alone already.
    pub plain: Option<BodyTemplate>,
}

/// Renders a notification.
///
/// # Errors
/// When its text exceeds [`MESSENGER_CHARS_MAX`].
pub(crate) fn render(context: &RenderContext<'_>) -> Result<MessengerForms, TooLarge> {
    check_text(context, Platform::FbMessenger, MESSENGER_CHARS_MAX)?;
    let first = Message::of(context);
    let plain = first.has_parts().then(|| body_of(Message::plain(context)));
    Ok(MessengerForms { first: body_of(first), plain })
}

fn body_of(message: Message<'_>) -> BodyTemplate {
    // `UPDATE` is allowed within 24 hours after the person's last message, which the provider checks
    // before each attempt.
    let request = RequestWithoutRecipient { messaging_type: "UPDATE", message };
    BodyTemplate::with_members(r#"{"recipient":{"id":""#, r#""}"#, &request)
}

/// The request without its recipient.
#[derive(Serialize)]
struct RequestWithoutRecipient<'a> {
    messaging_type: &'static str,
    message: Message<'a>,
}

#[derive(Serialize)]
struct Message<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attachment: Option<Attachment<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    quick_replies: Vec<QuickReply<'a>>,
}

#[derive(Serialize)]
struct Attachment<'a> {
    r#type: &'static str,
    payload: Template<'a>,
}

#[derive(Serialize)]
#[serde(tag = "template_type", rename_all = "snake_case")]
enum Template<'a> {
    Button { text: &'a str, buttons: Vec<Button<'a>> },
    Generic { elements: [Element<'a>; 1] },
}

#[derive(Serialize)]
struct Element<'a> {
    title: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    subtitle: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    image_url: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    default_action: Option<Button<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    buttons: Vec<Button<'a>>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Button<'a> {
    WebUrl {
        url: &'a str,
        /// The label; `None` for the default action of an element, which has no label.
        #[serde(skip_serializing_if = "Option::is_none")]
        title: Option<Cow<'a, str>>,
    },
    Postback {
        title: Cow<'a, str>,
        payload: String,
    },
}

#[derive(Serialize)]
struct QuickReply<'a> {
    content_type: &'static str,
    title: Cow<'a, str>,
    payload: String,
}

impl<'a> Message<'a> {
    fn of(context: &RenderContext<'a>) -> Self {
        let shown = DisplayFields::of(context);
        let link = web_link(shown.url);
        let answers: Vec<_> = answers(context, LABEL_CHARS_MAX)
            .into_iter()
            .map(|(title, answer)| (title, buttons::messenger_payload(context.id, answer)))
            .collect();
        // A card or a button template can hold the message. Both have buttons.
        let can_have_buttons =
            shown.image_url.is_some() || fits(shown.text, BUTTON_TEMPLATE_CHARS_MAX);
        let view_button = link.map(|url| Button::WebUrl {
            url,
            title: Some(view_label(shown.message, LABEL_CHARS_MAX)),
        });
        if answers.len() <= BUTTONS_MAX && can_have_buttons {
            let postbacks =
                answers.into_iter().map(|(title, payload)| Button::Postback { title, payload });
            let buttons = postbacks.chain(view_button).take(BUTTONS_MAX).collect();
            return Self::with_buttons(&shown, link, buttons);
        }
        // If a poll has more answers than there can be quick replies, people vote only on its page.
        let quick_replies = if answers.len() <= QUICK_REPLIES_MAX {
            answers
                .into_iter()
                .map(|(title, payload)| QuickReply { content_type: "text", title, payload })
                .collect()
        } else {
            Vec::new()
        };
        let buttons = view_button.into_iter().collect();
        Self { quick_replies, ..Self::with_buttons(&shown, link, buttons) }
    }

    /// Whether the message has more than a text.
    fn has_parts(&self) -> bool {
        self.attachment.is_some() || !self.quick_replies.is_empty()
    }

    /// The text with the link and then the image below it, as far as they fit.
    fn plain(context: &RenderContext<'a>) -> Self {
        let shown = DisplayFields::of(context);
        let links = web_link(shown.url).into_iter().chain(shown.image_url);
        let text = links.fold(shown.text.to_owned(), |text, link| {
            with_link(&text, link, MESSENGER_CHARS_MAX).into_owned()
        });
        Self { text: Some(text.into()), attachment: None, quick_replies: Vec::new() }
    }

    /// The message in the smallest form that fits: a text alone, a card with title and subtitle, a text
    /// with buttons, or a text with the link below it. With an image the form is always a card, and a long
    /// text is shortened.
    fn with_buttons(
        shown: &DisplayFields<'a>,
        link: Option<&'a str>,
        buttons: Vec<Button<'a>>,
    ) -> Self {
        let (title, rest) = title_and_rest(shown.text);
        let fits_card = rest.is_none_or(|rest| fits(rest, TITLE_CHARS_MAX));
        let template = if shown.image_url.is_some() || (fits_card && !buttons.is_empty()) {
            Template::Generic {
                elements: [Element {
                    title: Cow::Borrowed(title),
                    subtitle: rest.map(|rest| cut(rest, TITLE_CHARS_MAX)),
                    image_url: shown.image_url,
                    default_action: link.map(|url| Button::WebUrl { url, title: None }),
                    buttons,
                }],
            }
        } else if !buttons.is_empty() && fits(shown.text, BUTTON_TEMPLATE_CHARS_MAX) {
            Template::Button { text: shown.text, buttons }
        } else {
            let text = link.map_or(Cow::Borrowed(shown.text), |link| {
                with_link(shown.text, link, MESSENGER_CHARS_MAX)
            });
            return Self { text: Some(text), attachment: None, quick_replies: Vec::new() };
        };
        let attachment = Some(Attachment { r#type: "template", payload: template });
        Self { text: None, attachment, quick_replies: Vec::new() }
    }
}

/// Whether a text is shortened when there is an image.
pub(super) fn is_cut_to_fit_image(text: &str) -> bool {
    title_and_rest(text).1.is_some_and(|rest| !fits(rest, TITLE_CHARS_MAX))
}

/// Whether a URL fits with a text neither as a button nor below the text.
pub(super) fn has_no_room(text: &str, url: &str) -> bool {
    // `with_link` returns the borrowed text alone if the link does not fit below it.
    let fits_below = matches!(with_link(text, url, MESSENGER_CHARS_MAX), Cow::Owned(_));
    !fits(text, BUTTON_TEMPLATE_CHARS_MAX) && !fits_below
}

fn fits(text: &str, chars_max: usize) -> bool {
    text.chars().nth(chars_max).is_none()
}

/// Splits a text into a title and the rest, between two words if possible.
fn title_and_rest(text: &str) -> (&str, Option<&str>) {
    let end = beginning(text, TITLE_CHARS_MAX).len();
    if end == text.len() {
        return (text, None);
    }
    // A title may end right before the space that follows it.
    let search_end = text[end..].chars().next().map_or(end, |next| end + next.len_utf8());
    // A space before the first word would leave an empty title.
    let last_space = text[..search_end]
        .rfind(char::is_whitespace)
        .filter(|space| !text[..*space].trim().is_empty());
    let (title, rest) = text.split_at(last_space.unwrap_or(end));
    (title.trim_end(), Some(rest.trim_start()).filter(|rest| !rest.is_empty()))
}
