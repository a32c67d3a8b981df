//! Fake APNs: <https://developer.apple.com/documentation/usernotifications/sending-notification-requests-to-apns>.
//! The fake accepts only HTTP/2. It checks the method, path, provider token, device token, headers,
//! topic, payload and the app of the device token, in that order. Then it responds as scripted.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Response, Version};
use serde::Deserialize;
use serde_json::json;

use crate::credentials::Credentials;
use crate::handler::{
    Context, Outcome, PLAIN_TEXT, Reaction, Recipient, Request, StreamLimit, empty, json, respond,
    with_retry_after,
};
use crate::jwt::{Algorithm, Jwt, VerifiedCache};
use crate::rules::RequestScript;
use crate::script::{Environment, Fault, Provider, ScriptedResponse};
use crate::state::{SandboxState, lock};

/// The topics that the fake knows, one for each team.
pub(crate) const TOPICS: [&str; 2] = ["com.example.notify", "com.example.second"];

/// Handles one notification.
pub(crate) fn handle(ctx: Context<'_>, environment: Environment, path: &str) -> Reaction {
    if ctx.request.head.version != Version::HTTP_2 {
        return Reaction::respond(respond(505, PLAIN_TEXT, "APNs is HTTP/2 only\n"));
    }
    let token = path.strip_prefix("/3/device/").unwrap_or_default().to_ascii_lowercase();
    let scripted = match validate(ctx, environment, path, &token) {
        Ok(()) => ctx.state.rules.scripted(Provider::Apns, &token, parse_token(&token)),
        Err(reason) => RequestScript::from(ScriptedResponse::reason(reason.name)),
    };
    let limit = if scripted.response.is_success() {
        StreamLimit::Raise
    } else if ctx.state.settings.borrow().drop_streams_on_rejection {
        StreamLimit::Lower
    } else {
        StreamLimit::Keep
    };
    let id = message_id(ctx.request);
    let (_, reason) = resolve(&scripted.response);
    let outcome = Outcome {
        response: render(ctx.state, &scripted.response, environment, &id),
        reason: reason.map(str::to_owned),
        message_id: Some(id),
    };
    let token = (!token.is_empty()).then_some(token);
    let recipient = Recipient { provider: Provider::Apns, environment: Some(environment), token };
    let reaction = ctx.finish(recipient, scripted, outcome, || ctx.request.payload());
    Reaction { limit, ..reaction }
}

fn resolve(script: &ScriptedResponse) -> (u16, Option<&str>) {
    let usual_reason = |status| ApnsReason::first_of(status).map(|reason| reason.name);
    script.resolve(200, usual_reason, |name| Some(ApnsReason::by_name(name)?.status))
}

fn render(
    state: &SandboxState,
    script: &ScriptedResponse,
    environment: Environment,
    id: &str,
) -> Response<Bytes> {
    let (code, reason) = resolve(script);
    let mut response = match reason {
        Some(reason) if code == 410 => {
            let since = script.timestamp_ms.unwrap_or_else(|| state.clock.now().as_ms());
            json(code, &json!({ "reason": reason, "timestamp": since }))
        }
        Some(reason) => json(code, &json!({ "reason": reason })),
        None => empty(code),
    };
    let uuid = |id: &str| HeaderValue::from_str(id).expect("a UUID is a header value");
    response.headers_mut().insert("apns-id", uuid(id));
    if environment == Environment::Sandbox && code == 200 {
        response.headers_mut().insert("apns-unique-id", uuid(&random_uuid()));
    }
    with_retry_after(response, script.retry_after)
}

/// The sender's `apns-id`, or a new one.
fn message_id(request: &Request) -> String {
    match request.header("apns-id") {
        Some(id) if is_apns_id(id) => id.to_owned(),
        Some(_) | None => random_uuid(),
    }
}

fn random_uuid() -> String {
    let mut random = [0; 16];
    fastrand::fill(&mut random);
    uuid::Builder::from_random_bytes(random).into_uuid().hyphenated().to_string()
}

/// The largest payload, in bytes.
const PAYLOAD_BYTES_MAX: usize = 4_096;

/// The largest payload of a `voip` push, in bytes.
const VOIP_PAYLOAD_BYTES_MAX: usize = 5_120;

