//! What the Send API takes as a message: names, types and lengths.

use serde_json::{Map, Value};

use super::errors::Failure;

const TEXT_CHARS_MAX: usize = 2_000;
const BUTTON_TEMPLATE_CHARS_MAX: usize = 640;
const TITLE_CHARS_MAX: usize = 80;
const LABEL_CHARS_MAX: usize = 20;
const PAYLOAD_CHARS_MAX: usize = 1_000;
const METADATA_CHARS_MAX: usize = 1_000;
const BUTTONS_MAX: usize = 3;
const ELEMENTS_MAX: usize = 10;
const QUICK_REPLIES_MAX: usize = 13;

type Checked = Result<(), Failure>;
type Object = Map<String, Value>;

/// Checks a whole request; answers its recipient.
pub(super) fn check(request: &Value) -> Result<String, Failure> {
    let request = object("body", request)?;
    let known = [
        "recipient",
        "message",
        "messaging_type",
        "tag",
        "notification_type",
        "persona_id",
        "access_token",
        "appsecret_proof",
    ];
    only("body", request, &known)?;
    let recipient = object("recipient", field("recipient", request, "recipient")?)?;
    only("recipient", recipient, &["id"])?;
    let id = text("recipient[id]", field("recipient[id]", recipient, "id")?, 1, usize::MAX)?;
    check_type(request)?;
    check_message(object("message", field("message", request, "message")?)?)?;
    if is_person(id) { Ok(id.to_owned()) } else { Err(Failure::named("nouser")) }
}

/// Whom a request names, checked or not.
pub(super) fn recipient_of(request: &Value) -> Option<String> {
    Some(request.get("recipient")?.get("id")?.as_str()?.to_owned())
}

/// A page-scoped id is a number; one that is scripted goes on with a `-`.
fn is_person(id: &str) -> bool {
    let number = id.split('-').next().unwrap_or_default();
    !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
}

fn check_type(request: &Object) -> Checked {
    let one_of = |name: &str, value: &Value, names: &[&str]| {
        let is_known = value.as_str().is_some_and(|value| names.contains(&value));
        let rule = || format!("Param {name} must be one of {{{}}}", names.join(", "));
        if is_known { Ok(()) } else { Err(Failure::invalid(rule())) }
    };
    let messaging_type = field("messaging_type", request, "messaging_type")?;
    one_of("messaging_type", messaging_type, &["RESPONSE", "UPDATE", "MESSAGE_TAG"])?;
    if messaging_type == "MESSAGE_TAG" || request.contains_key("tag") {
        // All tags are gone but the one for people who answer by hand.
        return Err(Failure::invalid("Invalid parameter"));
    }
    match request.get("notification_type") {
        Some(kind) => one_of("notification_type", kind, &["REGULAR", "SILENT_PUSH", "NO_PUSH"]),
        None => Ok(()),
    }
}

fn check_message(message: &Object) -> Checked {
    only("message", message, &["text", "attachment", "quick_replies", "metadata"])?;
    match (message.get("text"), message.get("attachment")) {
        (Some(value), None) => {
            if value == "" {
                return Err(Failure::named("empty"));
            }
            text("message[text]", value, 1, TEXT_CHARS_MAX)?;
        }
        (None, Some(attachment)) => check_attachment(attachment)?,
        (None, None) => return Err(Failure::named("empty")),
        (Some(_), Some(_)) => {
            return Err(Failure::invalid("Only one of text and attachment may be set"));
        }
    }
    if let Some(metadata) = message.get("metadata") {
        text("message[metadata]", metadata, 0, METADATA_CHARS_MAX)?;
    }
    let Some(replies) = message.get("quick_replies") else { return Ok(()) };
    for (at, reply) in list("message[quick_replies]", replies, QUICK_REPLIES_MAX)? {
        let reply = object(&at, reply)?;
        only(&at, reply, &["content_type", "title", "payload", "image_url"])?;
        if reply.get("content_type").is_none_or(|kind| kind != "text") {
            return Err(Failure::invalid(format!("Param {at}[content_type] must be text")));
        }
        member(&at, reply, "title", LABEL_CHARS_MAX)?;
        member(&at, reply, "payload", PAYLOAD_CHARS_MAX)?;
        link(&at, reply, "image_url")?;
    }
    Ok(())
}

fn check_attachment(attachment: &Value) -> Checked {
    let at = "message[attachment]";
    let attachment = object(at, attachment)?;
    only(at, attachment, &["type", "payload"])?;
    let kind = member(at, attachment, "type", usize::MAX)?;
    let at = "message[attachment][payload]";
    let payload = object(at, field(at, attachment, "payload")?)?;
    match kind {
        "image" | "video" | "audio" | "file" => {
            only(at, payload, &["url", "is_reusable"])?;
            field(at, payload, "url")?;
            link(at, payload, "url")
        }
        "template" => check_template(at, payload),
        _ => Err(Failure::invalid("Invalid attachment type")),
    }
}

