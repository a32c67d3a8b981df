//! Feeds: creating, listing and checking them. Enrichment fetches them.

use notify_core::{
    Feed, FeedCheck, FeedCreated, FeedId, FeedList, FeedToCheck, KeyScope, NewFeed, NoQuery,
    PageQuery, Success,
};
use uuid::Uuid;

use crate::api::error::ApiError;
use crate::api::json_reply::JsonReply;
use crate::api::request_ctx::{RequestCtx, page_request};
use crate::enrichment::feeds::CHECK_TIMEOUT;
use crate::store::audit;

/// `Retry-After` while too many feeds are being checked, in seconds: the timeout of one check.
const CHECK_RETRY_SECONDS: u64 = CHECK_TIMEOUT.as_secs();

/// `POST /v1/feeds`.
pub(crate) async fn create(
    ctx: RequestCtx,
    feed: NewFeed,
) -> Result<JsonReply<FeedCreated>, ApiError> {
    let id = FeedId(Uuid::now_v7());
    audit::set_object(&id);
    let (app, at, idempotency_key) = (ctx.app_no(), ctx.received_at, ctx.idempotency_key()?);
    Ok(ctx.api.store.create_feed(app, id, feed, at, idempotency_key).await?.into())
}

/// `POST /v1/feeds/check`. The result is not stored.
pub(crate) async fn check(
    ctx: RequestCtx,
    feed: FeedToCheck,
) -> Result<JsonReply<FeedCheck>, ApiError> {
    let checked = ctx.api.feed_reader.check(ctx.app_no(), &feed.url).await;
    let busy = ApiError::RateLimited { retry_after_seconds: CHECK_RETRY_SECONDS };
    checked.map(JsonReply::ok).ok_or(busy)
}

/// `GET /v1/feeds`.
pub(crate) async fn list(
    ctx: RequestCtx,
    query: PageQuery,
) -> Result<JsonReply<FeedList>, ApiError> {
    let page = ctx.api.store.list_feeds(ctx.app_no(), page_request(query)).await?;
    // Urls of feeds often contain keys.
    let is_open = ctx.has_scope(KeyScope::Content);
    let readable = |feed: Feed| if is_open { feed } else { feed.without_secrets() };
    let feeds = page.rows.into_iter().map(readable).collect();
    Ok(JsonReply::ok(FeedList { feeds, next_cursor: page.next }))
}

/// `DELETE /v1/feeds/{id}`.
pub(crate) async fn delete(ctx: RequestCtx, _: NoQuery) -> Result<JsonReply<Success>, ApiError> {
    let id = ctx.id("id")?;
    ctx.api.store.delete_feed(ctx.app_no(), id).await?;
    Ok(JsonReply::success())
}
