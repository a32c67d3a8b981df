//! The calls that apps (`/device/v1`) and browsers (`/web/v1`) make for their own device. The secret of the device
//! proves that the caller is the device.

use notify_core::{
    DeviceId, Enrichment, EnrichmentQuery, Event, EventsAccepted, NoQuery, NotificationId,
    PresentedUserToken, Success, WebEvent,
};

use super::enrichments;
use super::users::log_in_with_token;
use crate::api::device_calls::DeviceCall;
use crate::api::error::ApiError;
use crate::api::json_reply::JsonReply;
use crate::api::request_ctx::RequestCtx;

/// The device in the path, if the request has its secret. A missing secret, a wrong one, an unknown device and a
/// device without a secret get the same error.
pub(super) async fn own_device(ctx: &RequestCtx) -> Result<DeviceId, ApiError> {
    let call = DeviceCall::of(ctx);
    let (Ok(device), Some(secret)) = (ctx.device_id(), call.secret) else {
        call.count_wrong_secret()?;
        return Err(ApiError::DeviceUnauthorized);
    };
    let is_own = has_secret(ctx, &call, &device, secret).await?;
    if is_own { Ok(device) } else { Err(ApiError::DeviceUnauthorized) }
}

/// Whether a secret, given as SHA-256, is that of a device of this kind. Counts the call.
///
/// # Errors
/// 429 above the limit of the device, or of the wrong secrets of the address.
pub(super) async fn has_secret(
    ctx: &RequestCtx,
    call: &DeviceCall<'_>,
    device: &DeviceId,
    secret: [u8; 32],
) -> Result<bool, ApiError> {
    let (store, app, id) = (&ctx.api.store, ctx.app_no(), device.clone());
    let read = async {
        match ctx.caller.web_origin() {
            Some(_) => store.is_device_secret(app, id, secret).await,
            None => store.is_app_device_secret(app, id, secret).await,
        }
    };
    call.check_secret(device, secret, read).await
}

/// `DELETE …/devices/{device_id}`.
pub(crate) async fn delete(ctx: RequestCtx, _: NoQuery) -> Result<JsonReply<Success>, ApiError> {
    let device = own_device(&ctx).await?;
    ctx.api.store.delete_device(ctx.app_no(), device, ctx.received_at).await?;
    Ok(JsonReply::success())
}

/// `PUT …/devices/{device_id}/user`. The token proves who the user is; an app or a page cannot name one.
pub(crate) async fn log_in(
    ctx: RequestCtx,
    token: PresentedUserToken,
) -> Result<JsonReply<Success>, ApiError> {
    let device = own_device(&ctx).await?;
    log_in_with_token(&ctx, device, &token).await
}

/// `DELETE …/devices/{device_id}/user`.
pub(crate) async fn log_out(ctx: RequestCtx, _: NoQuery) -> Result<JsonReply<Success>, ApiError> {
    let device = own_device(&ctx).await?;
    Ok(JsonReply::ok(ctx.api.store.log_out(ctx.app_no(), device).await?))
}

/// `POST …/devices/{device_id}/events`.
pub(crate) async fn report(
    ctx: RequestCtx,
    events: Vec<WebEvent>,
) -> Result<JsonReply<EventsAccepted>, ApiError> {
    let device = own_device(&ctx).await?;
    let to_event = |event: WebEvent| Event {
        kind: event.kind,
        notification_id: event.notification_id,
        device_id: device.clone(),
        at: event.at,
    };
    let events = events.into_iter().map(to_event).collect();
    Ok(ctx.api.store.record_events(ctx.app_no(), events, ctx.received_at, None).await?.into())
}

/// `GET …/devices/{device_id}/enrichments/{campaign_id}`.
pub(crate) async fn enrichment(
    ctx: RequestCtx,
    query: EnrichmentQuery,
) -> Result<JsonReply<Enrichment>, ApiError> {
    let device = own_device(&ctx).await?;
    if query.device_id.is_some() {
        return Err(ApiError::invalid("device_id", "is given in the path"));
    }
    let notification = query
        .notification_id
        .map(NotificationId::new)
        .transpose()
        .map_err(|_| ApiError::NotFound)?;
    enrichments::enrichment(&ctx, notification, Some(device)).await
}
