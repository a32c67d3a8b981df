//! What can go wrong with a call, by whose doing it is: the caller, the network or the server.
//! No variant holds a key, a token or a body that was sent. The text of each is enough for a log: it
//! names the server and the innermost cause; [`std::error::Error::source`] has the layers in between.

use std::time::Duration;

use notify_core::Violations;
use url::Url;

/// Longest `Retry-After` that a client waits for. A server that asks for more is not asked again
/// before its time: the call ends with the error, which holds the delay.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(60);

/// A source of an error, of whatever type the layer below has.
type Source = Box<dyn std::error::Error + Send + Sync>;

/// Which key a call needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyKind {
    /// The application's.
    Api,
    /// The administrator's.
    Admin,
}

impl KeyKind {
    /// What the keys of a server begin with.
    pub(crate) fn prefix(self) -> &'static str {
        match self {
            Self::Api => "nk_",
            Self::Admin => "na_",
        }
    }
}

impl std::fmt::Display for KeyKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Api => "API key",
            Self::Admin => "admin key",
        })
    }
}

/// Why a call has no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The client cannot be built so: a base url, a key or a certificate that is none.
    #[error("{what}{}", source.as_deref().map_or_else(String::new, because))]
    Config {
        /// What is none, and why.
        what: String,
        /// What the layer below says of it.
        #[source]
        source: Option<Source>,
    },
    /// The call needs a key that the client does not have. Nothing was sent.
    #[error("no {0}")]
    NoKey(KeyKind),
    /// The call needs that key, and the client was given one of the other kind in its place: the
    /// prefix tells. Nothing was sent.
    #[error("{}", other_kind(*.0))]
    OtherKey(KeyKind),
    /// The request breaks rules of the API. Nothing was sent.
    #[error("{0}")]
    Invalid(Violations),
    /// 401: the key is missing, unknown or revoked, or its application is suspended.
    #[error("not authorised: {}", text(errors, 401))]
    Unauthorized {
        /// What the server says.
        errors: Vec<String>,
        /// The server's id of the request.
        request_id: Option<String>,
    },
    /// 404: nothing has that id, or the server has no such address.
    #[error("{call}: {}", text(errors, 404))]
    NotFound {
        /// The method and the path without ids: `GET /v1/devices/…`. A path of the base url leads it.
        call: String,
        /// What the server says.
        errors: Vec<String>,
        /// The server's id of the request.
        request_id: Option<String>,
    },
    /// Any other status below 500 that is not a success.
    #[error("{}", text(errors, *status))]
    Rejected {
        /// HTTP status.
        status: u16,
        /// Every broken rule, as `path: what is wrong`.
        errors: Vec<String>,
        /// The server's id of the request.
        request_id: Option<String>,
        /// When the server asks to try again.
        retry_after: Option<Duration>,
    },
    /// No connection could be made, so that nothing was sent.
    #[error("cannot connect to {origin}{}", because(&**source))]
    Connect {
        /// The server: scheme, host and port.
        origin: String,
        /// Why not.
        #[source]
        source: Source,
    },
    /// No whole answer came in time. What was asked for may have been done.
    #[error("{origin} did not answer in time")]
    Timeout {
        /// The server: scheme, host and port.
        origin: String,
        /// Which time limit it was.
        #[source]
        source: Source,
    },
    /// The connection failed on the way. What was asked for may have been done.
    #[error("the connection to {origin} failed{}", because(&**source))]
    Transport {
        /// The server: scheme, host and port.
        origin: String,
        /// How.
        #[source]
        source: Source,
    },
    /// The server failed (5xx).
    #[error(
        "the server failed with status {status}{}{}", said(errors),
        request(request_id.as_ref(), errors)
    )]
    Server {
        /// HTTP status.
        status: u16,
        /// What the server says; empty when a proxy in between answered.
        errors: Vec<String>,
        /// The server's id of the request; its log knows the cause by it.
        request_id: Option<String>,
        /// When the server asks to try again.
        retry_after: Option<Duration>,
    },
    /// A success whose body is not what the API says: another server, or a far newer one.
    #[error(
        "the answer with status {status} cannot be read{}{}", because(&**source),
        request(request_id.as_ref(), &[])
    )]
    Decode {
        /// HTTP status.
        status: u16,
        /// The server's id of the request.
        request_id: Option<String>,
        /// What is wrong with the body.
        #[source]
        source: Source,
    },
}

impl Error {
    /// A setting that is none, for a reason of our own.
    pub(crate) fn config(what: impl Into<String>) -> Self {
        Self::Config { what: what.into(), source: None }
    }

