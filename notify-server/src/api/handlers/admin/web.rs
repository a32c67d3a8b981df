//! What browsers may do with an application.

use notify_core::{AppId, NoQuery, Success, WebAccess};

use crate::api::error::ApiError;
use crate::api::json_reply::Reply;
use crate::api::request_ctx::Ctx;

/// `PUT /admin/v1/apps/{id}/web`.
pub(crate) async fn put(ctx: Ctx, access: WebAccess) -> Result<Reply<Success>, ApiError> {
    ctx.api().store.set_web_access(ctx.id("id")?, access).await?;
    Ok(Reply::now(Success { success: true }))
}

/// `GET /admin/v1/apps/{id}/web`.
pub(crate) async fn get(ctx: Ctx, _: NoQuery) -> Result<Reply<WebAccess>, ApiError> {
    let app: AppId = ctx.id("id")?;
    let web = ctx.api().store.web_access(app).await?.ok_or(ApiError::NotFound)?;
    Ok(Reply::now(web.access))
}

/// `DELETE /admin/v1/apps/{id}/web`.
pub(crate) async fn delete(ctx: Ctx, _: NoQuery) -> Result<Reply<Success>, ApiError> {
    ctx.api().store.clear_web_access(ctx.id("id")?).await?;
    Ok(Reply::now(Success { success: true }))
}
