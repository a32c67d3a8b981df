//! Why a device did or did not get a notification (B38).

mod steps;

use notify_core::{Explanation, NoQuery, Platform};

use super::ctx::Ctx;
use super::error::ApiError;
use super::reply::Reply;
use crate::api::Api;
use crate::channel::{ChannelState, ServiceState};
use crate::store::AppNo;
use steps::Channel;

/// `GET /v1/notifications/{id}/explain/{device_id}`.
pub(crate) async fn explain(ctx: Ctx, _: NoQuery) -> Result<Reply<Explanation>, ApiError> {
    let (id, device_id) = (ctx.notification_id()?, ctx.device_id()?);
    let (api, app) = (ctx.api(), ctx.app_no());
    let facts = api.store.delivery_facts(app, id, device_id.clone()).await?;
    let platform = facts.device.platform;
    let mut channel = Channel {
        is_configured: api.store.provider(app, platform.provider()).await?.is_some(),
        state: api.channels.state(app, platform),
        service: None,
    };
    if let (ChannelState::Open, Some(service)) = (&channel.state, &facts.device.service)
        && let Some(closed) = closed_service(api, (app, platform), service)
    {
        channel.state = closed.state;
        channel.service = Some(closed.service.into());
    }
    let (outcome, steps) = steps::explain(&facts, &channel);
    Ok(Reply::now(Explanation { device_id, outcome, steps }))
}

/// The push service of that name, if nothing goes out to it now.
fn closed_service(
    api: &Api,
    (app, platform): (AppNo, Platform),
    service: &str,
) -> Option<ServiceState> {
    let mut closed = api.channels.closed_services(app, platform).into_iter();
    closed.find(|closed| &*closed.service == service)
}
