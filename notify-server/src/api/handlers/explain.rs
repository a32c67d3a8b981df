//! Explains why a device did or did not receive a notification.

mod steps;

use notify_core::{
    CreateNotification, DeviceId, Explanation, NoQuery, NotificationRecord, Platform,
    ProviderStatus, Request, ServiceView,
};

use crate::api::Api;
use crate::api::error::ApiError;
use crate::api::json_reply::JsonReply;
use crate::api::request_ctx::RequestCtx;
use crate::store::AppNo;
use steps::Channel;

/// `GET /v1/notifications/{id}/explain/{device_id}`.
pub(crate) async fn explain(
    ctx: RequestCtx,
    _: NoQuery,
) -> Result<JsonReply<Explanation>, ApiError> {
    let (id, device_id) = (ctx.notification_id()?, ctx.device_id()?);
    let (api, app) = (&ctx.api, ctx.app_no());
    let facts = api.store.delivery_facts(app, id.clone(), device_id.clone()).await?;
    let platform = facts.device.platform;
    let mut channel = Channel {
        is_configured: api.store.provider(app, platform.provider()).await?.is_some(),
        status: api.operations.engine.provider_status(app, platform),
        service: None,
    };
    if let (ProviderStatus::Available, Some(name)) = (&channel.status, &facts.device.service)
        && let Some(service) = unavailable_service(api, app, platform, name)
    {
        channel.status = service.status;
        channel.service = Some(service.service);
    }
    let named_under = if facts.notification.names_devices && !facts.device.is_named {
        named_under(&api.store.notification(app, id).await?, &device_id)
    } else {
        None
    };
    let (outcome, steps) = steps::explain(&facts, &channel, named_under);
    Ok(JsonReply::ok(Explanation { device_id, outcome, steps }))
}

/// The platform whose list of ids contains the device.
fn named_under(notification: &NotificationRecord, device: &DeviceId) -> Option<Platform> {
    let request = CreateNotification::from_json(notification.request.as_str().as_bytes()).ok()?;
    let lists =
        [(Platform::Android, request.android_device_ids), (Platform::Ios, request.ios_device_ids)];
    let names = |ids: &Vec<String>| ids.iter().any(|id| id == device.as_str());
    let list = lists.into_iter().find(|(_, ids)| ids.as_ref().is_some_and(names));
    list.map(|(platform, _)| platform)
}

/// The status of a push service, if deliveries to it wait.
fn unavailable_service(
    api: &Api,
    app: AppNo,
    platform: Platform,
    name: &str,
) -> Option<ServiceView> {
    let services = api.operations.engine.unavailable_services(app, platform);
    services.into_iter().find(|service| service.service == name)
}
