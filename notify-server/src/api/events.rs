//! Engagement events (B33).

use notify_core::{Event, EventsAccepted};

use super::ctx::Ctx;
use super::error::ApiError;
use super::reply::Reply;

/// `POST /v1/events`.
pub(crate) async fn record(
    ctx: Ctx,
    events: Vec<Event>,
) -> Result<Reply<EventsAccepted>, ApiError> {
    let (app, at, once) = (ctx.app_no(), ctx.at(), ctx.once()?);
    Ok(ctx.api().store.record_events(app, events, at, once).await?.into())
}
