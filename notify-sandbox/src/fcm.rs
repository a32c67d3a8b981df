//! Fake FCM: <https://firebase.google.com/docs/reference/fcm/rest/v1/projects.messages/send>.
//! The fake checks the path, access token, project, the types of the JSON and FCM's further rules, in
//! that order. Then it responds as scripted.

mod schema;

use bytes::Bytes;
use http::{Method, Response, header};
use serde_json::{Value, json};

use crate::handler::{Context, Outcome, Reaction, Recipient, json, respond};
use crate::page::escape;
use crate::rules::RequestScript;
use crate::script::{self, Fault, MARK, Provider, ScriptedResponse};
use schema::field;

/// Handles one message.
pub(crate) fn handle(ctx: Context<'_>, path: &str) -> Reaction {
    let project = path
        .strip_prefix("/v1/projects/")
        .and_then(|rest| rest.strip_suffix("/messages:send"))
        .filter(|project| !project.is_empty() && !project.contains('/'));
    let (Some(project), &Method::POST) = (project, &ctx.request.head.method) else {
        return Reaction::respond(not_found(path));
    };
    let (token, scripted, outcome) = match validate(ctx, project) {
        Ok(ValidMessage { target, validate_only }) => {
            let script = parse_token(&target);
            let scripted = ctx.state.rules.scripted(Provider::Fcm, &target, script);
            let outcome = send(project, validate_only, &scripted.response);
            (Some(target), scripted, outcome)
        }
        Err(failure) => {
            (target_of(&ctx.request.payload()), RequestScript::default(), failure.into_outcome())
        }
    };
    let recipient = Recipient { provider: Provider::Fcm, environment: None, token };
    ctx.finish(recipient, scripted, outcome, || ctx.request.payload())
}

/// The outcome of a valid message: the scripted response.
fn send(project: &str, validate_only: bool, script: &ScriptedResponse) -> Outcome {
    if script.fault != Fault::None {
        return Outcome::default();
    }
    if !script.is_success() {
        return Failure::scripted(script).into_outcome().with_retry_after(script.retry_after);
    }
    let id = if validate_only {
        "fake_message_id".to_owned()
    } else {
        format!("0:{:016x}%{:08x}", fastrand::u64(..), fastrand::u32(..))
    };
    let name = format!("projects/{project}/messages/{id}");
    Outcome::sent(json(200, &json!({ "name": name })), name)
}

fn not_found(path: &str) -> Response<Bytes> {
    // For an unknown path Google responds with a page instead of JSON.
    let path = escape(path);
    let page = format!("<!DOCTYPE html><title>Error 404 (Not Found)!!1</title><p>{path}</p>\n");
    respond(404, "text/html; charset=UTF-8", page)
}

/// A valid message.
struct ValidMessage {
    /// The token, topic or condition.
    target: String,
    validate_only: bool,
}

fn validate(ctx: Context<'_>, project: &str) -> Result<ValidMessage, Failure> {
    let Context { state, request, .. } = ctx;
    let token = request.bearer().ok_or_else(Failure::missing_credentials)?;
    let grant = state.access_tokens.grant(token, state.clock.now());
    if !grant.ok_or_else(Failure::invalid_credentials)?.may_send {
        return Err(Failure::insufficient_scopes());
    }
    if project != state.credentials.service_account.project_id {
        return Err(Failure::unknown_project());
    }
    let content_type = request.header(header::CONTENT_TYPE.as_str()).unwrap_or("application/json");
    if !content_type.to_ascii_lowercase().starts_with("application/json") {
        return Err(Failure::malformed("Invalid content type."));
    }
    let body: Value = serde_json::from_slice(&request.body)
        .map_err(|_| Failure::malformed("Invalid JSON payload received."))?;
    validate_message(&body)
}

/// The most bytes of keys and values in a message to a device; see [`payload_bytes`].
const PAYLOAD_BYTES_MAX: usize = 4_096;

/// The most bytes of keys and values in a message to a topic or condition.
const TOPIC_PAYLOAD_BYTES_MAX: usize = 2_048;

/// The longest `ttl`: four weeks, in seconds.
const TTL_S_MAX: f64 = 2_419_200.0;

/// The longest registration token, in bytes.
const TOKEN_BYTES_MAX: usize = 4_096;

/// Checks the body of a request.
fn validate_message(request: &Value) -> Result<ValidMessage, Failure> {
    schema::check(request)?;
    let message = field(request, "message")
        .ok_or_else(|| Failure::invalid("message", "Message is not set."))?;
    let (kind, target) = check_target(message)?;
    check_data(message)?;
    check_ttl(message)?;
    let limit = if kind == "token" { PAYLOAD_BYTES_MAX } else { TOPIC_PAYLOAD_BYTES_MAX };
    if payload_bytes(message) > limit {
        return Err(Failure::invalid("message", "Message is too big."));
    }
    if kind == "token" && !is_token(target) {
        return Err(Failure::invalid("message.token", INVALID_TOKEN));
    }
    let validate_only = field(request, "validate_only").and_then(Value::as_bool);
    Ok(ValidMessage { target: target.to_owned(), validate_only: validate_only.unwrap_or(false) })
}

