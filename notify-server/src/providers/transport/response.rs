//! An answer, read within bounds: whoever answers may not be who was meant.

use std::borrow::Cow;
use std::error::Error;
use std::io;

use bytes::{Bytes, BytesMut};
use h2::{Reason as H2Reason, RecvStream};
use http::{HeaderMap, StatusCode};
use rustls::CertificateError;
use tokio::time::{Instant, timeout_at};

use crate::outbound::Unreachable;
use crate::providers::{ANSWER_BYTES_MAX, Answer, Certainty, Reason};

/// What the server answered.
#[derive(Debug)]
pub(crate) struct Reply {
    /// Status.
    pub(crate) status: StatusCode,
    /// Header fields.
    pub(crate) headers: HeaderMap,
    /// Body, at most [`ANSWER_BYTES_MAX`] of it; less when it broke off or took too long.
    pub(crate) body: Bytes,
    /// Which connection it came by; see `Pool::retire`.
    pub(crate) connection: u64,
}

/// Reads a body until it ends, breaks off, is too long or too slow: the status has told what
/// matters, and a message that was taken must not be repeated for the rest of an answer. Dropping the
/// stream afterwards cancels what is left of it.
pub(super) async fn read_body(mut stream: RecvStream, deadline: Instant) -> Bytes {
    if stream.is_end_stream() {
        return Bytes::new();
    }
    let mut body = Body::default();
    while let Ok(Some(Ok(chunk))) = timeout_at(deadline, stream.data()).await {
        // Fails only on a stream that is gone, which the next read tells as well.
        let _ = stream.flow_control().release_capacity(chunk.len());
        if body.is_full_after(chunk) {
            break;
        }
    }
    body.finish()
}

/// A body as it comes in; one chunk is taken as it is.
#[derive(Default)]
pub(super) struct Body {
    first: Bytes,
    rest: BytesMut,
}

impl Body {
    /// Takes a chunk, up to the limit; tells whether the limit is reached.
    pub(super) fn is_full_after(&mut self, mut chunk: Bytes) -> bool {
        let room = ANSWER_BYTES_MAX - self.first.len().max(self.rest.len());
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

    pub(super) fn finish(self) -> Bytes {
        if self.rest.is_empty() { self.first } else { self.rest.freeze() }
    }
}

// Why there is no answer, and whether the request may have been processed all the same.

/// Longest cause kept in a reason, in characters.
const CAUSE_CHARS_MAX: usize = 96;

/// The reason of a connection that is not made.
pub(crate) const CONNECT_FAILED: &str = "connect_failed";
/// The reason of a url that names an address that nothing is sent to.
pub(crate) const ADDRESS_NOT_ALLOWED: &str = "address_not_allowed";

/// A request without an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    /// What broke.
    pub(crate) reason: Reason,
    /// Whether it may have been processed.
    pub(crate) outcome: Certainty,
    /// Whether the server speaks no HTTP/2, so that HTTP/1.1 may be tried.
    pub(crate) is_http1_only: bool,
}

impl Failure {
    fn new(reason: Reason, outcome: Certainty) -> Self {
        Self { reason, outcome, is_http1_only: false }
    }

    /// Nothing was sent.
    pub(crate) fn unsent(reason: impl Into<Reason>) -> Self {
        Self::new(reason.into(), Certainty::NotProcessed)
    }

    /// Nothing was sent, because of something with a cause worth telling.
    pub(crate) fn unsent_because(what: &str, cause: &dyn Error) -> Self {
        Self::unsent(format!("{what}: {}", cleaned(&cause.to_string())))
    }

    /// No connection was made. A certificate that cannot be verified has a cure that its error does
    /// not tell; `has_extra_trust` says whether there is a `ca_certificate`.
    pub(super) fn unconnected(
        what: &str,
        cause: &(dyn Error + 'static),
        has_extra_trust: bool,
    ) -> Self {
        let mut failure = Self::unsent_because(what, cause);
        if let Some(cure) = certificate_cure(cause, has_extra_trust) {
            failure.reason = format!("{}; {cure}", failure.reason).into();
        }
        failure
    }

    /// The server negotiated HTTP/1.1.
    pub(crate) fn http1_only() -> Self {
        Self { is_http1_only: true, ..Self::unsent("no_http2") }
    }

    /// It was sent and nothing came back.
    pub(crate) fn unknown(reason: impl Into<Reason>) -> Self {
        Self::new(reason.into(), Certainty::Unknown)
    }

    /// The same without what the peer said: where a user chose the peer, its words must not be
    /// shown, nor be a reason of their own each time.
    pub(crate) fn without_cause(self) -> Self {
        let word = self.reason.split(':').next().unwrap_or_default().to_owned();
        Self { reason: word.into(), ..self }
    }

    /// What an error on an open stream means (RFC 9113 §6.8, §8.7): a GOAWAY of the peer reaches
    /// only streams above its last id, and `REFUSED_STREAM` promises that nothing was done.
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

impl From<&Unreachable> for Failure {
    fn from(unreachable: &Unreachable) -> Self {
        match unreachable {
            Unreachable::Unresolved(cause) => Self::unsent_because(CONNECT_FAILED, cause),
            // As a name that does not resolve: an API key must not learn by addresses that it invents
            // which names a resolver behind the server knows.
            Unreachable::NotAllowed => Self::unsent(CONNECT_FAILED),
        }
    }
}

impl From<Failure> for Answer {
    fn from(failure: Failure) -> Self {
        Self::Retry { reason: failure.reason, after: None, outcome: failure.outcome }
    }
}

fn describe(reason: Option<H2Reason>) -> Cow<'static, str> {
    reason.map_or(Cow::Borrowed("unknown"), |reason| format!("{reason:?}").into())
}

/// What to do about a certificate that no authority trusted here has signed. An authority that was
/// made anew under the same name, as the sandbox's is, shows as a bad signature.
fn certificate_cure(cause: &(dyn Error + 'static), has_extra_trust: bool) -> Option<&'static str> {
    let rustls::Error::InvalidCertificate(wrong) = tls_error(cause)? else { return None };
    let is_untrusted =
        matches!(wrong, CertificateError::BadSignature | CertificateError::UnknownIssuer);
    match (is_untrusted, has_extra_trust) {
        (false, _) => None,
        (true, true) => Some("ca_certificate is another one: was the sandbox restarted?"),
        (true, false) => Some("ca_certificate is not set, and the system does not trust it"),
    }
}

/// The error of TLS, which comes inside errors of I/O; those hide it from `source`.
fn tls_error<'e>(cause: &'e (dyn Error + 'static)) -> Option<&'e rustls::Error> {
    cause.downcast_ref().or_else(|| tls_error(cause.downcast_ref::<io::Error>()?.get_ref()?))
}

/// The beginning of a cause, printable.
fn cleaned(cause: &str) -> String {
    cause.chars().filter(|c| !c.is_control()).take(CAUSE_CHARS_MAX).collect()
}
