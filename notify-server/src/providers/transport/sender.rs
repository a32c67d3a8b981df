//! One endpoint with one credential: HTTP/2, or HTTP/1.1 if it speaks nothing else.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use http::HeaderMap;
use http::uri::Uri;
use tokio::time::Instant;

use crate::outbound::Outbound;
use crate::provider_config::BaseUrl;
use crate::providers::transport::dial::{Protocols, Trust};
use crate::providers::transport::http1::{HTTP1_CONNECTIONS_KEPT, Http1};
use crate::providers::transport::pool::{Pool, Pools};
use crate::providers::transport::response::{ProviderResponse, TransportError};
use crate::providers::transport::{STREAMS_ASSUMED, http2_post};

/// Sends messages to an endpoint.
pub(crate) struct Sender {
    pool: Arc<Pool>,
    http1: Http1,
    is_http1: AtomicBool,
}

impl Sender {
    /// `credential` identifies the credential without containing it. No connection is opened before a
    /// message is sent.
    pub(crate) fn new(pools: &Pools, base_url: &BaseUrl, credential: String, trust: Trust) -> Self {
        Self {
            http1: Http1::new(pools.tls(), &trust),
            pool: pools.get(base_url, credential, trust, Protocols::Http2OrHttp1),
            // Only APNs uses HTTP/2 without TLS.
            is_http1: AtomicBool::new(!base_url.tls),
        }
    }

    /// A sender to a user-supplied endpoint.
    pub(crate) fn guarded(
        pools: &Pools,
        base_url: &BaseUrl,
        (trust, http1): (Trust, Http1),
        guard: &Outbound,
    ) -> Self {
        let pool = pools.get_guarded(base_url, trust, guard);
        Self { pool, http1, is_http1: AtomicBool::new(false) }
    }

    /// The client for requests other than messages, such as token endpoints.
    pub(crate) fn http1(&self) -> &Http1 {
        &self.http1
    }

    /// Posts a body.
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
                Err(failure) if failure.is_http1_only => {
                    self.is_http1.store(true, Ordering::Relaxed);
                }
                sent => return sent,
            }
        }
        self.http1.post(&uri.to_string(), headers(), body.clone(), deadline).await
    }

    /// How many requests can usefully run at the same time.
    pub(crate) fn max_concurrency(&self) -> usize {
        if self.is_http1.load(Ordering::Relaxed) {
            return HTTP1_CONNECTIONS_KEPT;
        }
        self.pool.max_concurrency().unwrap_or(STREAMS_ASSUMED).max(1)
    }
}
