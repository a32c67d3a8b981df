//! Successful answers: 200 with JSON (B4), replayed ones (B8), and ones that a client may already
//! have (`ETag`).

use std::marker::PhantomData;

use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;

use crate::ready::Ready;
use crate::store::Done;

/// The content type of every JSON answer (spec 1).
pub(crate) const JSON_CONTENT_TYPE: &str = "application/json; charset=utf-8";
/// `Cache-Control` of every answer that does not name another.
pub(crate) const NO_STORE: &str = "no-store";
/// `Cache-Control` of an answer with an `ETag`: the device that asked may keep it, and has to ask
/// each time whether it still holds.
const REVALIDATED: &str = "private, no-cache";
/// Header of an answer that was given before (B8).
const REPLAYED: header::HeaderName = header::HeaderName::from_static("idempotency-replayed");

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

    /// An answer that is kept as its bytes, or 304 when the client has it already.
    pub(crate) fn ready(ready: &Ready, if_none_match: Option<&HeaderValue>) -> Self {
        let is_known = if_none_match.is_some_and(|known| ready.is_named_by(known));
        let body = if is_known { Bytes::new() } else { ready.body.clone() };
        let mut reply = Self::of(body, false);
        if is_known {
            reply.status = StatusCode::NOT_MODIFIED;
        }
        reply.etag = Some(ready.etag.clone());
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
            headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(REVALIDATED));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_etag_is_answered_without_a_body() {
        let one = Ready::of(json_bytes(&1));
        let etag = Reply::<i32>::ready(&one, None).into_response().headers()["etag"].clone();
        let etag = etag.to_str().unwrap();
        let lists = [etag.to_owned(), format!("\"x\", W/{etag}"), "*".to_owned()];
        for list in lists {
            let known = HeaderValue::from_str(&list).unwrap();
            let response = Reply::<i32>::ready(&one, Some(&known)).into_response();
            assert_eq!((response.status(), response.body().len()), (StatusCode::NOT_MODIFIED, 0));
        }
        let other = HeaderValue::from_static("\"x\"");
        assert_eq!(Reply::<i32>::ready(&one, Some(&other)).into_response().status(), 200);
    }
}
