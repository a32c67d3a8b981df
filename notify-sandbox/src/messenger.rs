//! Fake Graph API of Messenger: <https://developers.facebook.com/docs/messenger-platform/reference/send-api>.
//! The fake checks the path, page token, proof and message, in that order, and then responds as
//! scripted. Successful messages count against a rate limit.

use aws_lc_rs::hmac;
use bytes::Bytes;
use http::{HeaderValue, Method, Response};
use serde_json::{Map, Value, json};

use crate::handler::{Context, Outcome, Reaction, Recipient, json, respond};
use crate::rate_limits::Limit;
use crate::rules::RequestScript;
use crate::script::{self, Fault, MARK, Provider, RECIPIENT_MARKS, ScriptedResponse};
use crate::state::SandboxState;

/// The id of the page that sends all messages.
const PAGE_ID: &str = "104000000000001";

const TEXT_CHARS_MAX: usize = 2_000;
const BUTTON_TEMPLATE_CHARS_MAX: usize = 640;
const TITLE_CHARS_MAX: usize = 80;
const LABEL_CHARS_MAX: usize = 20;
const PAYLOAD_CHARS_MAX: usize = 1_000;
const METADATA_CHARS_MAX: usize = 1_000;
const BUTTONS_MAX: usize = 3;
const ELEMENTS_MAX: usize = 10;
const QUICK_REPLIES_MAX: usize = 13;

enum Route {
    Page,
    Messages,
}

/// Handles one request.
pub(crate) fn handle(ctx: Context<'_>, path: &str) -> Reaction {
    let route = match (parse_route(path), &ctx.request.head.method) {
        (Some(Route::Page), &Method::GET) => Route::Page,
        (Some(Route::Messages), &Method::POST) => Route::Messages,
        _ => return Reaction::respond(unknown_path()),
    };
    let body = ctx.request.payload();
    let authorized = authorize(ctx, &body);
    if matches!(route, Route::Page) {
        return Reaction::respond(match authorized {
            Ok(()) => json(200, &json!({ "id": PAGE_ID, "name": "Notify sandbox" })),
            Err(failure) => failure.into_response(),
        });
    }
    let (token, scripted, outcome) = match authorized.and_then(|()| validate(&body)) {
        Ok(recipient) => {
            let script = parse_recipient(&recipient, has_parts(&body));
            let scripted = ctx.state.rules.scripted(Provider::Messenger, &recipient, script);
            let outcome = send(ctx.state, &recipient, &scripted.response);
            (Some(recipient), scripted, outcome)
        }
        Err(failure) => (recipient_of(&body), RequestScript::default(), failure.into_outcome()),
    };
    let outcome = Outcome { response: with_usage(ctx.state, outcome.response), ..outcome };
    let recipient = Recipient { provider: Provider::Messenger, environment: None, token };
    ctx.finish(recipient, scripted, outcome, || without_secrets(body))
}

/// The outcome of a valid message: the scripted response. A success needs the rate limit to allow it.
fn send(state: &SandboxState, recipient: &str, script: &ScriptedResponse) -> Outcome {
    if script.fault != Fault::None {
        return Outcome::default();
    }
    if !script.is_success() {
        return Failure::scripted(script).into_outcome().with_retry_after(script.retry_after);
    }
    let per_second = state.settings.borrow().messenger_per_second;
    let limit = Limit { burst: per_second, per_second: f64::from(per_second) };
    if per_second > 0 && state.rate_limits.take("messenger", limit, state.clock.now()).is_err() {
        return Failure::for_keyword("messengerlimit").into_outcome();
    }
    let id = format!("m_{:016x}{:016x}", fastrand::u64(..), fastrand::u64(..));
    Outcome::sent(json(200, &json!({ "recipient_id": recipient, "message_id": id })), id)
}

