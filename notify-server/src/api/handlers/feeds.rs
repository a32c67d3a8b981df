//! Feeds (B30). Created and listed here; fetching them is not the API's, nor is looking at one, which
//! it only asks for.

use notify_core::{
    FeedCheck, FeedCreated, FeedId, FeedList, FeedToCheck, NewFeed, NoQuery, PageQuery, Success,
};
use uuid::Uuid;

use crate::api::error::ApiError;
use crate::api::json_reply::Reply;
use crate::api::request_ctx::{Ctx, page_request};
use crate::enrichment::feeds::CHECK_TIMEOUT;

/// `Retry-After` while too many feeds are being looked at, in seconds: as long as one may take.
const CHECK_RETRY_SECONDS: u64 = CHECK_TIMEOUT.as_secs();

/// `POST /v1/feeds`.
pub(crate) async fn create(ctx: Ctx, feed: NewFeed) -> Result<Reply<FeedCreated>, ApiError> {
    let id = FeedId(Uuid::now_v7());
    let (app, at, once) = (ctx.app_no(), ctx.at(), ctx.once()?);
    Ok(ctx.api().store.create_feed(app, id, feed, at, once).await?.into())
}

/// `POST /v1/feeds/check`. Nothing is kept of it; while too many are being looked at, the next one is
/// to come again.
pub(crate) async fn check(ctx: Ctx, feed: FeedToCheck) -> Result<Reply<FeedCheck>, ApiError> {
    let checked = ctx.api().feed_checks.check(ctx.app_no(), &feed.url).await;
    let busy = ApiError::RateLimited { retry_after_seconds: CHECK_RETRY_SECONDS };
    checked.map(Reply::now).ok_or(busy)
}

/// `GET /v1/feeds`.
pub(crate) async fn list(ctx: Ctx, page: PageQuery) -> Result<Reply<FeedList>, ApiError> {
    let page = page_request(page);
    let page = ctx.api().store.list_feeds(ctx.app_no(), page).await?;
    Ok(Reply::now(FeedList { feeds: page.rows, next_cursor: page.next }))
}

/// `DELETE /v1/feeds/{id}`.
pub(crate) async fn delete(ctx: Ctx, _: NoQuery) -> Result<Reply<Success>, ApiError> {
    let id = ctx.id("id")?;
    ctx.api().store.delete_feed(ctx.app_no(), id).await?;
    Ok(Reply::now(Success { success: true }))
}
