//! Successful answers: 200 with JSON (B4), replayed ones (B8), and ones that a client may already
//! have (`ETag`).

use std::marker::PhantomData;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;

use crate::keys::sha256;
use crate::store::Done;

/// The content type of every JSON answer (spec 1).
pub(crate) const JSON_CONTENT_TYPE: &str = "application/json; charset=utf-8";
/// Header of an answer that was given before (B8).
const REPLAYED: header::HeaderName = header::HeaderName::from_static("idempotency-replayed");
/// Bytes of the digest that an `ETag` shows.
const ETAG_BYTES: usize = 16;

/// A success that answers a `T`.
pub(crate) struct Reply<T> {
    status: StatusCode,
    body: Bytes,
    etag: Option<HeaderValue>,
    replayed: bool,
    answers: PhantomData<fn() -> T>,
}

impl<T: Serialize> Reply<T> {
    /// It happened now.
    pub(crate) fn now(answer: T) -> Self {
        Self::of(json_bytes(&answer), false)
    }

    /// The answer, or 304 when the client has it already (RFC 9110 section 13.1.2).
    pub(crate) fn tagged(answer: T, if_none_match: Option<&HeaderValue>) -> Self {
        let mut reply = Self::of(json_bytes(&answer), false);
        let etag = etag_of(&reply.body);
        if if_none_match.is_some_and(|known| names(known, &etag)) {
            reply.status = StatusCode::NOT_MODIFIED;
            reply.body = Bytes::new();
        }
        reply.etag = Some(etag);
        reply
    }

    /// It happened, now or before; the answer is made anew.
    pub(crate) fn again(answer: T, replayed: bool) -> Self {
        Self::of(json_bytes(&answer), replayed)
    }

    fn of(body: Bytes, replayed: bool) -> Self {
        Self { status: StatusCode::OK, body, etag: None, replayed, answers: PhantomData }
    }

    pub(crate) fn into_response(self) -> http::Response<Bytes> {
        let mut response = http::Response::new(self.body);
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(JSON_CONTENT_TYPE));
        if let Some(etag) = self.etag {
            headers.insert(header::ETAG, etag);
        }
        if self.replayed {
            headers.insert(REPLAYED, HeaderValue::from_static("true"));
        }
        response
    }
}

impl<T: Serialize> From<Done<T>> for Reply<T> {
    fn from(done: Done<T>) -> Self {
        match done {
            Done::Now(answer) => Self::now(answer),
            Done::Before(json) => Self::of(json.into(), true),
        }
    }
}

/// An answer that was given before, whatever it was of.
pub(crate) fn replayed(json: String) -> http::Response<Bytes> {
    Reply::<()>::of(json.into(), true).into_response()
}

/// JSON of one of our models.
pub(crate) fn json_bytes<T: Serialize>(model: &T) -> Bytes {
    serde_json::to_vec(model).expect("our models have string keys and finite numbers").into()
}

/// The `ETag` of a body.
pub(crate) fn etag_of(body: &[u8]) -> HeaderValue {
    let digest = URL_SAFE_NO_PAD.encode(&sha256(body)[..ETAG_BYTES]);
    format!("\"{digest}\"").try_into().expect("base64 in quotes is a header value")
}

/// Whether `If-None-Match` names the tag; weak tags compare like strong ones here.
pub(crate) fn names(if_none_match: &HeaderValue, etag: &HeaderValue) -> bool {
    if_none_match.to_str().is_ok_and(|known| {
        let mut tags = known.split(',').map(str::trim);
        tags.any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == etag)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_etag_is_answered_without_a_body() {
        let etag = Reply::tagged(1, None).into_response().headers()["etag"].clone();
        let etag = etag.to_str().unwrap();
        let lists = [etag.to_owned(), format!("\"x\", W/{etag}"), "*".to_owned()];
        for list in lists {
            let known = HeaderValue::from_str(&list).unwrap();
            let response = Reply::tagged(1, Some(&known)).into_response();
            assert_eq!((response.status(), response.body().len()), (StatusCode::NOT_MODIFIED, 0));
        }
        let other = HeaderValue::from_static("\"x\"");
        assert_eq!(Reply::tagged(1, Some(&other)).into_response().status(), 200);
    }
}