/// Parses `/vN.N/me` or `/vN.N/PAGE`, with or without `/messages`.
fn parse_route(path: &str) -> Option<Route> {
    let (version, rest) = path.strip_prefix("/v")?.split_once('/')?;
    let (major, minor) = version.split_once('.')?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(major) || !is_number(minor) {
        return None;
    }
    let (page, rest) = rest.split_once('/').unwrap_or((rest, ""));
    if page != "me" && page != PAGE_ID {
        return None;
    }
    match rest {
        "" => Some(Route::Page),
        "messages" => Some(Route::Messages),
        _ => None,
    }
}

fn unknown_path() -> Response<Bytes> {
    let error = json!({
        "message": "Unknown path components",
        "type": "OAuthException",
        "code": 2500,
        "fbtrace_id": "ASandboxTrace",
    });
    json(400, &json!({ "error": error }))
}

/// Checks the page's token, and the proof of the token where it is present or required.
fn authorize(Context { state, request, .. }: Context<'_>, body: &Value) -> Result<(), Failure> {
    let argument = |name: &str| {
        let query = request.head.uri.query().unwrap_or_default();
        let mut pairs = url::form_urlencoded::parse(query.as_bytes());
        let in_query = pairs.find(|(key, _)| key == name).map(|(_, value)| value.into_owned());
        in_query.or_else(|| Some(body.get(name)?.as_str()?.to_owned()))
    };
    let page = &state.credentials.page;
    let token = request.bearer().map(str::to_owned).or_else(|| argument("access_token"));
    if token.as_deref() != Some(page.access_token.as_str()) {
        return Err(Failure::for_keyword("token"));
    }
    match argument("appsecret_proof") {
        Some(proof) if proof != proof_of(&page.access_token, &page.app_secret) => {
            Err(Failure::invalid("Invalid appsecret_proof provided in the API argument"))
        }
        None if state.settings.borrow().messenger_requires_proof => {
            Err(Failure::invalid("API calls from the server require an appsecret_proof argument"))
        }
        Some(_) | None => Ok(()),
    }
}

/// HMAC-SHA256 of the token under the app secret, in hex.
fn proof_of(token: &str, app_secret: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, app_secret.as_bytes());
    let proof = hmac::sign(&key, token.as_bytes());
    proof.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Adds the usage headers, unless `messenger_usage_percent` is 0.
fn with_usage(state: &SandboxState, mut response: Response<Bytes>) -> Response<Bytes> {
    let (percent, minutes) = {
        let settings = state.settings.borrow();
        (settings.messenger_usage_percent, settings.messenger_regain_minutes)
    };
    if percent == 0 {
        return response;
    }
    let app = json!({ "call_count": percent, "total_time": 1, "total_cputime": 1 });
    let usage = json!({
        "type": "messenger",
        "call_count": percent,
        "total_cputime": 1,
        "total_time": 1,
        "estimated_time_to_regain_access": minutes,
    });
    let mut pages = Map::new();
    pages.insert(PAGE_ID.to_owned(), json!([usage]));
    for (name, value) in [("x-app-usage", app), ("x-business-use-case-usage", Value::Object(pages))]
    {
        let value = HeaderValue::try_from(value.to_string()).expect("numbers and plain names");
        response.headers_mut().insert(name, value);
    }
    response
}

/// Masks the tokens in the body, because the log never holds a credential.
fn without_secrets(mut payload: Value) -> Value {
    for name in ["access_token", "appsecret_proof"] {
        if let Some(secret) = payload.get_mut(name) {
            *secret = json!("***");
        }
    }
    payload
}

type CheckResult = Result<(), Failure>;
type Object = Map<String, Value>;

