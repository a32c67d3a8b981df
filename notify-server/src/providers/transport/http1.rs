//! HTTP/1.1, for requests that do not use HTTP/2: to the token endpoint, to an `endpoint` with plain
//! `http`, and to a server that does not offer HTTP/2.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Method, Response};
use hyper::body::Incoming;
use rustls::RootCertStore;
use tokio::time::{Instant, timeout_at};

use super::CONNECT_TIMEOUT;
use super::response::{Body, CONNECT_FAILED, ProviderResponse};
use crate::outbound::{HttpClient, Outbound, RequestError, next_chunk, trusting};
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
    client: HttpClient,
    has_extra_trust: bool,
    remote_time: RemoteTime,
}

impl Http1 {
    /// Makes a client. `outbound` connects, and decides which addresses may be connected to.
    pub(crate) fn new(tls: &TlsConfigs, trust: &Trust, outbound: &Outbound) -> Self {
        let without_roots = || Arc::new(trusting(RootCertStore::empty()));
        let tls_config = tls.get(trust, &[]).unwrap_or_else(without_roots);
        Self {
            client: HttpClient::new(outbound, tls_config, CONNECT_TIMEOUT, HTTP1_CONNECTIONS_KEPT),
            has_extra_trust: trust.is_some(),
            remote_time: RemoteTime::default(),
        }
    }

    /// A client for names that users give, with the system's roots.
    pub(crate) fn to_users(guard: &Outbound) -> Self {
        Self::new(&TlsConfigs::default(), &None, guard)
    }

    /// The same client, which records the times of its responses there.
    pub(crate) fn recording(self, remote_time: RemoteTime) -> Self {
        Self { remote_time, ..self }
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
        self.exchange(Method::POST, url, headers, body, deadline).await
    }

    /// Makes a GET request.
    pub(crate) async fn get(
        &self,
        url: &str,
        headers: HeaderMap,
        deadline: Instant,
    ) -> Result<ProviderResponse, TransportError> {
        self.exchange(Method::GET, url, headers, Bytes::new(), deadline).await
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
        let response = self.send(Method::POST, url, headers, body, deadline).await?;
        let (head, mut incoming) = response.into_parts();
        read_body(&mut incoming, deadline.min(Instant::now() + BODY_WAIT)).await;
        Ok((head.status, head.headers))
    }

    /// Sends a request and reads the response.
    async fn exchange(
        &self,
        method: Method,
        url: &str,
        headers: HeaderMap,
        body: Bytes,
        deadline: Instant,
    ) -> Result<ProviderResponse, TransportError> {
        let response = self.send(method, url, headers, body, deadline).await?;
        let (head, mut incoming) = response.into_parts();
        self.remote_time.record(&head.headers);
        let body = read_body(&mut incoming, deadline).await;
        Ok(ProviderResponse { status: head.status, headers: head.headers, body, connection: 0 })
    }

    /// Sends a request and returns the response, of which only the head was read.
    async fn send(
        &self,
        method: Method,
        url: &str,
        headers: HeaderMap,
        body: Bytes,
        deadline: Instant,
    ) -> Result<Response<Incoming>, TransportError> {
        match timeout_at(deadline, self.client.send(method, url, headers, body)).await {
            Ok(result) => result.map_err(|error| self.failure(&error)),
            Err(_) => Err(TransportError::unknown(reasons::TIMEOUT)),
        }
    }

    /// The failure of a request, and whether the request may have been processed.
    fn failure(&self, error: &RequestError) -> TransportError {
        match (error, error.dial_error()) {
            (_, Some(cause)) => TransportError::of_dial(cause, self.has_extra_trust),
            (RequestError::Url(cause), None) => {
                TransportError::unsent_because(CONNECT_FAILED, cause)
            }
            (RequestError::Failed(_), None) => TransportError::unknown("connection_cut"),
        }
    }
}

/// Reads a body until it ends, breaks off, is too long or too slow. An incomplete body is not an error, as over HTTP/2.
async fn read_body(incoming: &mut Incoming, deadline: Instant) -> Bytes {
    let mut body = Body::default();
    while let Ok(Ok(Some(chunk))) = timeout_at(deadline, next_chunk(incoming)).await {
        if body.push(chunk) {
            break;
        }
    }
    body.finish()
}
