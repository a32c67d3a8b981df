//! Ids: those that the server makes (`UUIDv7`) and those that callers make.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Defines an id that the server makes: a `UUIDv7`, which sorts by time.
macro_rules! server_id {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
        #[serde(transparent)]
        pub struct $name(pub Uuid);

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.hyphenated().fmt(f)
            }
        }

        impl std::str::FromStr for $name {
            type Err = UnknownId;

            /// Reads the hyphenated lower-case form only, since ids compare character by character.
            fn from_str(text: &str) -> Result<Self, UnknownId> {
                let id = Uuid::try_parse(text).map_err(|_| UnknownId)?;
                if id.hyphenated().to_string() == text { Ok(Self(id)) } else { Err(UnknownId) }
            }
        }
    )*};
}

server_id! {
    /// Id of an application, the tenant that owns everything else.
    AppId;
    /// Id of an API key or admin key (never the key itself).
    KeyId;
    /// Id of a campaign.
    CampaignId;
    /// Id of a feed.
    FeedId;
    /// Id of one answer of a poll.
    AnswerId;
    /// Id of a webhook.
    WebhookId;
    /// Id of a message to a webhook: the same on every attempt, as its `webhook-id`.
    WebhookMessageId;
}

/// A text that is not an id of the server's form, and so names nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an id")]
pub struct UnknownId;

/// Longest id that a caller may make, in characters.
pub const CALLER_ID_CHARS_MAX: usize = 255;

/// Defines an id that a caller makes: 1 to 255 characters, no control characters, not `.` or `..`.
macro_rules! caller_id {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
        #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// Takes a text that holds the rules of an id of the caller's.
            ///
            /// # Errors
            /// The rule that the text breaks, without a path.
            pub fn new(text: impl Into<String>) -> Result<Self, &'static str> {
                let text = text.into();
                check_caller_id(&text)?;
                Ok(Self(text))
            }

            /// The id as the caller wrote it.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Self::new(String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
            }
        }
    )*};
}

caller_id! {
    /// Id of a device, made by the caller or its SDK; unique within the application.
    DeviceId;
    /// Id of a notification: made by the server (a `UUIDv7`) or, for a report, by the caller.
    /// A poll has the id of its notification.
    NotificationId;
}

impl From<Uuid> for NotificationId {
    fn from(id: Uuid) -> Self {
        Self(id.hyphenated().to_string())
    }
}

impl From<Uuid> for DeviceId {
    fn from(id: Uuid) -> Self {
        Self(id.hyphenated().to_string())
    }
}

/// Words that a caller's `notify` id must not be, because they are paths of their own.
pub const RESERVED_NOTIFICATION_IDS: [&str; 2] = ["notify", "preview"];

fn check_caller_id(text: &str) -> Result<(), &'static str> {
    if text.is_empty() {
        return Err("must not be empty");
    }
    if text.chars().nth(CALLER_ID_CHARS_MAX).is_some() {
        return Err("must be at most 255 characters");
    }
    if text.chars().any(char::is_control) {
        return Err("must not contain control characters");
    }
    if matches!(text, "." | "..") {
        return Err("must not be `.` or `..`");
    }
    Ok(())
}
