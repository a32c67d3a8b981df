//! Applications, their API keys, and browser access to them.

use notify_core::{
    ApiKey, ApiKeyKind, App, AppChange, AppCreated, AppId, AppList, KeyCreated, KeyId, KeyList,
    KeyRotation, NewApiKey, NewApp, NoQuery, PageQuery, Success, WebAccess,
};
use uuid::Uuid;

use crate::api::error::ApiError;
use crate::api::json_reply::JsonReply;
use crate::api::request_ctx::{RequestCtx, page_request};
use crate::keys::{KeyKind, make_key, reveal};
use crate::store::audit;

/// `POST /admin/v1/apps`.
pub(crate) async fn create(
    ctx: RequestCtx,
    app: NewApp,
) -> Result<JsonReply<AppCreated>, ApiError> {
    let id = AppId(Uuid::now_v7());
    audit::set_app(id);
    ctx.api.store.create_app(id, app, None, ctx.received_at).await?;
    Ok(JsonReply::ok(AppCreated { id }))
}

/// `GET /admin/v1/apps`.
pub(crate) async fn list(
    ctx: RequestCtx,
    query: PageQuery,
) -> Result<JsonReply<AppList>, ApiError> {
    let page = ctx.api.store.list_apps(page_request(query)).await?;
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

/// `POST /admin/v1/apps/{id}/keys`. The response is the only place that shows the key: it is not
/// stored for repeated requests.
pub(crate) async fn create_key(
    ctx: RequestCtx,
    key: NewApiKey,
) -> Result<JsonReply<KeyCreated>, ApiError> {
    let fresh = make_key(key_kind(key.terms.grant.kind()), key.name, ctx.received_at);
    let id = fresh.stored.id;
    audit::set_object(&id);
    ctx.api.store.add_key(ctx.id("id")?, fresh.stored, key.terms).await?;
    Ok(JsonReply::ok(KeyCreated { id, api_key: reveal(&fresh.secret) }))
}

fn key_kind(kind: ApiKeyKind) -> KeyKind {
    match kind {
        ApiKeyKind::Secret => KeyKind::Api,
        ApiKeyKind::Publishable => KeyKind::Publishable,
    }
}

/// `POST /admin/v1/apps/{id}/keys/{key_id}/rotate`. As for [`create_key`], only this response shows the
/// key.
pub(crate) async fn rotate_key(
    ctx: RequestCtx,
    rotation: KeyRotation,
) -> Result<JsonReply<KeyCreated>, ApiError> {
    let rotated: KeyId = ctx.id("key_id")?;
    let app = ctx.id("id")?;
    let keys = ctx.api.store.list_keys(app).await?;
    let kind = keys.iter().find(|key| key.id == rotated).ok_or(ApiError::NotFound)?.kind;
    let fresh = make_key(key_kind(kind), None, ctx.received_at);
    let id = fresh.stored.id;
    ctx.api.store.rotate_key(app, rotated, fresh.stored, rotation.overlap_ms).await?;
    Ok(JsonReply::ok(KeyCreated { id, api_key: reveal(&fresh.secret) }))
}

/// `GET /admin/v1/apps/{id}/keys`.
pub(crate) async fn list_keys(ctx: RequestCtx, _: NoQuery) -> Result<JsonReply<KeyList>, ApiError> {
    Ok(JsonReply::ok(KeyList { keys: keys_of(&ctx, ctx.id("id")?).await? }))
}

/// The keys of an application, also with the uses that are not written to the store yet.
pub(super) async fn keys_of(ctx: &RequestCtx, app: AppId) -> Result<Vec<ApiKey>, ApiError> {
    let mut keys = ctx.api.store.list_keys(app).await?;
    for key in &mut keys {
        key.last_used_at = key.last_used_at.max(ctx.api.key_cache.last_key_use(key.id));
    }
    Ok(keys)
}

/// `DELETE /admin/v1/apps/{id}/keys/{key_id}`.
pub(crate) async fn revoke_key(
    ctx: RequestCtx,
    _: NoQuery,
) -> Result<JsonReply<Success>, ApiError> {
    ctx.api.store.revoke_key(ctx.id("id")?, ctx.id("key_id")?).await?;
    Ok(JsonReply::success())
}

/// `PUT /admin/v1/apps/{id}/web`.
pub(crate) async fn put_web_access(
    ctx: RequestCtx,
    access: WebAccess,
) -> Result<JsonReply<Success>, ApiError> {
    ctx.api.store.set_web_access(ctx.id("id")?, access).await?;
    Ok(JsonReply::success())
}

/// `GET /admin/v1/apps/{id}/web`.
pub(crate) async fn web_access(
    ctx: RequestCtx,
    _: NoQuery,
) -> Result<JsonReply<WebAccess>, ApiError> {
    let app: AppId = ctx.id("id")?;
    let web = ctx.api.store.web_access(app).await?.ok_or(ApiError::NotFound)?;
    Ok(JsonReply::ok(web.access))
}

/// `DELETE /admin/v1/apps/{id}/web`.
pub(crate) async fn delete_web_access(
    ctx: RequestCtx,
    _: NoQuery,
) -> Result<JsonReply<Success>, ApiError> {
    ctx.api.store.clear_web_access(ctx.id("id")?).await?;
    Ok(JsonReply::success())
}
