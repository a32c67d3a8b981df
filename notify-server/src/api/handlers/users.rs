//! Users: log-ins, log-outs, attributes, reading and erasing.

use notify_core::{
    AttributeChanges, DeleteUser, DeviceId, LIMIT_DEFAULT, ListNotificationUsers, NoQuery,
    NotificationUsers, PageQuery, PresentedUserToken, Success, User, UserId, UserList, UserToken,
    UserTokenLife,
};

use crate::api::error::ApiError;
use crate::api::json_reply::JsonReply;
use crate::api::request_ctx::{RequestCtx, page_request};
use crate::store::{INVALID_USER_TOKEN, PageRequest};
use crate::user_tokens::{self, UserTokenError};

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

/// `POST /v1/users/{user_id}/tokens`. The token is not stored, so a repeated request gets another one.
pub(crate) async fn create_token(
    ctx: RequestCtx,
    life: UserTokenLife,
) -> Result<JsonReply<UserToken>, ApiError> {
    let id = ctx.id("user_id")?;
    // The header is checked, although nothing is stored under it.
    ctx.idempotency_key()?;
    let (app, at) = (ctx.app_no(), ctx.received_at);
    let user = ctx.api.store.identify_user(app, id, at).await?;
    let expires_at = at.plus_ms(life.ttl_ms);
    let user_token = user_tokens::sign(&ctx.api.master_key, ctx.app().id, user, expires_at);
    Ok(JsonReply::ok(UserToken { user_token, expires_at }))
}

/// Logs a device in as the user of a token, for a caller who may act for the device.
pub(super) async fn log_in_with_token(
    ctx: &RequestCtx,
    device: DeviceId,
    token: &PresentedUserToken,
) -> Result<JsonReply<Success>, ApiError> {
    let user = user_tokens::verify(&ctx.api.master_key, ctx.app_id(), &token.0, ctx.received_at);
    let user = user.map_err(|error| {
        let what = match error {
            UserTokenError::Invalid => INVALID_USER_TOKEN,
            UserTokenError::Expired => "has expired",
        };
        ApiError::invalid("user_token", what)
    })?;
    let (app, at) = (ctx.app_no(), ctx.received_at);
    Ok(JsonReply::ok(ctx.api.store.log_in_as(app, device, user, at).await?))
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
