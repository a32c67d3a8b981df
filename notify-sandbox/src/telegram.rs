//! Fake Bot API of Telegram: <https://core.telegram.org/bots/api>. The fake checks the token, method
//! and message, in that order, and then responds as scripted. Successful messages count against two
//! rate limits: one of the bot and one of the chat.

use bytes::Bytes;
use http::{Response, header};
use notify_core::{chat_with_topic, split_topic};
use serde_json::{Map, Value, json};

use crate::handler::{
    Context, Outcome, Reaction, Recipient, json, respond, status, with_retry_after,
};
use crate::rate_limits::Limit;
use crate::rules::RequestScript;
use crate::script::{self, Fault, MARK, Provider, RECIPIENT_MARKS, ScriptedResponse};
use crate::state::SandboxState;

/// The messages a minute that a group accepts.
const GROUP_PER_MINUTE: u32 = 20;

const TEXT_CHARS_MAX: usize = 4_096;
const CAPTION_CHARS_MAX: usize = 1_024;
const CALLBACK_DATA_BYTES_MAX: usize = 64;
const BUTTONS_PER_ROW_MAX: usize = 8;
const BUTTONS_MAX: usize = 100;

/// Handles one call.
pub(crate) fn handle(ctx: Context<'_>, path: &str) -> Reaction {
    let parameters = ctx.request.payload();
    let validated = match parse_method(ctx.state, path) {
        Ok(Method::GetMe) => return Reaction::respond(get_me(ctx.state)),
        Ok(Method::Unknown) => {
            return Reaction::respond(Failure::for_keyword("nomethod").into_response());
        }
        Ok(method) => {
            let is_photo = method == Method::SendPhoto;
            match validate(ctx, &parameters, is_photo) {
                Ok(chat) => Ok((chat, is_photo)),
                Err(failure) => Err((chat_of(&parameters), failure)),
            }
        }
        // The message is logged in spite of its wrong token or path, so that the user can see the mistake.
        Err(failure) => Err((None, failure)),
    };
    let (token, scripted, outcome) = match validated {
        Ok((chat, is_photo)) => {
            let has_buttons = parameters.get("reply_markup").is_some();
            // The limits and the endings are those of the chat, whatever the topic.
            let (whole_chat, _) = split_topic(&chat);
            let script = parse_chat(whole_chat, is_photo, has_buttons);
            let scripted = ctx.state.rules.scripted(Provider::Telegram, &chat, script);
            let outcome = send(ctx.state, whole_chat, &scripted.response);
            (Some(chat), scripted, outcome)
        }
        Err((chat, failure)) => (chat, RequestScript::default(), failure.into_outcome()),
    };
    let recipient = Recipient { provider: Provider::Telegram, environment: None, token };
    ctx.finish(recipient, scripted, outcome, || parameters)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Method {
    GetMe,
    SendMessage,
    SendPhoto,
    Unknown,
}

/// The method of a path, whose token is checked. Telegram ignores the case of the method.
fn parse_method(state: &SandboxState, path: &str) -> Result<Method, Failure> {
    let not_found = || Failure::for_keyword("notthere");
    let (token, method) =
        path.strip_prefix("/bot").and_then(|rest| rest.split_once('/')).ok_or_else(not_found)?;
    let (number, secret) = token.split_once(':').ok_or_else(not_found)?;
    if number.parse::<u64>().is_err() || secret.is_empty() {
        return Err(not_found());
    }
    if token != state.credentials.bot.token {
        return Err(Failure::for_keyword("unauthorized"));
    }
    Ok(match method.to_ascii_lowercase().as_str() {
        "getme" => Method::GetMe,
        "sendmessage" => Method::SendMessage,
        "sendphoto" => Method::SendPhoto,
        _ => Method::Unknown,
    })
}

fn get_me(state: &SandboxState) -> Response<Bytes> {
    let bot = json!({
        "id": state.credentials.bot.id,
        "is_bot": true,
        "first_name": "Notify sandbox",
        "username": "notify_sandbox_bot",
    });
    json(200, &json!({ "ok": true, "result": bot }))
}

fn send(state: &SandboxState, chat: &str, script: &ScriptedResponse) -> Outcome {
    if script.fault != Fault::None {
        return Outcome::default();
    }
    if !script.is_success() {
        return Failure::scripted(script, chat).into_outcome();
    }
    if let Err(retry_after) = take_from_limits(state, chat) {
        return Failure::flood(retry_after).into_outcome();
    }
    let id = fastrand::u32(1..);
    let sent = json!({
        "message_id": id,
        "date": state.clock.now().as_seconds(),
        "chat": { "id": number_of(chat), "type": "private" },
    });
    Outcome::sent(json(200, &json!({ "ok": true, "result": sent })), id.to_string())
}

/// Counts a message against the rate limits of the bot and of the chat. A setting of 0 means no limit.
///
/// # Errors
/// When a limit is exceeded. The error is the number of seconds until the limit allows a message.
fn take_from_limits(state: &SandboxState, chat: &str) -> Result<(), u64> {
    let (per_second, burst) = {
        let settings = state.settings.borrow();
        (settings.telegram_per_second, settings.telegram_chat_burst)
    };
    let now = state.clock.now();
    if per_second > 0 {
        let limit = Limit { burst: per_second, per_second: f64::from(per_second) };
        state.rate_limits.take("telegram", limit, now)?;
    }
    if burst == 0 {
        return Ok(());
    }
    let key = format!("telegram {chat}");
    let limit = if chat.starts_with('-') {
        Limit { burst: GROUP_PER_MINUTE, per_second: f64::from(GROUP_PER_MINUTE) / 60.0 }
    } else {
        Limit { burst, per_second: 1.0 }
    };
    state.rate_limits.take(&key, limit, now)
}

/// The number at the start of a chat id, without the script. `None` for the name of a channel.
fn number_of(chat: &str) -> Option<i64> {
    let (sign, number) = chat.strip_prefix('-').map_or((1, chat), |number| (-1, number));
    let number: i64 = number.split(RECIPIENT_MARKS).next()?.parse().ok()?;
    Some(sign * number)
}

type CheckResult = Result<(), Failure>;

fn bad_request(rule: &str) -> Failure {
    Failure::new(400, format!("Bad Request: {rule}"))
}

/// Checks the parameters of a call and returns its chat.
fn validate(ctx: Context<'_>, parameters: &Value, is_photo: bool) -> Result<String, Failure> {
    let content_type = ctx.request.header(header::CONTENT_TYPE.as_str()).unwrap_or_default();
    if !content_type.to_ascii_lowercase().starts_with("application/json") {
        // The real service also accepts forms. The sandbox does not.
        return Err(bad_request("the sandbox reads JSON alone"));
    }
    let chat = chat_of(parameters);
    let parameters =
        parameters.as_object().ok_or_else(|| bad_request("can't parse JSON object"))?;
    let chat = chat.ok_or_else(|| bad_request("chat_id is empty"))?;
    if is_photo {
        let photo = text(parameters, "photo")?
            .ok_or_else(|| bad_request("there is no photo in the request"))?;
        if !is_web_url(photo) {
            return Err(bad_request("wrong file identifier/HTTP URL specified"));
        }
        let caption = text(parameters, "caption")?.unwrap_or_default();
        if caption.chars().count() > CAPTION_CHARS_MAX {
            return Err(bad_request("message caption is too long"));
        }
    } else {
        let text = text(parameters, "text")?.unwrap_or_default();
        if text.trim().is_empty() {
            return Err(Failure::for_keyword("empty"));
        }
        if text.chars().count() > TEXT_CHARS_MAX {
            return Err(Failure::for_keyword("toolong"));
        }
    }
    if let Some(mode) = text(parameters, "parse_mode")?
        && !["HTML", "Markdown", "MarkdownV2"].contains(&mode)
    {
        return Err(bad_request("unsupported parse_mode"));
    }
    let (whole_chat, topic) = split_topic(&chat);
    // Telegram knows the general topic of a group by no id.
    if parameters.contains_key("message_thread_id") && topic.is_none() {
        return Err(Failure::for_keyword("notopic"));
    }
    check_markup(parameters.get("reply_markup"))?;
    if is_chat(whole_chat) { Ok(chat) } else { Err(Failure::for_keyword("notfound")) }
}

/// The chat of a call, or the topic in it, as text, even if the call is invalid.
fn chat_of(parameters: &Value) -> Option<String> {
    let chat = match parameters.get("chat_id")? {
        Value::String(chat) if !chat.is_empty() => chat.clone(),
        Value::Number(chat) => chat.as_i64()?.to_string(),
        _ => return None,
    };
    Some(match topic_of(parameters) {
        Some(topic) => chat_with_topic(chat, topic),
        None => chat,
    })
}

fn topic_of(parameters: &Value) -> Option<i32> {
    i32::try_from(parameters.get("message_thread_id")?.as_i64()?).ok()
}

/// Whether `chat` is the name of a channel, or a number, which `-` and a script may follow.
fn is_chat(chat: &str) -> bool {
    if let Some(name) = chat.strip_prefix('@') {
        return !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    }
    let number = chat.strip_prefix('-').unwrap_or(chat);
    let number = number.split(RECIPIENT_MARKS).next().unwrap_or_default();
    !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
}

/// An optional string parameter.
fn text<'a>(parameters: &'a Map<String, Value>, name: &str) -> Result<Option<&'a str>, Failure> {
    match parameters.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(bad_request(&format!("can't parse field \"{name}\": it must be a String"))),
    }
}

