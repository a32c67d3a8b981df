//! The validated form of action buttons, and how it is stored.

use serde::{Deserialize, Serialize};

use super::ButtonKind;
use crate::{Timestamp, json::JsonObject, wire_url};

/// An action button.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(try_from = "WireButton", into = "WireButton")]
pub struct CampaignButton {
    /// Type, with the fields that it requires.
    #[serde(flatten)]
    pub action: ButtonAction,
    /// Extra data for the app, passed on a click.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<JsonObject>,
    /// Other fields that the caller set.
    #[serde(flatten)]
    pub other_fields: ButtonFields,
}

/// The fields of a button that its type does not require. The required fields are in
/// [`ButtonAction`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ButtonFields {
    /// Title.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Url to open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Start of the calendar event, unix ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_date: Option<Timestamp>,
    /// End of the calendar event, unix ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_date: Option<Timestamp>,
    /// Description of the calendar event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Latitude in degrees.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lat: Option<f64>,
    /// Longitude in degrees.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lng: Option<f64>,
    /// File name of an icon in the app's resources.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub icon: Option<String>,
    /// Url of an icon.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub icon_url: Option<String>,
}

/// Icon of a custom button: a resource, a url, or both.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(untagged)]
pub enum ButtonIcon {
    /// Both; the app chooses one.
    Both {
        /// File name of an icon in the app's resources.
        icon: String,
        /// Url of an icon.
        icon_url: String,
    },
    /// A resource of the app.
    Resource {
        /// File name of an icon in the app's resources.
        icon: String,
    },
    /// An image to fetch.
    Url {
        /// Url of an icon.
        icon_url: String,
    },
}

impl ButtonIcon {
    fn encode_url(&mut self) {
        match self {
            Self::Both { icon: _, icon_url } | Self::Url { icon_url } => {
                *icon_url = wire_url(icon_url);
            }
            Self::Resource { .. } => {}
        }
    }

    fn new(icon: Option<String>, icon_url: Option<String>) -> Option<Self> {
        match (icon, icon_url) {
            (Some(icon), Some(icon_url)) => Some(Self::Both { icon, icon_url }),
            (Some(icon), None) => Some(Self::Resource { icon }),
            (None, Some(icon_url)) => Some(Self::Url { icon_url }),
            (None, None) => None,
        }
    }
}

/// Type of a button, with the fields that it requires.
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
    /// Add an event to the calendar.
    Cal {
        /// Start of the event, unix ms.
        start_date: Timestamp,
        /// End of the event, unix ms; not before the start.
        end_date: Timestamp,
        /// Description of the event.
        description: String,
    },
    /// Play a video.
    Video {
        /// Url of the video.
        url: String,
    },
    /// Open a url.
    Url {
        /// The url; can have a custom scheme.
        url: String,
    },
    /// Open navigation.
    Nav {
        /// Latitude in degrees, within ±90.
        lat: f64,
        /// Longitude in degrees, within ±180.
        lng: f64,
    },
    /// Custom action of the app.
    Custom {
        /// Title.
        title: String,
        /// Icon.
        #[serde(flatten)]
        icon: ButtonIcon,
    },
}

impl CampaignButton {
    /// The button with its urls as a device gets them.
    #[must_use]
    pub(crate) fn with_wire_urls(&self) -> Self {
        let mut button = self.clone();
        let optional = |url: &mut Option<String>| {
            if let Some(url) = url {
                *url = wire_url(url);
            }
        };
        optional(&mut button.other_fields.url);
        optional(&mut button.other_fields.icon_url);
        match &mut button.action {
            ButtonAction::Video { url } | ButtonAction::Url { url } => *url = wire_url(url),
            ButtonAction::Custom { icon, title: _ } => icon.encode_url(),
            ButtonAction::Fb
            | ButtonAction::Wa
            | ButtonAction::Sms
            | ButtonAction::Email
            | ButtonAction::Cal { .. }
            | ButtonAction::Nav { .. } => {}
        }
        button
    }
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

/// A button as JSON: all fields side by side, as in the template.
#[derive(Serialize, Deserialize)]
struct WireButton {
    #[serde(rename = "type")]
    kind: ButtonKind,
    #[serde(flatten)]
    fields: ButtonFields,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    data: Option<JsonObject>,
}

impl From<CampaignButton> for WireButton {
    fn from(button: CampaignButton) -> Self {
        let CampaignButton { action, data, other_fields: mut fields } = button;
        let kind = action.kind();
        match action {
            ButtonAction::Cal { start_date, end_date, description } => {
                fields.start_date = Some(start_date);
                fields.end_date = Some(end_date);
                fields.description = Some(description);
            }
            ButtonAction::Video { url } | ButtonAction::Url { url } => fields.url = Some(url),
            ButtonAction::Nav { lat, lng } => {
                fields.lat = Some(lat);
                fields.lng = Some(lng);
            }
            ButtonAction::Custom { title, icon } => {
                fields.title = Some(title);
                (fields.icon, fields.icon_url) = match icon {
                    ButtonIcon::Both { icon, icon_url } => (Some(icon), Some(icon_url)),
                    ButtonIcon::Resource { icon } => (Some(icon), None),
                    ButtonIcon::Url { icon_url } => (None, Some(icon_url)),
                };
            }
            ButtonAction::Fb | ButtonAction::Wa | ButtonAction::Sms | ButtonAction::Email => {}
        }
        Self { kind, fields, data }
    }
}

/// A stored button lacks a field that its type requires.
#[derive(Debug, thiserror::Error)]
#[error("a button of type {kind} lacks a required field")]
struct IncompleteButton {
    kind: ButtonKind,
}

impl TryFrom<WireButton> for CampaignButton {
    type Error = IncompleteButton;

    fn try_from(wire: WireButton) -> Result<Self, IncompleteButton> {
        let WireButton { kind, fields: mut other_fields, data } = wire;
        let action = other_fields.take_action(kind).ok_or(IncompleteButton { kind })?;
        Ok(Self { action, data, other_fields })
    }
}

impl ButtonFields {
    /// Moves the fields that a type requires into the action; `None` when one is missing.
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
                icon: ButtonIcon::new(self.icon.take(), self.icon_url.take())?,
            },
        })
    }
}