/// The longest `apns-collapse-id`, in bytes.
const COLLAPSE_ID_BYTES_MAX: usize = 64;

/// The longest device token, in hex digits.
const TOKEN_DIGITS_MAX: usize = 512;

/// Push types and the suffixes of their topics.
const PUSH_TYPES: [(&str, &str); 11] = [
    ("alert", ""),
    ("background", ""),
    ("voip", ".voip"),
    ("complication", ".complication"),
    ("fileprovider", ".pushkit.fileprovider"),
    ("mdm", ""),
    ("liveactivity", ".push-type.liveactivity"),
    ("location", ".location-query"),
    ("pushtotalk", ".voip-ptt"),
    ("widgets", ".push-type.widgets"),
    ("controls", ".push-type.controls"),
];

/// Headers that may occur only once in a request.
const SINGLE_HEADERS: [&str; 7] = [
    "authorization",
    "apns-topic",
    "apns-push-type",
    "apns-priority",
    "apns-expiration",
    "apns-collapse-id",
    "apns-id",
];

/// Checks a request as APNs does, and binds the connection to the request's provider token and app.
fn validate(
    ctx: Context<'_>,
    environment: Environment,
    path: &str,
    token: &str,
) -> Result<(), ApnsReason> {
    let Context { state, conn, request } = ctx;
    if request.head.method != Method::POST {
        return Err(ApnsReason::METHOD_NOT_ALLOWED);
    }
    if !path.starts_with("/3/device/") && path != "/3/device" {
        return Err(ApnsReason::BAD_PATH);
    }
    let headers = &request.head.headers;
    if SINGLE_HEADERS.iter().any(|name| headers.get_all(*name).iter().nth(1).is_some()) {
        return Err(ApnsReason::DUPLICATE_HEADERS);
    }
    let mut auth = lock(&conn.apns);
    check_authorization(state, &mut auth, headers.get("authorization"))?;
    check_token(token)?;
    let push_type = check_headers(headers)?;
    let topic = check_topic(headers, push_type)?;
    check_payload(&request.body, push_type)?;

    // APNs accepts one signing key on a connection. Here a key belongs to one app, so the first request
    // decides the app of the connection.
    let bound_topic = auth.topic.get_or_insert_with(|| topic.to_owned());
    if bound_topic != topic {
        return Err(ApnsReason::UNRELATED_KEY_ID_IN_TOKEN);
    }
    if token.bytes().all(|digit| digit == b'0') {
        // A server sends to this token to check its credentials. The token is well-formed, but no device
        // has it.
        return Err(ApnsReason::BAD_DEVICE_TOKEN);
    }
    let info = state.token_info(token);
    if info.environment.is_some_and(|expected| expected != environment) {
        return Err(ApnsReason::BAD_DEVICE_TOKEN);
    }
    if info.topic.is_some_and(|expected| expected != topic) {
        return Err(ApnsReason::DEVICE_TOKEN_NOT_FOR_TOPIC);
    }
    Ok(())
}

fn check_token(token: &str) -> Result<(), ApnsReason> {
    if token.is_empty() {
        return Err(ApnsReason::MISSING_DEVICE_TOKEN);
    }
    let is_hex = token.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !is_hex || !token.len().is_multiple_of(2) || token.len() > TOKEN_DIGITS_MAX {
        return Err(ApnsReason::BAD_DEVICE_TOKEN);
    }
    Ok(())
}

/// Checks the headers except the topic, and returns the push type. The default push type is `alert`.
fn check_headers(headers: &HeaderMap) -> Result<&'static str, ApnsReason> {
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or("\u{fffd}"));
    if text("apns-id").is_some_and(|id| !is_apns_id(id)) {
        return Err(ApnsReason::BAD_MESSAGE_ID);
    }
    if text("apns-expiration").is_some_and(|at| at.parse::<u64>().is_err()) {
        return Err(ApnsReason::BAD_EXPIRATION_DATE);
    }
    // The id is not parsed as text, because it may contain bytes above 127.
    let collapse_id = headers.get("apns-collapse-id");
    if collapse_id.is_some_and(|id| id.is_empty() || id.len() > COLLAPSE_ID_BYTES_MAX) {
        return Err(ApnsReason::BAD_COLLAPSE_ID);
    }
    let wanted = text("apns-push-type").unwrap_or("alert");
    let entry = PUSH_TYPES.iter().find(|(push_type, _)| *push_type == wanted);
    let (push_type, _) = entry.ok_or(ApnsReason::INVALID_PUSH_TYPE)?;
    match (text("apns-priority").unwrap_or("10"), *push_type) {
        ("5", _) => Ok(push_type),
        ("10" | "1", other) if other != "background" => Ok(push_type),
        (_, _) => Err(ApnsReason::BAD_PRIORITY),
    }
}