/// Checks the body of a request and returns its recipient.
fn validate(request: &Value) -> Result<String, Failure> {
    let request = object("body", request)?;
    let members = [
        "recipient",
        "message",
        "messaging_type",
        "tag",
        "notification_type",
        "persona_id",
        "access_token",
        "appsecret_proof",
    ];
    check_members("body", request, &members)?;
    let recipient = object("recipient", field("recipient", request, "recipient")?)?;
    check_members("recipient", recipient, &["id"])?;
    let id = text("recipient[id]", field("recipient[id]", recipient, "id")?, 1, usize::MAX)?;
    check_type(request)?;
    check_message(object("message", field("message", request, "message")?)?)?;
    if is_page_scoped_id(id) { Ok(id.to_owned()) } else { Err(Failure::for_keyword("nouser")) }
}

/// The recipient of a request, even if the request is invalid.
fn recipient_of(request: &Value) -> Option<String> {
    Some(request.get("recipient")?.get("id")?.as_str()?.to_owned())
}

/// Whether `id` is a page-scoped id: a number, which `-` and a script may follow.
fn is_page_scoped_id(id: &str) -> bool {
    let number = id.split(RECIPIENT_MARKS).next().unwrap_or_default();
    !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
}

fn check_type(request: &Object) -> CheckResult {
    let one_of = |name: &str, value: &Value, names: &[&str]| {
        let is_known = value.as_str().is_some_and(|value| names.contains(&value));
        let rule = || format!("Param {name} must be one of {{{}}}", names.join(", "));
        if is_known { Ok(()) } else { Err(Failure::invalid(rule())) }
    };
    let messaging_type = field("messaging_type", request, "messaging_type")?;
    one_of("messaging_type", messaging_type, &["RESPONSE", "UPDATE", "MESSAGE_TAG"])?;
    if messaging_type == "MESSAGE_TAG" || request.contains_key("tag") {
        // The only tag that Meta still accepts is for messages that a person writes by hand.
        return Err(Failure::invalid("Invalid parameter"));
    }
    match request.get("notification_type") {
        Some(kind) => one_of("notification_type", kind, &["REGULAR", "SILENT_PUSH", "NO_PUSH"]),
        None => Ok(()),
    }
}

fn check_message(message: &Object) -> CheckResult {
    check_members("message", message, &["text", "attachment", "quick_replies", "metadata"])?;
    match (message.get("text"), message.get("attachment")) {
        (Some(value), None) => {
            if value == "" {
                return Err(Failure::for_keyword("empty"));
            }
            text("message[text]", value, 1, TEXT_CHARS_MAX)?;
        }
        (None, Some(attachment)) => check_attachment(attachment)?,
        (None, None) => return Err(Failure::for_keyword("empty")),
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
        check_members(&at, reply, &["content_type", "title", "payload", "image_url"])?;
        if reply.get("content_type").is_none_or(|kind| kind != "text") {
            return Err(Failure::invalid(format!("Param {at}[content_type] must be text")));
        }
        required_text(&at, reply, "title", LABEL_CHARS_MAX)?;
        required_text(&at, reply, "payload", PAYLOAD_CHARS_MAX)?;
        check_link(&at, reply, "image_url")?;
    }
    Ok(())
}

fn check_attachment(attachment: &Value) -> CheckResult {
    let at = "message[attachment]";
    let attachment = object(at, attachment)?;
    check_members(at, attachment, &["type", "payload"])?;
    let kind = required_text(at, attachment, "type", usize::MAX)?;
    let at = "message[attachment][payload]";
    let payload = object(at, field(at, attachment, "payload")?)?;
    match kind {
        "image" | "video" | "audio" | "file" => {
            check_members(at, payload, &["url", "is_reusable"])?;
            field(at, payload, "url")?;
            check_link(at, payload, "url")
        }
        "template" => check_template(at, payload),
        _ => Err(Failure::invalid("Invalid attachment type")),
    }
}

