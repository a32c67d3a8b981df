//! Endpoints for machines that operate the server: health, readiness and metrics.

use http::{StatusCode, header};
use notify_core::ErrorBody;
use warp::Reply;
use warp::reply::{Response, with_header};

use crate::api::error::ApiError;
use crate::api::json_reply::{JsonReply, json_bytes, json_response};
use crate::api::request_ctx::RequestCtx;
use crate::telemetry::MetricsFormat;

/// `GET /healthz`: 200 while the process runs.
pub(crate) async fn health(_: RequestCtx) -> Result<Response, ApiError> {
    Ok(JsonReply::success().into_response())
}

/// `GET /readyz`: 200 while storage can be read and written and the engine works. While the server
/// stops, the pipeline responds with 503.
pub(crate) async fn ready(ctx: RequestCtx) -> Result<Response, ApiError> {
    let errors = ctx.api.operations.readiness_problems().await;
    if errors.is_empty() {
        return Ok(JsonReply::success().into_response());
    }
    Ok(json_response(StatusCode::SERVICE_UNAVAILABLE, json_bytes(&ErrorBody { errors })))
}

/// `GET /metrics`.
pub(crate) async fn metrics(ctx: RequestCtx) -> Result<Response, ApiError> {
    let accept = ctx.headers().get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
    let format = MetricsFormat::of(accept);
    let text = ctx.api.operations.metrics(format).await;
    let response = Response::new(text.into());
    Ok(with_header(response, header::CONTENT_TYPE, format.content_type()).into_response())
}
