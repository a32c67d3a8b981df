//! Engagement events (B33).

use notify_core::{Event, EventsAccepted};

use crate::api::error::ApiError;
use crate::api::json_reply::Reply;
use crate::api::request_ctx::Ctx;

/// `POST /v1/events`.
pub(crate) async fn record(
    ctx: Ctx,
    events: Vec<Event>,
) -> Result<Reply<EventsAccepted>, ApiError> {
    let (app, at, once) = (ctx.app_no(), ctx.at(), ctx.once()?);
    Ok(ctx.api().store.record_events(app, events, at, once).await?.into())
}
