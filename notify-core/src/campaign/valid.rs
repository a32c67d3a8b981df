//! Templates that hold every rule. Also how a stored template is kept and read back: with
//! every default filled in.

use serde::{Deserialize, Serialize};

use crate::CampaignFeature;

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

/// Layout of a campaign.
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
    /// Every layout.
    pub const ALL: [Self; 4] = [
        Self::ContentWithTwo,
        Self::ContentWithThree,
        Self::ContentWideImageWithTwo,
        Self::ContentWideImageWithThree,
    ];

    /// The word on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ContentWithTwo => "content_with_two",
            Self::ContentWithThree => "content_with_three",
            Self::ContentWideImageWithTwo => "content_wide_image_with_two",
            Self::ContentWideImageWithThree => "content_wide_image_with_three",
        }
    }

    /// How many articles the layout shows.
    #[must_use]
    pub fn articles(self) -> usize {
        match self {
            Self::ContentWithTwo | Self::ContentWideImageWithTwo => 2,
            Self::ContentWithThree | Self::ContentWideImageWithThree => 3,
        }
    }
}

/// Settings with every default filled in.
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

impl Default for CampaignSettings {
    fn default() -> Self {
        Self {
            big_share_button: true,
            small_view: true,
            build_without_image: true,
            small_share_button: true,
            drag_to_expand: false,
        }
    }
}

/// Name of a constant text.
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

impl StringName {
    /// Every name.
    pub const ALL: [Self; 4] =
        [Self::RecommendationsTitle, Self::SharePrefix, Self::ShareSubject, Self::ExtPrefix];

    /// The word on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RecommendationsTitle => "recommendations_title",
            Self::SharePrefix => "share_prefix",
            Self::ShareSubject => "share_subject",
            Self::ExtPrefix => "ext_prefix",
        }
    }
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

/// Values of a constant text; one is supported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CampaignTranslations {
    /// The default text.
    pub def: String,
}
