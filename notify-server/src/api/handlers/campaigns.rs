//! Campaigns (spec 4.4, B27, B28).

use notify_core::{
    CampaignCreated, CampaignFeatureData, CampaignId, CampaignList, CampaignPage, CampaignRecord,
    CampaignStatus, CampaignTemplate, FeedId, FeedRef, NoQuery, Success,
};
use uuid::Uuid;

use crate::api::error::ApiError;
use crate::api::json_reply::Reply;
use crate::api::request_ctx::Ctx;
use crate::store::CampaignDraft;

/// `POST /v1/campaigns`.
pub(crate) async fn create(
    ctx: Ctx,
    template: CampaignTemplate,
) -> Result<Reply<CampaignCreated>, ApiError> {
    let draft = draft(&ctx, CampaignId(Uuid::now_v7()), template);
    Ok(ctx.api().store.create_campaign(ctx.app_no(), draft, ctx.once()?).await?.into())
}

/// `GET /v1/campaigns`.
pub(crate) async fn list(ctx: Ctx, page: CampaignPage) -> Result<Reply<CampaignList>, ApiError> {
    let campaigns = ctx.api().store.list_campaigns(ctx.app_no(), page).await?;
    Ok(Reply::now(CampaignList { campaigns }))
}

/// `GET /v1/campaigns/{id}`.
pub(crate) async fn get(ctx: Ctx, _: NoQuery) -> Result<Reply<CampaignRecord>, ApiError> {
    let id = ctx.id("id")?;
    Ok(Reply::now(ctx.api().store.campaign(ctx.app_no(), id).await?))
}

/// `PUT /v1/campaigns/{id}`.
pub(crate) async fn replace(
    ctx: Ctx,
    template: CampaignTemplate,
) -> Result<Reply<Success>, ApiError> {
    let draft = draft(&ctx, ctx.id("id")?, template);
    ctx.api().store.replace_campaign(ctx.app_no(), draft).await?;
    Ok(Reply::now(Success { success: true }))
}

/// `PUT /v1/campaigns/{id}/status`.
pub(crate) async fn set_status(
    ctx: Ctx,
    status: CampaignStatus,
) -> Result<Reply<Success>, ApiError> {
    let id = ctx.id("id")?;
    ctx.api().store.set_campaign_status(ctx.app_no(), id, status).await?;
    Ok(Reply::now(Success { success: true }))
}

/// `DELETE /v1/campaigns/{id}`.
pub(crate) async fn delete(ctx: Ctx, _: NoQuery) -> Result<Reply<Success>, ApiError> {
    let id = ctx.id("id")?;
    ctx.api().store.delete_campaign(ctx.app_no(), id).await?;
    Ok(Reply::now(Success { success: true }))
}

/// The draft, with an id for each feed that it may make (B29).
fn draft(ctx: &Ctx, id: CampaignId, template: CampaignTemplate) -> CampaignDraft {
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
    CampaignDraft { id, template, feed_ids, at: ctx.at() }
}
