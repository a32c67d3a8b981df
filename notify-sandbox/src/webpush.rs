//! A fake push service (RFC 8030). It checks the endpoint, size, headers and VAPID token, decrypts the
//! message as the browser would, and then responds as scripted. Its errors have the forms of Mozilla,
//! Apple, Google and Windows.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::{HeaderValue, Method, Response, header};
use notify_core::WebSubscription;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::browser::Browser;
use crate::credentials::SandboxError;
use crate::handler::{
    Context, Outcome, PLAIN_TEXT, Reaction, Recipient, Request, empty, json, payload, respond,
    status, with_retry_after,
};
use crate::jwt::{Algorithm, Jwt, VerifiedCache};
use crate::rules::RequestScript;
use crate::script::{self, Fault, MARK, Provider, ScriptedResponse};
use crate::state::{SandboxState, lock};

/// The largest accepted body, in bytes. Every push service must accept this size (RFC 8030 section 7.2),
/// and some accept no more.
const BODY_BYTES_MAX: usize = 4_096;
/// The longest `Topic`, in bytes (RFC 8030 section 5.4).
const TOPIC_BYTES_MAX: usize = 32;
/// The values of `Urgency` (RFC 8030 section 5.3).
const URGENCIES: [&str; 4] = ["very-low", "low", "normal", "high"];
/// How far ahead a VAPID token may expire, in seconds (RFC 8292 section 2).
const VAPID_SECONDS_MAX: i64 = 86_400;
/// The most subscriptions at a time.
const SUBSCRIPTIONS_MAX: usize = 1_000_000;
/// The length of a VAPID public key, an uncompressed point, in bytes.
const POINT_BYTES: usize = 65;
/// The length of a browser's authentication secret (RFC 8291 section 3.2), in bytes.
const AUTH_BYTES: usize = 16;

/// Handles one message.
pub(crate) fn handle(ctx: Context<'_>, path: &str) -> Reaction {
    let Some(id) = path.strip_prefix('/').filter(|id| !id.contains('/')) else {
        return Reaction::respond(error_response(NO_ENDPOINT.status, Some(NO_ENDPOINT.reason)));
    };
    if ctx.request.head.method != Method::POST {
        return Reaction::respond(respond(405, PLAIN_TEXT, ""));
    }
    let (payload, scripted) = match validate(ctx.state, id, ctx.request) {
        Ok(payload) => {
            let script = script::parse_token(id, parse_keyword);
            (payload, ctx.state.rules.scripted(Provider::WebPush, id, script))
        }
        Err(error) => (Value::Null, RequestScript::from(error.to_response())),
    };
    let outcome = match scripted.response.fault {
        Fault::None => outcome(ctx, &scripted.response),
        _ => Outcome::default(),
    };
    let token = Some(id.to_owned());
    let recipient = Recipient { provider: Provider::WebPush, environment: None, token };
    ctx.finish(recipient, scripted, outcome, || payload)
}

fn outcome(ctx: Context<'_>, script: &ScriptedResponse) -> Outcome {
    let (code, reason) = resolve(script);
    let message_id = is_success(code)
        .then(|| format!("{}/push-messages/{:032x}", ctx.state.origin, fastrand::u128(..)));
    let response = match &message_id {
        Some(location) => accepted_response(code, location, ctx.request),
        None => error_response(code, reason),
    };
    Outcome {
        response: with_retry_after(response, script.retry_after),
        reason: reason.map(str::to_owned),
        message_id,
    }
}

/// The response to an accepted message.
fn accepted_response(code: u16, location: &str, request: &Request) -> Response<Bytes> {
    let mut response = empty(code);
    let headers = response.headers_mut();
    let location = HeaderValue::from_str(location).expect("a URL is a header value");
    headers.insert(header::LOCATION, location);
    if let Some(ttl) = request.head.headers.get("ttl") {
        headers.insert("ttl", ttl.clone());
    }
    response
}