/// The target of a request, even if the request is invalid.
fn target_of(request: &Value) -> Option<String> {
    let message = field(request, "message")?;
    let target = ["token", "topic", "condition"].into_iter().find_map(|kind| field(message, kind));
    Some(target?.as_str()?.to_owned())
}

/// Returns the kind of the only target and the target itself.
fn check_target(message: &Value) -> Result<(&'static str, &str), Failure> {
    let mut only_target: Option<(&'static str, &str)> = None;
    for kind in ["token", "topic", "condition"] {
        let Some(target) = field(message, kind).and_then(Value::as_str) else { continue };
        if let Some((first, _)) = only_target {
            let text = format!(
                "Invalid value at 'message' (oneof), oneof field 'target' is already set by \
                 '{first}'. Cannot set '{kind}'"
            );
            return Err(Failure::bad_field("message", text));
        }
        only_target = Some((kind, target));
    }
    let missing = || Failure::invalid("message", "Recipient of the message is not set.");
    only_target.filter(|(_, target)| !target.is_empty()).ok_or_else(missing)
}

fn check_data(message: &Value) -> Result<(), Failure> {
    let android_data = field(message, "android").and_then(|android| field(android, "data"));
    for (at, data) in
        [("message.data", field(message, "data")), ("message.android.data", android_data)]
    {
        let keys = data.and_then(Value::as_object).into_iter().flat_map(|map| map.keys());
        for (index, key) in keys.enumerate() {
            if is_reserved(key) {
                let text = format!("Invalid data payload key: {key}");
                return Err(Failure::invalid(&format!("{at}[{index}].key"), text));
            }
        }
    }
    Ok(())
}

fn is_reserved(key: &str) -> bool {
    let names = ["from", "gcm", "message_type"];
    names.contains(&key) || key.starts_with("google") || key.starts_with("gcm.")
}

fn check_ttl(message: &Value) -> Result<(), Failure> {
    let ttl = field(message, "android").and_then(|android| field(android, "ttl"));
    let Some(ttl) = ttl.and_then(Value::as_str) else { return Ok(()) };
    let seconds = ttl.strip_suffix('s').and_then(|number| number.parse::<f64>().ok());
    if seconds.is_some_and(|seconds| (0.0..=TTL_S_MAX).contains(&seconds)) {
        return Ok(());
    }
    let text = "Invalid time to live: it must be between 0 and 2419200 seconds.";
    Err(Failure::invalid("message.android.ttl", text))
}

/// The bytes of all keys and values of the data and of the notification, as an Android device receives
/// them.
fn payload_bytes(message: &Value) -> usize {
    let android = field(message, "android");
    let blocks = [
        field(message, "data"),
        android.and_then(|android| field(android, "data")),
        field(message, "notification"),
    ];
    let pairs = blocks.into_iter().flatten().filter_map(Value::as_object).flatten();
    pairs.map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum()
}

fn is_token(token: &str) -> bool {
    // Tokens of Firebase have no `~`; here it begins a script.
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_:~".contains(&byte);
    token.len() <= TOKEN_BYTES_MAX && token.bytes().all(allowed)
}

const FCM_ERROR: &str = "type.googleapis.com/google.firebase.fcm.v1.FcmError";
const BAD_REQUEST: &str = "type.googleapis.com/google.rpc.BadRequest";
const QUOTA_FAILURE: &str = "type.googleapis.com/google.rpc.QuotaFailure";

/// The error text for a registration token that is malformed or belongs to another sender.
const INVALID_TOKEN: &str = "The registration token is not a valid FCM registration token";

const UNAUTHENTICATED: &str = "Request had invalid authentication credentials. Expected OAuth 2 \
     access token, login cookie or other valid authentication credential. See \
     https://developers.google.com/identity/sign-in/web/devconsole-project.";

/// An error that a script can select.
struct ErrorCase {
    name: &'static str,
    http: u16,
    /// The canonical status of Google's error model.
    status: &'static str,
    /// Whether an `FcmError` detail has the name as its `errorCode`.
    is_error_code: bool,
    message: &'static str,
}

const fn error(
    name: &'static str,
    http: u16,
    status: &'static str,
    is_error_code: bool,
    message: &'static str,
) -> ErrorCase {
    ErrorCase { name, http, status, is_error_code, message }
}

/// The errors. The first error with an HTTP status is the usual error of that status.
const ERRORS: [ErrorCase; 15] = [
    error("INVALID_ARGUMENT", 400, "INVALID_ARGUMENT", true, INVALID_TOKEN),
    error(
        "BAD_REQUEST",
        400,
        "INVALID_ARGUMENT",
        false,
        "Invalid value at 'message.data[0].value' (TYPE_STRING), 12",
    ),
    error("UNAUTHENTICATED", 401, "UNAUTHENTICATED", false, UNAUTHENTICATED),
    error(
        "THIRD_PARTY_AUTH_ERROR",
        401,
        "UNAUTHENTICATED",
        true,
        "Auth error from APNS or Web Push Service",
    ),
    error("SENDER_ID_MISMATCH", 403, "PERMISSION_DENIED", true, "SenderId mismatch"),
    error(
        "PERMISSION_DENIED",
        403,
        "PERMISSION_DENIED",
        false,
        "Permission 'cloudmessaging.messages.create' denied on resource (or it may not exist).",
    ),
    error("UNREGISTERED", 404, "NOT_FOUND", true, "Requested entity was not found."),
    error("NOT_FOUND", 404, "NOT_FOUND", false, "Requested entity was not found."),
    error("QUOTA_EXCEEDED", 429, "RESOURCE_EXHAUSTED", true, "Quota exceeded for the project."),
    error(
        "DEVICE_QUOTA_EXCEEDED",
        429,
        "RESOURCE_EXHAUSTED",
        false,
        "Message rate for the device exceeded.",
    ),
    error("INTERNAL", 500, "INTERNAL", true, "Internal error encountered."),
    error("UNSPECIFIED_ERROR", 500, "UNKNOWN", true, "Unknown error."),
    error("UNAVAILABLE", 503, "UNAVAILABLE", true, "The service is currently unavailable."),
    error("EMPTY", 503, "UNAVAILABLE", false, ""),
    error(
        "HTML",
        502,
        "UNAVAILABLE",
        false,
        "<!DOCTYPE html><title>Error 502 (Server Error)!!1</title>",
    ),
];

/// The status of the error with this name, if a script can select it.
pub(crate) fn status_of(reason: &str) -> Option<u16> {
    ERRORS.iter().find(|error| error.name == reason).map(|error| error.http)
}

/// The usual error of a status.
fn usual_reason(status: u16) -> Option<&'static str> {
    ERRORS.iter().find(|error| error.http == status).map(|error| error.name)
}

