//! Why there is no answer, and whether the request may have been processed all the same.

use std::borrow::Cow;

use h2::Reason as H2Reason;

use crate::outbound::Unreachable;
use crate::providers::{Answer, Certainty, Reason};

/// Longest cause kept in a reason, in characters.
const CAUSE_CHARS_MAX: usize = 96;

/// The reason of an address that nothing is sent to.
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
    /// Whether the address is one that nothing is sent to, so that another try is of no use.
    pub(crate) is_not_allowed: bool,
}

impl Failure {
    fn new(reason: Reason, outcome: Certainty) -> Self {
        Self { reason, outcome, is_http1_only: false, is_not_allowed: false }
    }

    /// Nothing was sent.
    pub(crate) fn unsent(reason: impl Into<Reason>) -> Self {
        Self::new(reason.into(), Certainty::NotProcessed)
    }

    /// Nothing was sent, because of something with a cause worth telling.
    pub(crate) fn unsent_because(what: &str, cause: &dyn std::error::Error) -> Self {
        Self::unsent(format!("{what}: {}", cleaned(&cause.to_string())))
    }

    /// The server negotiated HTTP/1.1.
    pub(crate) fn http1_only() -> Self {
        Self { is_http1_only: true, ..Self::unsent("no_http2") }
    }

    /// Nothing was sent, since nothing may be sent there.
    pub(crate) fn not_allowed() -> Self {
        Self { is_not_allowed: true, ..Self::unsent(ADDRESS_NOT_ALLOWED) }
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
            Unreachable::Unresolved(cause) => Self::unsent_because("connect_failed", cause),
            Unreachable::NotAllowed => Self::not_allowed(),
        }
    }
}

impl From<Failure> for Answer {
    fn from(failure: Failure) -> Self {
        if failure.is_not_allowed {
            return Self::BadMessage { reason: failure.reason };
        }
        Self::Retry { reason: failure.reason, after: None, outcome: failure.outcome }
    }
}

fn describe(reason: Option<H2Reason>) -> Cow<'static, str> {
    reason.map_or(Cow::Borrowed("unknown"), |reason| format!("{reason:?}").into())
}

/// The beginning of a cause, printable.
fn cleaned(cause: &str) -> String {
    cause.chars().filter(|c| !c.is_control()).take(CAUSE_CHARS_MAX).collect()
}
