//! Operators: admin keys, sessions of the console, and the audit trail.

use notify_core::{
    AdminKeyCreated, AdminKeyList, AuditList, KeyId, ListAudit, NewAdminKey, NewKeyName, NoQuery,
    PageQuery, SessionList, Success,
};

use crate::api::error::ApiError;
use crate::api::json_reply::JsonReply;
use crate::api::request_ctx::{RequestCtx, page_request};
use crate::keys::{KeyKind, make_key, reveal};
use crate::store::audit;

/// `POST /admin/v1/keys`. The response is the only place that shows the key.
pub(crate) async fn create_key(
    ctx: RequestCtx,
    key: NewAdminKey,
) -> Result<JsonReply<AdminKeyCreated>, ApiError> {
    let fresh = make_key(KeyKind::Admin, key.name, ctx.received_at);
    let id = fresh.stored.id;
    audit::set_object(&id);
    ctx.api.store.add_admin_key(fresh.stored).await?;
    Ok(JsonReply::ok(AdminKeyCreated { id, admin_key: reveal(&fresh.secret) }))
}

/// `GET /admin/v1/keys`.
pub(crate) async fn list_keys(
    ctx: RequestCtx,
    _: NoQuery,
) -> Result<JsonReply<AdminKeyList>, ApiError> {
    let mut keys = ctx.api.store.list_admin_keys().await?;
    for key in &mut keys {
        key.last_used_at = key.last_used_at.max(ctx.api.key_cache.last_key_use(key.id));
    }
    Ok(JsonReply::ok(AdminKeyList { keys }))
}

/// `PATCH /admin/v1/keys/{key_id}`.
pub(crate) async fn rename_key(
    ctx: RequestCtx,
    rename: NewKeyName,
) -> Result<JsonReply<Success>, ApiError> {
    ctx.api.store.rename_admin_key(ctx.id("key_id")?, rename.name).await?;
    Ok(JsonReply::success())
}

/// `DELETE /admin/v1/keys/{key_id}`.
pub(crate) async fn revoke_key(
    ctx: RequestCtx,
    _: NoQuery,
) -> Result<JsonReply<Success>, ApiError> {
    let key: KeyId = ctx.id("key_id")?;
    ctx.api.store.revoke_admin_key(key).await?;
    Ok(JsonReply::success())
}

/// `GET /admin/v1/sessions`.
pub(crate) async fn list_sessions(
    ctx: RequestCtx,
    query: PageQuery,
) -> Result<JsonReply<SessionList>, ApiError> {
    let cutoffs = ctx.api.config.session_timeouts().cutoffs(ctx.received_at);
    let mut page = ctx.api.store.list_sessions(cutoffs, page_request(query)).await?;
    for session in &mut page.rows {
        let written = session.last_used_at;
        session.last_used_at =
            ctx.api.key_cache.last_session_use(session.id).map_or(written, |at| at.max(written));
    }
    Ok(JsonReply::ok(SessionList { sessions: page.rows, next_cursor: page.next }))
}

/// `DELETE /admin/v1/sessions/{session_id}`.
pub(crate) async fn end_session(
    ctx: RequestCtx,
    _: NoQuery,
) -> Result<JsonReply<Success>, ApiError> {
    ctx.api.store.end_session(ctx.id("session_id")?).await?;
    Ok(JsonReply::success())
}

/// `GET /admin/v1/audit`.
pub(crate) async fn audit(
    ctx: RequestCtx,
    query: ListAudit,
) -> Result<JsonReply<AuditList>, ApiError> {
    let page = page_request(PageQuery { limit: query.limit, cursor: query.cursor });
    let page = ctx.api.store.list_audit(query.app_id, page).await?;
    Ok(JsonReply::ok(AuditList { entries: page.rows, next_cursor: page.next }))
}