fn check_template(at: &str, payload: &Object) -> Checked {
    match member(at, payload, "template_type", usize::MAX)? {
        "button" => {
            only(at, payload, &["template_type", "text", "buttons", "sharable"])?;
            member(at, payload, "text", BUTTON_TEMPLATE_CHARS_MAX)?;
            check_buttons(at, field(at, payload, "buttons")?)
        }
        "generic" => {
            only(at, payload, &["template_type", "elements", "image_aspect_ratio", "sharable"])?;
            let elements = field(at, payload, "elements")?;
            for (at, element) in list(&format!("{at}[elements]"), elements, ELEMENTS_MAX)? {
                check_element(&at, object(&at, element)?)?;
            }
            Ok(())
        }
        _ => Err(Failure::invalid("Invalid template type")),
    }
}

fn check_element(at: &str, element: &Object) -> Checked {
    let beside_title = ["subtitle", "image_url", "default_action", "buttons"];
    only(at, element, &[&["title"], &beside_title[..]].concat())?;
    member(at, element, "title", TITLE_CHARS_MAX)?;
    if !beside_title.iter().any(|name| element.contains_key(*name)) {
        return Err(Failure::invalid(format!("Param {at} must have more than a title")));
    }
    if element.contains_key("subtitle") {
        member(at, element, "subtitle", TITLE_CHARS_MAX)?;
    }
    link(at, element, "image_url")?;
    if let Some(action) = element.get("default_action") {
        let at = format!("{at}[default_action]");
        let action = object(&at, action)?;
        only(&at, action, &["type", "url", "webview_height_ratio", "messenger_extensions"])?;
        if member(&at, action, "type", usize::MAX)? != "web_url" {
            return Err(Failure::invalid(format!("Param {at}[type] must be web_url")));
        }
        field(&at, action, "url")?;
        link(&at, action, "url")?;
    }
    element.get("buttons").map_or(Ok(()), |buttons| check_buttons(at, buttons))
}

fn check_buttons(at: &str, buttons: &Value) -> Checked {
    for (at, button) in list(&format!("{at}[buttons]"), buttons, BUTTONS_MAX)? {
        let button = object(&at, button)?;
        match member(&at, button, "type", usize::MAX)? {
            "web_url" => {
                let more = ["webview_height_ratio", "messenger_extensions", "fallback_url"];
                only(&at, button, &[&["type", "title", "url"], &more[..]].concat())?;
                field(&at, button, "url")?;
                link(&at, button, "url")?;
            }
            "postback" => {
                only(&at, button, &["type", "title", "payload"])?;
                member(&at, button, "payload", PAYLOAD_CHARS_MAX)?;
            }
            _ => return Err(Failure::invalid(format!("Param {at}[type] is no button type"))),
        }
        member(&at, button, "title", LABEL_CHARS_MAX)?;
    }
    Ok(())
}

fn only(at: &str, object: &Object, known: &[&str]) -> Checked {
    match object.keys().find(|key| !known.contains(&key.as_str())) {
        None => Ok(()),
        Some(key) => {
            Err(Failure::invalid(format!("Invalid keys \"{key}\" were found in param \"{at}\".")))
        }
    }
}

fn object<'a>(at: &str, value: &'a Value) -> Result<&'a Object, Failure> {
    value.as_object().ok_or_else(|| Failure::invalid(format!("Param {at} must be a JSON object")))
}

fn field<'a>(at: &str, object: &'a Object, name: &str) -> Result<&'a Value, Failure> {
    let missing = || Failure::invalid(format!("The parameter {name} is required ({at})"));
    object.get(name).filter(|value| !value.is_null()).ok_or_else(missing)
}

fn text<'a>(at: &str, value: &'a Value, min: usize, max: usize) -> Result<&'a str, Failure> {
    let text =
        value.as_str().ok_or_else(|| Failure::invalid(format!("Param {at} must be a string")))?;
    let chars = text.chars().count();
    if chars > max {
        let rule = format!("Length of param {at} must be less than or equal to {max}");
        return Err(Failure::invalid(rule));
    }
    if chars < min {
        return Err(Failure::invalid(format!("Param {at} must be a non-empty string")));
    }
    Ok(text)
}

/// A required text, 1 to `max` characters long.
fn member<'a>(at: &str, object: &'a Object, name: &str, max: usize) -> Result<&'a str, Failure> {
    text(&format!("{at}[{name}]"), field(at, object, name)?, 1, max)
}

/// An optional url that can be opened in a browser.
fn link(at: &str, object: &Object, name: &str) -> Checked {
    let Some(value) = object.get(name) else { return Ok(()) };
    let is_web = value
        .as_str()
        .and_then(|text| url::Url::parse(text).ok())
        .is_some_and(|url| matches!(url.scheme(), "http" | "https") && url.host().is_some());
    let rule = || format!("Param {at}[{name}] should represent a valid URL");
    if is_web { Ok(()) } else { Err(Failure::invalid(rule())) }
}

/// The elements of a list of 1 to `max`, each with where it is.
fn list<'a>(at: &str, value: &'a Value, max: usize) -> Result<Vec<(String, &'a Value)>, Failure> {
    let list = value.as_array().filter(|list| (1..=max).contains(&list.len()));
    let rule = || Failure::invalid(format!("Param {at} must be an array of 1 to {max}"));
    let list = list.ok_or_else(rule)?;
    Ok(list.iter().enumerate().map(|(index, item)| (format!("{at}[{index}]"), item)).collect())
}