fn check_template(at: &str, payload: &Object) -> CheckResult {
    match required_text(at, payload, "template_type", usize::MAX)? {
        "button" => {
            check_members(at, payload, &["template_type", "text", "buttons", "sharable"])?;
            required_text(at, payload, "text", BUTTON_TEMPLATE_CHARS_MAX)?;
            check_buttons(at, field(at, payload, "buttons")?)
        }
        "generic" => {
            check_members(
                at,
                payload,
                &["template_type", "elements", "image_aspect_ratio", "sharable"],
            )?;
            let elements = field(at, payload, "elements")?;
            for (at, element) in list(&format!("{at}[elements]"), elements, ELEMENTS_MAX)? {
                check_element(&at, object(&at, element)?)?;
            }
            Ok(())
        }
        _ => Err(Failure::invalid("Invalid template type")),
    }
}

fn check_element(at: &str, element: &Object) -> CheckResult {
    let other_members = ["subtitle", "image_url", "default_action", "buttons"];
    check_members(at, element, &[&["title"], &other_members[..]].concat())?;
    required_text(at, element, "title", TITLE_CHARS_MAX)?;
    if !other_members.iter().any(|name| element.contains_key(*name)) {
        return Err(Failure::invalid(format!("Param {at} must have more than a title")));
    }
    if element.contains_key("subtitle") {
        required_text(at, element, "subtitle", TITLE_CHARS_MAX)?;
    }
    check_link(at, element, "image_url")?;
    if let Some(action) = element.get("default_action") {
        let at = format!("{at}[default_action]");
        let action = object(&at, action)?;
        check_members(
            &at,
            action,
            &["type", "url", "webview_height_ratio", "messenger_extensions"],
        )?;
        if required_text(&at, action, "type", usize::MAX)? != "web_url" {
            return Err(Failure::invalid(format!("Param {at}[type] must be web_url")));
        }
        field(&at, action, "url")?;
        check_link(&at, action, "url")?;
    }
    element.get("buttons").map_or(Ok(()), |buttons| check_buttons(at, buttons))
}

fn check_buttons(at: &str, buttons: &Value) -> CheckResult {
    for (at, button) in list(&format!("{at}[buttons]"), buttons, BUTTONS_MAX)? {
        let button = object(&at, button)?;
        match required_text(&at, button, "type", usize::MAX)? {
            "web_url" => {
                let more = ["webview_height_ratio", "messenger_extensions", "fallback_url"];
                check_members(&at, button, &[&["type", "title", "url"], &more[..]].concat())?;
                field(&at, button, "url")?;
                check_link(&at, button, "url")?;
            }
            "postback" => {
                check_members(&at, button, &["type", "title", "payload"])?;
                required_text(&at, button, "payload", PAYLOAD_CHARS_MAX)?;
            }
            _ => return Err(Failure::invalid(format!("Param {at}[type] is no button type"))),
        }
        required_text(&at, button, "title", LABEL_CHARS_MAX)?;
    }
    Ok(())
}

/// Checks that `object` has no members other than `members`. `at` is the path of the object in errors.
fn check_members(at: &str, object: &Object, members: &[&str]) -> CheckResult {
    match object.keys().find(|key| !members.contains(&key.as_str())) {
        None => Ok(()),
        Some(key) => {
            Err(Failure::invalid(format!("Invalid keys \"{key}\" were found in param \"{at}\".")))
        }
    }
}

fn object<'a>(at: &str, value: &'a Value) -> Result<&'a Object, Failure> {
    value.as_object().ok_or_else(|| Failure::invalid(format!("Param {at} must be a JSON object")))
}

/// A required member of `object`.
fn field<'a>(at: &str, object: &'a Object, name: &str) -> Result<&'a Value, Failure> {
    let missing = || Failure::invalid(format!("The parameter {name} is required ({at})"));
    object.get(name).filter(|value| !value.is_null()).ok_or_else(missing)
}

/// Checks that `value` is a string of `min` to `max` characters.
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

/// A required text member of 1 to `max` characters.
fn required_text<'a>(
    at: &str,
    object: &'a Object,
    name: &str,
    max: usize,
) -> Result<&'a str, Failure> {
    text(&format!("{at}[{name}]"), field(at, object, name)?, 1, max)
}

