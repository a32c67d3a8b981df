//! The response of a provider, and the error of a request without a response. A response is read only up
//! to limits of size and time, because the peer may be hostile.

use std::borrow::Cow;
use std::error::Error;

use bytes::{Bytes, BytesMut};
use h2::{Reason as H2Reason, RecvStream};
use http::{HeaderMap, StatusCode};
use tokio::time::{Instant, timeout_at};

use crate::outbound::{DialError, ProxyProblem, Unreachable};
use crate::providers::{Processing, RESPONSE_BYTES_MAX, Reason, SendResult};
use crate::tls_problem::TlsProblem;

/// A provider's response.
#[derive(Debug)]
pub(crate) struct ProviderResponse {
    /// Status.
    pub(crate) status: StatusCode,
    /// Header fields.
    pub(crate) headers: HeaderMap,
    /// The first [`RESPONSE_BYTES_MAX`] bytes of the body, or less if the connection broke or was too slow.
    pub(crate) body: Bytes,
    /// The id of the connection over which the response came, for `Pool::retire`.
    pub(crate) connection: u64,
}

/// Reads a body until it ends, breaks off, is too long or too slow. An incomplete body is not an error: the
/// status matters most, and an accepted message must not be repeated because its response is incomplete.
/// Dropping the stream afterwards cancels the rest of the body.
pub(super) async fn read_body(mut stream: RecvStream, deadline: Instant) -> Bytes {
    if stream.is_end_stream() {
        return Bytes::new();
    }
    let mut body = Body::default();
    while let Ok(Some(Ok(chunk))) = timeout_at(deadline, stream.data()).await {
        // This fails only if the stream is closed, and then the next read reports it.
        let _ = stream.flow_control().release_capacity(chunk.len());
        if body.push(chunk) {
            break;
        }
    }
    body.finish()
}

/// A body that is being read. A body of a single chunk is not copied.
#[derive(Default)]
pub(super) struct Body {
    first: Bytes,
    rest: BytesMut,
}

impl Body {
    /// Adds a chunk, as far as the limit allows. Returns whether the limit is reached.
    pub(super) fn push(&mut self, mut chunk: Bytes) -> bool {
        let room = RESPONSE_BYTES_MAX - self.first.len().max(self.rest.len());
        chunk.truncate(room);
        let is_full = chunk.len() == room;
        if self.first.is_empty() && self.rest.is_empty() {
            self.first = chunk;
        } else {
            if self.rest.is_empty() {
                self.rest.extend_from_slice(&std::mem::take(&mut self.first));
            }
            self.rest.extend_from_slice(&chunk);
        }
        is_full
    }

    /// The chunks so far as one body.
    pub(super) fn finish(self) -> Bytes {
        if self.rest.is_empty() { self.first } else { self.rest.freeze() }
    }
}

/// Longest cause kept in a reason, in characters.
const CAUSE_CHARS_MAX: usize = 96;

/// The reason when no connection could be made.
pub(crate) const CONNECT_FAILED: &str = "connect_failed";
/// The reason when there was no connection in time.
pub(crate) const CONNECT_TIMED_OUT: &str = "connect_timeout";
/// The reason when the egress proxy cannot be reached or refuses the connection.
pub(crate) const PROXY_FAILED: &str = "proxy_failed";
/// The reason when there was a connection, but TLS failed.
pub(crate) const TLS_FAILED: &str = "tls_failed";
/// The reason for a url with a forbidden address.
pub(crate) const ADDRESS_NOT_ALLOWED: &str = "address_not_allowed";

/// A request without a response: why, and whether it may have been processed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TransportError {
    /// The reason that is stored with the attempt.
    pub(crate) reason: Reason,
    /// Whether the request may have been processed.
    pub(crate) outcome: Processing,
    /// Whether the server does not speak HTTP/2, so that HTTP/1.1 may be tried.
    pub(crate) is_http1_only: bool,
    /// What was wrong with TLS, if that is why there was no connection.
    tls_problem: Option<TlsProblem>,
}

impl TransportError {
    fn new(reason: Reason, outcome: Processing) -> Self {
        Self { reason, outcome, is_http1_only: false, tls_problem: None }
    }

    /// The error of a request of which nothing was sent.
    pub(crate) fn unsent(reason: impl Into<Reason>) -> Self {
        Self::new(reason.into(), Processing::NotProcessed)
    }

    /// The error of a request of which nothing was sent, with the cause in the reason.
    pub(crate) fn unsent_because(what: &str, cause: &dyn Error) -> Self {
        Self::unsent(format!("{what}: {}", sanitized(&cause.to_string())))
    }

