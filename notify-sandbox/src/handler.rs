//! Routes a request to the fake of its provider, which decides the reaction. The transport then
//! performs the reaction. The modules of the transports and of the providers do not use each other.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderValue, Response, StatusCode, header};
use jiff::fmt::rfc2822::DateTimePrinter;
use notify_core::Timestamp;
use serde_json::Value;

use crate::request_log::{CountKey, ReceivedRequest, logged_headers};
use crate::rules::{RequestScript, TrailingBytes};
use crate::script::{Environment, Fault, Provider};
use crate::state::SandboxState;
use crate::{apns, control, fcm, messenger, oauth, telegram, webpush};

/// The largest request body that is read by default: 1 MiB.
pub(crate) const BODY_BYTES_MAX: usize = 1_048_576;

pub(crate) const PLAIN_TEXT: &str = "text/plain; charset=utf-8";

/// A request with its whole body.
pub(crate) struct Request {
    pub(crate) head: Parts,
    pub(crate) body: Bytes,
    /// The HTTP/2 stream; on HTTP/1.1 the number of the request.
    pub(crate) stream: u32,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.headers.get(name)?.to_str().ok()
    }

    /// The token of `authorization: bearer TOKEN`.
    pub(crate) fn bearer(&self) -> Option<&str> {
        let (scheme, token) = self.header(header::AUTHORIZATION.as_str())?.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then_some(token)
    }

    /// The body as JSON, or as a JSON string when it is not valid JSON.
    pub(crate) fn payload(&self) -> Value {
        payload(&self.body)
    }
}

/// Parses `body` as JSON. A body that is not valid JSON becomes a JSON string.
pub(crate) fn payload(body: &[u8]) -> Value {
    serde_json::from_slice(body)
        .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(body).into_owned()))
}

/// The state of a connection that outlives a request.
pub(crate) struct ConnState {
    pub(crate) number: u64,
    pub(crate) apns: Mutex<apns::ConnAuth>,
    /// The highest stream that was processed.
    processed: AtomicU32,
}

impl ConnState {
    pub(crate) fn new(number: u64) -> Self {
        Self { number, apns: Mutex::default(), processed: AtomicU32::new(0) }
    }

    pub(crate) fn processed(&self) -> u32 {
        self.processed.load(Ordering::Relaxed)
    }
}

/// What the transport does with a request.
pub(crate) enum TransportAction {
    Respond(Response<Bytes>),
    /// Sends nothing, and keeps the stream open.
    Silence,
    /// `RST_STREAM` with `INTERNAL_ERROR`.
    Reset,
    /// `RST_STREAM` with `REFUSED_STREAM`.
    Refuse,
    Goaway {
        /// The last stream that the frame declares as processed. When absent, the frame declares the
        /// last stream that was actually processed.
        last: Option<u32>,
        /// The reason that the frame carries in its debug data.
        reason: String,
    },
    /// Closes the connection.
    Cut,
}

/// How a request changes the stream limit of its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamLimit {
    Keep,
    /// Raises the stream limit to `max_concurrent_streams`.
    Raise,
    /// Lowers the stream limit to `max_concurrent_streams_at_start`.
    Lower,
}

/// The reaction to a request.
pub(crate) struct Reaction {
    pub(crate) action: TransportAction,
    pub(crate) delay_ms: u64,
    pub(crate) limit: StreamLimit,
    /// The bytes that follow the body.
    pub(crate) trailing: TrailingBytes,
}

impl Reaction {
    pub(crate) fn respond(response: Response<Bytes>) -> Self {
        Self {
            action: TransportAction::Respond(response),
            delay_ms: 0,
            limit: StreamLimit::Keep,
            trailing: TrailingBytes::default(),
        }
    }

    /// The scripted fault. Without a fault, `response` with the overrides of the rule.
    pub(crate) fn scripted(scripted: RequestScript, response: Response<Bytes>) -> Self {
        let RequestScript { response: script, delay_ms, overrides, is_by_ending: _ } = scripted;
        let action = match script.fault {
            Fault::None => TransportAction::Respond(overrides.apply(response)),
            Fault::Silence => TransportAction::Silence,
            Fault::Reset => TransportAction::Reset,
            Fault::Refuse => TransportAction::Refuse,
            Fault::Goaway => TransportAction::Goaway {
                last: script.last_stream_id,
                reason: script.reason.unwrap_or_else(|| "Shutdown".to_owned()),
            },
            Fault::Cut => TransportAction::Cut,
        };
        Self { action, delay_ms, limit: StreamLimit::Keep, trailing: overrides.trailing }
    }
}

/// The recipient of a message.
pub(crate) struct Recipient {
    pub(crate) provider: Provider,
    pub(crate) environment: Option<Environment>,
    pub(crate) token: Option<String>,
}

/// The provider's response to a message. The default value is a placeholder for a response that a
/// fault replaces.
#[derive(Default)]
pub(crate) struct Outcome {
    pub(crate) response: Response<Bytes>,
    pub(crate) reason: Option<String>,
    pub(crate) message_id: Option<String>,
}

impl Outcome {
    pub(crate) fn sent(response: Response<Bytes>, message_id: String) -> Self {
        Self { response, reason: None, message_id: Some(message_id) }
    }

    pub(crate) fn failed(response: Response<Bytes>, reason: String) -> Self {
        Self { response, reason: Some(reason), message_id: None }
    }

