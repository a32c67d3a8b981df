//! What machines ask beside the API: health, readiness, metrics, the OpenAPI document.

use std::sync::LazyLock;

use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use notify_core::{ErrorBody, Success};

use crate::api::json_reply::{JSON_CONTENT_TYPE, json_bytes};
use crate::api::request_ctx::Ctx;
use crate::telemetry::Form;

static OPENAPI: LazyLock<String> = LazyLock::new(crate::api::openapi_json);

/// `GET /healthz`: 200 while the process lives.
pub(crate) async fn health(_: Ctx) -> http::Response<Bytes> {
    json(StatusCode::OK, json_bytes(&Success { success: true }))
}

/// `GET /readyz`: 200 while storage can be read and written and the engine works. While the server
/// stops the front answers 503 to it as to everything else.
pub(crate) async fn ready(ctx: Ctx) -> http::Response<Bytes> {
    let errors = ctx.api().operations.obstacles().await;
    if errors.is_empty() {
        return json(StatusCode::OK, json_bytes(&Success { success: true }));
    }
    json(StatusCode::SERVICE_UNAVAILABLE, json_bytes(&ErrorBody { errors }))
}

/// `GET /metrics`.
pub(crate) async fn metrics(ctx: Ctx) -> http::Response<Bytes> {
    let accept = ctx.header(&header::ACCEPT).and_then(|accept| accept.to_str().ok());
    let form = Form::of(accept);
    text(form.content_type(), ctx.api().operations.metrics(form).await.into())
}

/// `GET /openapi.json`.
pub(crate) async fn openapi(_: Ctx) -> http::Response<Bytes> {
    text(JSON_CONTENT_TYPE, Bytes::from_static(OPENAPI.as_bytes()))
}

fn json(status: StatusCode, body: Bytes) -> http::Response<Bytes> {
    let mut response = text(JSON_CONTENT_TYPE, body);
    *response.status_mut() = status;
    response
}

fn text(content_type: &'static str, body: Bytes) -> http::Response<Bytes> {
    let mut response = http::Response::new(body);
    let content_type = HeaderValue::from_static(content_type);
    response.headers_mut().insert(header::CONTENT_TYPE, content_type);
    response
}
