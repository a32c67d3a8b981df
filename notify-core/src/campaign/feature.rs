//! The validated form of features, and how it is stored.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{CampaignButton, FeatureKind};
use crate::FeedId;
use crate::wire_enum::wire_enum;

/// A feature of a campaign.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(try_from = "WireFeature")]
pub struct CampaignFeature {
    /// Position in the notification, from 1; unique among the features of one type.
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
    /// Articles of feeds.
    ContentFeed(CampaignContentFeed),
    /// Content of an external provider.
    ExternalContent(CampaignExternalContent),
    /// An action button.
    ActionButton(CampaignButton),
    /// Fixed articles. Their number is that of the layout.
    CustomFeed(CampaignCustomFeed),
}

/// Articles of feeds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CampaignContentFeed {
    /// 1 to 100 feeds.
    pub feeds: Vec<FeedRef>,
    /// Open external articles in the browser.
    pub view_ext_on_browser: bool,
    /// Show the title above recommendations.
    pub recommendations_title: bool,
}

/// Content of an external provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CampaignExternalContent {
    /// Origin of the content.
    #[serde(rename = "type")]
    pub kind: ExternalOrigin,
    /// Id of the widget at the external content provider.
    pub ob_widget_id: String,
    /// Open promoted content in the browser.
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

/// A feed of a template. A stored feed has an id; a feed that is not stored yet has a url and a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(untagged)]
pub enum FeedRef {
    /// An existing feed.
    Id {
        /// Id of the feed.
        id: FeedId,
    },
    /// A feed to create, or to reuse if the application has one with this url.
    Url {
        /// Absolute `http` or `https` url.
        url: String,
        /// Name of the feed to create.
        name: String,
    },
}

wire_enum! {
    /// Origin of external content.
    pub enum ExternalOrigin {
        /// SDK of the external content provider.
        ObSdk = "ob_sdk",
    }
}

/// An article.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CampaignArticle {
    /// Url of the article.
    pub url: String,
    /// Title.
    pub title: String,
    /// Url of the thumbnail.
    pub thumb_url: String,
    /// Whether the article is external content.
    pub is_external: bool,
}

/// A feature as JSON. `data` stays unparsed until the type is known. A tagged enum would parse both at
/// once, but a button contains a [`RawValue`], which serde cannot read inside a tagged enum.
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
