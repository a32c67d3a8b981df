//! The HTTP transport of the providers. HTTP/2 uses `h2` directly over TLS, with a small pool of
//! connections for each origin, credential and set of trusted roots. The transport makes one request and
//! returns the response, which the provider interprets. It runs on the engine's current-thread runtime.

mod coalesced;
mod connection;
mod dial;
mod http1;
mod pool;
mod remote_time;
mod response;
#[cfg(test)]
mod tests;

pub(crate) use dial::Protocols;
pub(crate) use dial::Trust;
pub(crate) use http1::Http1;
pub(crate) use pool::{Pool, Pools};
pub(crate) use remote_time::RemoteTime;
pub(crate) use response::ProviderResponse;
pub(crate) use response::{
    ADDRESS_NOT_ALLOWED, CONNECT_FAILED, CONNECT_TIMED_OUT, PROXY_FAILED, TransportError,
};

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Uri, Version};
use tokio::time::Instant;

use self::http1::HTTP1_CONNECTIONS_KEPT;
use crate::outbound::Outbound;
use crate::provider_config::BaseUrl;

/// Most connections of one pool. With 100 streams each and 100 ms a request, 8 connections make 8,000
/// requests a second. Google's quota for a project, 600,000 a minute, is close to that.
pub(crate) const CONNECTIONS_MAX: usize = 8;
/// Most streams used of one connection, even if the server offers more.
pub(crate) const STREAMS_MAX: usize = 1_000;
/// Streams assumed before the first connection reports its limit.
pub(crate) const STREAMS_ASSUMED: usize = 100;

/// Longest wait for a connection to a host, through the proxy if there is one, and without TLS to the host.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest wait for the TLS handshake.
const TLS_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest wait for the server's first SETTINGS.
const SETTINGS_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval of pings on a connection with open streams, and the timeout of a ping.
const PING_INTERVAL: Duration = Duration::from_secs(15);
/// How long a connection may wait for its first response before another connection is opened.
const FIRST_RESPONSE_WAIT: Duration = Duration::from_secs(2);
/// Interval of pings on an idle connection. Apple recommends one ping an hour.
const PING_INTERVAL_IDLE: Duration = Duration::from_secs(3_600);
/// Shortest time between two connections to an origin that fails.
const RECONNECT_INTERVAL: Duration = Duration::from_secs(1);
/// Number of responses from which a connection does not count as failed, even if it ended within
/// [`RECONNECT_INTERVAL`]. Common servers replace a connection after 100 or 1,000 requests, which takes
/// only milliseconds at full speed.
const MIN_RESPONSES_FOR_HEALTHY: usize = 100;
/// How often a request that was not processed is resent at once. More than one resend can be needed: the
/// peer may be replacing all its connections, and each of them refuses the request with a GOAWAY.
const RESENDS_MAX: u32 = 2;
/// Most bytes of header fields read from a response.
const RESPONSE_HEADER_BYTES_MAX: u32 = 32_768;

/// The head of a POST over HTTP/2.
pub(crate) fn http2_post(uri: Uri, headers: HeaderMap) -> Request<()> {
    let mut request = Request::new(());
    *request.method_mut() = Method::POST;
    *request.version_mut() = Version::HTTP_2;
    *request.uri_mut() = uri;
    *request.headers_mut() = headers;
    request
}

/// Sends messages to an endpoint.
pub(crate) struct Sender {
    pool: Arc<Pool>,
    http1: Http1,
    is_http1: AtomicBool,
}

impl Sender {
    /// A sender to an endpoint that an administrator configured. `credential` identifies the credential
    /// without containing it. No connection is opened before a message is sent.
    pub(crate) fn new(pools: &Pools, base_url: &BaseUrl, credential: String, trust: Trust) -> Self {
        Self {
            http1: Http1::new(pools.tls(), &trust, pools.unguarded())
                .recording(pools.provider_time()),
            pool: pools.get(base_url, credential, trust, Protocols::Http2OrHttp1),
            // Without TLS the protocol cannot be negotiated. Only APNs uses HTTP/2 without TLS, and APNs
            // does not use this sender.
            is_http1: AtomicBool::new(!base_url.tls),
        }
    }

    /// A sender to a user-supplied endpoint. `guard` decides which addresses may be connected to, and
    /// `http1` is a client with the same guard and trusted roots.
    pub(crate) fn guarded(
        pools: &Pools,
        base_url: &BaseUrl,
        trust: Trust,
        http1: Http1,
        guard: &Outbound,
    ) -> Self {
        let pool = pools.get_guarded(base_url, trust, guard);
        Self { pool, http1, is_http1: AtomicBool::new(false) }
    }

    /// The client for requests other than messages, such as token endpoints.
    pub(crate) fn http1(&self) -> &Http1 {
        &self.http1
    }

    /// Posts a body over HTTP/2. If the server speaks only HTTP/1.1, the request is repeated over
    /// HTTP/1.1, and so are all later requests of this sender. `headers` builds the header fields for each
    /// try.
    ///
    /// # Errors
    /// When there is no response before the deadline.
    pub(crate) async fn post(
        &self,
        uri: &Uri,
        headers: impl Fn() -> HeaderMap,
        body: &Bytes,
        deadline: Instant,
    ) -> Result<ProviderResponse, TransportError> {
        if !self.is_http1.load(Ordering::Relaxed) {
            let build = || http2_post(uri.clone(), headers());
            match self.pool.send(build, body.clone(), deadline).await {
                // The server does not speak HTTP/2: the request continues below, over HTTP/1.1.
                Err(failure) if failure.is_http1_only => {
                    self.is_http1.store(true, Ordering::Relaxed);
                }
                result => return result,
            }
        }
        self.http1.post(&uri.to_string(), headers(), body.clone(), deadline).await
    }

    /// The time of the endpoint.
    pub(crate) fn remote_time(&self) -> &RemoteTime {
        if self.is_http1.load(Ordering::Relaxed) {
            self.http1.remote_time()
        } else {
            self.pool.remote_time()
        }
    }

    /// How many requests can usefully run at the same time.
    pub(crate) fn max_concurrency(&self) -> usize {
        if self.is_http1.load(Ordering::Relaxed) {
            return HTTP1_CONNECTIONS_KEPT;
        }
        self.pool.max_concurrency().unwrap_or(STREAMS_ASSUMED).max(1)
    }
}
