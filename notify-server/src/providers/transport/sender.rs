//! One endpoint with one credential: HTTP/2, or HTTP/1.1 where it speaks nothing else.

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
use crate::providers::transport::response::{Failure, Reply};
use crate::providers::transport::{STREAMS_ASSUMED, http2_post};

/// How messages travel to an endpoint.
pub(crate) struct Sender {
    pool: Arc<Pool>,
    http1: Http1,
    is_http1: AtomicBool,
}

impl Sender {
    /// `credential` names the credential without holding it; nothing is opened before something is
    /// sent.
    pub(crate) fn new(pools: &Pools, base_url: &BaseUrl, credential: String, trust: Trust) -> Self {
        Self {
            http1: Http1::new(pools.tls(), &trust),
            pool: pools.get(base_url, credential, trust, Protocols::Http2OrHttp1),
            // HTTP/2 without TLS is nobody's but APNs'.
            is_http1: AtomicBool::new(!base_url.tls),
        }
    }

    /// One to an endpoint that a user named.
    pub(crate) fn guarded(
        pools: &Pools,
        base_url: &BaseUrl,
        (trust, http1): (Trust, Http1),
        guard: &Outbound,
    ) -> Self {
        let pool = pools.get_guarded(base_url, trust, guard);
        Self { pool, http1, is_http1: AtomicBool::new(false) }
    }

    /// The client for what is no message: token endpoints.
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
    ) -> Result<Reply, Failure> {
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

    /// How many requests can usefully be under way.
    pub(crate) fn slots(&self) -> usize {
        if self.is_http1.load(Ordering::Relaxed) {
            return HTTP1_CONNECTIONS_KEPT;
        }
        self.pool.slots().unwrap_or(STREAMS_ASSUMED).max(1)
    }
}
