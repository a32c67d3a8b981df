//! Browser access to an application.

use notify_core::{AppId, NoQuery, Success, WebAccess};

use crate::api::error::ApiError;
use crate::api::json_reply::JsonReply;
use crate::api::request_ctx::RequestCtx;

/// `PUT /admin/v1/apps/{id}/web`.
pub(crate) async fn put(
    ctx: RequestCtx,
    access: WebAccess,
) -> Result<JsonReply<Success>, ApiError> {
    ctx.api.store.set_web_access(ctx.id("id")?, access).await?;
    Ok(JsonReply::success())
}

/// `GET /admin/v1/apps/{id}/web`.
pub(crate) async fn get(ctx: RequestCtx, _: NoQuery) -> Result<JsonReply<WebAccess>, ApiError> {
    let app: AppId = ctx.id("id")?;
    let web = ctx.api.store.web_access(app).await?.ok_or(ApiError::NotFound)?;
    Ok(JsonReply::ok(web.access))
}

/// `DELETE /admin/v1/apps/{id}/web`.
pub(crate) async fn delete(ctx: RequestCtx, _: NoQuery) -> Result<JsonReply<Success>, ApiError> {
    ctx.api.store.clear_web_access(ctx.id("id")?).await?;
    Ok(JsonReply::success())
}
