//! The outcome of a notification for each device.

use notify_core::{DeliveryList, LIMIT_DEFAULT, ListDeliveries};

use crate::api::error::ApiError;
use crate::api::json_reply::JsonReply;
use crate::api::request_ctx::RequestCtx;
use crate::store::PageRequest;

/// `GET /v1/notifications/{id}/deliveries`.
pub(crate) async fn list(
    ctx: RequestCtx,
    query: ListDeliveries,
) -> Result<JsonReply<DeliveryList>, ApiError> {
    let id = ctx.notification_id()?;
    let page = PageRequest { limit: query.limit.unwrap_or(LIMIT_DEFAULT), cursor: query.cursor };
    let page = ctx.api.store.list_deliveries(ctx.app_no(), id, query.outcome, page).await?;
    Ok(JsonReply::ok(DeliveryList { deliveries: page.rows, next_cursor: page.next }))
}
