//! The management of outgoing webhooks. The webhook engine sends the messages.

use notify_core::{
    KeyScope, NewWebhook, NoBody, NoQuery, PageQuery, Success, Timestamp, Webhook, WebhookAttempt,
    WebhookAttemptList, WebhookChange, WebhookCreated, WebhookId, WebhookList, WebhookMessageId,
    WebhookRecovered,
};
use serde::de::DeserializeOwned;
use uuid::Uuid;

use crate::api::error::ApiError;
use crate::api::json_reply::JsonReply;
use crate::api::request_ctx::{RequestCtx, page_request};
use crate::store::audit;
use crate::store::{Idempotent, MessageMade, SealedSecret, SecretRotation, StoreError};
use crate::webhooks::{make_secret, open_secret};

/// How long the previous secret also signs after a rotation, in milliseconds: 24 hours.
const PREVIOUS_SECRET_MS: i64 = 24 * 3_600_000;

/// `POST /v1/webhooks`.
pub(crate) async fn create(
    ctx: RequestCtx,
    webhook: NewWebhook,
) -> Result<JsonReply<WebhookCreated>, ApiError> {
    check_url(&ctx, &webhook.url)?;
    let id = WebhookId(Uuid::now_v7());
    audit::set_object(&id);
    let secret = make_secret(&ctx.api.master_key, ctx.app().id, id);
    let (app, at, idempotency_key) = (ctx.app_no(), ctx.received_at, ctx.idempotency_key()?);
    let result = ctx.api.store.create_webhook(app, webhook, secret, at, idempotency_key).await?;
    created_response(&ctx, result)
}

/// `GET /v1/webhooks`.
pub(crate) async fn list(
    ctx: RequestCtx,
    query: PageQuery,
) -> Result<JsonReply<WebhookList>, ApiError> {
    let page =
        ctx.api.store.list_webhooks(ctx.app_no(), page_request(query), ctx.received_at).await?;
    let webhooks = page.rows.into_iter().map(|webhook| as_readable(&ctx, webhook)).collect();
    Ok(JsonReply::ok(WebhookList { webhooks, next_cursor: page.next }))
}

/// `GET /v1/webhooks/{id}`.
pub(crate) async fn get(ctx: RequestCtx, _: NoQuery) -> Result<JsonReply<Webhook>, ApiError> {
    let id = ctx.id("id")?;
    let webhook = ctx.api.store.webhook(ctx.app_no(), id, ctx.received_at).await?;
    Ok(JsonReply::ok(as_readable(&ctx, webhook)))
}

/// A webhook without the secrets in its url, unless the caller may change it.
fn as_readable(ctx: &RequestCtx, webhook: Webhook) -> Webhook {
    if ctx.has_scope(KeyScope::Webhooks) { webhook } else { webhook.without_secrets() }
}

/// `PATCH /v1/webhooks/{id}`.
pub(crate) async fn change(
    ctx: RequestCtx,
    change: WebhookChange,
) -> Result<JsonReply<Success>, ApiError> {
    let id = ctx.id("id")?;
    if let Some(url) = &change.url {
        check_url(&ctx, url)?;
    }
    ctx.api.store.change_webhook(ctx.app_no(), id, change, ctx.received_at).await?;
    Ok(JsonReply::success())
}

/// `DELETE /v1/webhooks/{id}`.
pub(crate) async fn delete(ctx: RequestCtx, _: NoQuery) -> Result<JsonReply<Success>, ApiError> {
    let id = ctx.id("id")?;
    ctx.api.store.delete_webhook(ctx.app_no(), id).await?;
    Ok(JsonReply::success())
}

