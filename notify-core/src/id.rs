//! Ids: `UUIDv7`s that the server generates, and texts that callers choose.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::Violations;

/// Defines an id that the server generates: a `UUIDv7`, which sorts by time (RFC 9562, section 5.7).
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

            /// Accepts only the hyphenated lower-case form, so that equal ids have equal texts.
            fn from_str(text: &str) -> Result<Self, UnknownId> {
                let id = Uuid::try_parse(text).map_err(|_| UnknownId)?;
                if id.hyphenated().to_string() == text { Ok(Self(id)) } else { Err(UnknownId) }
            }
        }

        impl TryFrom<&str> for $name {
            type Error = UnknownId;

            /// Accepts the same as [`std::str::FromStr`].
            fn try_from(text: &str) -> Result<Self, UnknownId> {
                text.parse()
            }
        }
    )*};
}

server_id! {
    /// Id of an application: the tenant that owns all other resources.
    AppId;
    /// Id of an API key or admin key; not the key itself.
    KeyId;
    /// Id of a session of the console; not the secret in its cookie.
    SessionId;
    /// Id of a campaign.
    CampaignId;
    /// Id of a feed.
    FeedId;
    /// Id of an answer of a poll.
    AnswerId;
    /// Id of a webhook.
    WebhookId;
    /// Id of a message to a webhook: its `webhook-id` header on every attempt.
    WebhookMessageId;
}

/// A text that does not have the form of a server-generated id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an id")]
pub struct UnknownId;

impl crate::field::ParsedText for FeedId {
    fn parse(text: &str) -> Result<Self, &'static str> {
        text.parse().map_err(|_| "no feed has this id")
    }

    #[cfg(feature = "openapi")]
    fn schema() -> serde_json::Value {
        serde_json::json!({
            "type": "string",
            "format": "uuid",
            "pattern": crate::schema::SERVER_ID,
        })
    }
}

/// A text that violates a rule of caller-chosen ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an id {0}")]
pub struct InvalidId(&'static str);

impl InvalidId {
    /// The violated rule, without a path, such as `must not be empty`.
    #[must_use]
    pub fn rule(&self) -> &'static str {
        self.0
    }
}

/// Longest id that a caller may choose, in characters.
pub const CALLER_ID_CHARS_MAX: usize = 255;

/// Defines an id that a caller chooses: 1 to 255 characters, no control characters, not `.` or `..`.
macro_rules! caller_id {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
        #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// Checks the rules of caller-chosen ids.
            ///
            /// # Errors
            /// The rule that the text violates, without a path.
            pub fn new(text: impl Into<String>) -> Result<Self, &'static str> {
                let text = text.into();
                check_caller_id(&text)?;
                Ok(Self(text))
            }

            /// The id as the caller chose it.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl $crate::field::ParsedText for $name {
            fn parse(text: &str) -> Result<Self, &'static str> {
                Self::new(text)
            }

            #[cfg(feature = "openapi")]
            fn schema() -> serde_json::Value {
                serde_json::json!({
                    "type": "string",
                    "minLength": 1,
                    "maxLength": CALLER_ID_CHARS_MAX,
                    "pattern": $crate::schema::CALLER_ID,
                })
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl std::str::FromStr for $name {
            type Err = InvalidId;

            /// Accepts the same as [`Self::new`].
            fn from_str(text: &str) -> Result<Self, InvalidId> {
                Self::new(text).map_err(InvalidId)
            }
        }

        impl TryFrom<&str> for $name {
            type Error = InvalidId;

            /// Accepts the same as [`Self::new`].
            fn try_from(text: &str) -> Result<Self, InvalidId> {
                Self::new(text).map_err(InvalidId)
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidId;

            /// Accepts the same as [`Self::new`].
            fn try_from(text: String) -> Result<Self, InvalidId> {
                Self::new(text).map_err(InvalidId)
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
    /// Id of a device, chosen by the caller or its SDK; unique within the application.
    DeviceId;
    /// Id of a user, chosen by the caller; unique within the application.
    UserId;
    /// Id of a notification: a `UUIDv7` from the server or, for a report, chosen by the caller. A poll
    /// has the id of its notification.
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

/// Ids that a report must not have, because they are paths of the API.
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

/// Longest `Idempotency-Key`, in characters.
pub const IDEMPOTENCY_KEY_CHARS_MAX: usize = 255;

/// The `Idempotency-Key` header: identifies a request, so that a repeat is not executed again.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct IdempotencyKey(String);

impl IdempotencyKey {
    /// Checks the value of the header.
    ///
    /// # Errors
    /// When it is not 1 to 255 visible ASCII characters.
    pub fn new(header: &[u8]) -> Result<Self, Violations> {
        let is_visible = header.iter().all(u8::is_ascii_graphic);
        if header.is_empty() || header.len() > IDEMPOTENCY_KEY_CHARS_MAX || !is_visible {
            let what = "must be 1 to 255 visible ASCII characters";
            return Err(Violations::one("Idempotency-Key", what));
        }
        Ok(Self(header.iter().copied().map(char::from).collect()))
    }

    /// The key as the caller sent it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caller_chosen_ids_are_checked() {
        for (text, rule) in [
            ("pixel/7", None),
            ("", Some("must not be empty")),
            ("..", Some("must not be `.` or `..`")),
            ("a\n", Some("must not contain control characters")),
        ] {
            let parsed: Result<DeviceId, InvalidId> = text.parse();
            assert_eq!(parsed.as_ref().err().map(InvalidId::rule), rule, "{text:?}");
            assert_eq!(DeviceId::try_from(text), parsed, "{text:?}");
            assert_eq!(DeviceId::try_from(text.to_owned()), parsed, "{text:?}");
            assert_eq!(parsed.ok().as_ref().map(DeviceId::as_str), rule.is_none().then_some(text));
        }
        let error = NotificationId::try_from("").unwrap_err();
        assert_eq!(error.to_string(), "an id must not be empty");
    }

    #[test]
    fn server_ids_have_one_form() {
        let text = "0190a3b2-7f00-7000-8000-000000000001";
        assert_eq!(AppId::try_from(text), text.parse());
        assert_eq!(AppId::try_from(text).map(|id| id.to_string()), Ok(text.to_owned()));
        for wrong in ["", "shop", "0190A3B2-7F00-7000-8000-000000000001", "0190a3b27f0070008000"] {
            assert_eq!(AppId::try_from(wrong), Err(UnknownId), "{wrong}");
        }
    }
}
