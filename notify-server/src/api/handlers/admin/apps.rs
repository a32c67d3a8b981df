//! Applications.

use notify_core::{
    App, AppChange, AppCreated, AppId, AppList, NewApp, NoQuery, PageQuery, Success,
};
use uuid::Uuid;

use crate::api::error::ApiError;
use crate::api::json_reply::JsonReply;
use crate::api::request_ctx::{RequestCtx, page_request};

/// `POST /admin/v1/apps`.
pub(crate) async fn create(
    ctx: RequestCtx,
    app: NewApp,
) -> Result<JsonReply<AppCreated>, ApiError> {
    let id = AppId(Uuid::now_v7());
    ctx.api.store.create_app(id, app, None, ctx.received_at).await?;
    Ok(JsonReply::ok(AppCreated { id }))
}

/// `GET /admin/v1/apps`.
pub(crate) async fn list(ctx: RequestCtx, page: PageQuery) -> Result<JsonReply<AppList>, ApiError> {
    let page = ctx.api.store.list_apps(page_request(page)).await?;
    Ok(JsonReply::ok(AppList { apps: page.rows, next_cursor: page.next }))
}

/// `GET /admin/v1/apps/{id}`.
pub(crate) async fn get(ctx: RequestCtx, _: NoQuery) -> Result<JsonReply<App>, ApiError> {
    let (_, app) = ctx.api.store.app(ctx.id("id")?).await?;
    Ok(JsonReply::ok(app))
}

/// `PATCH /admin/v1/apps/{id}`.
pub(crate) async fn change(
    ctx: RequestCtx,
    change: AppChange,
) -> Result<JsonReply<Success>, ApiError> {
    ctx.api.store.change_app(ctx.id("id")?, change).await?;
    Ok(JsonReply::success())
}

/// `DELETE /admin/v1/apps/{id}`.
pub(crate) async fn delete(ctx: RequestCtx, _: NoQuery) -> Result<JsonReply<Success>, ApiError> {
    ctx.api.store.delete_app(ctx.id("id")?).await?;
    Ok(JsonReply::success())
}
