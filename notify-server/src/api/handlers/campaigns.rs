//! Campaigns.

use notify_core::{
    CampaignCreated, CampaignFeatureData, CampaignId, CampaignList, CampaignPage, CampaignRecord,
    CampaignStatus, CampaignTemplate, FeedId, FeedRef, NoQuery, Success,
};
use uuid::Uuid;

use crate::api::error::ApiError;
use crate::api::json_reply::JsonReply;
use crate::api::request_ctx::RequestCtx;
use crate::store::{CampaignDraft, audit};

/// `POST /v1/campaigns`.
pub(crate) async fn create(
    ctx: RequestCtx,
    template: CampaignTemplate,
) -> Result<JsonReply<CampaignCreated>, ApiError> {
    let id = CampaignId(Uuid::now_v7());
    audit::set_object(&id);
    let draft = make_draft(&ctx, id, template);
    Ok(ctx.api.store.create_campaign(ctx.app_no(), draft, ctx.idempotency_key()?).await?.into())
}

/// `GET /v1/campaigns`.
pub(crate) async fn list(
    ctx: RequestCtx,
    page: CampaignPage,
) -> Result<JsonReply<CampaignList>, ApiError> {
    let campaigns = ctx.api.store.list_campaigns(ctx.app_no(), page).await?;
    Ok(JsonReply::ok(CampaignList { campaigns }))
}

/// `GET /v1/campaigns/{id}`.
pub(crate) async fn get(
    ctx: RequestCtx,
    _: NoQuery,
) -> Result<JsonReply<CampaignRecord>, ApiError> {
    let id = ctx.id("id")?;
    Ok(JsonReply::ok(ctx.api.store.campaign(ctx.app_no(), id).await?))
}

/// `PUT /v1/campaigns/{id}`.
pub(crate) async fn replace(
    ctx: RequestCtx,
    template: CampaignTemplate,
) -> Result<JsonReply<Success>, ApiError> {
    let draft = make_draft(&ctx, ctx.id("id")?, template);
    ctx.api.store.replace_campaign(ctx.app_no(), draft).await?;
    Ok(JsonReply::success())
}

/// `PUT /v1/campaigns/{id}/status`.
pub(crate) async fn set_status(
    ctx: RequestCtx,
    status: CampaignStatus,
) -> Result<JsonReply<Success>, ApiError> {
    let id = ctx.id("id")?;
    ctx.api.store.set_campaign_status(ctx.app_no(), id, status).await?;
    Ok(JsonReply::success())
}

/// `DELETE /v1/campaigns/{id}`.
pub(crate) async fn delete(ctx: RequestCtx, _: NoQuery) -> Result<JsonReply<Success>, ApiError> {
    let id = ctx.id("id")?;
    ctx.api.store.delete_campaign(ctx.app_no(), id).await?;
    Ok(JsonReply::success())
}

/// The draft, with an id for each feed that it may create.
fn make_draft(ctx: &RequestCtx, id: CampaignId, template: CampaignTemplate) -> CampaignDraft {
    let mut feed_ids = Vec::new();
    for feature in &template.features {
        match &feature.data {
            CampaignFeatureData::ContentFeed(feed) => {
                let urls = feed.feeds.iter().filter(|feed| matches!(feed, FeedRef::Url { .. }));
                feed_ids.extend(urls.map(|_| FeedId(Uuid::now_v7())));
            }
            CampaignFeatureData::ExternalContent(_)
            | CampaignFeatureData::ActionButton(_)
            | CampaignFeatureData::CustomFeed(_) => {}
        }
    }
    CampaignDraft { id, template, feed_ids, at: ctx.received_at }
}
