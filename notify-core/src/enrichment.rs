//! Enrichment answers (B31).

use serde::{Deserialize, Serialize};

use crate::{
    CampaignArticle, CampaignButton, CampaignId, CampaignLayout, CampaignSettings, ExternalOrigin,
    Timestamp,
};

/// Answer of `GET /v1/enrichments/:campaign_id` (B31).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Enrichment {
    /// The campaign; its id also where `default` was asked for.
    pub campaign_id: CampaignId,
    /// Layout.
    pub layout_id: CampaignLayout,
    /// Settings with defaults filled in.
    pub settings: CampaignSettings,
    /// Texts by name.
    pub strings: std::collections::BTreeMap<String, String>,
    /// Features sorted by position.
    pub features: Vec<EnrichmentFeature>,
}

/// A feature of an [`Enrichment`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EnrichmentFeature {
    /// Position, from 1.
    pub position: u32,
    /// `type` and `data`.
    #[serde(flatten)]
    pub data: EnrichmentFeatureData,
}

/// `type` and `data` of an [`EnrichmentFeature`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "type", content = "data", rename_all = "snake_case")]
pub enum EnrichmentFeatureData {
    /// Content of own feeds, resolved.
    ContentFeed {
        /// Newest first, as many as the layout shows.
        items: Vec<FeedItem>,
        /// Open external content in an external browser.
        view_ext_on_browser: bool,
        /// Show the title above recommendations.
        recommendations_title: bool,
    },
    /// Content of an external provider.
    ExternalContent {
        /// Origin.
        #[serde(rename = "type")]
        kind: ExternalOrigin,
        /// Widget id.
        ob_widget_id: String,
        /// Open promoted content in an external browser.
        view_ext_on_browser: bool,
        /// Show the title above recommendations.
        recommendations_title: bool,
    },
    /// An action button.
    ActionButton(CampaignButton),
    /// Fixed articles.
    CustomFeed {
        /// The articles.
        articles: Vec<CampaignArticle>,
        /// Show the title above recommendations.
        recommendations_title: bool,
    },
}

/// An item of a feed (B31).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FeedItem {
    /// Title.
    pub title: String,
    /// Link.
    pub url: String,
    /// Thumbnail.
    pub image_url: Option<String>,
    /// Publication, unix ms.
    pub published_at: Option<Timestamp>,
    /// Name of the feed.
    pub source: String,
    /// Whether it is external content.
    pub is_external: bool,
}