/// Whether a text is the url of a web page: a URI, which has neither blanks nor letters beyond ASCII.
fn is_web_url(text: &str) -> bool {
    let is_uri = text.bytes().all(|byte| byte.is_ascii_graphic());
    let url = url::Url::parse(text).ok().filter(|_| is_uri);
    url.is_some_and(|url| matches!(url.scheme(), "http" | "https") && url.host().is_some())
}

fn check_markup(markup: Option<&Value>) -> CheckResult {
    let Some(markup) = markup else { return Ok(()) };
    let broken = || bad_request("can't parse reply keyboard markup JSON object");
    let rows = markup.get("inline_keyboard").and_then(Value::as_array).ok_or_else(broken)?;
    let mut count = 0;
    for row in rows {
        let row = row.as_array().ok_or_else(broken)?;
        count += row.len();
        if row.len() > BUTTONS_PER_ROW_MAX || count > BUTTONS_MAX {
            return Err(Failure::for_keyword("markup"));
        }
        row.iter().try_for_each(check_button)?;
    }
    Ok(())
}

fn check_button(button: &Value) -> CheckResult {
    let broken = |rule: &str| bad_request(&format!("can't parse inline keyboard button: {rule}"));
    let button =
        button.as_object().ok_or_else(|| broken("InlineKeyboardButton must be an Object"))?;
    let members = ["text", "url", "callback_data"];
    if !button.keys().all(|key| members.contains(&key.as_str())) {
        return Err(broken("the sandbox knows text, url and callback_data"));
    }
    if text(button, "text")?.is_none_or(|label| label.trim().is_empty()) {
        return Err(broken("Text buttons must have non-empty text"));
    }
    match (text(button, "url")?, text(button, "callback_data")?) {
        (Some(url), None) if is_web_url(url) || url.starts_with("tg://") => Ok(()),
        (Some(_), None) => Err(Failure::for_keyword("button")),
        (None, Some(data)) if (1..=CALLBACK_DATA_BYTES_MAX).contains(&data.len()) => Ok(()),
        (None, Some(_)) => Err(bad_request("BUTTON_DATA_INVALID")),
        _ => Err(broken("exactly one of the optional fields must be used")),
    }
}