    pub(crate) fn with_retry_after(self, seconds: Option<u64>) -> Self {
        Self { response: with_retry_after(self.response, seconds), ..self }
    }
}

/// A request, its connection and the sandbox.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) state: &'a SandboxState,
    pub(crate) conn: &'a ConnState,
    pub(crate) request: &'a Request,
}

impl Context<'_> {
    /// Logs a message and returns the reaction to it.
    pub(crate) fn finish(
        self,
        recipient: Recipient,
        scripted: RequestScript,
        outcome: Outcome,
        payload: impl FnOnce() -> Value,
    ) -> Reaction {
        let Recipient { provider, environment, token } = recipient;
        let Outcome { response, reason, message_id } = outcome;
        let (status, reason) = match scripted.response.fault {
            Fault::None => (response.status().as_u16(), reason),
            fault => (0, Some(fault.as_str().to_owned())),
        };
        let key = CountKey { provider, token: token.as_deref(), status, reason: reason.as_deref() };
        self.state.log.record(key, || ReceivedRequest {
            at_ms: self.state.clock.now().as_ms(),
            provider,
            environment,
            token: token.clone(),
            headers: logged_headers(&self.request.head.headers),
            payload: payload(),
            status,
            reason: reason.clone(),
            is_by_ending: scripted.is_by_ending,
            message_id,
            connection: self.conn.number,
            stream: self.request.stream,
        });
        Reaction::scripted(scripted, response)
    }
}

/// Routes a request by its path and returns the reaction to it.
pub(crate) fn handle(ctx: Context<'_>) -> Reaction {
    let path = ctx.request.head.uri.path();
    let mut reaction = if let Some(rest) = strip_route(path, "/apns") {
        apns::handle(ctx, Environment::Production, rest)
    } else if let Some(rest) = strip_route(path, "/apns-sandbox") {
        apns::handle(ctx, Environment::Sandbox, rest)
    } else if is_bare_apns(path) {
        apns::handle(ctx, Environment::Production, path)
    } else if let Some(rest) = strip_route(path, "/fcm") {
        fcm::handle(ctx, rest)
    } else if let Some(rest) = strip_route(path, "/push") {
        webpush::handle(ctx, rest)
    } else if let Some(rest) = strip_route(path, "/messenger") {
        messenger::handle(ctx, rest)
    } else if let Some(rest) = strip_route(path, "/telegram") {
        telegram::handle(ctx, rest)
    } else if path == "/token" {
        oauth::handle(ctx.state, ctx.request)
    } else if ctx.state.serves_control {
        Reaction::respond(control::handle(ctx.state, ctx.request))
    } else {
        Reaction::respond(empty(404))
    };
    if let TransportAction::Respond(response) = &mut reaction.action {
        let now = http_date(ctx.state.clock.now());
        response.headers_mut().entry(header::DATE).or_insert(now);
    }
    let is_processed = matches!(
        reaction.action,
        TransportAction::Respond(_) | TransportAction::Silence | TransportAction::Reset
    );
    if is_processed {
        ctx.conn.processed.fetch_max(ctx.request.stream, Ordering::Relaxed);
    }
    reaction
}

/// A time in the form of HTTP (RFC 9110 section 5.6.7).
fn http_date(at: Timestamp) -> HeaderValue {
    let at = jiff::Timestamp::from_millisecond(at.as_ms()).unwrap_or_default();
    let text = DateTimePrinter::new().timestamp_to_rfc9110_string(&at).unwrap_or_default();
    HeaderValue::from_str(&text).unwrap_or_else(|_| HeaderValue::from_static(""))
}

/// Whether a connection whose first request has this `head` gets the full stream limit at once. Only
/// APNs starts a connection with a lower limit.
pub(crate) fn skips_initial_stream_limit(head: &Parts) -> bool {
    let path = head.uri.path();
    let has_prefix = ["/apns", "/apns-sandbox"].iter().any(|at| strip_route(path, at).is_some());
    !has_prefix && !is_bare_apns(path)
}

/// Whether the path is that of APNs without the prefix `/apns`. Most APNs clients cannot add a prefix.
fn is_bare_apns(path: &str) -> bool {
    strip_route(path, "/3/device").is_some()
}

/// The rest of `path` after `route`, if `path` is `route` or lies below it.
fn strip_route<'a>(path: &'a str, route: &str) -> Option<&'a str> {
    path.strip_prefix(route).filter(|rest| rest.is_empty() || rest.starts_with('/'))
}

pub(crate) fn json(code: u16, body: &impl serde::Serialize) -> Response<Bytes> {
    let body = serde_json::to_vec(body).expect("our own responses are JSON");
    respond(code, "application/json; charset=utf-8", body)
}

pub(crate) fn respond(
    code: u16,
    content_type: &'static str,
    body: impl Into<Bytes>,
) -> Response<Bytes> {
    let mut response = empty(code);
    *response.body_mut() = body.into();
    let value = HeaderValue::from_static(content_type);
    response.headers_mut().insert(header::CONTENT_TYPE, value);
    response
}

pub(crate) fn empty(code: u16) -> Response<Bytes> {
    let mut response = Response::new(Bytes::new());
    *response.status_mut() = status(code);
    response
}

pub(crate) fn status(code: u16) -> StatusCode {
    StatusCode::from_u16(code).expect("a rule has a status between 200 and 599")
}

pub(crate) fn with_retry_after(
    mut response: Response<Bytes>,
    seconds: Option<u64>,
) -> Response<Bytes> {
    if let Some(seconds) = seconds {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}
