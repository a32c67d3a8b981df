//! Action buttons that hold every rule, and how they are stored.

use serde::{Deserialize, Serialize};

use super::ButtonKind;
use crate::{Timestamp, json::JsonObject};

/// An action button: what its type asks for, and what every button may have.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(try_from = "WireButton", into = "WireButton")]
pub struct CampaignButton {
    /// What it does.
    #[serde(flatten)]
    pub action: ButtonAction,
    /// Extra data passed to the activity on click.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<JsonObject>,
    /// Fields that the type does not ask for but the caller gave.
    #[serde(flatten)]
    pub beside: ButtonFields,
}

/// Fields of a button beside those that its type requires, such as the `url` of a share button.
#[derive(Debug, Clone, Default, PartialEq)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ButtonFields {
    /// Title.
    pub title: Option<String>,
    /// Url.
    pub url: Option<String>,
    /// Event start.
    pub start_date: Option<Timestamp>,
    /// Event end.
    pub end_date: Option<Timestamp>,
    /// Event description.
    pub description: Option<String>,
    /// Latitude.
    pub lat: Option<f64>,
    /// Longitude.
    pub lng: Option<f64>,
    /// Icon resource.
    pub icon: Option<String>,
    /// Icon url.
    pub icon_url: Option<String>,
}

/// Icon of a custom button: a resource, a url, or both.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(untagged)]
pub enum ButtonIcon {
    /// Both; which is shown is the app's choice.
    Both {
        /// File name of an app resource.
        icon: String,
        /// Its url.
        icon_url: String,
    },
    /// A resource of the app.
    Resource {
        /// File name of an app resource.
        icon: String,
    },
    /// An image to fetch.
    Url {
        /// Its url.
        icon_url: String,
    },
}

impl ButtonIcon {
    /// The icon of what is given of it, if anything is.
    fn of(icon: Option<String>, icon_url: Option<String>) -> Option<Self> {
        match (icon, icon_url) {
            (Some(icon), Some(icon_url)) => Some(Self::Both { icon, icon_url }),
            (Some(icon), None) => Some(Self::Resource { icon }),
            (None, Some(icon_url)) => Some(Self::Url { icon_url }),
            (None, None) => None,
        }
    }
}

/// What a button does; each variant has what its type requires.
#[derive(Debug, Clone, PartialEq, Serialize)]
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
    /// Custom action for deep linking.
    Custom {
        /// Title.
        title: String,
        /// Icon.
        #[serde(flatten)]
        icon: ButtonIcon,
    },
}

impl ButtonAction {
    /// The type of the button.
    #[must_use]
    pub fn kind(&self) -> ButtonKind {
        match self {
            Self::Fb => ButtonKind::Fb,
            Self::Wa => ButtonKind::Wa,
            Self::Sms => ButtonKind::Sms,
            Self::Email => ButtonKind::Email,
            Self::Cal { .. } => ButtonKind::Cal,
            Self::Video { .. } => ButtonKind::Video,
            Self::Url { .. } => ButtonKind::Url,
            Self::Nav { .. } => ButtonKind::Nav,
            Self::Custom { .. } => ButtonKind::Custom,
        }
    }
}

/// A button as JSON: every field beside every other, as in the template.
#[derive(Serialize, Deserialize)]
struct WireButton {
    #[serde(rename = "type")]
    kind: ButtonKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    start_date: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    end_date: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lat: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lng: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    icon: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    icon_url: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    data: Option<JsonObject>,
}

impl From<CampaignButton> for WireButton {
    fn from(button: CampaignButton) -> Self {
        let kind = button.action.kind();
        let CampaignButton { action, data, beside } = button;
        let ButtonFields {
            title,
            url,
            start_date,
            end_date,
            description,
            lat,
            lng,
            icon,
            icon_url,
        } = beside;
        let mut wire = Self {
            kind,
            title,
            url,
            start_date,
            end_date,
            description,
            lat,
            lng,
            icon,
            icon_url,
            data,
        };
        match action {
            ButtonAction::Cal { start_date, end_date, description } => {
                wire.start_date = Some(start_date);
                wire.end_date = Some(end_date);
                wire.description = Some(description);
            }
            ButtonAction::Video { url } | ButtonAction::Url { url } => wire.url = Some(url),
            ButtonAction::Nav { lat, lng } => {
                wire.lat = Some(lat);
                wire.lng = Some(lng);
            }
            ButtonAction::Custom { title, icon } => {
                wire.title = Some(title);
                (wire.icon, wire.icon_url) = match icon {
                    ButtonIcon::Both { icon, icon_url } => (Some(icon), Some(icon_url)),
                    ButtonIcon::Resource { icon } => (Some(icon), None),
                    ButtonIcon::Url { icon_url } => (None, Some(icon_url)),
                };
            }
            ButtonAction::Fb | ButtonAction::Wa | ButtonAction::Sms | ButtonAction::Email => {}
        }
        wire
    }
}

/// A stored button without what its type requires.
#[derive(Debug, thiserror::Error)]
#[error("a button of type {} without all that it requires", kind.as_str())]
struct Incomplete {
    kind: ButtonKind,
}

impl TryFrom<WireButton> for CampaignButton {
    type Error = Incomplete;

    fn try_from(wire: WireButton) -> Result<Self, Incomplete> {
        let mut beside = ButtonFields {
            title: wire.title,
            url: wire.url,
            start_date: wire.start_date,
            end_date: wire.end_date,
            description: wire.description,
            lat: wire.lat,
            lng: wire.lng,
            icon: wire.icon,
            icon_url: wire.icon_url,
        };
        let action = beside.take_action(wire.kind).ok_or(Incomplete { kind: wire.kind })?;
        Ok(Self { action, data: wire.data, beside })
    }
}

impl ButtonFields {
    /// Takes what a type requires; `None` when something of it is missing.
    pub(super) fn take_action(&mut self, kind: ButtonKind) -> Option<ButtonAction> {
        Some(match kind {
            ButtonKind::Fb => ButtonAction::Fb,
            ButtonKind::Wa => ButtonAction::Wa,
            ButtonKind::Sms => ButtonAction::Sms,
            ButtonKind::Email => ButtonAction::Email,
            ButtonKind::Cal => ButtonAction::Cal {
                start_date: self.start_date.take()?,
                end_date: self.end_date.take()?,
                description: self.description.take()?,
            },
            ButtonKind::Video => ButtonAction::Video { url: self.url.take()? },
            ButtonKind::Url => ButtonAction::Url { url: self.url.take()? },
            ButtonKind::Nav => ButtonAction::Nav { lat: self.lat.take()?, lng: self.lng.take()? },
            ButtonKind::Custom => ButtonAction::Custom {
                title: self.title.take()?,
                icon: ButtonIcon::of(self.icon.take(), self.icon_url.take())?,
            },
        })
    }
}
