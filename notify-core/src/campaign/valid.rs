//! The validated form of templates, which is also stored and returned: with defaults for absent fields.

use serde::{Deserialize, Serialize};

use crate::CampaignFeature;
use crate::wire_enum::wire_enum;

/// The validated form of [`crate::Template`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CampaignTemplate {
    /// Name, not empty.
    pub name: String,
    /// Layout.
    pub layout_id: CampaignLayout,
    /// Settings.
    pub settings: CampaignSettings,
    /// Constant texts; each name occurs at most once.
    pub strings: Vec<CampaignString>,
    /// Whether it is the default campaign.
    pub is_default: bool,
    /// Features.
    pub features: Vec<CampaignFeature>,
}

wire_enum! {
    /// Layout of a campaign.
    pub enum CampaignLayout {
        /// Content with two articles.
        ContentWithTwo = "content_with_two",
        /// Content with three articles.
        ContentWithThree = "content_with_three",
        /// Wide image with two articles.
        ContentWideImageWithTwo = "content_wide_image_with_two",
        /// Wide image with three articles.
        ContentWideImageWithThree = "content_wide_image_with_three",
    }
}

impl CampaignLayout {
    /// How many articles the layout shows.
    #[must_use]
    pub fn articles(self) -> usize {
        match self {
            Self::ContentWithTwo | Self::ContentWideImageWithTwo => 2,
            Self::ContentWithThree | Self::ContentWideImageWithThree => 3,
        }
    }
}

/// Settings of a campaign.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[expect(clippy::struct_excessive_bools, reason = "the fields of the API")]
pub struct CampaignSettings {
    /// Show the share button in the big view.
    pub big_share_button: bool,
    /// Show the enrichment in the small view.
    pub small_view: bool,
    /// Show the enrichment even if the notification has no image.
    pub build_without_image: bool,
    /// Show the share button in the small view.
    pub small_share_button: bool,
    /// Show a drag-to-expand text in place of the share button in the small view.
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

wire_enum! {
    /// Name of a constant text.
    pub enum StringName {
        /// Text above recommendations.
        RecommendationsTitle = "recommendations_title",
        /// Prefix of shared text.
        SharePrefix = "share_prefix",
        /// Subject of the share action.
        ShareSubject = "share_subject",
        /// Prefix of external content.
        ExtPrefix = "ext_prefix",
    }
}

/// A constant text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CampaignString {
    /// Name.
    pub name: StringName,
    /// The text.
    pub translations: CampaignTranslations,
}

/// Values of a constant text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CampaignTranslations {
    /// The default value.
    pub def: String,
}
