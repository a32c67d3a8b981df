//! Successful JSON responses: fresh, replayed for a repeated request, or cached with an `ETag`.

use std::marker::PhantomData;

use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use notify_core::Success;
use serde::Serialize;
use warp::reply::{Reply, Response};

use crate::cached_body::CachedBody;
use crate::store::Idempotent;

/// The content type of every JSON response.
pub(crate) const JSON_CONTENT_TYPE: &str = "application/json; charset=utf-8";
/// `Cache-Control` of every response that does not set another one.
pub(crate) const NO_STORE: &str = "no-store";
/// `Cache-Control` of a response with an `ETag`: the requesting device may store it, but has to
/// revalidate it before every use.
const REVALIDATE: &str = "private, no-cache";
/// Header that marks the response to a repeated request.
const REPLAYED: header::HeaderName = header::HeaderName::from_static("idempotency-replayed");

/// A successful response with the JSON of a `T`.
pub(crate) struct JsonReply<T> {
    parts: Parts,
    model: PhantomData<fn() -> T>,
}

/// The parts of a response that do not depend on its model.
struct Parts {
    status: StatusCode,
    body: Bytes,
    etag: Option<HeaderValue>,
    is_replay: bool,
}

impl<T: Serialize> JsonReply<T> {
    /// 200 with this model.
    pub(crate) fn ok(model: T) -> Self {
        Self::with_replayed(model, false)
    }

    /// 200 with this model. `is_replay` means that the model is the result of an earlier request.
    pub(crate) fn with_replayed(model: T, is_replay: bool) -> Self {
        Self::new(json_bytes(&model), is_replay)
    }

    /// 200 with a response that was stored for an earlier request with the same key.
    pub(crate) fn replayed(json: String) -> Self {
        Self::new(json.into(), true)
    }

    /// 200 with a cached body, or 304 if the client has it already.
    pub(crate) fn cached(cached: &CachedBody, if_none_match: Option<&HeaderValue>) -> Self {
        let is_unchanged = if_none_match.is_some_and(|etags| cached.matches(etags));
        let body = if is_unchanged { Bytes::new() } else { cached.body.clone() };
        let mut reply = Self::new(body, false);
        if is_unchanged {
            reply.parts.status = StatusCode::NOT_MODIFIED;
        }
        reply.parts.etag = Some(cached.etag.clone());
        reply
    }

    fn new(body: Bytes, is_replay: bool) -> Self {
        let parts = Parts { status: StatusCode::OK, body, etag: None, is_replay };
        Self { parts, model: PhantomData }
    }
}

impl JsonReply<Success> {
    /// 200 with `{"success": true}`.
    pub(crate) fn success() -> Self {
        Self::ok(Success { success: true })
    }
}

impl<T> Reply for JsonReply<T> {
    fn into_response(self) -> Response {
        self.parts.into_response()
    }
}

impl Parts {
    fn into_response(self) -> Response {
        let mut response = json_response(self.status, self.body);
        let headers = response.headers_mut();
        if let Some(etag) = self.etag {
            headers.insert(header::ETAG, etag);
            headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(REVALIDATE));
        }
        if self.is_replay {
            headers.insert(REPLAYED, HeaderValue::from_static("true"));
        }
        response
    }
}

impl<T: Serialize> From<Idempotent<T>> for JsonReply<T> {
    fn from(result: Idempotent<T>) -> Self {
        match result {
            Idempotent::Executed(model) => Self::ok(model),
            Idempotent::Replayed(json) => Self::replayed(json),
        }
    }
}

/// A response with a JSON body.
pub(crate) fn json_response(status: StatusCode, json: Bytes) -> Response {
    let mut response = Response::new(json.into());
    *response.status_mut() = status;
    let content_type = HeaderValue::from_static(JSON_CONTENT_TYPE);
    response.headers_mut().insert(header::CONTENT_TYPE, content_type);
    response
}

/// The JSON of one of our models.
pub(crate) fn json_bytes<T: Serialize>(model: &T) -> Bytes {
    serde_json::to_vec(model).expect("our models have string keys and finite numbers").into()
}

#[cfg(test)]
mod tests {
    use hyper::body::Body;

    use super::*;

    #[test]
    fn a_known_etag_gets_304_without_a_body() {
        let cached = CachedBody::of(json_bytes(&1));
        let etag =
            JsonReply::<i32>::cached(&cached, None).into_response().headers()["etag"].clone();
        let etag = etag.to_str().unwrap();
        let lists = [etag.to_owned(), format!("\"x\", W/{etag}"), "*".to_owned()];
        for list in lists {
            let if_none_match = HeaderValue::from_str(&list).unwrap();
            let response = JsonReply::<i32>::cached(&cached, Some(&if_none_match)).into_response();
            assert_eq!(response.status(), StatusCode::NOT_MODIFIED);
            assert_eq!(response.body().size_hint().exact(), Some(0));
        }
        let other = HeaderValue::from_static("\"x\"");
        assert_eq!(JsonReply::<i32>::cached(&cached, Some(&other)).into_response().status(), 200);
    }
}