/// Checks a message and returns its decrypted payload. A message to a browser whose keys the sandbox does
/// not have stays encrypted.
fn validate(
    state: &SandboxState,
    id: &str,
    request: &Request,
) -> Result<Value, &'static WebPushError> {
    let subscription = state.subscriptions.get(id).ok_or(&NO_ENDPOINT)?;
    if request.body.len() > BODY_BYTES_MAX {
        return Err(&TOO_LARGE);
    }
    let ttl = request.header("ttl").ok_or(&MISSING_HEADER)?;
    let is_number = !ttl.is_empty() && ttl.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number || ttl.parse::<u32>().is_err() {
        return Err(&BAD_TTL);
    }
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let is_topic =
        |topic: &str| (1..=TOPIC_BYTES_MAX).contains(&topic.len()) && topic.bytes().all(allowed);
    if request.head.headers.contains_key("topic") && !request.header("topic").is_some_and(is_topic)
    {
        return Err(&BAD_TOPIC);
    }
    let urgency = request.header("urgency").unwrap_or("normal");
    if !URGENCIES.contains(&urgency) {
        // Mozilla has no error number for an invalid `Urgency`.
        return Err(&BAD_CRYPTO);
    }
    let authorization = request.header(header::AUTHORIZATION.as_str());
    check_vapid(state, authorization, &subscription.application_server_key)?;
    if request.body.is_empty() {
        return Ok(payload(&[]));
    }
    if request.header(header::CONTENT_ENCODING.as_str()) != Some("aes128gcm") {
        return Err(&MISSING_HEADER);
    }
    match &subscription.browser {
        Some(browser) => {
            browser.decrypt(&request.body).map(|text| payload(&text)).ok_or(&BAD_CRYPTO)
        }
        None => Ok(json!({ "encrypted": URL_SAFE_NO_PAD.encode(&request.body) })),
    }
}

pub(crate) type VerifiedVapid = VerifiedCache<VapidToken>;

/// A VAPID token with a valid signature.
#[derive(Debug, Clone)]
pub(crate) struct VapidToken {
    key: Vec<u8>,
    claims: Claims,
}

/// The claims of a VAPID token. Mozilla requires `exp` to be a number.
#[derive(Debug, Clone, Deserialize)]
struct Claims {
    aud: String,
    exp: i64,
    sub: String,
}

/// Checks the VAPID header (RFC 8292) for a subscription to `key`. Apple and Mozilla require more than
/// the RFC, and the sandbox requires the same: the claim `sub` as a `mailto:` or `https:` URL.
fn check_vapid(
    state: &SandboxState,
    header: Option<&str>,
    key: &[u8],
) -> Result<(), &'static WebPushError> {
    let verified =
        header.and_then(|header| state.verified_vapid.get_or_verify(header, verify_vapid));
    let verified = verified.ok_or(&BAD_VAPID)?;
    if verified.key != key {
        return Err(&KEY_MISMATCH);
    }
    let Claims { aud, exp, sub } = &verified.claims;
    let now = state.clock.now().as_seconds();
    let is_valid = *aud == state.origin
        && (now + 1..=now + VAPID_SECONDS_MAX).contains(exp)
        && (sub.starts_with("mailto:") || sub.starts_with("https://"));
    if is_valid { Ok(()) } else { Err(&BAD_VAPID) }
}

/// Parses the header `vapid t=TOKEN, k=KEY` and verifies the token with the key.
fn verify_vapid(header: &str) -> Option<VapidToken> {
    let (scheme, parameters) = header.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("vapid") {
        return None;
    }
    let parameter = |wanted: &str| {
        let mut pairs = parameters.split(',').filter_map(|pair| pair.trim().split_once('='));
        let (_, value) = pairs.find(|(name, _)| *name == wanted)?;
        Some(value.trim_matches('"'))
    };
    let key = URL_SAFE_NO_PAD.decode(parameter("k")?).ok()?;
    let claims = Jwt::parse(parameter("t")?)?.verify(Algorithm::Es256, &key)?;
    Some(VapidToken { key, claims })
}

/// A subscription of a browser.
struct Subscription {
    /// The browser with its private key. Absent for a browser outside the sandbox, whose messages the
    /// sandbox cannot decrypt.
    browser: Option<Browser>,
    /// The public VAPID key. Messages must be signed with its private key.
    application_server_key: Vec<u8>,
}

/// The keys in the subscription of a browser outside the sandbox, in base64url.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BrowserKeys {
    p256dh: String,
    auth: String,
}

/// The subscriptions by the id at the end of their endpoints.
#[derive(Default)]
pub(crate) struct Subscriptions(Mutex<HashMap<String, Arc<Subscription>>>);

