//! Errors of a call, which distinguish the caller's mistakes, network failures and server failures.
//!
//! No variant contains a key, a token or a request body. The message is enough for a log: it has the
//! server and the innermost cause. [`std::error::Error::source`] has the layers in between.

use std::time::Duration;

use notify_core::Violations;
use url::Url;

use crate::proxy::proxy_to;

/// Longest `Retry-After` that a client waits for. If the server asks for a longer delay, the call ends
/// with the error, which contains the delay.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(60);

/// The source of an error, of any type.
type Source = Box<dyn std::error::Error + Send + Sync>;

/// A kind of key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyKind {
    /// The API key of an application.
    Api,
    /// The admin key.
    Admin,
}

impl KeyKind {
    /// The prefix of every key of this kind.
    pub(crate) fn prefix(self) -> &'static str {
        match self {
            Self::Api => "nk_",
            Self::Admin => "na_",
        }
    }

    pub(crate) fn other(self) -> Self {
        match self {
            Self::Api => Self::Admin,
            Self::Admin => Self::Api,
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

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A setting of the client is invalid, such as the base url, a key or a certificate.
    #[error("{message}{}", source.as_deref().map_or_else(String::new, cause_suffix))]
    Config {
        /// Which setting, and why.
        message: String,
        /// The cause, if a library reported one.
        #[source]
        source: Option<Source>,
    },
    /// The client does not have the key that the call needs. No request was sent.
    #[error("no {0}")]
    MissingKey(KeyKind),
    /// The call needs a key of this kind, but the prefix of the client's key is that of the other kind. No
    /// request was sent.
    #[error("{}", wrong_key(*.0))]
    WrongKey(KeyKind),
    /// The request breaks rules of the API. It was not sent.
    #[error("{0}")]
    Invalid(Violations),
    /// 401: the key is missing, unknown or revoked, or its application is suspended.
    #[error("not authorised: {}", errors_or_status(errors, 401))]
    Unauthorized {
        /// The messages of the server.
        errors: Vec<String>,
        /// The server's id of the request.
        request_id: Option<String>,
    },
    /// 404: the id is unknown, or the server has no such endpoint.
    #[error("{call}: {}", errors_or_status(errors, 404))]
    NotFound {
        /// The method and the path without ids: `GET /v1/devices/…`, after the path of the base url.
        call: String,
        /// The messages of the server.
        errors: Vec<String>,
        /// The server's id of the request.
        request_id: Option<String>,
    },
    /// Any other status below 500 that is not a success.
    #[error("{}", errors_or_status(errors, *status))]
    Rejected {
        /// HTTP status.
        status: u16,
        /// Every broken rule, as `path: rule`.
        errors: Vec<String>,
        /// The server's id of the request.
        request_id: Option<String>,
        /// The `Retry-After` of the response.
        retry_after: Option<Duration>,
    },
    /// The connection failed to open; no request was sent.
    #[error("cannot connect to {origin}{}", cause_suffix(&**source))]
    Connect {
        /// The server: scheme, host and port. If there is a proxy, its host and port follow in parentheses.
        origin: String,
        /// The cause.
        #[source]
        source: Source,
    },
    /// The response was not complete in time. The server may have executed the call.
    #[error("{origin} did not answer in time")]
    Timeout {
        /// The server: scheme, host and port. If there is a proxy, its host and port follow in parentheses.
        origin: String,
        /// The cause.
        #[source]
        source: Source,
    },
    /// The connection was lost. The server may have executed the call.
    #[error("the connection to {origin} failed{}", cause_suffix(&**source))]
    Transport {
        /// The server: scheme, host and port. If there is a proxy, its host and port follow in parentheses.
        origin: String,
        /// The cause.
        #[source]
        source: Source,
    },
    /// The server failed (5xx).
    #[error(
        "the server failed with status {status}{}{}", errors_suffix(errors),
        request_suffix(request_id.as_ref(), errors)
    )]
    Server {
        /// HTTP status.
        status: u16,
        /// The messages of the server; empty if a proxy answered.
        errors: Vec<String>,
        /// The server's id of the request. The server's log has the cause under this id.
        request_id: Option<String>,
        /// The `Retry-After` of the response.
        retry_after: Option<Duration>,
    },
    /// A success whose body is not a response of the API. Probably another kind of server sent it, or a
    /// much newer version.
    #[error(
        "the response with status {status} cannot be decoded{}{}", cause_suffix(&**source),
        request_suffix(request_id.as_ref(), &[])
    )]
    Decode {
        /// HTTP status.
        status: u16,
        /// The server's id of the request.
        request_id: Option<String>,
        /// The cause.
        #[source]
        source: Source,
    },
}