    /// The error if no connection was made. If the certificate is not trusted, the reason suggests a remedy,
    /// which depends on whether a `ca_certificate` is configured (`has_extra_trust`).
    pub(super) fn unconnected(cause: &(dyn Error + 'static), has_extra_trust: bool) -> Self {
        let Some(problem) = TlsProblem::of(cause) else {
            return Self::unsent_because(CONNECT_FAILED, cause);
        };
        let remedy = match (problem.is_untrusted(), has_extra_trust) {
            (false, _) => "",
            (true, true) => "; ca_certificate is another one: was the sandbox restarted?",
            (true, false) => "; ca_certificate is not set, and the system does not trust it",
        };
        let failure = Self::unsent(format!("{}{remedy}", problem.reason()));
        Self { tls_problem: Some(problem), ..failure }
    }

    /// The error if a host was not reached. Operators see the reason; for a peer that a user chose,
    /// [`TransportError::redacted`] removes what names the proxy.
    pub(super) fn of_dial(error: &DialError, has_extra_trust: bool) -> Self {
        match error {
            DialError::Unreachable(unreachable) => Self::from(unreachable),
            DialError::Refused(error) => Self::unsent_because(CONNECT_FAILED, error),
            DialError::TimedOut => Self::unsent(CONNECT_TIMED_OUT),
            DialError::Tls(error) => Self::unconnected(error, has_extra_trust),
            DialError::Proxy(error) => {
                let reason = match error.problem {
                    ProxyProblem::TimedOut => CONNECT_TIMED_OUT,
                    _ if error.is_about_target() => CONNECT_FAILED,
                    _ => PROXY_FAILED,
                };
                Self::unsent(format!("{reason}: {error}"))
            }
        }
    }

    /// The error if the server negotiated HTTP/1.1.
    pub(crate) fn http1_only() -> Self {
        Self { is_http1_only: true, ..Self::unsent("no_http2") }
    }

    /// The error of a request that was sent and had no response.
    pub(crate) fn unknown(reason: impl Into<Reason>) -> Self {
        Self::new(reason.into(), Processing::Unknown)
    }

    /// The same error without text from the peer. If a user chose the peer, the peer must not control text
    /// that we show, and must not create an unlimited number of reasons.
    pub(crate) fn redacted(self) -> Self {
        let reason = match self.tls_problem {
            Some(problem) => problem.reason().to_owned(),
            None => self.reason.split(':').next().unwrap_or_default().to_owned(),
        };
        Self { reason: reason.into(), ..self }
    }

    /// What was wrong with TLS, if that is why there was no connection.
    pub(crate) fn tls_problem(&self) -> Option<TlsProblem> {
        self.tls_problem
    }

    /// The error of a request whose stream was open (RFC 9113 sections 6.8 and 8.7). A GOAWAY of the peer
    /// ends only streams above the last id that it processed, and `REFUSED_STREAM` guarantees that nothing
    /// was processed.
    pub(super) fn of_stream(error: &h2::Error) -> Self {
        if error.is_go_away() && error.is_remote() {
            return Self::unsent("goaway");
        }
        if error.is_reset() && error.is_remote() {
            return match error.reason() {
                Some(H2Reason::REFUSED_STREAM) => Self::unsent("refused_stream"),
                reason => Self::unknown(format!("reset: {}", describe(reason))),
            };
        }
        if error.is_io() {
            return Self::unknown("connection_cut");
        }
        Self::unknown(format!("protocol_error: {}", describe(error.reason())))
    }
}

impl From<&Unreachable> for TransportError {
    fn from(unreachable: &Unreachable) -> Self {
        match unreachable {
            Unreachable::Unresolved(cause) => Self::unsent_because(CONNECT_FAILED, cause),
            // The reason is the same as for a name that does not resolve. Otherwise the owner of an API
            // key could use invented addresses to learn which names the server's resolver knows.
            Unreachable::NotAllowed => Self::unsent(CONNECT_FAILED),
        }
    }
}

impl From<TransportError> for SendResult {
    fn from(failure: TransportError) -> Self {
        Self::Retry { reason: failure.reason, after: None, outcome: failure.outcome }
    }
}

/// The name of an HTTP/2 error code.
fn describe(reason: Option<H2Reason>) -> Cow<'static, str> {
    reason.map_or(Cow::Borrowed("unknown"), |reason| format!("{reason:?}").into())
}

/// The beginning of a cause, without control characters.
fn sanitized(cause: &str) -> String {
    cause.chars().filter(|c| !c.is_control()).take(CAUSE_CHARS_MAX).collect()
}
