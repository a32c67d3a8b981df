//! Bytes that are answered as they are, with the `ETag` that names them.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::HeaderValue;

use crate::keys::sha256;

/// Bytes of the digest that an `ETag` shows.
const ETAG_BYTES: usize = 16;

/// An answer's body and its `ETag`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ready {
    /// The body.
    pub(crate) body: Bytes,
    /// A strong one: equal bodies have equal ones, and others do not.
    pub(crate) etag: HeaderValue,
}

impl Ready {
    /// Names a body.
    pub(crate) fn of(body: Bytes) -> Self {
        let digest = URL_SAFE_NO_PAD.encode(&sha256(&body)[..ETAG_BYTES]);
        let etag = format!("\"{digest}\"");
        Self { body, etag: etag.try_into().expect("base64 in quotes is a header value") }
    }

    /// Whether `If-None-Match` names it; weak tags compare like strong ones here (RFC 9110 section
    /// 13.1.2).
    pub(crate) fn is_named_by(&self, if_none_match: &HeaderValue) -> bool {
        let Ok(etag) = self.etag.to_str() else { return false };
        if_none_match.to_str().is_ok_and(|known| {
            let mut tags = known.split(',').map(str::trim);
            tags.any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == etag)
        })
    }
}