/// Checks the topic and returns the app's part of it, without the suffix of the push type.
fn check_topic<'a>(headers: &'a HeaderMap, push_type: &str) -> Result<&'a str, ApnsReason> {
    let topic = headers.get("apns-topic").ok_or(ApnsReason::MISSING_TOPIC)?;
    let topic = topic.to_str().map_err(|_| ApnsReason::BAD_TOPIC)?;
    let is_bundle_id = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    if topic.is_empty() || !topic.bytes().all(is_bundle_id) {
        return Err(ApnsReason::BAD_TOPIC);
    }
    let entry = PUSH_TYPES.iter().find(|(name, _)| *name == push_type);
    let suffix = entry.map_or("", |(_, suffix)| *suffix);
    let app = topic.strip_suffix(suffix).ok_or(ApnsReason::INVALID_PUSH_TYPE)?;
    if TOPICS.contains(&app) { Ok(app) } else { Err(ApnsReason::TOPIC_DISALLOWED) }
}

fn check_payload(body: &[u8], push_type: &str) -> Result<(), ApnsReason> {
    #[derive(Deserialize)]
    struct Payload {
        #[serde(rename = "aps")]
        _aps: serde_json::Map<String, serde_json::Value>,
    }

    let limit = if push_type == "voip" { VOIP_PAYLOAD_BYTES_MAX } else { PAYLOAD_BYTES_MAX };
    if body.len() > limit {
        return Err(ApnsReason::PAYLOAD_TOO_LARGE);
    }
    // APNs has no separate reason for a body that is not a JSON object with an `aps` object.
    serde_json::from_slice::<Payload>(body).map_err(|_| ApnsReason::PAYLOAD_EMPTY)?;
    Ok(())
}

/// Whether `id` is a UUID of the form 8-4-4-4-12 in lower case.
pub(super) fn is_apns_id(id: &str) -> bool {
    let is_lower = !id.bytes().any(|byte| byte.is_ascii_uppercase());
    is_lower && id.len() == 36 && uuid::Uuid::try_parse(id).is_ok()
}

/// The age at which a provider token expires: an hour, in seconds.
const TOKEN_AGE_S_MAX: i64 = 3_600;

/// The shortest time between the issue of two tokens on one connection: 20 minutes, in seconds.
const TOKEN_UPDATE_S_MIN: i64 = 1_200;

/// How far in the future a token may be issued, in seconds, because clocks differ.
const CLOCK_SKEW_S: i64 = 60;

/// The number of tokens that a connection accepts at a time: the current token and earlier tokens, which
/// requests in flight may still use.
const TOKENS_PER_CONNECTION: usize = 4;

/// A provider token with a valid signature.
#[derive(Debug, Clone, Copy)]
pub(crate) struct VerifiedToken {
    key: usize,
    issued_at_s: i64,
}

pub(crate) type VerifiedTokens = VerifiedCache<VerifiedToken>;

/// The provider tokens and the app that a connection is bound to.
#[derive(Debug, Default)]
pub(crate) struct ConnAuth {
    tokens: Vec<(HeaderValue, VerifiedToken)>,
    topic: Option<String>,
}

#[derive(Deserialize)]
struct Claims {
    iss: String,
    iat: i64,
}

