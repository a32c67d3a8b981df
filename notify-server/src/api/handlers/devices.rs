//! Devices: registration, lists, deletion and tags; subscriptions, which are devices other than
//! phones (browsers, Messenger and Telegram); and the engagement events of devices.

use std::sync::Arc;

use aws_lc_rs::agreement::{ECDH_P256, ParsedPublicKey, UnparsedPublicKey};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use notify_core::{
    Device, DeviceId, DeviceList, DeviceRegistered, Endpoint, Event, EventsAccepted, LIMIT_DEFAULT,
    ListDevices, NoQuery, PageQuery, Registration, Subscription, SubscriptionCreated, Success, Tag,
    TagList, UserId, WebSubscription,
};
use uuid::Uuid;

use crate::api::error::ApiError;
use crate::api::json_reply::JsonReply;
use crate::api::request_ctx::{RequestCtx, page_request};
use crate::outbound::Outbound;
use crate::store::{DeviceCondition, DeviceFilter, PageRequest, StoreError};

/// `POST /v1/devices`.
pub(crate) async fn register(
    ctx: RequestCtx,
    registration: Registration,
) -> Result<JsonReply<DeviceRegistered>, ApiError> {
    let (app, at, idempotency_key) = (ctx.app_no(), ctx.received_at, ctx.idempotency_key()?);
    Ok(ctx.api.store.register_device(app, registration, at, idempotency_key).await?.into())
}

/// `GET /v1/devices/{device_id}`.
pub(crate) async fn get(ctx: RequestCtx, _: NoQuery) -> Result<JsonReply<Device>, ApiError> {
    let id = ctx.device_id()?;
    let device = ctx.api.store.device(ctx.app_no(), id).await?;
    Ok(JsonReply::ok(as_readable(&ctx, device)))
}

/// A device without its address, unless the caller may read it.
fn as_readable(ctx: &RequestCtx, device: Device) -> Device {
    if ctx.may_read_addresses() { device } else { device.without_address() }
}

/// `GET /v1/devices`.
pub(crate) async fn list(
    ctx: RequestCtx,
    query: ListDevices,
) -> Result<JsonReply<DeviceList>, ApiError> {
    let ListDevices { limit, cursor, platform, tag, state, push_token, segment, user_id } = query;
    let condition = match segment {
        Some(name) => {
            let segment = ctx.api.store.segment(ctx.app_no(), name).await;
            let segment = segment.map_err(|error| match error {
                StoreError::NotFound => ApiError::invalid("segment", "there is no such segment"),
                error => error.into(),
            })?;
            let condition = Arc::new(segment.audience.validate()?);
            Some(DeviceCondition { condition, at: ctx.received_at })
        }
        None => None,
    };
    let user =
        user_id.map(UserId::new).transpose().map_err(|rule| ApiError::invalid("user_id", rule))?;
    let filter = DeviceFilter { platform, tag, state, address: push_token, user, condition };
    let request = PageRequest { limit: limit.unwrap_or(LIMIT_DEFAULT), cursor };
    let page = ctx.api.store.list_devices(ctx.app_no(), filter, request).await?;
    let devices = page.rows.into_iter().map(|device| as_readable(&ctx, device)).collect();
    Ok(JsonReply::ok(DeviceList { devices, next_cursor: page.next }))
}

/// `DELETE /v1/devices/{device_id}`.
pub(crate) async fn delete(ctx: RequestCtx, _: NoQuery) -> Result<JsonReply<Success>, ApiError> {
    let id = ctx.device_id()?;
    ctx.api.store.delete_device(ctx.app_no(), id, ctx.received_at).await?;
    Ok(JsonReply::success())
}

/// `POST /v1/devices/{device_id}/tags`.
pub(crate) async fn set_tags(
    ctx: RequestCtx,
    tags: Vec<Tag>,
) -> Result<JsonReply<Success>, ApiError> {
    let id = ctx.device_id()?;
    Ok(ctx.api.store.set_tags(ctx.app_no(), id, tags, ctx.idempotency_key()?).await?.into())
}

/// `DELETE /v1/devices/{device_id}/tags/{name}`.
pub(crate) async fn remove_tag(
    ctx: RequestCtx,
    _: NoQuery,
) -> Result<JsonReply<Success>, ApiError> {
    let id = ctx.device_id()?;
    let name = ctx.path_param("name")?.into_owned();
    ctx.api.store.remove_tag(ctx.app_no(), id, name).await?;
    Ok(JsonReply::success())
}

/// `POST /v1/subscriptions`.
pub(crate) async fn subscribe(
    ctx: RequestCtx,
    subscription: Subscription,
) -> Result<JsonReply<SubscriptionCreated>, ApiError> {
    if let Endpoint::Web(web) = &subscription.endpoint {
        check_web_subscription(web, &ctx.api.outbound)?;
    }
    let new_id = DeviceId::from(Uuid::now_v7());
    let (app, at, idempotency_key) = (ctx.app_no(), ctx.received_at, ctx.idempotency_key()?);
    Ok(ctx.api.store.subscribe_device(app, subscription, new_id, at, idempotency_key).await?.into())
}

/// Checks the rules of web subscriptions that notify-core cannot check: the server must be allowed
/// to call the endpoint, and the key must be a point of the curve P-256.
pub(super) fn check_web_subscription(
    web: &WebSubscription,
    outbound: &Outbound,
) -> Result<(), ApiError> {
    let mut violations = Vec::new();
    if let Err(rule) = outbound.target(&web.endpoint) {
        violations.push(format!("subscription.endpoint: {rule}"));
    }
    if !is_on_curve(&web.p256dh) {
        violations.push("subscription.keys.p256dh: must be a point of the curve P-256".to_owned());
    }
    if violations.is_empty() { Ok(()) } else { Err(ApiError::Invalid(violations)) }
}

/// Whether a key is a point of the curve. With any other point the encryption of every message
/// would fail, so the subscription is refused.
fn is_on_curve(p256dh: &str) -> bool {
    let Ok(point) = URL_SAFE_NO_PAD.decode(p256dh) else { return false };
    ParsedPublicKey::try_from(UnparsedPublicKey::new(&ECDH_P256, point)).is_ok()
}

/// `GET /v1/tags`.
pub(crate) async fn list_tags(
    ctx: RequestCtx,
    query: PageQuery,
) -> Result<JsonReply<TagList>, ApiError> {
    let page = ctx.api.store.list_tags(ctx.app_no(), page_request(query)).await?;
    Ok(JsonReply::ok(TagList { tags: page.rows, next_cursor: page.next }))
}

/// `POST /v1/events`.
pub(crate) async fn record_events(
    ctx: RequestCtx,
    events: Vec<Event>,
) -> Result<JsonReply<EventsAccepted>, ApiError> {
    let (app, at, idempotency_key) = (ctx.app_no(), ctx.received_at, ctx.idempotency_key()?);
    Ok(ctx.api.store.record_events(app, events, at, idempotency_key).await?.into())
}