/// Checks an optional member that must be an `http` or `https` URL.
fn check_link(at: &str, object: &Object, name: &str) -> CheckResult {
    let Some(value) = object.get(name) else { return Ok(()) };
    let is_web = value
        .as_str()
        .filter(|text| text.bytes().all(|byte| byte.is_ascii_graphic()))
        .and_then(|text| url::Url::parse(text).ok())
        .is_some_and(|url| matches!(url.scheme(), "http" | "https") && url.host().is_some());
    let rule = || format!("Param {at}[{name}] should represent a valid URL");
    if is_web { Ok(()) } else { Err(Failure::invalid(rule())) }
}

/// The elements of a list, each with its path in errors. The list must have 1 to `max` elements.
fn list<'a>(at: &str, value: &'a Value, max: usize) -> Result<Vec<(String, &'a Value)>, Failure> {
    let list = value.as_array().filter(|list| (1..=max).contains(&list.len()));
    let rule = || Failure::invalid(format!("Param {at} must be an array of 1 to {max}"));
    let list = list.ok_or_else(rule)?;
    Ok(list.iter().enumerate().map(|(index, item)| (format!("{at}[{index}]"), item)).collect())
}

/// An error that a script can select.
struct ErrorCase {
    /// The keyword in token scripts.
    keyword: &'static str,
    http: u16,
    code: u64,
    /// The subcode; 0 when the error has none.
    subcode: u64,
    message: &'static str,
}

const fn error(
    keyword: &'static str,
    http: u16,
    (code, subcode): (u64, u64),
    message: &'static str,
) -> ErrorCase {
    ErrorCase { keyword, http, code, subcode, message }
}

/// All errors. The first error with a status is the usual error of the status.
const ERRORS: &[ErrorCase] = &[
    error("invalid", 400, (100, 0), "(#100) Invalid parameter"),
    error("temporary", 500, (1200, 0), "Temporary send message failure. Please try again later."),
    error("service", 500, (2, 0), "Service temporarily unavailable"),
    error("unknown", 500, (1, 0), "An unknown error has occurred."),
    error("denied", 403, (10, 0), "(#10) Application does not have permission for this action"),
    error("expired", 401, (190, 463), "Error validating access token: Session has expired."),
    error("token", 401, (190, 0), "Invalid OAuth access token."),
    error(
        "uninstalled",
        401,
        (190, 458),
        "Error validating access token: The user has not authorized application.",
    ),
    error(
        "password",
        401,
        (190, 460),
        "Error validating access token: The session has been invalidated because the user changed the password.",
    ),
    error(
        "revoked",
        401,
        (190, 467),
        "Error validating access token: This may be because the user logged out.",
    ),
    error("permission", 400, (1, 99), "An unknown error occurred: missing permission"),
    error("applimit", 400, (4, 0), "(#4) Application request limit reached"),
    error("phonelimit", 400, (4, 2_018_022), "(#4) Too many send requests to phone numbers"),
    error("userlimit", 400, (17, 0), "(#17) User request limit reached"),
    error("pagelimit", 400, (32, 0), "(#32) Page request limit reached"),
    error("customlimit", 400, (613, 0), "(#613) Calls to this api have exceeded the rate limit."),
    error(
        "messengerlimit",
        400,
        (80_006, 0),
        "(#80006) There have been too many calls to this messenger account.",
    ),
    error(
        "bothersome",
        400,
        (613, 1_893_016),
        "(#613) Messages like these are bothersome to people.",
    ),
    error("window", 403, (10, 2_018_278), "(#10) This message is sent outside of allowed window."),
    error("policy", 403, (10, 2_018_065), "(#10) This message is sent outside of allowed window."),
    error("cannot", 403, (10, 2_018_108), "(#10) This person can't receive messages right now."),
    error("unavailable", 400, (551, 1_545_041), "(#551) This person isn't available right now."),
    error(
        "blocked",
        403,
        (200, 1_545_041),
        "(#200) This person isn't receiving messages from you right now.",
    ),
    error("nouser", 400, (100, 2_018_001), "(#100) No matching user found"),
    error("toolarge", 400, (100, 2_018_109), "(#100) Attachment size exceeds allowable limit"),
    error(
        "button",
        400,
        (100, 0),
        "(#100) Param message[attachment][payload][buttons][0][url] should represent a valid URL",
    ),
    error(
        "template",
        400,
        (100, 0),
        "(#100) Param message[attachment][payload][elements][0][image_url] should represent a valid URL",
    ),
    error(
        "empty",
        400,
        (100, 2_018_034),
        "(#100) Message cannot be empty, must provide valid attachment or text",
    ),
    error(
        "notlive",
        403,
        (200, 2_018_028),
        "(#200) Cannot message users who are not admins, developers or testers of the app.",
    ),
    error(
        "noadvanced",
        403,
        (200, 2_018_027),
        "(#200) Cannot message users without pages_messaging permission.",
    ),
    error(
        "nophone",
        403,
        (200, 2_018_021),
        "(#200) Cannot message phone numbers without permission.",
    ),
    error("nopermission", 403, (200, 0), "(#200) Permissions error"),
    error(
        "subscription",
        403,
        (230, 0),
        "(#230) Requires pages_messaging permission to manage the object",
    ),
    error(
        "suspended",
        400,
        (368, 0),
        "(#368) The action attempted has been deemed abusive or is otherwise disallowed",
    ),
];

