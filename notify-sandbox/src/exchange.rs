//! One request and what becomes of it, whatever transport it came by: the transports know no
//! provider, the providers no transport.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderValue, Response, StatusCode, header};

use super::answer::{Action, Answer, Environment};
use super::dress::Tail;
use super::scene::Scene;
use super::{apns, control, fcm, messenger, telegram, webpush};

/// The largest request body that is read: 1 MiB; the rest of a larger one is left unread.
pub(super) const BODY_BYTES_MAX: usize = 1_048_576;

/// A request, read to its end.
pub(super) struct Call {
    pub(super) head: Parts,
    pub(super) body: Bytes,
    /// The HTTP/2 stream; on HTTP/1.1 the count of requests.
    pub(super) stream: u32,
}

impl Call {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.head.headers.get(name)?.to_str().ok()
    }
}

/// What is remembered of a connection.
pub(super) struct Peer {
    pub(super) number: u64,
    pub(super) apns: Mutex<apns::Memory>,
    /// The highest stream that was processed.
    processed: AtomicU32,
}

impl Peer {
    pub(super) fn new(number: u64) -> Self {
        Self { number, apns: Mutex::default(), processed: AtomicU32::new(0) }
    }

    pub(super) fn processed(&self) -> u32 {
        self.processed.load(Ordering::Relaxed)
    }
}

/// What the transport does.
pub(super) enum Deed {
    /// Sends this.
    Answer(Response<Bytes>),
    /// Sends nothing, and keeps the stream open.
    Silence,
    /// `RST_STREAM` with `INTERNAL_ERROR`.
    Reset,
    /// `RST_STREAM` with `REFUSED_STREAM`.
    Refuse,
    /// `GOAWAY` with this last stream or the one before.
    Goaway {
        /// The last stream that is still processed.
        last: Option<u32>,
        /// The reason in the debug bytes.
        reason: String,
    },
    /// Ends the connection.
    Cut,
}

/// What an exchange does to the connection's stream limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StreamLimit {
    /// Nothing.
    Keep,
    /// To the full limit.
    Raise,
    /// Back to that of the start.
    Lower,
}

/// What becomes of a request.
pub(super) struct Verdict {
    pub(super) deed: Deed,
    pub(super) delay_ms: u64,
    pub(super) limit: StreamLimit,
    /// What comes after the answer's body.
    pub(super) tail: Tail,
}

impl Verdict {
    pub(super) fn answer(response: Response<Bytes>) -> Self {
        Self {
            deed: Deed::Answer(response),
            delay_ms: 0,
            limit: StreamLimit::Keep,
            tail: Tail::default(),
        }
    }

    /// The scripted fault, or the response that `render` makes.
    pub(super) fn scripted(
        answer: &Answer,
        delay_ms: u64,
        render: impl FnOnce() -> Response<Bytes>,
    ) -> Self {
        let deed = match answer.action {
            Action::Answer => Deed::Answer(render()),
            Action::Silence => Deed::Silence,
            Action::Reset => Deed::Reset,
            Action::Refuse => Deed::Refuse,
            Action::Goaway => Deed::Goaway {
                last: answer.last_stream_id,
                reason: answer.reason.clone().unwrap_or_else(|| "Shutdown".to_owned()),
            },
            Action::Cut => Deed::Cut,
        };
        Self { deed, delay_ms, limit: StreamLimit::Keep, tail: Tail::default() }
    }
}

/// Decides what becomes of a request, and writes it down.
pub(super) fn exchange(scene: &Scene, peer: &Peer, call: &Call) -> Verdict {
    let path = call.head.uri.path();
    let verdict = if let Some(rest) = below(path, "/apns") {
        apns::exchange(scene, peer, (Environment::Production, rest), call)
    } else if let Some(rest) = below(path, "/apns-sandbox") {
        apns::exchange(scene, peer, (Environment::Sandbox, rest), call)
    } else if is_apns_alone(path) {
        apns::exchange(scene, peer, (Environment::Production, path), call)
    } else if let Some(rest) = below(path, "/fcm") {
        fcm::exchange(scene, peer, rest, call)
    } else if let Some(rest) = below(path, "/push") {
        webpush::exchange(scene, peer, rest, call)
    } else if let Some(rest) = below(path, "/messenger") {
        messenger::exchange(scene, peer, rest, call)
    } else if let Some(rest) = below(path, "/telegram") {
        telegram::exchange(scene, peer, rest, call)
    } else if path == "/token" {
        fcm::exchange_token(scene, call)
    } else {
        Verdict::answer(control::answer(scene, call))
    };
    if matches!(verdict.deed, Deed::Answer(_) | Deed::Silence | Deed::Reset) {
        peer.processed.fetch_max(call.stream, Ordering::Relaxed);
    }
    verdict
}

/// Whether a connection whose first request is this one is not APNs', so that the limit of the
/// start is not for it.
pub(super) fn starts_unlimited(head: &Parts) -> bool {
    let path = head.uri.path();
    let is_apns = below(path, "/apns").or_else(|| below(path, "/apns-sandbox")).is_some();
    !is_apns && !is_apns_alone(path)
}

/// Whether a path is that of APNs without a prefix, as most clients have it fixed.
fn is_apns_alone(path: &str) -> bool {
    below(path, "/3/device").is_some()
}

fn below<'a>(path: &'a str, prefix: &str) -> Option<&'a str> {
    path.strip_prefix(prefix).filter(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// A response with a JSON body.
pub(super) fn json(status: StatusCode, body: &impl serde::Serialize) -> Response<Bytes> {
    let body = serde_json::to_vec(body).expect("our own answers are JSON");
    respond(status, "application/json; charset=utf-8", body)
}

/// A response with a body of this type.
pub(super) fn respond(
    status: StatusCode,
    content_type: &'static str,
    body: impl Into<Bytes>,
) -> Response<Bytes> {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    let value = HeaderValue::from_static(content_type);
    response.headers_mut().insert(header::CONTENT_TYPE, value);
    response
}

/// An HTTP status that a rule asked for; rules are checked when they are added.
pub(super) fn status(code: u16) -> StatusCode {
    StatusCode::from_u16(code).expect("statuses are between 200 and 599")
}
