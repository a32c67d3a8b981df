//! Applications.

use notify_core::{
    App, AppChange, AppCreated, AppId, AppList, NewApp, NoQuery, PageQuery, Success,
};
use uuid::Uuid;

use crate::api::error::ApiError;
use crate::api::json_reply::Reply;
use crate::api::request_ctx::{Ctx, page_request};

/// `POST /admin/v1/apps`.
pub(crate) async fn create(ctx: Ctx, app: NewApp) -> Result<Reply<AppCreated>, ApiError> {
    let id = AppId(Uuid::now_v7());
    ctx.api().store.create_app(id, app, None, ctx.at()).await?;
    Ok(Reply::now(AppCreated { id }))
}

/// `GET /admin/v1/apps`.
pub(crate) async fn list(ctx: Ctx, page: PageQuery) -> Result<Reply<AppList>, ApiError> {
    let page = ctx.api().store.list_apps(page_request(page)).await?;
    Ok(Reply::now(AppList { apps: page.rows, next_cursor: page.next }))
}

/// `GET /admin/v1/apps/{id}`.
pub(crate) async fn get(ctx: Ctx, _: NoQuery) -> Result<Reply<App>, ApiError> {
    let (_, app) = ctx.api().store.app(ctx.id("id")?).await?;
    Ok(Reply::now(app))
}

/// `PATCH /admin/v1/apps/{id}`.
pub(crate) async fn change(ctx: Ctx, change: AppChange) -> Result<Reply<Success>, ApiError> {
    ctx.api().store.change_app(ctx.id("id")?, change).await?;
    Ok(Reply::now(Success { success: true }))
}

/// `DELETE /admin/v1/apps/{id}`.
pub(crate) async fn delete(ctx: Ctx, _: NoQuery) -> Result<Reply<Success>, ApiError> {
    ctx.api().store.delete_app(ctx.id("id")?).await?;
    Ok(Reply::now(Success { success: true }))
}
