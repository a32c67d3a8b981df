//! The application's tags (B24).

use notify_core::{PageQuery, TagList};

use super::ctx::{Ctx, page_request};
use super::error::ApiError;
use super::reply::Reply;

/// `GET /v1/tags`.
pub(crate) async fn list(ctx: Ctx, page: PageQuery) -> Result<Reply<TagList>, ApiError> {
    let page = page_request(page);
    let page = ctx.api().store.list_tags(ctx.app_no(), page).await?;
    Ok(Reply::now(TagList { tags: page.rows, next_cursor: page.next }))
}
