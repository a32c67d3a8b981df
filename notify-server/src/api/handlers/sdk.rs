//! The SDK for browsers: a script for pages and one for service workers, plain JavaScript out of the
//! binary. Both begin with what they share.

use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};

use crate::api::request_ctx::Ctx;
use crate::ready::Ready;

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
pub(crate) async fn page(ctx: Ctx) -> http::Response<Bytes> {
    script(&ctx, PAGE, "public, max-age=3600")
}

/// `GET /sdk/notify-sw.js`. Asked for anew each time, as browsers do with service workers: a fix must
/// not wait for a cache.
pub(crate) async fn worker(ctx: Ctx) -> http::Response<Bytes> {
    let mut response = script(&ctx, WORKER, "no-cache");
    // Where the server is below the site's own origin, the worker may be registered as it is.
    response.headers_mut().insert(SERVICE_WORKER_ALLOWED, HeaderValue::from_static("/"));
    response
}

fn script(ctx: &Ctx, text: &'static str, kept: &'static str) -> http::Response<Bytes> {
    let ready = Ready::of(Bytes::from_static(text.as_bytes()));
    let mut response = http::Response::new(ready.body.clone());
    if ctx.header(&header::IF_NONE_MATCH).is_some_and(|known| ready.is_named_by(known)) {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        *response.body_mut() = Bytes::new();
    }
    let headers = response.headers_mut();
    let javascript = HeaderValue::from_static("text/javascript; charset=utf-8");
    headers.insert(header::CONTENT_TYPE, javascript);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(kept));
    headers.insert(header::ETAG, ready.etag);
    // The files are the same for everybody, and pages that check them (`integrity`) or isolate
    // themselves (COEP) must be able to load them.
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    let policy = header::HeaderName::from_static("cross-origin-resource-policy");
    headers.insert(policy, HeaderValue::from_static("cross-origin"));
    response
}
