//! Ids: those that the server makes (`UUIDv7`) and those that callers make.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::Violations;

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

        impl TryFrom<&str> for $name {
            type Error = UnknownId;

            /// Reads what [`std::str::FromStr`] reads.
            fn try_from(text: &str) -> Result<Self, UnknownId> {
                text.parse()
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

/// A text that breaks a rule of the ids that callers make.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an id {0}")]
pub struct WrongId(&'static str);

impl WrongId {
    /// The rule, without a path: `must not be empty`.
    #[must_use]
    pub fn rule(&self) -> &'static str {
        self.0
    }
}

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

        impl std::str::FromStr for $name {
            type Err = WrongId;

            /// Takes what [`Self::new`] takes.
            fn from_str(text: &str) -> Result<Self, WrongId> {
                Self::new(text).map_err(WrongId)
            }
        }

        impl TryFrom<&str> for $name {
            type Error = WrongId;

            /// Takes what [`Self::new`] takes.
            fn try_from(text: &str) -> Result<Self, WrongId> {
                Self::new(text).map_err(WrongId)
            }
        }

        impl TryFrom<String> for $name {
            type Error = WrongId;

            /// Takes what [`Self::new`] takes.
            fn try_from(text: String) -> Result<Self, WrongId> {
                Self::new(text).map_err(WrongId)
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

// The `Idempotency-Key` header.

/// Longest `Idempotency-Key`, in characters.
pub const IDEMPOTENCY_KEY_CHARS_MAX: usize = 255;

/// A caller's name for one request, by which its repeats are known.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct IdempotencyKey(String);

impl IdempotencyKey {
    /// Takes the bytes of the header.
    ///
    /// # Errors
    /// When they are not 1 to 255 visible ASCII characters.
    pub fn new(header: &[u8]) -> Result<Self, Violations> {
        let is_visible = header.iter().all(u8::is_ascii_graphic);
        if header.is_empty() || header.len() > IDEMPOTENCY_KEY_CHARS_MAX || !is_visible {
            let what = "must be 1 to 255 visible ASCII characters";
            return Err(Violations::one("Idempotency-Key", what));
        }
        Ok(Self(header.iter().copied().map(char::from).collect()))
    }

    /// The key as the caller wrote it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_of_the_caller_is_read_by_its_rules() {
        for (text, rule) in [
            ("pixel/7", None),
            ("", Some("must not be empty")),
            ("..", Some("must not be `.` or `..`")),
            ("a\n", Some("must not contain control characters")),
        ] {
            let parsed: Result<DeviceId, WrongId> = text.parse();
            assert_eq!(parsed.as_ref().err().map(WrongId::rule), rule, "{text:?}");
            assert_eq!(DeviceId::try_from(text), parsed, "{text:?}");
            assert_eq!(DeviceId::try_from(text.to_owned()), parsed, "{text:?}");
            assert_eq!(parsed.ok().as_ref().map(DeviceId::as_str), rule.is_none().then_some(text));
        }
        let wrong = NotificationId::try_from("").unwrap_err();
        assert_eq!(wrong.to_string(), "an id must not be empty");
    }

    #[test]
    fn an_id_of_the_server_has_one_form() {
        let text = "0190a3b2-7f00-7000-8000-000000000001";
        assert_eq!(AppId::try_from(text), text.parse());
        assert_eq!(AppId::try_from(text).map(|id| id.to_string()), Ok(text.to_owned()));
        for wrong in ["", "shop", "0190A3B2-7F00-7000-8000-000000000001", "0190a3b27f0070008000"] {
            assert_eq!(AppId::try_from(wrong), Err(UnknownId), "{wrong}");
        }
    }
}
