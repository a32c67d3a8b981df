//! Notifications that hold every rule: what the engine works with.

use serde::{Deserialize, Serialize};

use crate::{CampaignId, DeviceId, NewPoll, NotificationId, Platform, Timestamp, json::JsonObject};

/// The validated form of [`crate::CreateNotification`].
#[derive(Debug, Clone, PartialEq)]
pub struct Notification {
    /// Who gets it.
    pub audience: Audience,
    /// What they get.
    pub content: Content,
    /// When they get it.
    pub schedule: Schedule,
    /// The `send_at` that had passed when it was checked, so that it is sent at once.
    pub passed_send_at: Option<Timestamp>,
    /// How long a delivery is worth trying, from the moment it is due; 0 means one try.
    pub ttl_seconds: u32,
    /// How soon the provider should deliver it.
    pub priority: Priority,
    /// Notifications of one key replace each other on the device.
    pub collapse_key: Option<String>,
}

/// The validated form of [`crate::ReportNotification`].
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// The caller's own id.
    pub id: NotificationId,
    /// The platforms named; without duplicates, not empty.
    pub platforms: Vec<Platform>,
    /// The tag named.
    pub tag: Option<String>,
    /// What was sent.
    pub content: Content,
}

/// Who gets a notification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Audience {
    /// Ids or platforms, never both.
    pub target: Target,
    /// Only devices that have this tag set to true.
    pub tag: Option<String>,
}

/// What an audience is drawn from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// These devices; together at least one, each list without duplicates.
    Devices {
        /// Android devices.
        android: Vec<DeviceId>,
        /// iOS devices.
        ios: Vec<DeviceId>,
        /// Devices of any platform, in neither of the other lists.
        any: Vec<DeviceId>,
    },
    /// Every device of these platforms; at least one, without duplicates.
    Platforms(Vec<Platform>),
}

impl Target {
    /// The platforms that this target names. Those of devices of any platform are not among them: they
    /// are known by looking the ids up.
    #[must_use]
    pub fn platforms(&self) -> Vec<Platform> {
        match self {
            Self::Platforms(platforms) => platforms.clone(),
            Self::Devices { android, ios, any: _ } => {
                let mut platforms = Vec::new();
                if !android.is_empty() {
                    platforms.push(Platform::Android);
                }
                if !ios.is_empty() {
                    platforms.push(Platform::Ios);
                }
                platforms
            }
        }
    }
}

/// What a notification shows: a message or a poll.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// A message.
    Message(Box<Message>),
    /// A poll; every other setting of the request is ignored.
    Poll(NewPoll),
}

impl Content {
    /// The campaign that the content names.
    #[must_use]
    pub fn campaign(&self) -> Option<CampaignRef> {
        match self {
            Self::Message(message) => message.campaign,
            Self::Poll(_) => None,
        }
    }
}

/// A message that holds every rule.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Message {
    /// Main text, not empty.
    pub text: String,
    /// Deep link.
    pub url: Option<String>,
    /// Image.
    pub image_url: Option<String>,
    /// Campaign to attach.
    pub campaign: Option<CampaignRef>,
    /// Extra data.
    pub extra: Option<Extra>,
    /// Raw payload on Android.
    pub android_json: Option<JsonObject>,
    /// Raw payload on iOS; its `aps` holds `alert`, `badge` and `sound`.
    pub ios_json: Option<JsonObject>,
    /// Title on Android; the application's name when absent.
    pub android_title: Option<String>,
    /// Sound on Android.
    pub android_sound: Option<String>,
    /// Badge and sound on iOS.
    pub ios_alert: Option<IosAlert>,
    /// Web push action buttons, none or 1 to 2; each with an `action`, made when absent.
    pub web_push_actions: Vec<ActionButton>,
    /// Label of the button that opens the url on Messenger and in the chat app, `View` by default.
    pub view_button: Option<String>,
}

/// Badge and sound on iOS, which come together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IosAlert {
    /// Number shown on the app icon.
    pub badge: u32,
    /// Sound file, or `default`.
    pub sound: String,
}

/// A web push action button with its `action`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActionButton {
    /// Title.
    pub title: String,
    /// Icon url.
    pub icon: Option<String>,
    /// Unique within the notification.
    pub action: String,
    /// Url launched after a click.
    pub url: Option<String>,
}

/// Extra data: key and value come together.
#[derive(Debug, Clone, PartialEq)]
pub struct Extra {
    /// Key beside ours.
    pub key: String,
    /// Value, as it was written.
    pub value: JsonObject,
}

/// The campaign that a notification names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CampaignRef {
    /// The default one at the time a device asks for enrichment.
    Default,
    /// This one.
    Id(CampaignId),
}

impl std::fmt::Display for CampaignRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::Id(id) => id.fmt(f),
        }
    }
}

/// When a notification is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Schedule {
    /// At once.
    Now,
    /// At that instant.
    At(Timestamp),
    /// At that wall-clock time of each device.
    Local(LocalTime),
}

/// A wall-clock time without a zone: unix ms as if it were UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct LocalTime(pub i64);

/// How soon a provider should deliver.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Priority {
    /// At once, waking the device.
    #[default]
    High,
    /// When it suits the device's power.
    Normal,
}

impl Priority {
    /// Every priority.
    pub const ALL: [Self; 2] = [Self::High, Self::Normal];

    /// The word on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::High => "high",
            Self::Normal => "normal",
        }
    }
}
