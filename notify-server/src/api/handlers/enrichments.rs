//! Enrichments: what a device shows in addition to a notification.

use http::header;
use notify_core::{
    CampaignRef, DeviceId, Enrichment, EnrichmentQuery, NotificationId, Parameter, Query,
};

use crate::api::error::ApiError;
use crate::api::json_reply::JsonReply;
use crate::api::request_ctx::RequestCtx;

/// The query parameters of browsers: only the first one, `notification_id`. The device of a browser
/// is in the path.
pub(crate) const BROWSER_QUERY: &[Parameter] = EnrichmentQuery::PARAMETERS.split_at(1).0;

/// `GET /v1/enrichments/{campaign_id}`. Only the enrichment is cached. The existence of the notification
/// and the device is read from the store every time: a device requests an enrichment once or twice, so a
/// cache would rarely be hit.
pub(crate) async fn get(
    ctx: RequestCtx,
    query: EnrichmentQuery,
) -> Result<JsonReply<Enrichment>, ApiError> {
    let notification = query.notification_id.map(NotificationId::new).transpose();
    let device = query.device_id.map(DeviceId::new).transpose();
    let (Ok(notification), Ok(device)) = (notification, device) else {
        return Err(ApiError::NotFound);
    };
    enrichment(&ctx, notification, device).await
}

/// The enrichment of the campaign in the path, for an authenticated caller.
pub(crate) async fn enrichment(
    ctx: &RequestCtx,
    notification: Option<NotificationId>,
    device: Option<DeviceId>,
) -> Result<JsonReply<Enrichment>, ApiError> {
    let campaign = match &*ctx.path_param("campaign_id")? {
        "default" => CampaignRef::Default,
        _ => CampaignRef::Id(ctx.id("campaign_id")?),
    };
    let (app, store) = (ctx.app_no(), &ctx.api.store);
    let has_ids = notification.is_some() || device.is_some();
    if has_ids && !store.names_exist(app, notification, device).await? {
        return Err(ApiError::NotFound);
    }
    let cached = ctx.api.enrichments.get(app, campaign).await?;
    Ok(JsonReply::cached(&cached, ctx.headers().get(header::IF_NONE_MATCH)))
}
