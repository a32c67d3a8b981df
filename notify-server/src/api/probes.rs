//! What machines ask beside the API: health, readiness, metrics, the OpenAPI document.

use std::sync::LazyLock;

use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use notify_core::{ErrorBody, Success};

use super::ctx::Ctx;
use super::reply::{JSON_CONTENT_TYPE, json_bytes};
use crate::telemetry::METRICS_CONTENT_TYPE;

static OPENAPI: LazyLock<String> = LazyLock::new(super::openapi_json);

/// `GET /healthz`: 200 while the process lives.
pub(crate) async fn health(_: Ctx) -> http::Response<Bytes> {
    json(StatusCode::OK, json_bytes(&Success { success: true }))
}

/// `GET /readyz`: 200 while storage answers.
pub(crate) async fn ready(ctx: Ctx) -> http::Response<Bytes> {
    match ctx.api().store.check().await {
        Ok(()) => json(StatusCode::OK, json_bytes(&Success { success: true })),
        Err(error) => {
            tracing::warn!(error = &error as &dyn std::error::Error, "storage does not answer");
            let errors = vec!["storage does not answer".to_owned()];
            json(StatusCode::SERVICE_UNAVAILABLE, json_bytes(&ErrorBody { errors }))
        }
    }
}

/// `GET /metrics`.
pub(crate) async fn metrics(ctx: Ctx) -> http::Response<Bytes> {
    text(METRICS_CONTENT_TYPE, ctx.api().metrics.encode().into())
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
