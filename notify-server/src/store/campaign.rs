//! Campaigns (B27, B28).

use async_trait::async_trait;
use notify_core::{
    Campaign, CampaignCreated, CampaignId, CampaignPage, CampaignRecord, CampaignRef,
    CampaignStatus, CampaignTemplate, FeedId, Timestamp,
};

use super::{AppNo, Done, FeedItemRow, Once, StoreError};

/// A campaign to make or to replace. Feeds that it names by url are made beside it, or reused.
#[derive(Debug, Clone)]
pub struct CampaignDraft {
    /// Id of the campaign.
    pub id: CampaignId,
    /// The template.
    pub template: CampaignTemplate,
    /// Ids for the feeds that it may make, one for each url in order.
    pub feed_ids: Vec<FeedId>,
    /// Now.
    pub at: Timestamp,
}

/// A campaign and what its feeds hold.
#[derive(Debug, Clone)]
pub struct ShownCampaign {
    /// The campaign.
    pub record: CampaignRecord,
    /// Its feeds.
    pub feeds: Vec<ShownFeed>,
}

/// A feed with its newest items.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownFeed {
    /// Id.
    pub id: FeedId,
    /// Name.
    pub name: String,
    /// Newest first.
    pub items: Vec<FeedItemRow>,
}

/// Campaigns.
#[async_trait]
pub trait CampaignStore {
    /// Makes a campaign, and the feeds that it names by url, in one transaction. A feed id that
    /// names nothing is refused with its path; a new default takes it from the old one.
    async fn create_campaign(
        &self,
        app: AppNo,
        draft: CampaignDraft,
        once: Option<Once>,
    ) -> Result<Done<CampaignCreated>, StoreError>;

    /// Replaces the template of a campaign (B27).
    async fn replace_campaign(&self, app: AppNo, draft: CampaignDraft) -> Result<(), StoreError>;

    /// Activates or disables a campaign (B27).
    async fn set_campaign_status(
        &self,
        app: AppNo,
        id: CampaignId,
        status: CampaignStatus,
    ) -> Result<(), StoreError>;

    /// Deletes a campaign that no notification names (B27).
    async fn delete_campaign(&self, app: AppNo, id: CampaignId) -> Result<(), StoreError>;

    /// Reads a campaign; its template names every feed by id.
    async fn campaign(&self, app: AppNo, id: CampaignId) -> Result<CampaignRecord, StoreError>;

    /// Reads an active campaign.
    async fn active_campaign(
        &self,
        app: AppNo,
        campaign: CampaignRef,
    ) -> Result<CampaignRecord, StoreError>;

    /// Reads an active campaign with the newest items of its feeds, as many of each as its layout
    /// shows, all as of one moment (B31).
    async fn shown_campaign(
        &self,
        app: AppNo,
        campaign: CampaignRef,
    ) -> Result<ShownCampaign, StoreError>;

    /// Lists campaigns, newest first, equal times by id descending (B28).
    async fn list_campaigns(
        &self,
        app: AppNo,
        page: CampaignPage,
    ) -> Result<Vec<Campaign>, StoreError>;
}
