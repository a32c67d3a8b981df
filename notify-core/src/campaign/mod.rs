//! Campaigns and the templates that define them.

mod button;
mod check;
mod check_button;
mod check_feature;
mod feature;
mod read;
mod request;
mod valid;

use serde::{Deserialize, Serialize};

pub use self::button::*;
pub use self::feature::*;
pub(crate) use self::read::TemplateDraft;
pub use self::request::*;
pub use self::valid::*;
use crate::json::{Body, Object};
use crate::query::Parameters;
use crate::request::request;
use crate::violations::{Findings, path};
use crate::{
    CampaignId, LIMIT, LIMIT_DEFAULT, Parameter, ParameterForm, Query, Timestamp, Violations,
    take_limit,
};

// Types of features and buttons.

/// `type` of a feature; sorts as the specification lists them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum FeatureKind {
    /// Content of own feeds.
    ContentFeed,
    /// Content of an external provider.
    ExternalContent,
    /// An action button.
    ActionButton,
    /// Fixed articles.
    CustomFeed,
}

impl FeatureKind {
    /// Every type.
    pub const ALL: [Self; 4] =
        [Self::ContentFeed, Self::ExternalContent, Self::ActionButton, Self::CustomFeed];

    /// The word on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ContentFeed => "content_feed",
            Self::ExternalContent => "external_content",
            Self::ActionButton => "action_button",
            Self::CustomFeed => "custom_feed",
        }
    }
}

/// `type` of an action button.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum ButtonKind {
    /// Share on a social network.
    Fb,
    /// Share on a chat app.
    Wa,
    /// Share by SMS.
    Sms,
    /// Share by e-mail.
    Email,
    /// Add to calendar.
    Cal,
    /// Play a video.
    Video,
    /// Open a url.
    Url,
    /// Open navigation.
    Nav,
    /// Custom action for deep linking.
    Custom,
}

impl ButtonKind {
    /// Every type.
    pub const ALL: [Self; 9] = [
        Self::Fb,
        Self::Wa,
        Self::Sms,
        Self::Email,
        Self::Cal,
        Self::Video,
        Self::Url,
        Self::Nav,
        Self::Custom,
    ];

    /// The word on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Fb => "fb",
            Self::Wa => "wa",
            Self::Sms => "sms",
            Self::Email => "email",
            Self::Cal => "cal",
            Self::Video => "video",
            Self::Url => "url",
            Self::Nav => "nav",
            Self::Custom => "custom",
        }
    }
}

// Reads and checks the status of a campaign and the query of the listing.

request!(SetCampaignStatus => CampaignStatus, Body::Required, read, check);

fn read(object: &mut Object<'_, '_>) -> SetCampaignStatus {
    SetCampaignStatus { status: object.required_string("status") }
}

fn check(
    request: SetCampaignStatus,
    _now: Timestamp,
    findings: &mut Findings,
) -> Option<CampaignStatus> {
    let SetCampaignStatus { status } = request;
    findings.word(&path("status"), &status, &CampaignStatus::ALL, CampaignStatus::as_str)
}

/// Largest `offset`: what every database can count to.
const OFFSET_MAX: u64 = i64::MAX.unsigned_abs();

impl Query for ListCampaigns {
    type Valid = CampaignPage;
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::new(
            "offset",
            ParameterForm::Whole { min: 0, max: OFFSET_MAX, or: None },
            "Results to skip",
        ),
        LIMIT,
        Parameter::new("name", ParameterForm::Text, "Part of the name, letter case ignored"),
        Parameter::new(
            "status",
            ParameterForm::Word(|| CampaignFilter::ALL.map(CampaignFilter::as_str).into()),
            "`active` when absent, `disabled` or `all`",
        ),
    ];

    fn parse(parameters: &[(String, String)], _now: Timestamp) -> Result<CampaignPage, Violations> {
        let mut parameters = Parameters::new(parameters, Self::PARAMETERS);
        let offset = parameters.whole("offset").unwrap_or(0);
        let limit = take_limit(&mut parameters).unwrap_or(LIMIT_DEFAULT);
        let name = parameters.text("name").map(str::to_owned);
        let word = parameters.text("status");
        let findings = &mut parameters.findings;
        let all = &CampaignFilter::ALL;
        let status = findings.optional_word(&path("status"), word, all, CampaignFilter::as_str);
        let status = status.unwrap_or_default();
        parameters.finish(Some(CampaignPage { offset, limit, name, status }))
    }
}

// How campaigns read back.

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
