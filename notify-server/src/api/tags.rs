//! The application's tags (B24).

use notify_core::{ListPage, TagList};

use super::ctx::Ctx;
use super::error::ApiError;
use super::reply::Reply;
use crate::store::PageRequest;

/// `GET /v1/tags`.
pub(crate) async fn list(ctx: Ctx, page: ListPage) -> Result<Reply<TagList>, ApiError> {
    let page = PageRequest { limit: page.limit, cursor: page.cursor };
    let page = ctx.api().store.list_tags(ctx.app_no(), page).await?;
    Ok(Reply::now(TagList { tags: page.rows, next_cursor: page.next }))
}