/// The default `retry_after` of a 429, in seconds.
const RETRY_AFTER_S: u64 = 5;

/// The errors that a script can select: keyword, status and description. The first error with a status
/// is the usual error of the status.
const ERRORS: &[(&str, u16, &str)] = &[
    ("empty", 400, "Bad Request: message text is empty"),
    ("toolong", 400, "Bad Request: message is too long"),
    ("parse", 400, "Bad Request: can't parse entities: Unexpected end of text"),
    ("button", 400, "Bad Request: BUTTON_URL_INVALID"),
    ("markup", 400, "Bad Request: reply markup is too long"),
    ("photo", 400, "Bad Request: wrong type of the web page content"),
    ("fetch", 400, "Bad Request: failed to get HTTP URL content"),
    ("dimensions", 400, "Bad Request: PHOTO_INVALID_DIMENSIONS"),
    ("notfound", 400, "Bad Request: chat not found"),
    ("notopic", 400, "Bad Request: message thread not found"),
    ("topicclosed", 400, "Bad Request: TOPIC_CLOSED"),
    ("migrated", 400, "Bad Request: group chat was upgraded to a supergroup chat"),
    ("unauthorized", 401, "Unauthorized"),
    ("badtoken", 401, "Unauthorized: invalid token specified"),
    ("blocked", 403, "Forbidden: bot was blocked by the user"),
    ("deactivated", 403, "Forbidden: user is deactivated"),
    ("kicked", 403, "Forbidden: bot was kicked from the supergroup chat"),
    ("notmember", 403, "Forbidden: bot is not a member of the channel chat"),
    ("deleted", 403, "Forbidden: the group chat was deleted"),
    ("neverstarted", 403, "Forbidden: bot can't initiate conversation with a user"),
    ("nomethod", 404, "Not Found: method not found"),
    ("notthere", 404, "Not Found"),
    ("conflict", 409, "Conflict: terminated by other getUpdates request"),
    ("flood", 429, "Too Many Requests: retry after"),
    ("internal", 500, "Internal Server Error"),
    ("timeout", 504, "Gateway Timeout"),
];

