//! What the Bot API takes as a message: names, types and lengths.

use serde_json::{Map, Value};

use super::errors::Failure;

const TEXT_CHARS_MAX: usize = 4_096;
const CAPTION_CHARS_MAX: usize = 1_024;
const CALLBACK_DATA_BYTES_MAX: usize = 64;
const BUTTONS_PER_ROW_MAX: usize = 8;
const BUTTONS_MAX: usize = 100;

type Checked = Result<(), Failure>;

fn bad(rule: &str) -> Failure {
    Failure::new(400, format!("Bad Request: {rule}"))
}

/// Checks the parameters of a call; answers its chat.
pub(super) fn check(parameters: &Value, is_photo: bool) -> Result<String, Failure> {
    let parameters = parameters.as_object().ok_or_else(|| bad("can't parse JSON object"))?;
    let chat = chat_of(parameters).ok_or_else(|| bad("chat_id is empty"))?;
    if is_photo {
        let photo =
            text(parameters, "photo")?.ok_or_else(|| bad("there is no photo in the request"))?;
        if !is_web(photo) {
            return Err(bad("wrong file identifier/HTTP URL specified"));
        }
        let caption = text(parameters, "caption")?.unwrap_or_default();
        if caption.chars().count() > CAPTION_CHARS_MAX {
            return Err(bad("message caption is too long"));
        }
    } else {
        let text = text(parameters, "text")?.unwrap_or_default();
        if text.trim().is_empty() {
            return Err(Failure::named("empty"));
        }
        if text.chars().count() > TEXT_CHARS_MAX {
            return Err(Failure::named("toolong"));
        }
    }
    if let Some(mode) = text(parameters, "parse_mode")?
        && !["HTML", "Markdown", "MarkdownV2"].contains(&mode)
    {
        return Err(bad("unsupported parse_mode"));
    }
    check_markup(parameters.get("reply_markup"))?;
    if is_chat(&chat) { Ok(chat) } else { Err(Failure::named("notfound")) }
}

/// The chat that a call names, as text.
pub(super) fn chat_of(parameters: &Map<String, Value>) -> Option<String> {
    match parameters.get("chat_id")? {
        Value::String(chat) if !chat.is_empty() => Some(chat.clone()),
        Value::Number(chat) => chat.as_i64().map(|chat| chat.to_string()),
        _ => None,
    }
}

/// A number, or a name of a channel; what is scripted goes on with a `-`.
fn is_chat(chat: &str) -> bool {
    if let Some(name) = chat.strip_prefix('@') {
        return !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    }
    let number = chat.strip_prefix('-').unwrap_or(chat);
    let number = number.split('-').next().unwrap_or_default();
    !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
}

fn text<'a>(parameters: &'a Map<String, Value>, name: &str) -> Result<Option<&'a str>, Failure> {
    match parameters.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(bad(&format!("can't parse field \"{name}\": it must be a String"))),
    }
}

fn is_web(text: &str) -> bool {
    let url = url::Url::parse(text).ok();
    url.is_some_and(|url| matches!(url.scheme(), "http" | "https") && url.host().is_some())
}

fn check_markup(markup: Option<&Value>) -> Checked {
    let Some(markup) = markup else { return Ok(()) };
    let broken = || bad("can't parse reply keyboard markup JSON object");
    let rows = markup.get("inline_keyboard").and_then(Value::as_array).ok_or_else(broken)?;
    let mut count = 0;
    for row in rows {
        let row = row.as_array().ok_or_else(broken)?;
        count += row.len();
        if row.len() > BUTTONS_PER_ROW_MAX || count > BUTTONS_MAX {
            return Err(Failure::named("markup"));
        }
        row.iter().try_for_each(check_button)?;
    }
    Ok(())
}

fn check_button(button: &Value) -> Checked {
    let broken = |rule: &str| bad(&format!("can't parse inline keyboard button: {rule}"));
    let button =
        button.as_object().ok_or_else(|| broken("InlineKeyboardButton must be an Object"))?;
    let known = ["text", "url", "callback_data"];
    if !button.keys().all(|key| known.contains(&key.as_str())) {
        return Err(broken("the sandbox knows text, url and callback_data"));
    }
    if text(button, "text")?.is_none_or(|label| label.trim().is_empty()) {
        return Err(broken("Text buttons must have non-empty text"));
    }
    match (text(button, "url")?, text(button, "callback_data")?) {
        (Some(url), None) if is_web(url) || url.starts_with("tg://") => Ok(()),
        (Some(_), None) => Err(Failure::named("button")),
        (None, Some(data)) if (1..=CALLBACK_DATA_BYTES_MAX).contains(&data.len()) => Ok(()),
        (None, Some(_)) => Err(bad("BUTTON_DATA_INVALID")),
        _ => Err(broken("exactly one of the optional fields must be used")),
    }
}
