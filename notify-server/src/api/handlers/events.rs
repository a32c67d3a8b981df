//! Engagement events.

use notify_core::{Event, EventsAccepted};

use crate::api::error::ApiError;
use crate::api::json_reply::JsonReply;
use crate::api::request_ctx::RequestCtx;

/// `POST /v1/events`.
pub(crate) async fn record(
    ctx: RequestCtx,
    events: Vec<Event>,
) -> Result<JsonReply<EventsAccepted>, ApiError> {
    let (app, at, once) = (ctx.app_no(), ctx.received_at, ctx.idempotency_key()?);
    Ok(ctx.api.store.record_events(app, events, at, once).await?.into())
}