/// Keywords that apply only to a photo. A text to the same chat succeeds.
const PHOTO_ERRORS: [&str; 4] = ["parse", "photo", "fetch", "dimensions"];
/// Keywords that apply only to buttons. A message without buttons to the same chat succeeds.
const BUTTON_ERRORS: [&str; 2] = ["button", "markup"];

/// The statuses with which the server in front of the Bot API responds. Their body is an HTML page.
const PAGE_STATUSES: [u16; 2] = [502, 503];

fn find_error(keyword: &str) -> Option<&'static (&'static str, u16, &'static str)> {
    ERRORS.iter().find(|error| error.0 == keyword)
}

/// The keywords in chat ids that select an error.
pub fn telegram_keywords() -> impl Iterator<Item = &'static str> {
    ERRORS.iter().map(|error| error.0)
}

/// The status of the error with this keyword.
pub(crate) fn status_of(reason: &str) -> Option<u16> {
    find_error(reason).map(|error| error.1)
}

/// Parses the script at the end of a chat.
fn parse_chat(chat: &str, is_photo: bool, has_buttons: bool) -> Option<ScriptedResponse> {
    let response = script::parse_recipient(chat, |script| {
        if let Some(status) = status_of(script) {
            return Some(ScriptedResponse {
                status: Some(status),
                ..ScriptedResponse::reason(script)
            });
        }
        let status = script.parse().ok()?;
        let is_known =
            PAGE_STATUSES.contains(&status) || ERRORS.iter().any(|error| error.1 == status);
        is_known.then(|| ScriptedResponse::status(status))
    });
    response.filter(|response| {
        let reason = response.reason.as_deref();
        reason.is_none_or(|reason| {
            (is_photo || !PHOTO_ERRORS.contains(&reason))
                && (has_buttons || !BUTTON_ERRORS.contains(&reason))
        })
    })
}

