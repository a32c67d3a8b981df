//! Enrichment answers.

use serde::{Deserialize, Serialize};

use crate::{
    CampaignButton, CampaignCustomFeed, CampaignExternalContent, CampaignFeature,
    CampaignFeatureData, CampaignId, CampaignLayout, CampaignSettings, CampaignTemplate,
    FeatureKind, FeedRef, Parameter, ParameterForm, Query, Timestamp, Violations, WireFeature,
    query::Parameters,
};

/// Answer of `GET /v1/enrichments/:campaign_id`.
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
#[serde(try_from = "WireFeature")]
pub struct EnrichmentFeature {
    /// Position, from 1.
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
    /// Content of own feeds, resolved.
    ContentFeed(EnrichmentContentFeed),
    /// Content of an external provider.
    ExternalContent(CampaignExternalContent),
    /// An action button.
    ActionButton(CampaignButton),
    /// Fixed articles.
    CustomFeed(CampaignCustomFeed),
}

/// Content of own feeds, resolved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EnrichmentContentFeed {
    /// Newest first, as many as the layout shows.
    pub items: Vec<FeedItem>,
    /// Open external content in an external browser.
    pub view_ext_on_browser: bool,
    /// Show the title above recommendations.
    pub recommendations_title: bool,
}

/// An item of a feed.
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

/// Query of `GET /v1/enrichments/:campaign_id`. What names nothing is 404, so that a
/// malformed id is not an error here.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EnrichmentQuery {
    /// The notification that the device shows.
    pub notification_id: Option<String>,
    /// The device that asks.
    pub device_id: Option<String>,
}

impl Query for EnrichmentQuery {
    type Valid = Self;
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::new("notification_id", ParameterForm::Id, "The notification that is shown"),
        Parameter::new("device_id", ParameterForm::Id, "The device that shows it"),
    ];

    fn parse(parameters: &[(String, String)], _now: Timestamp) -> Result<Self, Violations> {
        let mut parameters = Parameters::new(parameters, Self::PARAMETERS);
        let query = Self {
            notification_id: parameters.id("notification_id").map(str::to_owned),
            device_id: parameters.id("device_id").map(str::to_owned),
        };
        parameters.finish(Some(query))
    }
}

impl Enrichment {
    /// Makes the answer of a template. `items_of` gives what is held of some feeds, in any
    /// order; the newest are taken, as many as the layout shows.
    #[must_use]
    pub fn from_template(
        campaign_id: CampaignId,
        template: &CampaignTemplate,
        mut items_of: impl FnMut(&[FeedRef]) -> Vec<FeedItem>,
    ) -> Self {
        let shown = template.layout_id.articles();
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
                .map(|feature| resolve(feature, shown, &mut items_of))
                .collect(),
        }
    }
}

fn resolve(
    feature: &CampaignFeature,
    shown: usize,
    items_of: &mut impl FnMut(&[FeedRef]) -> Vec<FeedItem>,
) -> EnrichmentFeature {
    let data = match &feature.data {
        CampaignFeatureData::ContentFeed(feed) => {
            let mut items = items_of(&feed.feeds);
            items.sort_by_key(|item| std::cmp::Reverse(item.published_at));
            items.truncate(shown);
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
            EnrichmentFeatureData::ActionButton(button.clone())
        }
        CampaignFeatureData::CustomFeed(feed) => EnrichmentFeatureData::CustomFeed(feed.clone()),
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
