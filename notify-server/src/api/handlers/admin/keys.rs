//! API keys of an application. A key is shown once, and not stored for repeated requests.

use notify_core::{CreateKey, KeyCreated, KeyList, NoQuery, Success};

use crate::api::error::ApiError;
use crate::api::json_reply::JsonReply;
use crate::api::request_ctx::RequestCtx;
use crate::keys::{KeyKind, make_key, reveal};

/// `POST /admin/v1/apps/{id}/keys`.
pub(crate) async fn create(
    ctx: RequestCtx,
    key: CreateKey,
) -> Result<JsonReply<KeyCreated>, ApiError> {
    let fresh = make_key(KeyKind::Api, key.name, ctx.received_at);
    let id = fresh.stored.id;
    ctx.api.store.add_key(ctx.id("id")?, fresh.stored).await?;
    Ok(JsonReply::ok(KeyCreated { id, api_key: reveal(&fresh.secret) }))
}

/// `GET /admin/v1/apps/{id}/keys`.
pub(crate) async fn list(ctx: RequestCtx, _: NoQuery) -> Result<JsonReply<KeyList>, ApiError> {
    let keys = ctx.api.store.list_keys(ctx.id("id")?).await?;
    Ok(JsonReply::ok(KeyList { keys }))
}

/// `DELETE /admin/v1/apps/{id}/keys/{key_id}`.
pub(crate) async fn revoke(ctx: RequestCtx, _: NoQuery) -> Result<JsonReply<Success>, ApiError> {
    ctx.api.store.revoke_key(ctx.id("id")?, ctx.id("key_id")?).await?;
    Ok(JsonReply::success())
}
