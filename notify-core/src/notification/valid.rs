//! Validated forms of notifications: what the server delivers.

use crate::json::JsonObject;
use crate::wire_enum::wire_enum;
use crate::{CampaignId, DeviceId, NewPoll, NotificationId, Platform, Timestamp};

/// The validated form of [`crate::CreateNotification`].
#[derive(Debug, Clone, PartialEq)]
pub struct Notification {
    /// Which devices receive it.
    pub audience: Audience,
    /// What they receive.
    pub content: Content,
    /// When it is due.
    pub schedule: Schedule,
    /// `send_at`, if it had passed at the time of validation: the notification is due now.
    pub passed_send_at: Option<Timestamp>,
    /// How long delivery is attempted after the notification is due, in seconds; 0 for a single attempt.
    pub ttl_seconds: u32,
    /// Priority at the provider.
    pub priority: Priority,
    /// Notifications with the same key replace each other on the device.
    pub collapse_key: Option<String>,
}

/// The validated form of [`crate::ReportNotification`].
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// Id, chosen by the caller.
    pub id: NotificationId,
    /// Platforms that it was sent to; not empty, without duplicates.
    pub platforms: Vec<Platform>,
    /// Tag of the devices that it was sent to.
    pub tag: Option<String>,
    /// What was sent.
    pub content: Content,
}

/// The devices that receive a notification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Audience {
    /// Devices or platforms.
    pub target: Target,
    /// Only devices that have this tag set to true.
    pub tag: Option<String>,
}

/// The target of a notification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// Devices by id: at least one in total, no id twice.
    Devices {
        /// Android devices.
        android: Vec<DeviceId>,
        /// iOS devices.
        ios: Vec<DeviceId>,
        /// Devices of any platform.
        any: Vec<DeviceId>,
    },
    /// All devices of these platforms; at least one platform, without duplicates.
    Platforms(Vec<Platform>),
}

impl Target {
    /// The platforms of the target, without those of devices of `any` platform: they are known only after
    /// a lookup of the ids.
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

/// The content of a notification.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// A message.
    Message(Box<Message>),
    /// A poll.
    Poll(NewPoll),
}

impl Content {
    /// The raw payload that replaces all other settings on Android.
    #[must_use]
    pub fn android_json(&self) -> Option<&JsonObject> {
        match self {
            Self::Message(message) => message.android_json.as_ref(),
            Self::Poll(_) => None,
        }
    }

    /// The raw payload that replaces all other settings on iOS.
    #[must_use]
    pub fn ios_json(&self) -> Option<&JsonObject> {
        match self {
            Self::Message(message) => message.ios_json.as_ref(),
            Self::Poll(_) => None,
        }
    }

    /// The campaign attached to the notification.
    #[must_use]
    pub fn campaign(&self) -> Option<CampaignRef> {
        match self {
            Self::Message(message) => message.campaign,
            Self::Poll(_) => None,
        }
    }
}

/// The message of a notification.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Message {
    /// Main text, not empty.
    pub text: String,
    /// What a click opens: an absolute url of any scheme.
    pub url: Option<String>,
    /// Url of an image.
    pub image_url: Option<String>,
    /// Campaign to attach.
    pub campaign: Option<CampaignRef>,
    /// Extra data for the app.
    pub extra: Option<Extra>,
    /// Raw payload on Android.
    pub android_json: Option<JsonObject>,
    /// Raw payload on iOS; its `aps` has `alert`, `badge` and `sound`.
    pub ios_json: Option<JsonObject>,
    /// Title on Android; the name of the application when absent.
    pub android_title: Option<String>,
    /// Sound on Android.
    pub android_sound: Option<String>,
    /// Badge and sound on iOS.
    pub ios_alert: Option<IosAlert>,
    /// Action buttons on Web Push; at most two.
    pub web_push_actions: Vec<ActionButton>,
    /// Label of the button on Messenger and the chat app that opens the url; `View` when absent.
    pub view_button: Option<String>,
}

/// Badge and sound on iOS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IosAlert {
    /// Number shown on the app icon.
    pub badge: u32,
    /// Name of a sound file, or `default`.
    pub sound: String,
}

/// An action button on Web Push.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActionButton {
    /// Title.
    pub title: String,
    /// Url of the icon.
    pub icon: Option<String>,
    /// Identifies the button; unique within the notification.
    pub action: String,
    /// Url that a click opens.
    pub url: Option<String>,
}

/// Extra data for the app.
#[derive(Debug, Clone, PartialEq)]
pub struct Extra {
    /// Key, in addition to those of the server.
    pub key: String,
    /// Value, as the caller wrote it.
    pub value: JsonObject,
}

/// The campaign of a notification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CampaignRef {
    /// The default campaign at the time when a device requests the enrichment.
    Default,
    /// The campaign with this id.
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
    /// Immediately.
    Now,
    /// At this instant.
    At(Timestamp),
    /// At this local time of each device.
    Local(LocalTime),
}

/// A date and time without a time zone: unix ms as if it were UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct LocalTime(pub i64);

wire_enum! {
    /// Priority at the provider.
    #[derive(Default)]
    pub enum Priority {
        /// Deliver immediately and wake the device.
        #[default]
        High = "high",
        /// Deliver when it suits the device's power management.
        Normal = "normal",
    }
}
