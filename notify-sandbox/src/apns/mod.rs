//! Fake APNs: <https://developer.apple.com/documentation/usernotifications/sending-notification-requests-to-apns>.
//! HTTP/2 alone; checks method, path, provider token, headers, payload and where the token belongs,
//! in that order, then answers by script.

mod authorization;
mod reasons;
mod request;

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, Version};
use serde_json::json;

pub(super) use authorization::{Memory, VerifiedTokens};
pub use reasons::{Reason, apns_token};

use super::answer::{Action, Answer, Environment, Provider};
use super::exchange::{Call, Peer, StreamLimit, Verdict, json, respond, status};
use super::journal::{Received, Tally, shown_headers};
use super::rules::Scripted;
use super::scene::Scene;

/// Judges one notification and answers it.
pub(super) fn exchange(
    scene: &Scene,
    peer: &Peer,
    (environment, path): (Environment, &str),
    call: &Call,
) -> Verdict {
    if call.head.version != Version::HTTP_2 {
        let text = "APNs is HTTP/2 only\n";
        let plain = "text/plain; charset=utf-8";
        return Verdict::answer(respond(StatusCode::HTTP_VERSION_NOT_SUPPORTED, plain, text));
    }
    let token = path.strip_prefix("/3/device/").unwrap_or_default().to_ascii_lowercase();
    let Scripted { answer, delay_ms, dress } =
        match request::check(scene, peer, (environment, path, &token), call) {
            Ok(()) => scene.rules.scripted(Provider::Apns, &token, reasons::in_token(&token)),
            Err(reason) => Scripted::plain(Answer::reason(reason.name)),
        };
    let id = message_id(call);
    record(scene, peer, (environment, &token, &id), call, &answer);

    let mut verdict = Verdict::scripted(&answer, delay_ms, || {
        render(&answer, environment, &id, scene.clock.now().as_ms())
    })
    .dressed(&dress);
    verdict.limit = if answer.is_success() {
        StreamLimit::Raise
    } else if scene.settings.borrow().drop_streams_on_rejection {
        StreamLimit::Lower
    } else {
        StreamLimit::Keep
    };
    verdict
}

/// The status and reason that an answer stands for.
fn resolve(answer: &Answer) -> (u16, Option<&str>) {
    match (answer.status, answer.reason.as_deref()) {
        (Some(status), Some(reason)) => (status, Some(reason)),
        (Some(status), None) => (status, Reason::first_of(status).map(|reason| reason.name)),
        (None, Some(reason)) => {
            let known = Reason::named(reason).map_or(400, |reason| reason.status);
            (known, Some(reason))
        }
        (None, None) => (200, None),
    }
}

fn render(answer: &Answer, environment: Environment, id: &str, now_ms: i64) -> Response<Bytes> {
    let (code, reason) = resolve(answer);
    let mut response = match reason {
        Some(reason) if code == 410 => {
            let since = answer.timestamp_ms.unwrap_or(now_ms);
            json(status(code), &json!({ "reason": reason, "timestamp": since }))
        }
        Some(reason) => json(status(code), &json!({ "reason": reason })),
        None => {
            let mut empty = Response::new(Bytes::new());
            *empty.status_mut() = status(code);
            empty
        }
    };
    let headers = response.headers_mut();
    let id = HeaderValue::from_str(id).expect("a UUID is a header value");
    headers.insert("apns-id", id);
    if environment == Environment::Sandbox && code == 200 {
        let unique = HeaderValue::from_str(&random_uuid()).expect("a UUID is a header value");
        headers.insert("apns-unique-id", unique);
    }
    if let Some(seconds) = answer.retry_after {
        headers.insert(http::header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// The sender's `apns-id`, or a new one.
fn message_id(call: &Call) -> String {
    match call.header("apns-id") {
        Some(id) if request::is_apns_id(id) => id.to_owned(),
        Some(_) | None => random_uuid(),
    }
}

fn random_uuid() -> String {
    let mut random = [0; 16];
    fastrand::fill(&mut random);
    uuid::Builder::from_random_bytes(random).into_uuid().hyphenated().to_string()
}

fn record(
    scene: &Scene,
    peer: &Peer,
    (environment, token, id): (Environment, &str, &str),
    call: &Call,
    answer: &Answer,
) {
    let (status, reason) = match answer.action {
        Action::Answer => resolve(answer),
        fault => (0, Some(fault.as_str())),
    };
    let named = (!token.is_empty()).then_some(token);
    scene.journal.record(Tally { provider: Provider::Apns, token: named, status, reason }, || {
        Received {
            at_ms: scene.clock.now().as_ms(),
            provider: Provider::Apns,
            environment: Some(environment),
            token: named.map(str::to_owned),
            headers: shown_headers(&call.head.headers),
            payload: shown_payload(&call.body),
            status,
            reason: reason.map(str::to_owned),
            message_id: Some(id.to_owned()),
            connection: peer.number,
            stream: call.stream,
        }
    });
}

/// A body as the journal shows it.
pub(super) fn shown_payload(body: &[u8]) -> serde_json::Value {
    serde_json::from_slice(body)
        .unwrap_or_else(|_| serde_json::Value::String(String::from_utf8_lossy(body).into_owned()))
}
