//! API keys of an application. A key is answered once and never again; nothing of this is stored
//! for replay.

use notify_core::{CreateKey, KeyCreated, KeyList, NoQuery, Success};

use crate::api::error::ApiError;
use crate::api::json_reply::Reply;
use crate::api::request_ctx::Ctx;
use crate::keys::{KeyKind, make_key, reveal};

/// `POST /admin/v1/apps/{id}/keys`.
pub(crate) async fn create(ctx: Ctx, key: CreateKey) -> Result<Reply<KeyCreated>, ApiError> {
    let fresh = make_key(KeyKind::Api, key.name, ctx.at());
    let id = fresh.stored.id;
    ctx.api().store.add_key(ctx.id("id")?, fresh.stored).await?;
    Ok(Reply::now(KeyCreated { id, api_key: reveal(&fresh.secret) }))
}

/// `GET /admin/v1/apps/{id}/keys`.
pub(crate) async fn list(ctx: Ctx, _: NoQuery) -> Result<Reply<KeyList>, ApiError> {
    let keys = ctx.api().store.list_keys(ctx.id("id")?).await?;
    Ok(Reply::now(KeyList { keys }))
}

/// `DELETE /admin/v1/apps/{id}/keys/{key_id}`.
pub(crate) async fn revoke(ctx: Ctx, _: NoQuery) -> Result<Reply<Success>, ApiError> {
    ctx.api().store.revoke_key(ctx.id("id")?, ctx.id("key_id")?).await?;
    Ok(Reply::now(Success { success: true }))
}
