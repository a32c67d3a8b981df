//! How campaigns read back.

use serde::{Deserialize, Serialize};

use crate::{CampaignId, CampaignTemplate, Timestamp};

/// State of a campaign.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum CampaignStatus {
    /// In use.
    Active,
    /// Not in use.
    Disabled,
}

impl CampaignStatus {
    /// Every state.
    pub const ALL: [Self; 2] = [Self::Active, Self::Disabled];

    /// The state of that word, if there is one.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == word)
    }

    /// The word on the wire and in the database.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Disabled => "disabled",
        }
    }
}

/// A campaign as listed by `GET /v1/campaigns`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Campaign {
    /// Id.
    pub id: CampaignId,
    /// Display name.
    pub name: String,
    /// `active` or `disabled`.
    pub status: CampaignStatus,
    /// Whether `default` names it.
    pub is_default: bool,
    /// Creation, unix ms.
    pub created_at: Timestamp,
}

/// Answer of `GET /v1/campaigns`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CampaignList {
    /// Newest first.
    pub campaigns: Vec<Campaign>,
}

/// Answer of `GET /v1/campaigns/:id`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CampaignRecord {
    /// The fields of the listing.
    #[serde(flatten)]
    pub campaign: Campaign,
    /// The template with every default filled in.
    pub template: CampaignTemplate,
}

/// Which campaigns a listing shows: the validated form of `status`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CampaignFilter {
    /// Active ones.
    #[default]
    Active,
    /// Disabled ones.
    Disabled,
    /// Both.
    All,
}

impl CampaignFilter {
    /// Every filter.
    pub const ALL: [Self; 3] = [Self::Active, Self::Disabled, Self::All];

    /// The word on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Disabled => "disabled",
            Self::All => "all",
        }
    }
}

/// Which part of the listing is asked for: the validated form of [`crate::ListCampaigns`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CampaignPage {
    /// Results to skip.
    pub offset: u64,
    /// Most results.
    pub limit: u32,
    /// Part of the name.
    pub name: Option<String>,
    /// Which states.
    pub status: CampaignFilter,
}

/// Answer of `POST /v1/campaigns`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CampaignCreated {
    /// Its id.
    pub id: CampaignId,
}
