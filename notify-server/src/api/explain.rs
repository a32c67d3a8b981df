//! Why a device did or did not get a notification (B38).

mod steps;

use notify_core::{Explanation, NoQuery};

use super::ctx::Ctx;
use super::error::ApiError;
use super::reply::Reply;
use steps::Channel;

/// `GET /v1/notifications/{id}/explain/{device_id}`.
pub(crate) async fn explain(ctx: Ctx, _: NoQuery) -> Result<Reply<Explanation>, ApiError> {
    let (id, device_id) = (ctx.notification_id()?, ctx.device_id()?);
    let (api, app) = (ctx.api(), ctx.app_no());
    let facts = api.store.delivery_facts(app, id, device_id.clone()).await?;
    let platform = facts.device.platform;
    let channel = Channel {
        is_configured: api.store.provider(app, platform.provider()).await?.is_some(),
        state: api.channels.state(app, platform),
    };
    let (outcome, steps) = steps::explain(&facts, &channel);
    Ok(Reply::now(Explanation { device_id, outcome, steps }))
}