/// Why a browser cannot subscribe.
#[derive(Debug, thiserror::Error)]
pub enum SubscribeError {
    /// The key is not a point of the curve in base64url.
    #[error("application_server_key: must be a P-256 public key, 65 bytes in base64url")]
    Key,
    /// A browser cannot have these keys.
    #[error("keys: must be a P-256 public key, 65 bytes, and 16 bytes, both in base64url")]
    BrowserKeys,
    /// The script is invalid, or no script selects the response.
    #[error("script: is not known")]
    Script,
    /// There are too many subscriptions.
    #[error("subscriptions: at most {SUBSCRIPTIONS_MAX} at a time")]
    Full,
    /// The keys of the browser cannot be generated.
    #[error("cannot make keys")]
    Keys(#[from] SandboxError),
}

impl Subscriptions {
    fn get(&self, id: &str) -> Option<Arc<Subscription>> {
        lock(&self.0).get(id).cloned()
    }
}

/// Subscribes a browser whose messages get the response of `script`, which has no leading `-`. The
/// default `application_server_key` is the key of `/sandbox/config/webpush`. With `keys`, the
/// subscription is for a browser outside the sandbox; without, the sandbox creates a browser.
pub(crate) fn subscribe(
    state: &SandboxState,
    application_server_key: Option<&str>,
    keys: Option<BrowserKeys>,
    script: &str,
) -> Result<WebSubscription, SubscribeError> {
    let application_server_key = match application_server_key {
        Some(key) => decode_key(key).ok_or(SubscribeError::Key)?,
        None => state.credentials.vapid.public_key.clone(),
    };
    let suffix = match script {
        "" => String::new(),
        script if script::parse_script(script, parse_keyword).is_some() => {
            format!("{MARK}{script}")
        }
        _ => return Err(SubscribeError::Script),
    };
    let id = format!("{:032x}{suffix}", fastrand::u128(..));
    let endpoint = format!("{}/push/{id}", state.origin);
    let (browser, subscription) = match keys {
        None => {
            let browser = Browser::new()?;
            let subscription = browser.subscription(&endpoint);
            (Some(browser), subscription)
        }
        Some(BrowserKeys { p256dh, auth }) => {
            let secret = URL_SAFE_NO_PAD.decode(&auth);
            let is_secret = secret.is_ok_and(|secret| secret.len() == AUTH_BYTES);
            if decode_key(&p256dh).is_none() || !is_secret {
                return Err(SubscribeError::BrowserKeys);
            }
            (None, WebSubscription { endpoint, p256dh, auth })
        }
    };
    let entry = Arc::new(Subscription { browser, application_server_key });
    let mut entries = lock(&state.subscriptions.0);
    if entries.len() >= SUBSCRIPTIONS_MAX {
        return Err(SubscribeError::Full);
    }
    entries.insert(id, entry);
    Ok(subscription)
}

fn decode_key(text: &str) -> Option<Vec<u8>> {
    let key = URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).ok()?;
    (key.len() == POINT_BYTES && key[0] == 4).then_some(key)
}

/// An error of a push service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WebPushError {
    /// The keyword in token scripts.
    pub keyword: Option<&'static str>,
    /// The reason in rules and in the log.
    pub reason: &'static str,
    /// The HTTP status.
    pub status: u16,
    body: Body,
}

