//! The playground: an application whose providers are fakes in this process.

use notify_core::{NoBody, NoQuery, Playground, PlaygroundAnswer, PlaygroundMessageList, Success};

use crate::api::error::ApiError;
use crate::api::json_reply::JsonReply;
use crate::api::request_ctx::RequestCtx;

/// `POST /admin/v1/playground`.
pub(crate) async fn start(ctx: RequestCtx, _: NoBody) -> Result<JsonReply<Playground>, ApiError> {
    Ok(JsonReply::ok(ctx.api.playground.start().await?))
}

/// `GET /admin/v1/playground`.
pub(crate) async fn get(ctx: RequestCtx, _: NoQuery) -> Result<JsonReply<Playground>, ApiError> {
    Ok(JsonReply::ok(ctx.api.playground.state().await?))
}

/// `DELETE /admin/v1/playground`.
pub(crate) async fn stop(ctx: RequestCtx, _: NoQuery) -> Result<JsonReply<Success>, ApiError> {
    ctx.api.playground.stop().await?;
    Ok(JsonReply::success())
}

/// `GET /admin/v1/playground/messages`.
pub(crate) async fn messages(
    ctx: RequestCtx,
    _: NoQuery,
) -> Result<JsonReply<PlaygroundMessageList>, ApiError> {
    Ok(JsonReply::ok(ctx.api.playground.messages().await?))
}

/// `PUT /admin/v1/playground/devices/{device_id}/answer`.
pub(crate) async fn set_answer(
    ctx: RequestCtx,
    answer: PlaygroundAnswer,
) -> Result<JsonReply<Success>, ApiError> {
    ctx.api.playground.set_answer(ctx.device_id()?, answer).await?;
    Ok(JsonReply::success())
}