/// An error response in Google's model. A sender needs the HTTP status, the canonical status and the
/// details to distinguish an invalid token from a wrong project or a wrong message.
#[derive(Debug)]
struct Failure {
    http: u16,
    status: &'static str,
    error_code: Option<String>,
    message: String,
    details: Vec<Value>,
    /// The content type of a body that is only `message`. When absent, the body is Google's JSON.
    plain_type: Option<&'static str>,
}

impl Failure {
    fn new(http: u16, status: &'static str, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { http, status, error_code: None, message, details: Vec::new(), plain_type: None }
    }

    fn missing_credentials() -> Self {
        let message = UNAUTHENTICATED.replace(
            "Request had invalid authentication credentials.",
            "Request is missing required authentication credential.",
        );
        Self::new(401, "UNAUTHENTICATED", message)
    }

    fn invalid_credentials() -> Self {
        Self::new(401, "UNAUTHENTICATED", UNAUTHENTICATED)
    }

    fn insufficient_scopes() -> Self {
        let message = "Request had insufficient authentication scopes.";
        Self::new(403, "PERMISSION_DENIED", message)
    }

    fn unknown_project() -> Self {
        Self::new(404, "NOT_FOUND", "Requested entity was not found.")
    }

    /// The error of a body that is not JSON. It has no details.
    fn malformed(message: &str) -> Self {
        Self::new(400, "INVALID_ARGUMENT", message)
    }

    /// The error of a value with the wrong type or a field with an unknown name. Google's JSON mapping
    /// refuses it before FCM sees the message, so it has no FCM error code.
    fn bad_field(field: &str, message: impl Into<String>) -> Self {
        Self::new(400, "INVALID_ARGUMENT", message).with_violation(field)
    }

    /// The error of a violation of FCM's rules.
    fn invalid(field: &str, message: impl Into<String>) -> Self {
        let failure = Self::new(400, "INVALID_ARGUMENT", message);
        failure.with_code("INVALID_ARGUMENT").with_violation(field)
    }

