//! HTTP/1.1, for requests that do not use HTTP/2: to the token endpoint, to an `endpoint` with plain
//! `http`, and to a server that does not offer HTTP/2. The client follows no redirect and uses no proxy.

use bytes::Bytes;
use http::HeaderMap;
use rustls::RootCertStore;
use tokio::time::{Instant, timeout_at};

use super::CONNECT_TIMEOUT;
use super::response::{Body, ProviderResponse};
use crate::outbound::{Guarded, Outbound, plain_client, trusting, unreachable};
use crate::providers::transport::RemoteTime;
use crate::providers::transport::dial::{TlsConfigs, Trust};
use crate::providers::transport::response::TransportError;
use crate::reasons;

/// Most idle connections kept to one host.
pub(super) const HTTP1_CONNECTIONS_KEPT: usize = 64;

/// Longest wait for the body of a response if only its head is needed.
const BODY_WAIT: std::time::Duration = std::time::Duration::from_millis(500);

/// A client with one set of trusted roots.
#[derive(Clone)]
pub(crate) struct Http1 {
    client: reqwest::Client,
    has_extra_trust: bool,
    remote_time: RemoteTime,
}

impl Http1 {
    /// Makes a client.
    pub(crate) fn new(tls: &TlsConfigs, trust: &Trust) -> Self {
        Self::with(tls, trust, None)
    }

    /// Makes a client for user-supplied names. Its guard checks the addresses of resolved names only. A URL may
    /// contain an address instead of a name, so the caller must first check it with [`Outbound::target`].
    pub(crate) fn guarded(tls: &TlsConfigs, trust: &Trust, guard: &Outbound) -> Self {
        Self::with(tls, trust, Some(guard))
    }

    /// A client for names that users give, with the system's roots.
    pub(crate) fn to_users(guard: &Outbound) -> Self {
        Self::guarded(&TlsConfigs::default(), &None, guard)
    }

    fn with(tls: &TlsConfigs, trust: &Trust, guard: Option<&Outbound>) -> Self {
        let has_extra_trust = trust.is_some();
        let no_roots = || trusting(RootCertStore::empty());
        let tls = tls.get(trust, &[]).map_or_else(no_roots, |config| (*config).clone());
        let mut builder = plain_client(tls);
        if let Some(guard) = guard {
            builder = builder.dns_resolver(Guarded(guard.clone()));
        }
        let client = builder
            .connect_timeout(CONNECT_TIMEOUT)
            .pool_max_idle_per_host(HTTP1_CONNECTIONS_KEPT)
            .tcp_nodelay(true)
            .build()
            .expect("building a client with given TLS settings cannot fail");
        Self { client, has_extra_trust, remote_time: RemoteTime::default() }
    }

    /// The time of the server that responded last.
    pub(crate) fn remote_time(&self) -> &RemoteTime {
        &self.remote_time
    }

    /// Posts a body and returns the response.
    pub(crate) async fn post(
        &self,
        url: &str,
        headers: HeaderMap,
        body: Bytes,
        deadline: Instant,
    ) -> Result<ProviderResponse, TransportError> {
        self.exchange(self.client.post(url).headers(headers).body(body), deadline).await
    }

    /// Makes a GET request.
    pub(crate) async fn get(
        &self,
        url: &str,
        headers: HeaderMap,
        deadline: Instant,
    ) -> Result<ProviderResponse, TransportError> {
        self.exchange(self.client.get(url).headers(headers), deadline).await
    }

    /// Posts a body and returns only the head of the response, because a hostile peer could send the body
    /// slowly. A short body is still read, so that the connection can be used again.
    pub(crate) async fn post_for_head(
        &self,
        url: &str,
        headers: HeaderMap,
        body: Bytes,
        deadline: Instant,
    ) -> Result<(http::StatusCode, HeaderMap), TransportError> {
        let request = self.client.post(url).headers(headers).body(body);
        let mut response = self.send(request, deadline).await?;
        let (mut body, until) = (Body::default(), deadline.min(Instant::now() + BODY_WAIT));
        while let Ok(Ok(Some(chunk))) = timeout_at(until, response.chunk()).await {
            if body.push(chunk) {
                break;
            }
        }
        Ok((response.status(), std::mem::take(response.headers_mut())))
    }

    /// Sends a request and reads the response.
    async fn exchange(
        &self,
        request: reqwest::RequestBuilder,
        deadline: Instant,
    ) -> Result<ProviderResponse, TransportError> {
        let mut response = self.send(request, deadline).await?;
        let mut body = Body::default();
        // An incomplete body is not an error, as in `read_body`.
        while let Ok(Ok(Some(chunk))) = timeout_at(deadline, response.chunk()).await {
            if body.push(chunk) {
                break;
            }
        }
        let headers = std::mem::take(response.headers_mut());
        self.remote_time.record(&headers);
        Ok(ProviderResponse {
            status: response.status(),
            headers,
            body: body.finish(),
            connection: 0,
        })
    }

    /// Sends a request and returns the response, of which only the head was read.
    async fn send(
        &self,
        request: reqwest::RequestBuilder,
        deadline: Instant,
    ) -> Result<reqwest::Response, TransportError> {
        let Ok(result) = timeout_at(deadline, request.send()).await else {
            return Err(TransportError::unknown(reasons::TIMEOUT));
        };
        result.map_err(|error| self.failure(&error))
    }

    /// The failure of a request, and whether the request may have been processed.
    fn failure(&self, error: &reqwest::Error) -> TransportError {
        if let Some(cause) = unreachable(error) {
            TransportError::from(cause)
        } else if error.is_connect() || error.is_builder() {
            let cause = innermost(error);
            TransportError::unconnected(cause, self.has_extra_trust)
        } else {
            TransportError::unknown("connection_cut")
        }
    }
}

/// The innermost cause of an error. The outer ones contain the URL, or only report that something failed.
fn innermost(error: &reqwest::Error) -> &(dyn std::error::Error + 'static) {
    let mut cause: &(dyn std::error::Error + 'static) = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause
}
