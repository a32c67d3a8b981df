//! Subscriptions: recipients other than phones, that is browsers, Messenger and Telegram.

use aws_lc_rs::agreement::{ECDH_P256, ParsedPublicKey, UnparsedPublicKey};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use notify_core::{DeviceId, Endpoint, Subscription, SubscriptionCreated, WebSubscription};
use uuid::Uuid;

use crate::api::error::ApiError;
use crate::api::json_reply::JsonReply;
use crate::api::request_ctx::RequestCtx;
use crate::outbound::Outbound;

/// `POST /v1/subscriptions`.
pub(crate) async fn create(
    ctx: RequestCtx,
    subscription: Subscription,
) -> Result<JsonReply<SubscriptionCreated>, ApiError> {
    if let Endpoint::Web(web) = &subscription.endpoint {
        check_web(web, &ctx.api.outbound)?;
    }
    let made = DeviceId::from(Uuid::now_v7());
    let (app, at, once) = (ctx.app_no(), ctx.received_at, ctx.idempotency_key()?);
    Ok(ctx.api.store.subscribe_device(app, subscription, made, at, once).await?.into())
}

/// The rules of web subscriptions that need addresses and a curve, which core does not have.
pub(super) fn check_web(web: &WebSubscription, outbound: &Outbound) -> Result<(), ApiError> {
    let mut broken = Vec::new();
    if let Err(rule) = outbound.target(&web.endpoint) {
        broken.push(format!("subscription.endpoint: {rule}"));
    }
    if !is_on_curve(&web.p256dh) {
        broken.push("subscription.keys.p256dh: must be a point of the curve P-256".to_owned());
    }
    if broken.is_empty() { Ok(()) } else { Err(ApiError::Invalid(broken)) }
}

/// Encryption fails with a point that is not on the curve; it is refused now instead of at every
/// message.
fn is_on_curve(p256dh: &str) -> bool {
    let Ok(point) = URL_SAFE_NO_PAD.decode(p256dh) else { return false };
    ParsedPublicKey::try_from(UnparsedPublicKey::new(&ECDH_P256, point)).is_ok()
}
