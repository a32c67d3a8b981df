//! The tags of an application.

use notify_core::{PageQuery, TagList};

use crate::api::error::ApiError;
use crate::api::json_reply::JsonReply;
use crate::api::request_ctx::{RequestCtx, page_request};

/// `GET /v1/tags`.
pub(crate) async fn list(ctx: RequestCtx, page: PageQuery) -> Result<JsonReply<TagList>, ApiError> {
    let page = page_request(page);
    let page = ctx.api.store.list_tags(ctx.app_no(), page).await?;
    Ok(JsonReply::ok(TagList { tags: page.rows, next_cursor: page.next }))
}