/// A chat id that gets `response`, different for each `seed`.
///
/// # Panics
/// When no script selects the response, because its reason has no keyword. Such a response needs a
/// [`Rule`](crate::Rule).
#[must_use]
pub fn telegram_chat(seed: u64, response: &ScriptedResponse) -> String {
    let number = 5_000_000_000 + seed;
    if response.is_success() {
        return number.to_string();
    }
    let script =
        script::write_script(response, |response| match (&response.reason, response.status) {
            (Some(reason), _) => find_error(reason).map(|error| error.0.to_owned()),
            (None, status) => status.map(|status| status.to_string()),
        });
    format!("{number}{MARK}{}", script.expect("a script can select the response"))
}

/// An error response.
#[derive(Debug)]
struct Failure {
    http: u16,
    description: String,
    retry_after: Option<u64>,
    /// The supergroup that has replaced the chat.
    migrate_to: Option<i64>,
    /// Whether the body is an HTML page instead of JSON.
    is_page: bool,
}

impl Failure {
    fn new(http: u16, description: impl Into<String>) -> Self {
        let description = description.into();
        Self { http, description, retry_after: None, migrate_to: None, is_page: false }
    }

    /// The error with this keyword.
    fn for_keyword(keyword: &str) -> Self {
        Self::scripted(&ScriptedResponse::reason(keyword), "")
    }

    /// The error of an exceeded rate limit, with the seconds to wait.
    fn flood(retry_after: u64) -> Self {
        let description = format!("Too Many Requests: retry after {retry_after}");
        Self { retry_after: Some(retry_after), ..Self::new(429, description) }
    }

    /// The failure that a rule or the script of a chat selects.
    fn scripted(script: &ScriptedResponse, chat: &str) -> Self {
        let error = match script.reason.as_deref() {
            Some(reason) => find_error(reason),
            None => ERRORS.iter().find(|error| Some(error.1) == script.status),
        };
        let Some(&(keyword, http, description)) = error else {
            let http = script.status.unwrap_or(500);
            let failure = match &script.reason {
                Some(reason) => Self::new(http, reason.as_str()),
                // Only the front server responds with a status for which Telegram has no error.
                None => Self { is_page: true, ..Self::new(http, "") },
            };
            return Self { retry_after: script.retry_after, ..failure };
        };
        let http = script.status.unwrap_or(http);
        match keyword {
            "flood" => Self::flood(script.retry_after.unwrap_or(RETRY_AFTER_S)),
            "migrated" => {
                Self { migrate_to: Some(supergroup_of(chat)), ..Self::new(http, description) }
            }
            _ => Self { retry_after: script.retry_after, ..Self::new(http, description) },
        }
    }

    /// The outcome of the message. Its reason in the log is the description.
    fn into_outcome(self) -> Outcome {
        let reason = if self.is_page { "html" } else { self.description.as_str() }.to_owned();
        Outcome::failed(self.into_response(), reason)
    }

    fn into_response(self) -> Response<Bytes> {
        if self.is_page {
            let title =
                format!("{} {}", self.http, status(self.http).canonical_reason().unwrap_or(""));
            let page = format!(
                "<html>\r\n<head><title>{title}</title></head>\r\n<body>\r\n\
                 <center><h1>{title}</h1></center>\r\n<hr><center>nginx</center>\r\n</body>\r\n\
                 </html>\r\n"
            );
            let page = respond(self.http, "text/html", page);
            return with_retry_after(page, self.retry_after);
        }
        let mut body =
            json!({ "ok": false, "error_code": self.http, "description": self.description });
        if let Some(seconds) = self.retry_after {
            body["parameters"]["retry_after"] = seconds.into();
        }
        if let Some(chat) = self.migrate_to {
            body["parameters"]["migrate_to_chat_id"] = chat.into();
        }
        with_retry_after(json(self.http, &body), self.retry_after)
    }
}

/// The supergroup that replaces a group. Its id is `-100` and the number of the group.
fn supergroup_of(chat: &str) -> i64 {
    let chat = chat.trim_start_matches('-');
    let number: String = chat.chars().take_while(char::is_ascii_digit).collect();
    format!("-100{number}").parse().unwrap_or(-1_001_000_000_000)
}
