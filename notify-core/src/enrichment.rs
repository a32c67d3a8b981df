//! Enrichments: the content that devices show with a notification.

use serde::{Deserialize, Serialize};

use crate::{
    CampaignButton, CampaignCustomFeed, CampaignExternalContent, CampaignFeature,
    CampaignFeatureData, CampaignId, CampaignLayout, CampaignSettings, CampaignTemplate,
    FeatureKind, FeedRef, Parameter, ParameterForm, Query, Timestamp, Violations, WireFeature,
    request::Parameters, wire_url,
};

/// Answer of `GET /v1/enrichments/:campaign_id`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Enrichment {
    /// Id of the campaign, even if the request was for `default`.
    pub campaign_id: CampaignId,
    /// Layout.
    pub layout_id: CampaignLayout,
    /// Settings.
    pub settings: CampaignSettings,
    /// Constant texts by name.
    pub strings: std::collections::BTreeMap<String, String>,
    /// Features, sorted by position.
    pub features: Vec<EnrichmentFeature>,
}

/// A feature of an [`Enrichment`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(try_from = "WireFeature")]
pub struct EnrichmentFeature {
    /// Position in the notification, from 1.
    pub position: u32,
    /// `type` and `data`.
    #[serde(flatten)]
    pub data: EnrichmentFeatureData,
}

/// `type` and `data` of an [`EnrichmentFeature`].
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "type", content = "data", rename_all = "snake_case")]
#[expect(clippy::large_enum_variant, reason = "a template holds a handful, most of them buttons")]
pub enum EnrichmentFeatureData {
    /// Articles of feeds.
    ContentFeed(EnrichmentContentFeed),
    /// Content of an external provider.
    ExternalContent(CampaignExternalContent),
    /// An action button.
    ActionButton(CampaignButton),
    /// Fixed articles.
    CustomFeed(CampaignCustomFeed),
}

/// Articles of feeds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EnrichmentContentFeed {
    /// The newest articles, newest first; not more than the layout shows.
    pub items: Vec<FeedItem>,
    /// Open external articles in the browser.
    pub view_ext_on_browser: bool,
    /// Show the title above recommendations.
    pub recommendations_title: bool,
}

/// An article of a feed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FeedItem {
    /// Title.
    pub title: String,
    /// Url of the article.
    pub url: String,
    /// Url of the thumbnail.
    pub image_url: Option<String>,
    /// Time of publication, unix ms.
    pub published_at: Option<Timestamp>,
    /// Name of the feed.
    pub source: String,
    /// Whether the article is external content.
    pub is_external: bool,
}

/// Query of `GET /v1/enrichments/:campaign_id`. A malformed id is not a violation: the server answers
/// 404, as it does for any unknown id.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EnrichmentQuery {
    /// Id of the notification that is shown.
    pub notification_id: Option<String>,
    /// Id of the device that shows it.
    pub device_id: Option<String>,
}

impl Query for EnrichmentQuery {
    type Valid = Self;
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::new(
            "notification_id",
            ParameterForm::NonEmpty,
            "Id of the notification that is shown",
        ),
        Parameter::new("device_id", ParameterForm::NonEmpty, "Id of the device that shows it"),
    ];

    fn parse(parameters: &[(String, String)], _now: Timestamp) -> Result<Self, Violations> {
        let mut parameters = Parameters::new(parameters, Self::PARAMETERS);
        let query = Self {
            notification_id: parameters.non_empty("notification_id").map(str::to_owned),
            device_id: parameters.non_empty("device_id").map(str::to_owned),
        };
        parameters.finish(Some(query))
    }
}

impl Enrichment {
    /// Builds the enrichment of a template. `items_of` returns the stored items of the given feeds, in
    /// any order. The enrichment has the newest of them, not more than the layout shows.
    #[must_use]
    pub fn from_template(
        campaign_id: CampaignId,
        template: &CampaignTemplate,
        mut items_of: impl FnMut(&[FeedRef]) -> Vec<FeedItem>,
    ) -> Self {
        let items_max = template.layout_id.articles();
        let mut features: Vec<&CampaignFeature> = template.features.iter().collect();
        features.sort_by_key(|feature| (feature.position, feature.data.kind()));
        let strings = template.strings.iter();
        Self {
            campaign_id,
            layout_id: template.layout_id,
            settings: template.settings,
            strings: strings
                .map(|string| (string.name.as_str().to_owned(), string.translations.def.clone()))
                .collect(),
            features: features
                .into_iter()
                .map(|feature| resolve_feature(feature, items_max, &mut items_of))
                .collect(),
        }
    }
}

/// Converts a feature of a template, with the items of its feeds.
fn resolve_feature(
    feature: &CampaignFeature,
    items_max: usize,
    items_of: &mut impl FnMut(&[FeedRef]) -> Vec<FeedItem>,
) -> EnrichmentFeature {
    let data = match &feature.data {
        CampaignFeatureData::ContentFeed(feed) => {
            let mut items = items_of(&feed.feeds);
            items.sort_by_key(|item| std::cmp::Reverse(item.published_at));
            items.truncate(items_max);
            EnrichmentFeatureData::ContentFeed(EnrichmentContentFeed {
                items,
                view_ext_on_browser: feed.view_ext_on_browser,
                recommendations_title: feed.recommendations_title,
            })
        }
        CampaignFeatureData::ExternalContent(content) => {
            EnrichmentFeatureData::ExternalContent(content.clone())
        }
        CampaignFeatureData::ActionButton(button) => {
            EnrichmentFeatureData::ActionButton(button.with_wire_urls())
        }
        CampaignFeatureData::CustomFeed(feed) => {
            let mut feed = feed.clone();
            for article in &mut feed.articles {
                article.url = wire_url(&article.url);
                article.thumb_url = wire_url(&article.thumb_url);
            }
            EnrichmentFeatureData::CustomFeed(feed)
        }
    };
    EnrichmentFeature { position: feature.position, data }
}

impl TryFrom<WireFeature> for EnrichmentFeature {
    type Error = serde_json::Error;

    fn try_from(wire: WireFeature) -> Result<Self, serde_json::Error> {
        let text = wire.data.get();
        let data = match wire.kind {
            FeatureKind::ContentFeed => {
                EnrichmentFeatureData::ContentFeed(serde_json::from_str(text)?)
            }
            FeatureKind::ExternalContent => {
                EnrichmentFeatureData::ExternalContent(serde_json::from_str(text)?)
            }
            FeatureKind::ActionButton => {
                EnrichmentFeatureData::ActionButton(serde_json::from_str(text)?)
            }
            FeatureKind::CustomFeed => {
                EnrichmentFeatureData::CustomFeed(serde_json::from_str(text)?)
            }
        };
        Ok(Self { position: wire.position, data })
    }
}