/// Checks the provider token and binds it to its connection, as APNs does.
fn check_authorization(
    state: &SandboxState,
    auth: &mut ConnAuth,
    header: Option<&HeaderValue>,
) -> Result<(), ApnsReason> {
    let header = header.ok_or(ApnsReason::MISSING_PROVIDER_TOKEN)?;
    let cached = auth.tokens.iter().find(|(value, _)| value == header).map(|(_, token)| *token);
    let token = match cached {
        Some(token) => token,
        None => verify_header(state, header).ok_or(ApnsReason::INVALID_PROVIDER_TOKEN)?,
    };
    let age_s = state.clock.now().as_seconds().saturating_sub(token.issued_at_s);
    if age_s < -CLOCK_SKEW_S {
        return Err(ApnsReason::INVALID_PROVIDER_TOKEN);
    }
    if age_s > TOKEN_AGE_S_MAX {
        return Err(ApnsReason::EXPIRED_PROVIDER_TOKEN);
    }
    if cached.is_none() {
        bind_token(auth, header, token)?;
    }
    Ok(())
}

/// Binds another token to a connection. Fails when the token has another key, or when it was issued less
/// than [`TOKEN_UPDATE_S_MIN`] before or after the newest token.
fn bind_token(
    auth: &mut ConnAuth,
    header: &HeaderValue,
    token: VerifiedToken,
) -> Result<(), ApnsReason> {
    if let Some((_, newest)) = auth.tokens.last() {
        if newest.key != token.key {
            return Err(ApnsReason::UNRELATED_KEY_ID_IN_TOKEN);
        }
        if token.issued_at_s.abs_diff(newest.issued_at_s) < TOKEN_UPDATE_S_MIN.unsigned_abs() {
            return Err(ApnsReason::TOO_MANY_PROVIDER_TOKEN_UPDATES);
        }
    }
    if auth.tokens.len() == TOKENS_PER_CONNECTION {
        auth.tokens.remove(0);
    }
    auth.tokens.push((header.clone(), token));
    Ok(())
}

/// Verifies the `authorization` header, with the result of an earlier request where there is one.
fn verify_header(state: &SandboxState, header: &HeaderValue) -> Option<VerifiedToken> {
    let (kind, jwt) = header.to_str().ok()?.split_once(' ')?;
    if !kind.eq_ignore_ascii_case("bearer") {
        return None;
    }
    state.verified_tokens.get_or_verify(jwt, |jwt| verify_token(&state.credentials, jwt))
}

fn verify_token(credentials: &Credentials, token: &str) -> Option<VerifiedToken> {
    let jwt = Jwt::parse_for_apns(token)?;
    let key_id = jwt.header.kid.as_deref()?;
    let key = credentials.apns_keys.iter().position(|key| key.key_id == key_id)?;
    let claims: Claims = jwt.verify(Algorithm::Es256, &credentials.apns_keys[key].public_key)?;
    let is_owner = claims.iss == credentials.apns_keys[key].team_id;
    is_owner.then_some(VerifiedToken { key, issued_at_s: claims.iat })
}

/// A reason for which APNs refuses a notification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ApnsReason {
    /// The HTTP status.
    pub status: u16,
    /// The `reason` of the body.
    pub name: &'static str,
}

macro_rules! reasons {
    ($($constant:ident $status:literal $name:literal)*) => {
        #[expect(missing_docs, reason = "the names are Apple's and say what they mean")]
        impl ApnsReason {
            $(pub const $constant: Self = Self { status: $status, name: $name };)*

            /// All reasons. Within a status, the order gives the index of a reason in token scripts.
            pub const ALL: &'static [Self] = &[$(Self::$constant),*];
        }
    };
}

