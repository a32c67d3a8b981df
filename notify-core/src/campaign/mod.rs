//! Campaigns and the templates that define them.

mod button;
mod feature;
mod request;
mod valid;

use serde::{Deserialize, Serialize};

pub use self::button::*;
pub use self::feature::*;
pub use self::request::*;
pub use self::valid::*;
use crate::field::{Model, ModelFields};
use crate::json::BodyPresence;
use crate::request::{Parameters, request};
use crate::violations::{Path, Validator};
use crate::wire_enum::wire_enum;
use crate::{
    CampaignId, LIMIT, LIMIT_DEFAULT, Parameter, ParameterForm, Query, Timestamp, Violations,
    take_limit,
};

wire_enum! {
    /// `type` of a feature. Features at the same position are sorted in this order.
    pub enum FeatureKind {
        /// Articles of feeds.
        ContentFeed = "content_feed",
        /// Content of an external provider.
        ExternalContent = "external_content",
        /// An action button.
        ActionButton = "action_button",
        /// Fixed articles.
        CustomFeed = "custom_feed",
    }
}

wire_enum! {
    /// `type` of an action button.
    pub enum ButtonKind {
        /// Share on a social network.
        Fb = "fb",
        /// Share on a chat app.
        Wa = "wa",
        /// Share by SMS.
        Sms = "sms",
        /// Share by e-mail.
        Email = "email",
        /// Add an event to the calendar.
        Cal = "cal",
        /// Play a video.
        Video = "video",
        /// Open a url.
        Url = "url",
        /// Open navigation.
        Nav = "nav",
        /// Custom action of the app.
        Custom = "custom",
    }
}

request!(SetCampaignStatus => CampaignStatus, BodyPresence::Required);

impl Model for SetCampaignStatus {
    type Valid = CampaignStatus;

    fn check(&self, at: &Path<'_>, validator: &mut Validator) -> Option<CampaignStatus> {
        Some(self.check_fields(at, validator)?.status)
    }
}

/// Largest `offset`: the largest integer that every supported database can store.
const OFFSET_MAX: u64 = i64::MAX.unsigned_abs();

impl Query for ListCampaigns {
    type Valid = CampaignPage;
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::new(
            "offset",
            ParameterForm::Integer { min: 0, max: OFFSET_MAX, or: None },
            "Number of results to skip",
        ),
        LIMIT,
        Parameter::new("name", ParameterForm::Text, "Part of the name; the letter case is ignored"),
        Parameter::new(
            "status",
            ParameterForm::OneOf(&CampaignFilter::NAMES),
            "`active`, `disabled` or `all`; `active` when absent",
        ),
    ];

    fn parse(parameters: &[(String, String)], _now: Timestamp) -> Result<CampaignPage, Violations> {
        let mut parameters = Parameters::new(parameters, Self::PARAMETERS);
        let offset = parameters.integer("offset").unwrap_or(0);
        let limit = take_limit(&mut parameters).unwrap_or(LIMIT_DEFAULT);
        let name = parameters.text("name").map(str::to_owned);
        let status = parameters.parsed("status").unwrap_or_default();
        parameters.finish(Some(CampaignPage { offset, limit, name, status }))
    }
}

wire_enum! {
    /// State of a campaign.
    pub enum CampaignStatus {
        /// In use.
        Active = "active",
        /// Not in use.
        Disabled = "disabled",
    }
}

/// A campaign in the answer of `GET /v1/campaigns`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Campaign {
    /// Id.
    pub id: CampaignId,
    /// Name.
    pub name: String,
    /// `active` or `disabled`.
    pub status: CampaignStatus,
    /// Whether it is the default campaign.
    pub is_default: bool,
    /// Time of creation, unix ms.
    pub created_at: Timestamp,
}

/// Answer of `GET /v1/campaigns`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CampaignList {
    /// The campaigns, newest first.
    pub campaigns: Vec<Campaign>,
}

/// Answer of `GET /v1/campaigns/:id`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CampaignRecord {
    /// The fields of the listing.
    #[serde(flatten)]
    pub campaign: Campaign,
    /// The template, with defaults for absent fields.
    pub template: CampaignTemplate,
}

wire_enum! {
    /// Which campaigns a listing contains.
    #[derive(Default)]
    pub enum CampaignFilter {
        /// Active campaigns.
        #[default]
        Active = "active",
        /// Disabled campaigns.
        Disabled = "disabled",
        /// All campaigns.
        All = "all",
    }
}

/// Which campaigns to list: the validated form of [`crate::ListCampaigns`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CampaignPage {
    /// Number of results to skip.
    pub offset: u64,
    /// Maximum number of results.
    pub limit: u32,
    /// Part of the name; the letter case is ignored.
    pub name: Option<String>,
    /// Which campaigns.
    pub status: CampaignFilter,
}

/// Answer of `POST /v1/campaigns`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CampaignCreated {
    /// Id of the campaign.
    pub id: CampaignId,
}