/// Keywords that apply only to a template, an attachment or quick replies. A text to the same person succeeds.
const PART_ERRORS: [&str; 3] = ["toolarge", "button", "template"];

/// The statuses with which an edge server in front of the Graph API responds. Their body is an HTML page.
const PAGE_STATUSES: [u16; 4] = [429, 502, 503, 504];

fn find_error(reason: &str) -> Option<&'static ErrorCase> {
    ERRORS.iter().find(|error| error.keyword == reason || error.code() == reason)
}

impl ErrorCase {
    /// The text `code` or `code/subcode`.
    fn code(&self) -> String {
        code_text(self.code, self.subcode)
    }
}

fn code_text(code: u64, subcode: u64) -> String {
    if subcode == 0 { code.to_string() } else { format!("{code}/{subcode}") }
}

/// The keywords in recipients that select an error.
pub fn messenger_keywords() -> impl Iterator<Item = &'static str> {
    ERRORS.iter().map(|error| error.keyword)
}

/// The status of the error with this keyword or code.
pub(crate) fn status_of(reason: &str) -> Option<u16> {
    find_error(reason).map(|error| error.http)
}

/// Whether a message has more than a text.
fn has_parts(request: &Value) -> bool {
    let message = request.get("message");
    let has = |name: &str| message.is_some_and(|message| message.get(name).is_some());
    has("attachment") || has("quick_replies")
}

/// Parses the script at the end of a recipient.
fn parse_recipient(recipient: &str, has_parts: bool) -> Option<ScriptedResponse> {
    let response = script::parse_recipient(recipient, |script| {
        if let Some(error) = ERRORS.iter().find(|error| error.keyword == script) {
            let response = ScriptedResponse::reason(error.keyword);
            return Some(ScriptedResponse { status: Some(error.http), ..response });
        }
        let status = script.parse().ok()?;
        let is_known =
            PAGE_STATUSES.contains(&status) || ERRORS.iter().any(|error| error.http == status);
        is_known.then(|| ScriptedResponse::status(status))
    });
    response.filter(|response| {
        let reason = response.reason.as_deref();
        has_parts || reason.is_none_or(|reason| !PART_ERRORS.contains(&reason))
    })
}

