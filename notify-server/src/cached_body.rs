//! Cached response bodies with their `ETag`.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::HeaderValue;

use crate::keys::sha256;

/// Bytes of the digest in an `ETag`.
const ETAG_BYTES: usize = 16;

/// A response body and its `ETag`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CachedBody {
    /// The body.
    pub(crate) body: Bytes,
    /// A strong `ETag`: two bodies have the same `ETag` only if they are equal.
    pub(crate) etag: HeaderValue,
}

impl CachedBody {
    /// Creates a cached body and computes its `ETag`.
    pub(crate) fn of(body: Bytes) -> Self {
        let digest = URL_SAFE_NO_PAD.encode(&sha256(&body)[..ETAG_BYTES]);
        let etag = format!("\"{digest}\"");
        Self { body, etag: etag.try_into().expect("base64 in quotes is a header value") }
    }

    /// Whether an `If-None-Match` header matches this body. Weak tags are compared like strong tags
    /// (RFC 9110 section 13.1.2).
    pub(crate) fn matches(&self, if_none_match: &HeaderValue) -> bool {
        let Ok(etag) = self.etag.to_str() else { return false };
        if_none_match.to_str().is_ok_and(|header| {
            let mut tags = header.split(',').map(str::trim);
            tags.any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == etag)
        })
    }
}
