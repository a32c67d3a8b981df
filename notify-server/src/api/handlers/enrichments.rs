//! What a device shows beside a notification (B31).

use http::header;
use notify_core::{
    CampaignRef, DeviceId, Enrichment, EnrichmentQuery, NotificationId, Parameter, Query,
};

use crate::api::error::ApiError;
use crate::api::json_reply::Reply;
use crate::api::request_ctx::Ctx;

/// What a browser may ask: its device stands in the path.
pub(crate) const OF_BROWSERS: &[Parameter] = EnrichmentQuery::PARAMETERS.split_at(1).0;

/// `GET /v1/enrichments/{campaign_id}`. What is named beside the campaign is looked up each time: a
/// device is asked for once or twice, so that keeping the answer would be no gain.
pub(crate) async fn get(ctx: Ctx, query: EnrichmentQuery) -> Result<Reply<Enrichment>, ApiError> {
    let notification = query.notification_id.map(NotificationId::new).transpose();
    let device = query.device_id.map(DeviceId::new).transpose();
    let (Ok(notification), Ok(device)) = (notification, device) else {
        return Err(ApiError::NotFound);
    };
    answer(&ctx, notification, device).await
}

/// The campaign of the path, for whoever may ask.
pub(crate) async fn answer(
    ctx: &Ctx,
    notification: Option<NotificationId>,
    device: Option<DeviceId>,
) -> Result<Reply<Enrichment>, ApiError> {
    let campaign = match ctx.text("campaign_id")? {
        "default" => CampaignRef::Default,
        _ => CampaignRef::Id(ctx.id("campaign_id")?),
    };
    let (app, store) = (ctx.app_no(), &ctx.api().store);
    let named = notification.is_some() || device.is_some();
    if named && !store.names_exist(app, notification, device).await? {
        return Err(ApiError::NotFound);
    }
    let ready = ctx.api().enrichments.get(app, campaign).await?;
    Ok(Reply::ready(&ready, ctx.header(&header::IF_NONE_MATCH)))
}
