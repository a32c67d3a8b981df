//! The application's tags (B24).

use notify_core::{PageQuery, TagList};

use crate::api::error::ApiError;
use crate::api::json_reply::Reply;
use crate::api::request_ctx::{Ctx, page_request};

/// `GET /v1/tags`.
pub(crate) async fn list(ctx: Ctx, page: PageQuery) -> Result<Reply<TagList>, ApiError> {
    let page = page_request(page);
    let page = ctx.api().store.list_tags(ctx.app_no(), page).await?;
    Ok(Reply::now(TagList { tags: page.rows, next_cursor: page.next }))
}
