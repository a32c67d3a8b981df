//! Devices: register (spec 4.3), read back, erase (B23), tags (B24).

use notify_core::{
    Device, DeviceList, LIMIT_DEFAULT, ListDevices, NoQuery, Registration, Success, Tag,
};

use crate::api::error::ApiError;
use crate::api::json_reply::Reply;
use crate::api::request_ctx::Ctx;
use crate::store::{DeviceFilter, PageRequest};

/// `POST /v1/devices`.
pub(crate) async fn register(
    ctx: Ctx,
    registration: Registration,
) -> Result<Reply<Success>, ApiError> {
    let (app, at, once) = (ctx.app_no(), ctx.at(), ctx.once()?);
    Ok(ctx.api().store.register_device(app, registration, at, once).await?.into())
}

/// `GET /v1/devices/{device_id}`.
pub(crate) async fn get(ctx: Ctx, _: NoQuery) -> Result<Reply<Device>, ApiError> {
    let id = ctx.device_id()?;
    Ok(Reply::now(ctx.api().store.device(ctx.app_no(), id).await?))
}

/// `GET /v1/devices`.
pub(crate) async fn list(ctx: Ctx, query: ListDevices) -> Result<Reply<DeviceList>, ApiError> {
    let filter = DeviceFilter { platform: query.platform, tag: query.tag };
    let page = PageRequest { limit: query.limit.unwrap_or(LIMIT_DEFAULT), cursor: query.cursor };
    let page = ctx.api().store.list_devices(ctx.app_no(), filter, page).await?;
    Ok(Reply::now(DeviceList { devices: page.rows, next_cursor: page.next }))
}

/// `DELETE /v1/devices/{device_id}`.
pub(crate) async fn delete(ctx: Ctx, _: NoQuery) -> Result<Reply<Success>, ApiError> {
    let id = ctx.device_id()?;
    ctx.api().store.delete_device(ctx.app_no(), id, ctx.at()).await?;
    Ok(Reply::now(Success { success: true }))
}

/// `POST /v1/devices/{device_id}/tags`.
pub(crate) async fn set_tags(ctx: Ctx, tags: Vec<Tag>) -> Result<Reply<Success>, ApiError> {
    let id = ctx.device_id()?;
    Ok(ctx.api().store.set_tags(ctx.app_no(), id, tags, ctx.once()?).await?.into())
}

/// `DELETE /v1/devices/{device_id}/tags/{name}`.
pub(crate) async fn remove_tag(ctx: Ctx, _: NoQuery) -> Result<Reply<Success>, ApiError> {
    let id = ctx.device_id()?;
    let name = ctx.text("name")?.to_owned();
    ctx.api().store.remove_tag(ctx.app_no(), id, name).await?;
    Ok(Reply::now(Success { success: true }))
}
