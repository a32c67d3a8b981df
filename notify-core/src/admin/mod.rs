//! The admin API (`/admin/v1`): applications, keys and providers.

use serde::{Deserialize, Serialize};

mod diagnostics;
mod key;
mod operator;
mod playground;

pub use diagnostics::*;
pub use key::*;
pub use operator::*;
pub use playground::*;

use crate::field::{Model, ModelFields, NameOf, Text, Visible};
use crate::json::{BodyPresence, Object};
use crate::request::{model, request};
#[cfg(feature = "openapi")]
use crate::schema::Schemas;
use crate::violations::{Path, Validator};
use crate::wire_enum::wire_enum;
use crate::{AppId, ChannelView, ProviderKind, Timestamp};

/// Longest name of an application or key, in characters.
pub const NAME_CHARS_MAX: usize = 255;
/// Default language of an application.
pub const LANGUAGE_DEFAULT: &str = "en";

model! {
    /// Body of `POST /admin/v1/apps`.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub struct CreateApp with CreateAppFields {
        /// Display name; the default title of notifications.
        pub name: String as Visible<NAME_CHARS_MAX>,
        /// Language code; `en` when absent.
        pub language: Option<String> as Text<NAME_CHARS_MAX>,
    }
}

/// The validated form of [`CreateApp`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewApp {
    /// Display name, not empty.
    pub name: String,
    /// Language code.
    pub language: String,
}

request!(CreateApp => NewApp, BodyPresence::Required);

impl Model for CreateApp {
    type Valid = NewApp;

    fn check(&self, at: &Path<'_>, validator: &mut Validator) -> Option<NewApp> {
        let CreateAppFields { name, language } = self.check_fields(at, validator)?;
        let language = language.unwrap_or_else(|| LANGUAGE_DEFAULT.to_owned());
        Some(NewApp { name, language })
    }
}

model! {
    /// Body of `PATCH /admin/v1/apps/:id`. Absent fields keep their value.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub struct UpdateApp => #[derive(Debug, Clone, Default, PartialEq, Eq)] pub AppChange {
        /// Display name.
        pub name: Option<String> as Text<NAME_CHARS_MAX>,
        /// Language code.
        pub language: Option<String> as Text<NAME_CHARS_MAX>,
        /// `active` or `suspended`.
        pub status: Option<String> as NameOf<AppStatus> => Option<AppStatus>,
        /// `repeat` or `skip`.
        pub on_crash: Option<String> as NameOf<OnCrash> => Option<OnCrash>,
    }
}

request!(UpdateApp => AppChange, BodyPresence::Required);

wire_enum! {
    /// State of an application.
    pub enum AppStatus {
        /// In use.
        Active = "active",
        /// The server refuses the application's API keys.
        Suspended = "suspended",
    }
}

wire_enum! {
    /// What happens after a crash of the server to messages that were being sent to Messenger or Telegram, and
    /// to the raw data messages of `android_json`. They have no identity by which a repeat is recognised.
    #[derive(Default)]
    pub enum OnCrash {
        /// The server sends them again. People may see them twice.
        #[default]
        Repeat = "repeat",
        /// The server does not send them again. They count as failed, with the reason `outcome_unknown`.
        Skip = "skip",
    }
}

impl OnCrash {
    /// Whether this is the default, which responses leave out.
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// An application in a response.
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
    /// What happens to messages that a crash interrupts; left out if it is `repeat`.
    #[serde(default, skip_serializing_if = "OnCrash::is_default")]
    pub on_crash: OnCrash,
    /// Time of creation, unix ms.
    pub created_at: Timestamp,
}

/// Answer of `POST /admin/v1/apps`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AppCreated {
    /// Id of the application.
    pub id: AppId,
}

/// Answer of `GET /admin/v1/apps`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AppList {
    /// One page, oldest first.
    pub apps: Vec<App>,
    /// `cursor` of the next page; null on the last one.
    pub next_cursor: Option<String>,
}

/// Body of a `POST` without parameters: empty, or an object without fields.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct NoBody {}

request!(NoBody => NoBody, BodyPresence::Optional);

impl ModelFields for NoBody {
    type Fields = Self;

    #[cfg(feature = "openapi")]
    const NAME: &'static str = "NoBody";

    fn read(_: &mut Object<'_, '_>) -> Self {
        Self {}
    }

    fn check_fields(&self, _: &Path<'_>, _: &mut Validator) -> Option<Self> {
        Some(*self)
    }

    #[cfg(feature = "openapi")]
    fn object_schema(_: &mut Schemas) -> serde_json::Value {
        crate::schema::object("An object without fields.", Vec::new())
    }
}

impl Model for NoBody {
    type Valid = Self;

    fn check(&self, at: &Path<'_>, validator: &mut Validator) -> Option<Self> {
        self.check_fields(at, validator)
    }
}

/// A configured provider, without its secrets, in a response.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ProviderView {
    /// Which provider.
    pub provider: ProviderKind,
    /// The configuration without secrets; null when the server's master key does not decrypt it.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::json::JsonObject>, required))]
    pub config: serde_json::Value,
    /// Time of the last change, unix ms.
    pub updated_at: Timestamp,
    /// Status of deliveries through this provider; absent in answers of older servers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<ChannelView>,
}

/// Answer of `GET /admin/v1/apps/:id/providers`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ProviderList {
    /// The configured providers.
    pub providers: Vec<ProviderView>,
}

/// Answer of a successful request without data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Success {
    /// Always `true`.
    pub success: bool,
}

/// Body of every error response.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ErrorBody {
    /// The errors; for an invalid request, one for each violated rule.
    pub errors: Vec<String>,
}
