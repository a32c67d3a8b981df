//! Types of features and buttons.

use serde::{Deserialize, Serialize};

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
