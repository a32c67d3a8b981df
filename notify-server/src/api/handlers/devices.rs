//! Devices: registration, lists, deletion and tags.

use notify_core::{
    Device, DeviceList, LIMIT_DEFAULT, ListDevices, NoQuery, Registration, Success, Tag,
};

use crate::api::error::ApiError;
use crate::api::json_reply::JsonReply;
use crate::api::request_ctx::RequestCtx;
use crate::store::{DeviceFilter, PageRequest};

/// `POST /v1/devices`.
pub(crate) async fn register(
    ctx: RequestCtx,
    registration: Registration,
) -> Result<JsonReply<Success>, ApiError> {
    let (app, at, once) = (ctx.app_no(), ctx.received_at, ctx.idempotency_key()?);
    Ok(ctx.api.store.register_device(app, registration, at, once).await?.into())
}

/// `GET /v1/devices/{device_id}`.
pub(crate) async fn get(ctx: RequestCtx, _: NoQuery) -> Result<JsonReply<Device>, ApiError> {
    let id = ctx.device_id()?;
    Ok(JsonReply::ok(ctx.api.store.device(ctx.app_no(), id).await?))
}

/// `GET /v1/devices`.
pub(crate) async fn list(
    ctx: RequestCtx,
    query: ListDevices,
) -> Result<JsonReply<DeviceList>, ApiError> {
    let filter = DeviceFilter { platform: query.platform, tag: query.tag };
    let page = PageRequest { limit: query.limit.unwrap_or(LIMIT_DEFAULT), cursor: query.cursor };
    let page = ctx.api.store.list_devices(ctx.app_no(), filter, page).await?;
    Ok(JsonReply::ok(DeviceList { devices: page.rows, next_cursor: page.next }))
}

/// `DELETE /v1/devices/{device_id}`.
pub(crate) async fn delete(ctx: RequestCtx, _: NoQuery) -> Result<JsonReply<Success>, ApiError> {
    let id = ctx.device_id()?;
    ctx.api.store.delete_device(ctx.app_no(), id, ctx.received_at).await?;
    Ok(JsonReply::success())
}

/// `POST /v1/devices/{device_id}/tags`.
pub(crate) async fn set_tags(
    ctx: RequestCtx,
    tags: Vec<Tag>,
) -> Result<JsonReply<Success>, ApiError> {
    let id = ctx.device_id()?;
    Ok(ctx.api.store.set_tags(ctx.app_no(), id, tags, ctx.idempotency_key()?).await?.into())
}

/// `DELETE /v1/devices/{device_id}/tags/{name}`.
pub(crate) async fn remove_tag(
    ctx: RequestCtx,
    _: NoQuery,
) -> Result<JsonReply<Success>, ApiError> {
    let id = ctx.device_id()?;
    let name = ctx.path_param("name")?.into_owned();
    ctx.api.store.remove_tag(ctx.app_no(), id, name).await?;
    Ok(JsonReply::success())
}