    /// The failure that a rule or a token script selects.
    fn scripted(script: &ScriptedResponse) -> Self {
        let usual = script.status.and_then(usual_reason);
        let reason = script.reason.as_deref().or(usual).unwrap_or_default();
        let Some(error) = ERRORS.iter().find(|error| error.name == reason) else {
            let failure = Self::new(script.status.unwrap_or(500), "UNKNOWN", "Unknown error.");
            return if reason.is_empty() { failure } else { failure.with_code(reason) };
        };
        let http = script.status.unwrap_or(error.http);
        let failure = Self::new(http, error.status, error.message);
        let failure = if error.is_error_code { failure.with_code(error.name) } else { failure };
        match error.name {
            "INVALID_ARGUMENT" => failure.with_violation("message.token"),
            "BAD_REQUEST" => failure.with_violation("message.data[0].value"),
            "QUOTA_EXCEEDED" => failure.with_quota("project:notify-sandbox"),
            "DEVICE_QUOTA_EXCEEDED" => failure.with_quota("device"),
            "EMPTY" => Self { plain_type: Some("application/json; charset=UTF-8"), ..failure },
            "HTML" => Self { plain_type: Some("text/html; charset=UTF-8"), ..failure },
            _ => failure,
        }
    }

    fn with_code(mut self, code: &str) -> Self {
        self.details.push(json!({ "@type": FCM_ERROR, "errorCode": code }));
        Self { error_code: Some(code.to_owned()), ..self }
    }

    fn with_violation(mut self, field: &str) -> Self {
        let violation = json!({ "field": field, "description": self.message });
        self.details.push(json!({ "@type": BAD_REQUEST, "fieldViolations": [violation] }));
        self
    }

    fn with_quota(mut self, subject: &str) -> Self {
        let violation = json!({ "subject": subject, "description": self.message });
        self.details.push(json!({ "@type": QUOTA_FAILURE, "violations": [violation] }));
        self
    }

    /// The outcome of the message. Its reason in the log is the error code, or the canonical status when
    /// there is no error code.
    fn into_outcome(self) -> Outcome {
        let reason = self.error_code.as_deref().unwrap_or(self.status).to_owned();
        Outcome::failed(self.into_response(), reason)
    }

    fn into_response(self) -> Response<Bytes> {
        if let Some(content_type) = self.plain_type {
            return respond(self.http, content_type, self.message);
        }
        let mut error =
            json!({ "code": self.http, "message": self.message, "status": self.status });
        if !self.details.is_empty() {
            error["details"] = Value::Array(self.details);
        }
        json(self.http, &json!({ "error": error }))
    }
}

/// The keywords of token scripts and their errors.
const KEYWORDS: [(&str, &str); 13] = [
    ("unregistered", "UNREGISTERED"),
    ("invalid", "INVALID_ARGUMENT"),
    ("badrequest", "BAD_REQUEST"),
    ("mismatch", "SENDER_ID_MISMATCH"),
    ("denied", "PERMISSION_DENIED"),
    ("unauthenticated", "UNAUTHENTICATED"),
    ("thirdparty", "THIRD_PARTY_AUTH_ERROR"),
    ("notfound", "NOT_FOUND"),
    ("quota", "QUOTA_EXCEEDED"),
    ("internal", "INTERNAL"),
    ("unavailable", "UNAVAILABLE"),
    ("unspecified", "UNSPECIFIED_ERROR"),
    ("empty", "EMPTY"),
];

/// A registration token that gets `response`, different for each `seed`.
///
/// # Panics
/// When no script selects the response, because its reason has no keyword. Such a response needs a
/// [`Rule`](crate::Rule).
#[must_use]
pub fn fcm_token(seed: u64, response: &ScriptedResponse) -> String {
    if response.is_success() {
        return format!("fcm{seed:012}:sandbox");
    }
    let script = write_script(response).expect("a token script can select the response");
    format!("fcm{seed:012}:sandbox{MARK}{script}")
}

fn write_script(response: &ScriptedResponse) -> Option<String> {
    script::write_script(response, |response| match (&response.reason, response.status) {
        (Some(reason), _) => {
            let (keyword, _) = KEYWORDS.iter().find(|(_, name)| name == reason)?;
            Some((*keyword).to_owned())
        }
        // A script can contain only a status that has a usual error.
        (None, Some(status)) => usual_reason(status).map(|_| status.to_string()),
        (None, None) => None,
    })
}

/// Parses the script at the end of a token.
fn parse_token(token: &str) -> Option<ScriptedResponse> {
    script::parse_token(token, |script| {
        if let Some((_, reason)) = KEYWORDS.iter().find(|(keyword, _)| *keyword == script) {
            return Some(ScriptedResponse {
                status: status_of(reason),
                ..ScriptedResponse::reason(reason)
            });
        }
        let status = script.parse().ok()?;
        Some(ScriptedResponse {
            status: Some(status),
            ..ScriptedResponse::reason(usual_reason(status)?)
        })
    })
}
