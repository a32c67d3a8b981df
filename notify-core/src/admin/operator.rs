//! Operators: admin keys, sessions of the console, and the audit trail.

use serde::{Deserialize, Serialize};

use super::NAME_CHARS_MAX;
use crate::field::{Text, Visible};
use crate::json::BodyPresence;
use crate::request::{
    CURSOR, LIMIT, PageQuery, Parameter, ParameterForm, Parameters, Query, model, request,
};
use crate::violations::{Violations, path};
use crate::wire_enum::wire_enum;
use crate::{AppId, KeyId, SessionId, Timestamp};

/// Most admin keys of an installation. One answer lists all of them.
pub const ADMIN_KEYS_MAX: u64 = 100;

model! {
    /// Body of `POST /admin/v1/keys`; may be empty.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub struct CreateAdminKey => #[derive(Debug, Clone)] pub NewAdminKey {
        /// Who uses the key, or what for.
        pub name: Option<String> as Text<NAME_CHARS_MAX>,
    }
}

request!(CreateAdminKey => NewAdminKey, BodyPresence::Optional);

model! {
    /// Body of `PATCH /admin/v1/keys/:id`.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub struct RenameKey => #[derive(Debug, Clone)] pub NewKeyName {
        /// Who uses the key, or what for.
        pub name: String as Visible<NAME_CHARS_MAX>,
    }
}

request!(RenameKey => NewKeyName, BodyPresence::Required);

/// Answer of `POST /admin/v1/keys`. The key is shown only here.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AdminKeyCreated {
    /// Id of the key.
    pub id: KeyId,
    /// The key.
    pub admin_key: String,
}

impl std::fmt::Debug for AdminKeyCreated {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AdminKeyCreated").field("id", &self.id).finish_non_exhaustive()
    }
}

/// An admin key without its secret, in a response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AdminKey {
    /// Id.
    pub id: KeyId,
    /// Who uses the key, or what for.
    pub name: Option<String>,
    /// Prefix and last four characters of the key.
    pub hint: String,
    /// Time of creation, unix ms.
    pub created_at: Timestamp,
    /// Time of the last use, unix ms; accurate to the minute.
    pub last_used_at: Option<Timestamp>,
}

/// Answer of `GET /admin/v1/keys`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AdminKeyList {
    /// Keys that are not revoked, oldest first.
    pub keys: Vec<AdminKey>,
}

/// A session of the console in a response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Session {
    /// Id.
    pub id: SessionId,
    /// The admin key that signed in.
    pub key_id: KeyId,
    /// The network address that signed in.
    pub address: String,
    /// Time of the sign-in, unix ms.
    pub created_at: Timestamp,
    /// Time of the last use, unix ms; accurate to the minute.
    pub last_used_at: Timestamp,
}

/// Answer of `GET /admin/v1/sessions`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SessionList {
    /// One page of sessions that have not expired, newest first.
    pub sessions: Vec<Session>,
    /// `cursor` of the next page; null on the last one.
    pub next_cursor: Option<String>,
}

wire_enum! {
    /// How an operator made a change.
    pub enum AuditSource {
        /// With an admin key over the admin API.
        Api = "api",
        /// In the console.
        Console = "console",
    }
}

/// One change that an operator made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AuditEntry {
    /// Time of the change, unix ms.
    pub at: Timestamp,
    /// What was done: the operation id of the API's OpenAPI document, such as `create_app`.
    pub action: String,
    /// The application that was changed; absent for changes of the installation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app_id: Option<AppId>,
    /// What was changed: an id, or the name of a provider; absent if the change has no other object than
    /// the application.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<String>,
    /// The admin key that was used, or that signed in to the console.
    pub key_id: KeyId,
    /// The name of the admin key at that time; its hint if it had no name.
    pub key_name: String,
    /// The network address of the operator.
    pub address: String,
    /// How the change was made.
    pub source: AuditSource,
    /// Id of the request, as in the response's `X-Request-Id` and in the log.
    pub request_id: String,
}

/// Answer of `GET /admin/v1/audit`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AuditList {
    /// One page, newest first.
    pub entries: Vec<AuditEntry>,
    /// `cursor` of the next page; null on the last one.
    pub next_cursor: Option<String>,
}

/// Query of `GET /admin/v1/audit`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListAudit {
    /// Page size; 50 when absent.
    pub limit: Option<u32>,
    /// `next_cursor` of the previous page; the first page when absent.
    pub cursor: Option<String>,
    /// Only changes of this application.
    pub app_id: Option<AppId>,
}

impl Query for ListAudit {
    type Valid = Self;
    const PARAMETERS: &'static [Parameter] = &[
        LIMIT,
        CURSOR,
        Parameter::new("app_id", ParameterForm::Uuid, "Only changes of this application"),
    ];

    fn parse(parameters: &[(String, String)], _now: Timestamp) -> Result<Self, Violations> {
        let mut parameters = Parameters::new(parameters, Self::PARAMETERS);
        let PageQuery { limit, cursor } = PageQuery::take(&mut parameters);
        let app_id = match parameters.non_empty("app_id").map(str::parse) {
            Some(Ok(id)) => Some(id),
            Some(Err(_)) => {
                parameters.validator.violation(&path("app_id"), "must be the id of an application");
                None
            }
            None => None,
        };
        parameters.finish(Some(Self { limit, cursor, app_id }))
    }
}