impl Error {
    /// An invalid setting.
    pub(crate) fn config(message: impl Into<String>) -> Self {
        Self::Config { message: message.into(), source: None }
    }

    /// HTTP status of the response, if there was one.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        self.response().map(|(status, _)| status)
    }

    /// The server's id of the request, if there was a response with one.
    #[must_use]
    pub fn request_id(&self) -> Option<&str> {
        self.response().and_then(|(_, request_id)| request_id)
    }

    /// Status and request id of the response, if there was one.
    fn response(&self) -> Option<(u16, Option<&str>)> {
        let (status, request_id) = match self {
            Self::Unauthorized { request_id, .. } => (401, request_id),
            Self::NotFound { request_id, .. } => (404, request_id),
            Self::Rejected { status, request_id, .. }
            | Self::Server { status, request_id, .. }
            | Self::Decode { status, request_id, .. } => (*status, request_id),
            _ => return None,
        };
        Some((status, request_id.as_deref()))
    }

    /// The `Retry-After` of the response.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Rejected { retry_after, .. } | Self::Server { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// Whether the same call may succeed later. The client has already retried such a call, unless a
    /// retry could have executed the call twice.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Connect { .. } | Self::Timeout { .. } | Self::Transport { .. } => true,
            // 409 with `Retry-After`: an earlier request with the same key is still in flight.
            Self::Rejected { status: 409, retry_after, .. } => retry_after.is_some(),
            Self::Rejected { status, .. } => *status == 429,
            Self::Server { status, .. } => matches!(status, 502..=504),
            _ => false,
        }
    }

    /// Whether the server may have executed the call in spite of this error.
    pub(crate) fn may_be_executed(&self) -> bool {
        matches!(
            self,
            Self::Timeout { .. }
                | Self::Transport { .. }
                | Self::Server { .. }
                | Self::Decode { .. }
        )
    }

    /// The error of a response that was not complete in time.
    pub(crate) fn timeout(base: &Url, source: impl Into<Source>) -> Self {
        Self::Timeout { origin: origin(base), source: source.into() }
    }

    /// The error of a connection that was lost, or whose data is unusable.
    pub(crate) fn transport(base: &Url, source: impl Into<Source>) -> Self {
        Self::Transport { origin: origin(base), source: source.into() }
    }

    /// Returns the function that converts an error of reqwest. Of the url, the result contains only the
    /// origin, because the path may contain device ids.
    pub(crate) fn from_transport(base: &Url) -> impl Fn(reqwest::Error) -> Self {
        let origin = origin(base);
        move |error| {
            let (origin, error) = (origin.clone(), error.without_url());
            if error.is_builder() {
                let message = "the request cannot be built".to_owned();
                Self::Config { message, source: Some(Box::new(error)) }
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

/// The server, and the proxy on the way to it.
fn origin(base: &Url) -> String {
    let origin = base.origin().ascii_serialization();
    match proxy_to(base) {
        Some(proxy) => format!("{origin} (through the proxy {proxy})"),
        None => origin,
    }
}

/// The end of a message: `: ` and the innermost cause. The outer causes only name layers of the HTTP
/// client.
fn cause_suffix(source: &(dyn std::error::Error + Send + Sync + 'static)) -> String {
    let source: &dyn std::error::Error = source;
    let causes = std::iter::successors(Some(source), |cause| cause.source());
    causes.last().map_or_else(String::new, |cause| format!(": {cause}"))
}

/// The messages of the server, or the status if there are none.
fn errors_or_status(errors: &[String], status: u16) -> String {
    if errors.is_empty() { format!("status {status}") } else { errors.join("; ") }
}

fn errors_suffix(errors: &[String]) -> String {
    if errors.is_empty() { String::new() } else { format!(": {}", errors.join("; ")) }
}

/// The end of a message: the id of the request in parentheses. It is empty if there is no id, or if one of
/// the server's messages contains it.
fn request_suffix(id: Option<&String>, errors: &[String]) -> String {
    match id {
        Some(id) if !errors.iter().any(|error| error.contains(id)) => format!(" (request {id})"),
        Some(_) | None => String::new(),
    }
}

fn wrong_key(needed: KeyKind) -> String {
    let given = needed.other();
    let (given_prefix, prefix) = (given.prefix(), needed.prefix());
    format!(
        "the {needed} begins with `{given_prefix}`: that is an {given}; an {needed} begins with \
         `{prefix}`"
    )
}
