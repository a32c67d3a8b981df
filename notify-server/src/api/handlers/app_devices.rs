//! The API of apps for their own device, with a publishable key (`/device/v1`). The key is in the app, so
//! everyone can read it. The secret of the device proves that a caller is the device.

use notify_core::{
    AppDevice, AppDeviceRegistration, AttributeChanges, DeviceId, DeviceLimits, NoBody, Success,
    Tag,
};
use uuid::Uuid;

use super::own_device::{has_secret, own_device};
use crate::api::device_calls::DeviceCall;
use crate::api::error::ApiError;
use crate::api::json_reply::JsonReply;
use crate::api::request_ctx::RequestCtx;
use crate::keys::{make_device_secret, sha256};
use crate::store::NewAppDevice;

/// `POST /device/v1/devices`.
pub(crate) async fn register(
    ctx: RequestCtx,
    registration: AppDeviceRegistration,
) -> Result<JsonReply<AppDevice>, ApiError> {
    let call = DeviceCall::of(&ctx);
    let credentials = registration.device.clone();
    let existing = credentials.map(|device| (device.device_id, sha256(device.secret.as_bytes())));
    match &existing {
        Some((device, secret)) => {
            if !has_secret(&ctx, &call, device, *secret).await? {
                return Err(ApiError::DeviceUnauthorized);
            }
        }
        None => call.count_registration()?,
    }
    let is_new = existing.is_none();
    let (secret, hash) = make_device_secret();
    let device = NewAppDevice {
        registration,
        existing,
        generated_id: DeviceId::from(Uuid::now_v7()),
        secret: hash,
    };
    let id = ctx.api.store.register_app_device(ctx.app_no(), device, ctx.received_at).await?;
    let device_id = id.ok_or(ApiError::DeviceUnauthorized)?;
    if is_new {
        call.remember(device_id.clone(), hash);
    }
    Ok(JsonReply::ok(AppDevice { device_id, device_secret: is_new.then_some(secret) }))
}

/// `POST /device/v1/devices/{device_id}/tags`.
pub(crate) async fn set_tags(
    ctx: RequestCtx,
    tags: Vec<Tag>,
) -> Result<JsonReply<Success>, ApiError> {
    let device = own_device(&ctx).await?;
    check_tags(&ctx.device_limits().allowed_tags, &tags, "apps")?;
    Ok(ctx.api.store.set_tags(ctx.app_no(), device, tags, None).await?.into())
}

/// `POST /device/v1/devices/{device_id}/attributes`.
pub(crate) async fn change_attributes(
    ctx: RequestCtx,
    changes: AttributeChanges,
) -> Result<JsonReply<Success>, ApiError> {
    let device = own_device(&ctx).await?;
    check_attributes(ctx.device_limits(), &changes)?;
    Ok(JsonReply::ok(ctx.api.store.change_attributes(ctx.app_no(), device, changes).await?))
}

/// `POST /v1/devices/{device_id}/secret`. The response is the only place that shows the secret: a repeated
/// request makes another one.
pub(crate) async fn make_secret(
    ctx: RequestCtx,
    _: NoBody,
) -> Result<JsonReply<AppDevice>, ApiError> {
    let device_id = ctx.device_id()?;
    // The header is checked, although nothing is stored under it.
    ctx.idempotency_key()?;
    let (secret, hash) = make_device_secret();
    ctx.api.store.give_device_secret(ctx.app_no(), device_id.clone(), hash).await?;
    Ok(JsonReply::ok(AppDevice { device_id, device_secret: Some(secret) }))
}

/// An application may use a tag to grant something. `setters` (apps, browsers) may therefore set only the tags
/// that are allowed.
pub(super) fn check_tags(
    allowed_tags: &[String],
    tags: &[Tag],
    setters: &str,
) -> Result<(), ApiError> {
    let violations: Vec<String> = tags
        .iter()
        .enumerate()
        .filter(|(_, tag)| !allowed_tags.contains(&tag.name))
        .map(|(index, _)| format!("tags[{index}].name: is not a tag that {setters} may set"))
        .collect();
    if violations.is_empty() { Ok(()) } else { Err(ApiError::Invalid(violations)) }
}

/// As [`check_tags`], for setting and for removing an attribute.
fn check_attributes(limits: &DeviceLimits, changes: &AttributeChanges) -> Result<(), ApiError> {
    let violations: Vec<String> = changes
        .0
        .keys()
        .filter(|name| !limits.allowed_attributes.contains(name))
        .map(|name| format!("{name}: is not an attribute that apps may set"))
        .collect();
    if violations.is_empty() { Ok(()) } else { Err(ApiError::Invalid(violations)) }
}