/// The body of an error, in the form of one service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Body {
    /// Mozilla's `errno` and message.
    Mozilla(u16, &'static str),
    /// Apple's `reason`.
    Apple,
    /// Google's text.
    Text(&'static str),
    /// No body, as sent by Windows and by edge servers.
    Empty,
}

const fn error(
    keyword: Option<&'static str>,
    status: u16,
    reason: &'static str,
    body: Body,
) -> WebPushError {
    WebPushError { keyword, reason, status, body }
}

const fn mozilla(
    status: u16,
    reason: &'static str,
    errno: u16,
    text: &'static str,
) -> WebPushError {
    error(None, status, reason, Body::Mozilla(errno, text))
}

/// A VAPID header or token that every service refuses.
const BAD_VAPID: WebPushError = mozilla(401, "errno_109", 109, "Invalid authentication");
/// A message that is signed with another key than the key of the subscription.
const KEY_MISMATCH: WebPushError = error(
    Some("mismatch"),
    403,
    "mismatch",
    Body::Text(
        "the VAPID credentials in the authorization header do not correspond to the credentials \
         used to create the subscriptions.\n",
    ),
);
/// A message that cannot be decrypted.
const BAD_CRYPTO: WebPushError = mozilla(400, "errno_110", 110, "Invalid crypto keys specified");
/// A required header is missing.
const MISSING_HEADER: WebPushError = mozilla(400, "errno_111", 111, "Missing Required Header");
/// A `TTL` that is not a number of seconds.
const BAD_TTL: WebPushError = mozilla(400, "errno_112", 112, "Invalid TTL header value");
/// A `Topic` that is too long or has wrong characters.
const BAD_TOPIC: WebPushError = mozilla(400, "errno_113", 113, "Invalid Topic header value");
/// An unknown endpoint.
const NO_ENDPOINT: WebPushError = mozilla(404, "errno_102", 102, "Invalid URL endpoint");
/// A body over the limit.
const TOO_LARGE: WebPushError = mozilla(413, "errno_104", 104, "Data payload too large");

impl WebPushError {
    /// All errors. The first error with a status is the usual error of the status.
    pub const ALL: &'static [Self] = &[
        BAD_CRYPTO,
        MISSING_HEADER,
        BAD_TTL,
        BAD_TOPIC,
        mozilla(400, "errno_101", 101, "Missing necessary crypto keys"),
        mozilla(400, "errno_108", 108, "Router type is invalid"),
        error(
            Some("registration"),
            400,
            "UnauthorizedRegistration",
            Body::Text("UnauthorizedRegistration\n"),
        ),
        BAD_VAPID,
        KEY_MISMATCH,
        error(Some("badjwt"), 403, "BadJwtToken", Body::Apple),
        error(Some("badkey"), 403, "VapidPkHashMismatch", Body::Apple),
        NO_ENDPOINT,
        error(None, 406, "windows_throttled", Body::Empty),
        mozilla(410, "errno_106", 106, "Invalid subscription"),
        mozilla(410, "errno_103", 103, "Expired URL endpoint"),
        mozilla(410, "errno_105", 105, "Endpoint became unavailable during request"),
        error(
            Some("unsubscribed"),
            410,
            "unsubscribed",
            Body::Text("push subscription has unsubscribed or expired.\n"),
        ),
        error(None, 410, "Unregistered", Body::Apple),
        TOO_LARGE,
        mozilla(429, "errno_201", 201, "Use exponential back-off for retries"),
        error(None, 429, "TooManyRequests", Body::Apple),
        mozilla(500, "errno_999", 999, "Unknown error"),
        mozilla(502, "errno_902", 902, "An error occurred while establishing a connection"),
        mozilla(503, "errno_202", 202, "Immediate retry ok"),
        error(Some("empty"), 503, "empty", Body::Empty),
        error(None, 504, "timeout", Body::Empty),
    ];

    fn by_reason(reason: &str) -> Option<&'static Self> {
        Self::ALL.iter().find(|error| error.reason == reason)
    }

    fn to_response(self) -> ScriptedResponse {
        ScriptedResponse { status: Some(self.status), ..ScriptedResponse::reason(self.reason) }
    }

    fn first_of(status: u16) -> Option<&'static Self> {
        Self::ALL.iter().find(|error| error.status == status)
    }
}

/// The status of the error with this reason.
pub(crate) fn status_of(reason: &str) -> Option<u16> {
    WebPushError::by_reason(reason).map(|error| error.status)
}

/// Whether the status means success. RFC 8030 section 5 has 201, and 202 for a message whose sender
/// wants a receipt. Some services send 200 or 204.
fn is_success(status: u16) -> bool {
    matches!(status, 200 | 201 | 202 | 204)
}

fn resolve(script: &ScriptedResponse) -> (u16, Option<&str>) {
    script.resolve(201, |status| Some(WebPushError::first_of(status)?.reason), status_of)
}

/// The response with an error. For a redirect, the reason is the location.
fn error_response(code: u16, reason: Option<&str>) -> Response<Bytes> {
    if (300..400).contains(&code) {
        let mut response = empty(code);
        if let Some(to) = reason.and_then(|to| HeaderValue::from_str(to).ok()) {
            response.headers_mut().insert(header::LOCATION, to);
        }
        return response;
    }
    let body = reason.and_then(WebPushError::by_reason).map_or(Body::Empty, |error| error.body);
    match body {
        Body::Mozilla(errno, message) => {
            let name = status(code).canonical_reason().unwrap_or("Error");
            let body = json!({"code": code, "errno": errno, "error": name, "message": message});
            json(code, &body)
        }
        Body::Apple => json(code, &json!({ "reason": reason })),
        Body::Text(text) => respond(code, PLAIN_TEXT, text),
        Body::Empty => respond(code, PLAIN_TEXT, ""),
    }
}

fn parse_keyword(keyword: &str) -> Option<ScriptedResponse> {
    if let Some(error) = WebPushError::ALL.iter().find(|error| error.keyword == Some(keyword)) {
        return Some(error.to_response());
    }
    let status = keyword.parse().ok().filter(|status| (200..600).contains(status))?;
    Some(ScriptedResponse::status(status))
}

/// The script that selects `response`; empty for a success. `None` when the reason has no keyword. Such a
/// response needs a [`Rule`](crate::Rule).
pub(crate) fn script(response: &ScriptedResponse) -> Option<String> {
    if response.fault == Fault::None && response.reason.is_none() && response.status.is_none() {
        return Some(String::new());
    }
    script::write_script(response, |response| match (&response.reason, response.status) {
        (Some(reason), _) => Some(WebPushError::by_reason(reason)?.keyword?.to_owned()),
        (None, status) => status.map(|status| status.to_string()),
    })
}
