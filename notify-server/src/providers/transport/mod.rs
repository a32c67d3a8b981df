//! The HTTP/2 sender: `h2` driven directly over TLS, a small pool per origin, credential and trust.
//! It makes one request and says what came of it; what that means is the provider's to tell. Runs
//! on the engine's current-thread runtime.

mod connection;
mod dial;
mod http1;
mod pool;
mod response;
mod sender;
#[cfg(test)]
mod tests;

pub(crate) use dial::Protocols;
pub(crate) use dial::Trust;
pub(crate) use http1::Http1;
pub(crate) use pool::{Pool, Pools};
pub(crate) use response::Reply;
pub(crate) use response::{ADDRESS_NOT_ALLOWED, CONNECT_FAILED, Failure};
pub(crate) use sender::Sender;

use std::time::Duration;

use http::{HeaderMap, Method, Request, Uri, Version};

/// Most connections of one pool: 8 × 100 streams at 100 ms are 8,000 requests a second, near
/// Google's quota for a project, 600,000 a minute.
pub(crate) const CONNECTIONS_MAX: usize = 8;
/// Most streams used of one connection, whatever the server offers.
pub(crate) const STREAMS_MAX: usize = 1_000;
/// Streams to count on before the first connection tells.
pub(crate) const STREAMS_ASSUMED: usize = 100;

/// Longest wait for TCP.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest wait for one address of several: a dead IPv6 route must not use up the whole.
const ADDRESS_TIMEOUT: Duration = Duration::from_secs(4);
/// Longest wait for the TLS handshake.
const TLS_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest wait for the server's first SETTINGS.
const SETTINGS_TIMEOUT: Duration = Duration::from_secs(10);
/// How often a connection with open streams is asked for a sign of life, and how long it may take.
const PING_INTERVAL: Duration = Duration::from_secs(15);
/// How long a connection may owe its first answer before another is opened beside it.
const PROOF_WAIT: Duration = Duration::from_secs(2);
/// How often an idle connection is: Apple asks for once an hour.
const PING_INTERVAL_IDLE: Duration = Duration::from_secs(3_600);
/// Least time between connections to an origin that fails.
const RECONNECT_INTERVAL: Duration = Duration::from_secs(1);
/// Answers after which a connection that ended within that time did not fail. Common servers replace
/// one after 100 or 1,000 requests, which at full speed takes milliseconds.
const ANSWERS_OF_A_LIFE: usize = 100;
/// How often a request that was not processed is sent again at once. The peer may be replacing
/// its connections one by one, each with a GOAWAY.
const RESENDS_MAX: u32 = 2;
/// Most bytes of header fields read of an answer.
const ANSWER_HEADER_BYTES_MAX: u32 = 32_768;

/// The head of a POST over HTTP/2.
pub(crate) fn http2_post(uri: Uri, headers: HeaderMap) -> Request<()> {
    let mut request = Request::new(());
    *request.method_mut() = Method::POST;
    *request.version_mut() = Version::HTTP_2;
    *request.uri_mut() = uri;
    *request.headers_mut() = headers;
    request
}
