//! The SDK for browsers: a script for pages and one for service workers, plain JavaScript from the
//! binary. Both contain the shared part.

use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use warp::reply::Response;

use crate::api::error::ApiError;
use crate::api::request_ctx::RequestCtx;
use crate::cached_body::CachedBody;

const PAGE: &str = concat!(
    "'use strict';\n(() => {\n",
    include_str!("sdk/common.js"),
    include_str!("sdk/page.js"),
    "})();\n"
);
const WORKER: &str = concat!(
    "'use strict';\n(() => {\n",
    include_str!("sdk/common.js"),
    include_str!("sdk/worker.js"),
    "})();\n"
);

const SERVICE_WORKER_ALLOWED: header::HeaderName =
    header::HeaderName::from_static("service-worker-allowed");

/// `GET /sdk/notify.js`.
pub(crate) async fn page(ctx: RequestCtx) -> Result<Response, ApiError> {
    Ok(script(&ctx, PAGE, "public, max-age=3600"))
}

/// `GET /sdk/notify-sw.js`. The script is not cached, as is usual for service workers: a fix must
/// not wait for a cache.
pub(crate) async fn worker(ctx: RequestCtx) -> Result<Response, ApiError> {
    let mut response = script(&ctx, WORKER, "no-cache");
    // With this header, a site whose origin serves Notify below a path can register the worker
    // directly.
    response.headers_mut().insert(SERVICE_WORKER_ALLOWED, HeaderValue::from_static("/"));
    Ok(response)
}

fn script(ctx: &RequestCtx, text: &'static str, cache_control: &'static str) -> Response {
    let script = CachedBody::of(Bytes::from_static(text.as_bytes()));
    let mut response = Response::new(script.body.clone().into());
    if ctx.headers().get(&header::IF_NONE_MATCH).is_some_and(|etags| script.matches(etags)) {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        *response.body_mut() = Bytes::new().into();
    }
    let headers = response.headers_mut();
    let javascript = HeaderValue::from_static("text/javascript; charset=utf-8");
    headers.insert(header::CONTENT_TYPE, javascript);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(cache_control));
    headers.insert(header::ETAG, script.etag);
    // The files are public. Pages that verify them (`integrity`) or isolate themselves (COEP) must
    // be able to load them.
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    let policy = header::HeaderName::from_static("cross-origin-resource-policy");
    headers.insert(policy, HeaderValue::from_static("cross-origin"));
    response
}