/// `POST /v1/webhooks/{id}/rotate`.
pub(crate) async fn rotate(
    ctx: RequestCtx,
    _: NoBody,
) -> Result<JsonReply<WebhookCreated>, ApiError> {
    let secret = make_secret(&ctx.api.master_key, ctx.app().id, ctx.id("id")?);
    let (at, idempotency_key) = (ctx.received_at, ctx.idempotency_key()?);
    let rotation = SecretRotation { secret, at, previous_until: at.plus_ms(PREVIOUS_SECRET_MS) };
    let result = ctx.api.store.rotate_webhook(ctx.app_no(), rotation, idempotency_key).await?;
    created_response(&ctx, result)
}

/// `POST /v1/webhooks/{id}/test`: waits for the outcome.
pub(crate) async fn test(
    ctx: RequestCtx,
    _: NoBody,
) -> Result<JsonReply<WebhookAttempt>, ApiError> {
    let id = ctx.id("id")?;
    let message = MessageMade { id: WebhookMessageId(Uuid::now_v7()) };
    let (app, at, idempotency_key) = (ctx.app_no(), ctx.received_at, ctx.idempotency_key()?);
    let result = ctx.api.store.test_webhook(app, id, message, at, idempotency_key).await?;
    let (message, is_replay) = value_and_replay(result)?;
    let attempt = ctx.api.webhooks.outcome(app, id, message.id).await?;
    Ok(JsonReply::with_replayed(attempt, is_replay))
}

/// `GET /v1/webhooks/{id}/attempts`.
pub(crate) async fn list_attempts(
    ctx: RequestCtx,
    query: PageQuery,
) -> Result<JsonReply<WebhookAttemptList>, ApiError> {
    let (app, id) = (ctx.app_no(), ctx.id("id")?);
    let page = ctx.api.store.list_webhook_messages(app, id, page_request(query)).await?;
    Ok(JsonReply::ok(WebhookAttemptList { attempts: page.rows, next_cursor: page.next }))
}

/// `POST /v1/webhooks/{id}/attempts/{attempt_id}/redeliver`.
pub(crate) async fn redeliver(ctx: RequestCtx, _: NoBody) -> Result<JsonReply<Success>, ApiError> {
    let (webhook, id) = (ctx.id("id")?, ctx.id("attempt_id")?);
    let (app, at, idempotency_key) = (ctx.app_no(), ctx.received_at, ctx.idempotency_key()?);
    Ok(ctx.api.store.redeliver_message(app, webhook, id, at, idempotency_key).await?.into())
}

/// `POST /v1/webhooks/{id}/recover`.
pub(crate) async fn recover(
    ctx: RequestCtx,
    since: Timestamp,
) -> Result<JsonReply<WebhookRecovered>, ApiError> {
    let id = ctx.id("id")?;
    let (app, at, idempotency_key) = (ctx.app_no(), ctx.received_at, ctx.idempotency_key()?);
    Ok(ctx.api.store.recover_messages(app, id, since, at, idempotency_key).await?.into())
}

fn check_url(ctx: &RequestCtx, url: &str) -> Result<(), ApiError> {
    let checked = ctx.api.outbound.webhook(url);
    checked.map(|_| ()).map_err(|rule| ApiError::invalid("url", &rule.to_string()))
}

/// The response that shows the secret. The store keeps the secret sealed, so that a repeated
/// request gets it again.
fn created_response(
    ctx: &RequestCtx,
    result: Idempotent<SealedSecret>,
) -> Result<JsonReply<WebhookCreated>, ApiError> {
    let (sealed, is_replay) = value_and_replay(result)?;
    let secret = open_secret(&ctx.api.master_key, ctx.app().id, &sealed)
        .map_err(|error| ApiError::Internal(error.into()))?;
    Ok(JsonReply::with_replayed(WebhookCreated { id: sealed.id, secret }, is_replay))
}

/// The result of a write, and whether an earlier request with the same key did the write.
fn value_and_replay<T: DeserializeOwned>(result: Idempotent<T>) -> Result<(T, bool), ApiError> {
    match result {
        Idempotent::Executed(value) => Ok((value, false)),
        Idempotent::Replayed(json) => {
            let value = serde_json::from_str(&json).map_err(StoreError::from)?;
            Ok((value, true))
        }
    }
}
