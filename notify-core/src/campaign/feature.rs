//! Features of a campaign that hold every rule, and how they are stored.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{CampaignButton, FeatureKind};
use crate::FeedId;

/// A feature of a campaign.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(try_from = "WireFeature")]
pub struct CampaignFeature {
    /// Position, from 1; unique among features of its type.
    pub position: u32,
    /// `type` and `data`.
    #[serde(flatten)]
    pub data: CampaignFeatureData,
}

/// `type` and `data` of a [`CampaignFeature`].
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "type", content = "data", rename_all = "snake_case")]
#[expect(clippy::large_enum_variant, reason = "a template holds a handful, most of them buttons")]
pub enum CampaignFeatureData {
    /// Content of own feeds.
    ContentFeed(CampaignContentFeed),
    /// Content of an external provider.
    ExternalContent(CampaignExternalContent),
    /// An action button.
    ActionButton(CampaignButton),
    /// Fixed articles, as many as the layout shows.
    CustomFeed(CampaignCustomFeed),
}

/// Content of own feeds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CampaignContentFeed {
    /// At least one.
    pub feeds: Vec<FeedRef>,
    /// Open external content in an external browser.
    pub view_ext_on_browser: bool,
    /// Show the title above recommendations.
    pub recommendations_title: bool,
}

/// Content of an external provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CampaignExternalContent {
    /// Origin.
    #[serde(rename = "type")]
    pub kind: ExternalOrigin,
    /// Widget id.
    pub ob_widget_id: String,
    /// Open promoted content in an external browser.
    pub view_ext_on_browser: bool,
    /// Show the title above recommendations.
    pub recommendations_title: bool,
}

/// Fixed articles.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CampaignCustomFeed {
    /// The articles.
    pub articles: Vec<CampaignArticle>,
    /// Show the title above recommendations.
    pub recommendations_title: bool,
}

/// A feed that a template names: by id, or by url and name until the store has given it an id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(untagged)]
pub enum FeedRef {
    /// An existing feed.
    Id {
        /// Its id.
        id: FeedId,
    },
    /// A feed to create, or to reuse when the application has its url already.
    Url {
        /// Absolute `http` or `https` url.
        url: String,
        /// Name of the new feed.
        name: String,
    },
}

/// Origin of external content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ExternalOrigin {
    /// The external content provider's SDK.
    ObSdk,
}

impl ExternalOrigin {
    /// Every origin.
    pub const ALL: [Self; 1] = [Self::ObSdk];

    /// The word on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ObSdk => "ob_sdk",
        }
    }
}

/// An article.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CampaignArticle {
    /// Article url.
    pub url: String,
    /// Title.
    pub title: String,
    /// Thumbnail url.
    pub thumb_url: String,
    /// Marks external content.
    pub is_external: bool,
}

/// A feature as JSON. `data` stays text until its type is known: the caller's own object inside a
/// button is a [`RawValue`], which tagged and flattened enums of serde cannot read.
#[derive(Deserialize)]
pub(crate) struct WireFeature {
    pub(crate) position: u32,
    #[serde(rename = "type")]
    pub(crate) kind: FeatureKind,
    pub(crate) data: Box<RawValue>,
}

impl TryFrom<WireFeature> for CampaignFeature {
    type Error = serde_json::Error;

    fn try_from(wire: WireFeature) -> Result<Self, serde_json::Error> {
        let text = wire.data.get();
        let data = match wire.kind {
            FeatureKind::ContentFeed => {
                CampaignFeatureData::ContentFeed(serde_json::from_str(text)?)
            }
            FeatureKind::ExternalContent => {
                CampaignFeatureData::ExternalContent(serde_json::from_str(text)?)
            }
            FeatureKind::ActionButton => {
                CampaignFeatureData::ActionButton(serde_json::from_str(text)?)
            }
            FeatureKind::CustomFeed => CampaignFeatureData::CustomFeed(serde_json::from_str(text)?),
        };
        Ok(Self { position: wire.position, data })
    }
}

impl CampaignFeatureData {
    /// The type of the feature.
    #[must_use]
    pub fn kind(&self) -> FeatureKind {
        match self {
            Self::ContentFeed(_) => FeatureKind::ContentFeed,
            Self::ExternalContent(_) => FeatureKind::ExternalContent,
            Self::ActionButton(_) => FeatureKind::ActionButton,
            Self::CustomFeed(_) => FeatureKind::CustomFeed,
        }
    }
}
