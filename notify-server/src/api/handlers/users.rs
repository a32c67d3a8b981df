//! Users: log-ins, log-outs, attributes, reading and erasing.

use notify_core::{
    AttributeChanges, DeleteUser, LIMIT_DEFAULT, ListNotificationUsers, NoQuery, NotificationUsers,
    PageQuery, Success, User, UserId, UserList,
};

use crate::api::error::ApiError;
use crate::api::json_reply::JsonReply;
use crate::api::request_ctx::{RequestCtx, page_request};
use crate::store::PageRequest;

/// `PUT /v1/devices/{device_id}/user`.
pub(crate) async fn log_in(ctx: RequestCtx, user: UserId) -> Result<JsonReply<Success>, ApiError> {
    let id = ctx.device_id()?;
    let (app, at) = (ctx.app_no(), ctx.received_at);
    Ok(JsonReply::ok(ctx.api.store.log_in(app, id, user, at).await?))
}

/// `DELETE /v1/devices/{device_id}/user`.
pub(crate) async fn log_out(ctx: RequestCtx, _: NoQuery) -> Result<JsonReply<Success>, ApiError> {
    let id = ctx.device_id()?;
    Ok(JsonReply::ok(ctx.api.store.log_out(ctx.app_no(), id).await?))
}

/// `PATCH /v1/devices/{device_id}/attributes`.
pub(crate) async fn change_device_attributes(
    ctx: RequestCtx,
    changes: AttributeChanges,
) -> Result<JsonReply<Success>, ApiError> {
    let id = ctx.device_id()?;
    Ok(JsonReply::ok(ctx.api.store.change_attributes(ctx.app_no(), id, changes).await?))
}

/// `PATCH /v1/users/{user_id}`.
pub(crate) async fn change(
    ctx: RequestCtx,
    changes: AttributeChanges,
) -> Result<JsonReply<User>, ApiError> {
    let id = ctx.id("user_id")?;
    let (app, at) = (ctx.app_no(), ctx.received_at);
    Ok(JsonReply::ok(ctx.api.store.change_user(app, id, changes, at).await?))
}

/// `GET /v1/users/{user_id}`.
pub(crate) async fn get(ctx: RequestCtx, _: NoQuery) -> Result<JsonReply<User>, ApiError> {
    let id = ctx.id("user_id")?;
    Ok(JsonReply::ok(ctx.api.store.user(ctx.app_no(), id).await?))
}

/// `GET /v1/users`.
pub(crate) async fn list(
    ctx: RequestCtx,
    query: PageQuery,
) -> Result<JsonReply<UserList>, ApiError> {
    let page = ctx.api.store.list_users(ctx.app_no(), page_request(query)).await?;
    Ok(JsonReply::ok(UserList { users: page.rows, next_cursor: page.next }))
}

/// `DELETE /v1/users/{user_id}`.
pub(crate) async fn delete(
    ctx: RequestCtx,
    query: DeleteUser,
) -> Result<JsonReply<Success>, ApiError> {
    let id: UserId = ctx.id("user_id")?;
    let (app, at) = (ctx.app_no(), ctx.received_at);
    ctx.api.store.delete_user(app, id, query.keep_devices, at).await?;
    Ok(JsonReply::success())
}

/// `GET /v1/notifications/{id}/users`.
pub(crate) async fn list_of_notification(
    ctx: RequestCtx,
    query: ListNotificationUsers,
) -> Result<JsonReply<NotificationUsers>, ApiError> {
    let id = ctx.notification_id()?;
    let request = PageRequest { limit: query.limit.unwrap_or(LIMIT_DEFAULT), cursor: query.cursor };
    let (app, state) = (ctx.app_no(), query.state);
    let page = ctx.api.store.list_notification_users(app, id, state, request).await?;
    Ok(JsonReply::ok(NotificationUsers { users: page.rows, next_cursor: page.next }))
}
