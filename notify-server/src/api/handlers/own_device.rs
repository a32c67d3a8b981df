//! The device that an app or a browser calls for. The secret of the device proves that the caller is the device.

use notify_core::DeviceId;

use crate::api::device_calls::DeviceCall;
use crate::api::error::ApiError;
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