reasons! {
    BAD_DEVICE_TOKEN 400 "BadDeviceToken"
    DEVICE_TOKEN_NOT_FOR_TOPIC 400 "DeviceTokenNotForTopic"
    MISSING_TOPIC 400 "MissingTopic"
    BAD_TOPIC 400 "BadTopic"
    TOPIC_DISALLOWED 400 "TopicDisallowed"
    BAD_COLLAPSE_ID 400 "BadCollapseId"
    BAD_EXPIRATION_DATE 400 "BadExpirationDate"
    BAD_MESSAGE_ID 400 "BadMessageId"
    BAD_PRIORITY 400 "BadPriority"
    INVALID_PUSH_TYPE 400 "InvalidPushType"
    DUPLICATE_HEADERS 400 "DuplicateHeaders"
    PAYLOAD_EMPTY 400 "PayloadEmpty"
    MISSING_DEVICE_TOKEN 400 "MissingDeviceToken"
    IDLE_TIMEOUT 400 "IdleTimeout"
    EXPIRED_PROVIDER_TOKEN 403 "ExpiredProviderToken"
    INVALID_PROVIDER_TOKEN 403 "InvalidProviderToken"
    MISSING_PROVIDER_TOKEN 403 "MissingProviderToken"
    BAD_CERTIFICATE 403 "BadCertificate"
    BAD_CERTIFICATE_ENVIRONMENT 403 "BadCertificateEnvironment"
    FORBIDDEN 403 "Forbidden"
    UNRELATED_KEY_ID_IN_TOKEN 403 "UnrelatedKeyIdInToken"
    BAD_ENVIRONMENT_KEY_ID_IN_TOKEN 403 "BadEnvironmentKeyIdInToken"
    BAD_PATH 404 "BadPath"
    METHOD_NOT_ALLOWED 405 "MethodNotAllowed"
    UNREGISTERED 410 "Unregistered"
    EXPIRED_TOKEN 410 "ExpiredToken"
    PAYLOAD_TOO_LARGE 413 "PayloadTooLarge"
    TOO_MANY_REQUESTS 429 "TooManyRequests"
    TOO_MANY_PROVIDER_TOKEN_UPDATES 429 "TooManyProviderTokenUpdates"
    INTERNAL_SERVER_ERROR 500 "InternalServerError"
    SERVICE_UNAVAILABLE 503 "ServiceUnavailable"
    SHUTDOWN 503 "Shutdown"
}

impl ApnsReason {
    /// The reason with this name.
    pub(crate) fn by_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|reason| reason.name == name)
    }

    /// The first reason of this status.
    fn first_of(status: u16) -> Option<Self> {
        Self::of(status).next()
    }

    fn of(status: u16) -> impl Iterator<Item = Self> {
        Self::ALL.iter().copied().filter(move |reason| reason.status == status)
    }
}

/// The number of hex digits in the tokens that Apple issues today.
const TOKEN_DIGITS: usize = 64;

/// The number of hex digits of the script at the end of a token.
const SCRIPT_DIGITS: usize = 8;

/// A device token that gets `response`, different for each `seed`. The documentation of the crate
/// describes the scripts in tokens.
///
/// # Panics
/// When no script selects the response: it has an unknown reason, more than nine attempts or a
/// `Retry-After`. Such a response needs a [`Rule`](crate::Rule).
#[must_use]
pub fn apns_token(seed: u64, response: &ScriptedResponse) -> String {
    let script = if response.is_success() {
        "ffffffff".to_owned()
    } else {
        write_token_script(response).expect("a token script can select the response")
    };
    let digits = TOKEN_DIGITS - SCRIPT_DIGITS;
    format!("{seed:0digits$x}{script}")
}

fn write_token_script(response: &ScriptedResponse) -> Option<String> {
    let attempts = match response.attempts {
        None => 'd',
        Some(attempts @ 1..=9) => char::from_digit(attempts, 10)?,
        Some(_) => return None,
    };
    if response.retry_after.is_some() {
        return None;
    }
    let (status, index) = if response.fault == Fault::None {
        let reason = match (&response.reason, response.status) {
            (Some(name), _) => ApnsReason::by_name(name)?,
            (None, Some(status)) => ApnsReason::first_of(status)?,
            (None, None) => return None,
        };
        (reason.status, ApnsReason::of(reason.status).position(|other| other == reason)?)
    } else {
        (0, Fault::ALL.iter().position(|fault| *fault == response.fault)?)
    };
    Some(format!("dea{attempts}{status:03}{index:x}"))
}

/// Parses the script at the end of a token.
fn parse_token(token: &str) -> Option<ScriptedResponse> {
    let script = token.get(token.len().checked_sub(SCRIPT_DIGITS)?..)?;
    let script = script.strip_prefix("dea")?;
    let attempts = match script.chars().next()? {
        'd' => None,
        digit => Some(digit.to_digit(10).filter(|attempts| *attempts > 0)?),
    };
    let status: u16 = script.get(1..4)?.parse().ok()?;
    let index = usize::try_from(script.chars().nth(4)?.to_digit(16)?).ok()?;
    let response = if status == 0 {
        ScriptedResponse::fault(*Fault::ALL.get(index)?)
    } else {
        ScriptedResponse::reason(ApnsReason::of(status).nth(index)?.name)
    };
    Some(ScriptedResponse { attempts, ..response })
}
