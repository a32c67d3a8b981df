//! Recipients that are no phones: browsers, Messenger, the chat app (B25).

use notify_core::{DeviceId, Endpoint, Subscription, SubscriptionCreated};
use uuid::Uuid;

use super::ctx::Ctx;
use super::error::ApiError;
use super::network::names_private_address;
use super::reply::Reply;

/// `POST /v1/subscriptions`.
pub(crate) async fn create(
    ctx: Ctx,
    subscription: Subscription,
) -> Result<Reply<SubscriptionCreated>, ApiError> {
    if let Endpoint::Web(web) = &subscription.endpoint
        && !ctx.api().config.allow_private_networks
        && names_private_address(&web.endpoint)
    {
        let what = "must not be a private address";
        return Err(ApiError::invalid("subscription.endpoint", what));
    }
    let made = DeviceId::from(Uuid::now_v7());
    let (app, at, once) = (ctx.app_no(), ctx.at(), ctx.once()?);
    Ok(ctx.api().store.subscribe_device(app, subscription, made, at, once).await?.into())
}
