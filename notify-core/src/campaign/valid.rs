//! Templates that hold every rule (B29). Also how a stored template is kept and read back: with
//! every default filled in (B27).

use serde::{Deserialize, Serialize};

use crate::{FeedId, Timestamp, json::JsonObject};

/// The validated form of [`crate::Template`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CampaignTemplate {
    /// Name, not empty.
    pub name: String,
    /// Layout.
    pub layout_id: CampaignLayout,
    /// Settings with defaults filled in.
    pub settings: CampaignSettings,
    /// Constant texts, each name at most once.
    pub strings: Vec<CampaignString>,
    /// Whether it is the default campaign.
    pub is_default: bool,
    /// Features.
    pub features: Vec<CampaignFeature>,
}

/// Layout of a campaign (spec 2.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum CampaignLayout {
    /// Content with two articles.
    ContentWithTwo,
    /// Content with three articles.
    ContentWithThree,
    /// Wide image with two articles.
    ContentWideImageWithTwo,
    /// Wide image with three articles.
    ContentWideImageWithThree,
}

impl CampaignLayout {
    /// How many articles the layout shows (B29).
    #[must_use]
    pub fn articles(self) -> usize {
        match self {
            Self::ContentWithTwo | Self::ContentWideImageWithTwo => 2,
            Self::ContentWithThree | Self::ContentWideImageWithThree => 3,
        }
    }
}

/// Settings with every default filled in (spec 2.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[expect(clippy::struct_excessive_bools, reason = "the specification's own shape")]
pub struct CampaignSettings {
    /// Show share button in big view.
    pub big_share_button: bool,
    /// Show the enrichment UI in small view.
    pub small_view: bool,
    /// Show enrichment even without an image.
    pub build_without_image: bool,
    /// Show share button in small view.
    pub small_share_button: bool,
    /// Show a drag-to-expand text instead of the share button.
    pub drag_to_expand: bool,
}

/// Name of a constant text (spec 2.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum StringName {
    /// Text above recommendations.
    RecommendationsTitle,
    /// Prefix of shared text.
    SharePrefix,
    /// Subject of the share action.
    ShareSubject,
    /// Prefix for external content.
    ExtPrefix,
}

/// A constant text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CampaignString {
    /// Its name.
    pub name: StringName,
    /// Its text.
    pub translations: CampaignTranslations,
}

/// Values of a constant text; one is supported (spec 2.4).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CampaignTranslations {
    /// The default text.
    pub def: String,
}

/// A feature of a campaign (spec 2.5).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CampaignFeature {
    /// Position, from 1; unique among features of its type.
    pub position: u32,
    /// `type` and `data`.
    #[serde(flatten)]
    pub data: CampaignFeatureData,
}

/// `type` and `data` of a [`CampaignFeature`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "type", content = "data", rename_all = "snake_case")]
pub enum CampaignFeatureData {
    /// Content of own feeds.
    ContentFeed {
        /// At least one.
        feeds: Vec<FeedRef>,
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
    /// Fixed articles, as many as the layout shows.
    CustomFeed {
        /// The articles.
        articles: Vec<CampaignArticle>,
        /// Show the title above recommendations.
        recommendations_title: bool,
    },
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
    /// A feed to create, or to reuse when the application has its url already (B29).
    Url {
        /// Absolute `http` or `https` url.
        url: String,
        /// Name of the new feed.
        name: String,
    },
}

/// Origin of external content (spec 2.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ExternalOrigin {
    /// The external content provider's SDK.
    ObSdk,
}

/// An article (spec 2.5).
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

/// An action button: what its type asks for, and what every button may have (spec 2.5).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CampaignButton {
    /// What it does.
    #[serde(flatten)]
    pub action: ButtonAction,
    /// Title, where the type does not ask for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Icon resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub icon: Option<String>,
    /// Icon url.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub icon_url: Option<String>,
    /// Extra data passed to the activity on click.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<JsonObject>,
}

/// What a button does; each variant has what its type requires (spec 2.5, B29).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum ButtonAction {
    /// Share on a social network.
    Fb,
    /// Share on a chat app.
    Wa,
    /// Share by SMS.
    Sms,
    /// Share by e-mail.
    Email,
    /// Add to calendar.
    Cal {
        /// Event start.
        start_date: Timestamp,
        /// Event end, not before the start.
        end_date: Timestamp,
        /// Event description.
        description: String,
    },
    /// Play a video.
    Video {
        /// Its url.
        url: String,
    },
    /// Open a url.
    Url {
        /// The url; may be a url scheme.
        url: String,
    },
    /// Open navigation.
    Nav {
        /// Latitude within ±90.
        lat: f64,
        /// Longitude within ±180.
        lng: f64,
    },
    /// Custom action for deep linking; its button has a title and an icon.
    Custom,
}
