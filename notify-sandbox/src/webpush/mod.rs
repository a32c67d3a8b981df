//! A fake push service (RFC 8030) and its browsers. Checks endpoint, size, headers and the VAPID
//! token, then decrypts as the browser would, and answers by script. What Mozilla, Apple, Google and
//! Windows refuse, it refuses in the form of one of them.

mod authorization;
mod browser;
mod refusals;
mod subscriptions;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::{HeaderValue, Method, Response, StatusCode, header};
use serde_json::{Value, json};

pub(super) use authorization::VerifiedVapid;
pub use browser::Browser;
pub use refusals::Refusal;
pub(super) use refusals::{script, status_of};
pub use subscriptions::SubscribeError;
pub(super) use subscriptions::{BrowserKeys, Subscriptions, subscribe};

use super::answer::{Action, Answer, Provider};
use super::apns::shown_payload;
use super::exchange::{Call, Peer, Verdict, respond, status};
use super::fcm::with_retry_after;
use super::journal::{Received, Tally, shown_headers};
use super::rules::Scripted;
use super::scene::Scene;
use refusals::{
    BAD_CRYPTO, BAD_TOPIC, BAD_TTL, MISSING_HEADER, NO_ENDPOINT, TOO_LARGE, in_id, is_success,
    render, resolve,
};

/// The largest body that is taken: what every service has to take (RFC 8030 §7.2).
const BODY_BYTES_MAX: usize = 4_096;
/// Longest `Topic`, in bytes (RFC 8030 §5.4).
const TOPIC_BYTES_MAX: usize = 32;
/// Words of `Urgency` (RFC 8030 §5.3).
const URGENCIES: [&str; 4] = ["very-low", "low", "normal", "high"];
/// An `Urgency` that is none: Mozilla has no number for it.
const BAD_URGENCY: Refusal = BAD_CRYPTO;

/// Judges one message and answers it.
pub(super) fn exchange(scene: &Scene, peer: &Peer, path: &str, call: &Call) -> Verdict {
    let Some(id) = path.strip_prefix('/').filter(|id| !id.contains('/')) else {
        return Verdict::answer(render(NO_ENDPOINT.status, Some(NO_ENDPOINT.reason)));
    };
    if call.head.method != Method::POST {
        let plain = "text/plain; charset=utf-8";
        return Verdict::answer(respond(StatusCode::METHOD_NOT_ALLOWED, plain, ""));
    }
    let (payload, Scripted { answer, delay_ms, dress }) = match check(scene, id, call) {
        Ok(payload) => (payload, scene.rules.scripted(Provider::WebPush, id, in_id(id))),
        Err(refusal) => {
            let answer = Answer { status: Some(refusal.status), ..Answer::reason(refusal.reason) };
            (Value::Null, Scripted::plain(answer))
        }
    };
    let message_id = format!("{}/push-messages/{:032x}", scene.origin, fastrand::u128(..));
    record(scene, peer, (id, &message_id), call, (payload, &answer));
    Verdict::scripted(&answer, delay_ms, || {
        let (code, reason) = resolve(&answer);
        let response =
            if is_success(code) { accepted(code, &message_id, call) } else { render(code, reason) };
        with_retry_after(response, answer.retry_after)
    })
    .dressed(&dress)
}

/// What a service says of a message that it took.
fn accepted(code: u16, message_id: &str, call: &Call) -> Response<Bytes> {
    let mut response = Response::new(Bytes::new());
    *response.status_mut() = status(code);
    let headers = response.headers_mut();
    let location = HeaderValue::from_str(message_id).expect("a url of ours is a header value");
    headers.insert(header::LOCATION, location);
    if let Some(ttl) = call.head.headers.get("ttl") {
        headers.insert("ttl", ttl.clone());
    }
    response
}

/// A message that a service would take, as its browser reads it; as it came where the keys are not
/// the sandbox's.
fn check(scene: &Scene, id: &str, call: &Call) -> Result<Value, &'static Refusal> {
    let subscribed = scene.subscriptions.get(id).ok_or(&NO_ENDPOINT)?;
    if call.body.len() > BODY_BYTES_MAX {
        return Err(&TOO_LARGE);
    }
    let ttl = call.header("ttl").ok_or(&MISSING_HEADER)?;
    let is_number = !ttl.is_empty() && ttl.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number || ttl.parse::<u32>().is_err() {
        return Err(&BAD_TTL);
    }
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let is_topic =
        |topic: &str| (1..=TOPIC_BYTES_MAX).contains(&topic.len()) && topic.bytes().all(allowed);
    if call.head.headers.contains_key("topic") && !call.header("topic").is_some_and(is_topic) {
        return Err(&BAD_TOPIC);
    }
    let urgency = call.header("urgency").unwrap_or("normal");
    if !URGENCIES.contains(&urgency) {
        return Err(&BAD_URGENCY);
    }
    let authorization = call.header(header::AUTHORIZATION.as_str());
    authorization::check(scene, authorization, &subscribed.application_server_key)?;
    if call.body.is_empty() {
        return Ok(shown_payload(&[]));
    }
    if call.header(header::CONTENT_ENCODING.as_str()) != Some("aes128gcm") {
        return Err(&MISSING_HEADER);
    }
    match &subscribed.browser {
        Some(browser) => {
            browser.decrypt(&call.body).map(|text| shown_payload(&text)).ok_or(&BAD_CRYPTO)
        }
        None => Ok(json!({ "encrypted": URL_SAFE_NO_PAD.encode(&call.body) })),
    }
}

fn record(
    scene: &Scene,
    peer: &Peer,
    (id, message_id): (&str, &str),
    call: &Call,
    (payload, answer): (Value, &Answer),
) {
    let (status, reason) = match answer.action {
        Action::Answer => resolve(answer),
        fault => (0, Some(fault.as_str())),
    };
    let provider = Provider::WebPush;
    scene.journal.record(Tally { provider, token: Some(id), status, reason }, || Received {
        at_ms: scene.clock.now().as_ms(),
        provider,
        environment: None,
        token: Some(id.to_owned()),
        headers: shown_headers(&call.head.headers),
        payload,
        status,
        reason: reason.map(str::to_owned),
        message_id: is_success(status).then(|| message_id.to_owned()),
        connection: peer.number,
        stream: call.stream,
    });
}