    /// HTTP status of the answer, when there was one.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        self.answer().map(|(status, _)| status)
    }

    /// The server's id of the request, when there was an answer that has one.
    #[must_use]
    pub fn request_id(&self) -> Option<&str> {
        self.answer().and_then(|(_, request_id)| request_id)
    }

    /// Status and request id of the answer, when there was one.
    fn answer(&self) -> Option<(u16, Option<&str>)> {
        let (status, request_id) = match self {
            Self::Unauthorized { request_id, .. } => (401, request_id),
            Self::NotFound { request_id, .. } => (404, request_id),
            Self::Rejected { status, request_id, .. }
            | Self::Server { status, request_id, .. }
            | Self::Decode { status, request_id, .. } => (*status, request_id),
            Self::Config { .. }
            | Self::NoKey(_)
            | Self::OtherKey(_)
            | Self::Invalid(_)
            | Self::Connect { .. }
            | Self::Timeout { .. }
            | Self::Transport { .. } => return None,
        };
        Some((status, request_id.as_deref()))
    }

    /// When the server asks to try again.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Rejected { retry_after, .. } | Self::Server { retry_after, .. } => *retry_after,
            Self::Config { .. }
            | Self::NoKey(_)
            | Self::OtherKey(_)
            | Self::Invalid(_)
            | Self::Unauthorized { .. }
            | Self::NotFound { .. }
            | Self::Connect { .. }
            | Self::Timeout { .. }
            | Self::Transport { .. }
            | Self::Decode { .. } => None,
        }
    }

    /// Whether the same call may go well later. The client has retried such a call already, unless
    /// retrying could have done a thing twice.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Connect { .. } | Self::Timeout { .. } | Self::Transport { .. } => true,
            // B4: 409 with `Retry-After` is a request of the same key still in flight.
            Self::Rejected { status: 409, retry_after, .. } => retry_after.is_some(),
            Self::Rejected { status, .. } => *status == 429,
            Self::Server { status, .. } => matches!(status, 502..=504),
            Self::Config { .. }
            | Self::NoKey(_)
            | Self::OtherKey(_)
            | Self::Invalid(_)
            | Self::Unauthorized { .. }
            | Self::NotFound { .. }
            | Self::Decode { .. } => false,
        }
    }

    /// Whether the server certainly did nothing of what was asked.
    pub(crate) fn did_nothing(&self) -> bool {
        match self {
            Self::Timeout { .. }
            | Self::Transport { .. }
            | Self::Server { .. }
            | Self::Decode { .. } => false,
            Self::Config { .. }
            | Self::NoKey(_)
            | Self::OtherKey(_)
            | Self::Invalid(_)
            | Self::Unauthorized { .. }
            | Self::NotFound { .. }
            | Self::Rejected { .. }
            | Self::Connect { .. } => true,
        }
    }

    /// No answer in time.
    pub(crate) fn timeout(base: &Url, source: impl Into<Source>) -> Self {
        Self::Timeout { origin: origin(base), source: source.into() }
    }

    /// The connection, or what came over it, is of no use.
    pub(crate) fn transport(base: &Url, source: impl Into<Source>) -> Self {
        Self::Transport { origin: origin(base), source: source.into() }
    }

    /// Both transports fail with the same type. Of the url its origin is told: its path may hold
    /// device ids.
    pub(crate) fn from_transport(base: &Url) -> impl Fn(reqwest::Error) -> Self {
        let origin = origin(base);
        move |error| {
            let (origin, error) = (origin.clone(), error.without_url());
            if error.is_builder() {
                let what = "the request cannot be built".to_owned();
                Self::Config { what, source: Some(Box::new(error)) }
            } else if error.is_connect() {
                Self::Connect { origin, source: Box::new(error) }
            } else if error.is_timeout() {
                Self::Timeout { origin, source: Box::new(error) }
            } else {
                Self::Transport { origin, source: Box::new(error) }
            }
        }
    }
}

fn origin(base: &Url) -> String {
    base.origin().ascii_serialization()
}

/// The innermost cause: those before it say in which layer, which helps nobody.
fn because(source: &(dyn std::error::Error + Send + Sync + 'static)) -> String {
    let source: &dyn std::error::Error = source;
    let causes = std::iter::successors(Some(source), |cause| cause.source());
    causes.last().map_or_else(String::new, |cause| format!(": {cause}"))
}

fn text(errors: &[String], status: u16) -> String {
    if errors.is_empty() { format!("status {status}") } else { errors.join("; ") }
}

fn said(errors: &[String]) -> String {
    if errors.is_empty() { String::new() } else { format!(": {}", errors.join("; ")) }
}

/// The request, unless the server has named it.
fn request(id: Option<&String>, errors: &[String]) -> String {
    let named = |id: &&String| !errors.iter().any(|error| error.contains(&***id));
    id.filter(named).map_or_else(String::new, |id| format!(" (request {id})"))
}

fn other_kind(needed: KeyKind) -> String {
    let other = match needed {
        KeyKind::Api => KeyKind::Admin,
        KeyKind::Admin => KeyKind::Api,
    };
    let (is, begins) = (other.prefix(), needed.prefix());
    format!(
        "the {needed} begins with `{is}`: that is an {other}; an {needed} begins with `{begins}`"
    )
}