/// A page-scoped id that gets `response`, different for each `seed`.
///
/// # Panics
/// When no script selects the response, because its reason has no keyword. Such a response needs a
/// [`Rule`](crate::Rule).
#[must_use]
pub fn messenger_recipient(seed: u64, response: &ScriptedResponse) -> String {
    if response.is_success() {
        return format!("24{seed:014}");
    }
    let script =
        script::write_script(response, |response| match (&response.reason, response.status) {
            (Some(reason), _) => find_error(reason).map(|error| error.keyword.to_owned()),
            (None, status) => status.map(|status| status.to_string()),
        });
    format!("24{seed:014}{MARK}{}", script.expect("a script can select the response"))
}

/// An error response. The code and subcode identify the cause. The HTTP status does not, because many
/// errors share it.
#[derive(Debug)]
struct Failure {
    http: u16,
    code: u64,
    subcode: u64,
    message: String,
    /// Whether the body is an HTML page instead of JSON.
    is_page: bool,
}

impl Failure {
    /// The error of a violation of Meta's rules for a message.
    fn invalid(message: impl Into<String>) -> Self {
        let message = format!("(#100) {}", message.into());
        Self { http: 400, code: 100, subcode: 0, message, is_page: false }
    }

    /// The error with this keyword.
    fn for_keyword(keyword: &str) -> Self {
        Self::for_reason(keyword)
    }

    /// The failure that a rule or the script of a recipient selects. A scripted status replaces the usual
    /// status of a reason.
    fn scripted(script: &ScriptedResponse) -> Self {
        match (script.reason.as_deref(), script.status) {
            (Some(reason), Some(http)) => Self { http, ..Self::for_reason(reason) },
            (Some(reason), None) => Self::for_reason(reason),
            (None, Some(status)) => Self::for_status(status),
            (None, None) => Self::html_page(500),
        }
    }

    /// The error with this keyword or code. A code without an error case (`code` or `code/subcode`) has the
    /// reason itself as its message.
    fn for_reason(reason: &str) -> Self {
        if let Some(error) = find_error(reason) {
            return Self::from_case(error);
        }
        let (code, subcode) = reason.split_once('/').unwrap_or((reason, "0"));
        Self {
            http: 500,
            code: code.parse().unwrap_or(0),
            subcode: subcode.parse().unwrap_or(0),
            message: reason.to_owned(),
            is_page: false,
        }
    }

    /// The usual error of a status; an HTML page if the status is that of an edge server, or has no error.
    fn for_status(status: u16) -> Self {
        match ERRORS.iter().find(|error| error.http == status) {
            Some(error) if !PAGE_STATUSES.contains(&status) => Self::from_case(error),
            Some(_) | None => Self::html_page(status),
        }
    }

    fn from_case(error: &ErrorCase) -> Self {
        let ErrorCase { http, code, subcode, message, keyword: _ } = *error;
        Self { http, code, subcode, message: message.to_owned(), is_page: false }
    }

    /// An error whose body is an HTML page. The page shows only the status.
    fn html_page(http: u16) -> Self {
        Self { http, code: 0, subcode: 0, message: String::new(), is_page: true }
    }

    /// The outcome of the message. Its reason in the log is the code with the subcode.
    fn into_outcome(self) -> Outcome {
        let reason =
            if self.is_page { "html".to_owned() } else { code_text(self.code, self.subcode) };
        Outcome::failed(self.into_response(), reason)
    }

    fn into_response(self) -> Response<Bytes> {
        if self.is_page {
            let page = format!("<!DOCTYPE html><title>Error</title><p>{}</p>\n", self.http);
            return respond(self.http, "text/html; charset=utf-8", page);
        }
        let mut error = json!({
            "message": self.message,
            "type": "OAuthException",
            "code": self.code,
            "fbtrace_id": "ASandboxTrace",
        });
        if self.subcode != 0 {
            error["error_subcode"] = json!(self.subcode);
        }
        json(self.http, &json!({ "error": error }))
    }
}
