//! The admin API's models (`/admin/v1`): applications, keys and providers.

use serde::{Deserialize, Serialize};

mod diagnostics;

pub use diagnostics::*;

use crate::{AppId, ChannelView, KeyId, ProviderKind, Timestamp};

/// Longest name of an application or key, in characters.
pub const NAME_CHARS_MAX: usize = 255;
/// Most API keys of an application: they are listed in one answer.
pub const API_KEYS_MAX: u64 = 1_000;
/// Language of an application that names none.
pub const LANGUAGE_DEFAULT: &str = "en";

/// Body of `POST /admin/v1/apps`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CreateApp {
    /// Display name; the title of its notifications.
    pub name: String,
    /// Language code; `en` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub language: Option<String>,
}

/// An application that holds every rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewApp {
    /// Display name, not empty.
    pub name: String,
    /// Language code.
    pub language: String,
}

/// Body of `PATCH /admin/v1/apps/:id`; absent fields stay.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UpdateApp {
    /// Display name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Language code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub language: Option<String>,
    /// `active` or `suspended`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<AppStatus>))]
    pub status: Option<String>,
}

/// A change of an application that holds every rule; `None` stays.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AppChange {
    /// Display name.
    pub name: Option<String>,
    /// Language code.
    pub language: Option<String>,
    /// State.
    pub status: Option<AppStatus>,
}

/// State of an application; the keys of a suspended one are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum AppStatus {
    /// In use.
    Active,
    /// Its keys are refused.
    Suspended,
}

impl AppStatus {
    /// Every state.
    pub const ALL: [Self; 2] = [Self::Active, Self::Suspended];

    /// The word on the wire and in the database.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Suspended => "suspended",
        }
    }

    /// The state of that word, if there is one.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == word)
    }
}

/// An application as read back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct App {
    /// Id.
    pub id: AppId,
    /// Display name.
    pub name: String,
    /// Language code.
    pub language: String,
    /// State.
    pub status: AppStatus,
    /// Creation.
    pub created_at: Timestamp,
}

/// Answer of `POST /admin/v1/apps`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AppCreated {
    /// Its id.
    pub id: AppId,
}

/// Answer of `GET /admin/v1/apps`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AppList {
    /// One page, oldest first.
    pub apps: Vec<App>,
    /// Where the next page begins; null at the end.
    pub next_cursor: Option<String>,
}

/// Body of `POST /admin/v1/apps/:id/keys`; may be left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CreateKey {
    /// What the key is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// Body of a `POST` that has nothing to say: empty, or an object without fields.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NoBody {}

/// Answer of `POST /admin/v1/apps/:id/keys`: the only time the key is shown.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct KeyCreated {
    /// Id of the key.
    pub id: KeyId,
    /// The key.
    pub api_key: String,
}

impl std::fmt::Debug for KeyCreated {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeyCreated").field("id", &self.id).finish_non_exhaustive()
    }
}

/// A key without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Key {
    /// Id.
    pub id: KeyId,
    /// What it is for.
    pub name: Option<String>,
    /// Prefix and last four characters.
    pub hint: String,
    /// Creation.
    pub created_at: Timestamp,
    /// Last use, to the minute.
    pub last_used_at: Option<Timestamp>,
}

/// Answer of `GET /admin/v1/apps/:id/keys`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct KeyList {
    /// Oldest first; revoked ones are gone.
    pub keys: Vec<Key>,
}

/// A provider as read back: its configuration without secrets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ProviderView {
    /// Which provider.
    pub provider: ProviderKind,
    /// What was put, secrets left out; null when the server's master key does not open it.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>, required))]
    pub config: serde_json::Value,
    /// Last change.
    pub updated_at: Timestamp,
    /// How deliveries through it stand; `None` from a server that does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<ChannelView>,
}

/// Answer of `GET /admin/v1/apps/:id/providers`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ProviderList {
    /// Those configured.
    pub providers: Vec<ProviderView>,
}

/// Answer of a success without data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Success {
    /// Always true.
    pub success: bool,
}

/// Body of every answer that is not a success.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ErrorBody {
    /// What is wrong, one rule each.
    pub errors: Vec<String>,
}
