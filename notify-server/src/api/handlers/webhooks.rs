//! Webhooks: where an application is told what happened. What is sent to them is the webhook
//! engine's.

use notify_core::{
    NewWebhook, NoBody, NoQuery, PageQuery, Success, Timestamp, Webhook, WebhookAttempt,
    WebhookAttemptList, WebhookChange, WebhookCreated, WebhookId, WebhookList, WebhookMessageId,
    WebhookRecovered,
};
use serde::de::DeserializeOwned;
use uuid::Uuid;

use crate::api::error::ApiError;
use crate::api::json_reply::Reply;
use crate::api::request_ctx::{Ctx, page_request};
use crate::store::{Done, MessageMade, SealedSecret, StoreError};
use crate::webhooks::{make_secret, open_secret};

/// How long the secret before a rotation signs beside the new one, in milliseconds: 24 hours.
const OVERLAP_MS: i64 = 24 * 3_600_000;

/// `POST /v1/webhooks`.
pub(crate) async fn create(
    ctx: Ctx,
    webhook: NewWebhook,
) -> Result<Reply<WebhookCreated>, ApiError> {
    check_url(&ctx, &webhook.url)?;
    let secret = make_secret(&ctx.api().master_key, ctx.app().id, WebhookId(Uuid::now_v7()));
    let (app, at, once) = (ctx.app_no(), ctx.at(), ctx.once()?);
    let done = ctx.api().store.create_webhook(app, webhook, secret, at, once).await?;
    shown(&ctx, done)
}

/// `GET /v1/webhooks`.
pub(crate) async fn list(ctx: Ctx, page: PageQuery) -> Result<Reply<WebhookList>, ApiError> {
    let page = page_request(page);
    let page = ctx.api().store.list_webhooks(ctx.app_no(), page, ctx.at()).await?;
    Ok(Reply::now(WebhookList { webhooks: page.rows, next_cursor: page.next }))
}

/// `GET /v1/webhooks/{id}`.
pub(crate) async fn get(ctx: Ctx, _: NoQuery) -> Result<Reply<Webhook>, ApiError> {
    let id = ctx.id("id")?;
    Ok(Reply::now(ctx.api().store.webhook(ctx.app_no(), id, ctx.at()).await?))
}

/// `PATCH /v1/webhooks/{id}`.
pub(crate) async fn change(ctx: Ctx, change: WebhookChange) -> Result<Reply<Success>, ApiError> {
    let id = ctx.id("id")?;
    if let Some(url) = &change.url {
        check_url(&ctx, url)?;
    }
    ctx.api().store.change_webhook(ctx.app_no(), id, change, ctx.at()).await?;
    Ok(Reply::now(Success { success: true }))
}

/// `DELETE /v1/webhooks/{id}`.
pub(crate) async fn delete(ctx: Ctx, _: NoQuery) -> Result<Reply<Success>, ApiError> {
    let id = ctx.id("id")?;
    ctx.api().store.delete_webhook(ctx.app_no(), id).await?;
    Ok(Reply::now(Success { success: true }))
}

/// `POST /v1/webhooks/{id}/rotate`.
pub(crate) async fn rotate(ctx: Ctx, _: NoBody) -> Result<Reply<WebhookCreated>, ApiError> {
    let secret = make_secret(&ctx.api().master_key, ctx.app().id, ctx.id("id")?);
    let (at, once) = (ctx.at(), ctx.once()?);
    let times = (at, at.plus_ms(OVERLAP_MS));
    let done = ctx.api().store.rotate_webhook(ctx.app_no(), secret, times, once).await?;
    shown(&ctx, done)
}

/// `POST /v1/webhooks/{id}/test`: waits for what comes of it.
pub(crate) async fn test(ctx: Ctx, _: NoBody) -> Result<Reply<WebhookAttempt>, ApiError> {
    let id = ctx.id("id")?;
    let message = MessageMade { id: WebhookMessageId(Uuid::now_v7()) };
    let (app, at, once) = (ctx.app_no(), ctx.at(), ctx.once()?);
    let done = ctx.api().store.test_webhook(app, id, message, at, once).await?;
    let (message, replayed) = taken(done)?;
    let attempt = ctx.api().webhooks.outcome(app, id, message.id).await?;
    Ok(Reply::again(attempt, replayed))
}

/// `GET /v1/webhooks/{id}/attempts`.
pub(crate) async fn attempts(
    ctx: Ctx,
    page: PageQuery,
) -> Result<Reply<WebhookAttemptList>, ApiError> {
    let (id, page) = (ctx.id("id")?, page_request(page));
    let page = ctx.api().store.list_webhook_attempts(ctx.app_no(), id, page).await?;
    Ok(Reply::now(WebhookAttemptList { attempts: page.rows, next_cursor: page.next }))
}

/// `POST /v1/webhooks/{id}/attempts/{attempt_id}/redeliver`.
pub(crate) async fn redeliver(ctx: Ctx, _: NoBody) -> Result<Reply<Success>, ApiError> {
    let which = (ctx.id("id")?, ctx.id("attempt_id")?);
    let (app, at, once) = (ctx.app_no(), ctx.at(), ctx.once()?);
    Ok(ctx.api().store.redeliver_message(app, which, at, once).await?.into())
}

/// `POST /v1/webhooks/{id}/recover`.
pub(crate) async fn recover(
    ctx: Ctx,
    since: Timestamp,
) -> Result<Reply<WebhookRecovered>, ApiError> {
    let which = (ctx.id("id")?, since);
    let (app, at, once) = (ctx.app_no(), ctx.at(), ctx.once()?);
    Ok(ctx.api().store.recover_messages(app, which, at, once).await?.into())
}

fn check_url(ctx: &Ctx, url: &str) -> Result<(), ApiError> {
    let checked = ctx.api().outbound.webhook(url);
    checked.map(|_| ()).map_err(|rule| ApiError::invalid("url", &rule.to_string()))
}

/// The secret, which is kept for a repeat as it is everywhere: sealed.
fn shown(ctx: &Ctx, done: Done<SealedSecret>) -> Result<Reply<WebhookCreated>, ApiError> {
    let (sealed, replayed) = taken(done)?;
    let secret = open_secret(&ctx.api().master_key, ctx.app().id, &sealed)
        .map_err(|error| ApiError::Internal(error.into()))?;
    Ok(Reply::again(WebhookCreated { id: sealed.id, secret }, replayed))
}

/// What a write answered, now or before.
fn taken<T: DeserializeOwned>(done: Done<T>) -> Result<(T, bool), ApiError> {
    match done {
        Done::Now(made) => Ok((made, false)),
        Done::Before(json) => {
            let made = serde_json::from_str(&json).map_err(StoreError::from)?;
            Ok((made, true))
        }
    }
}
