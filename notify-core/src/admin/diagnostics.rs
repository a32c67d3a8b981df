//! What an operator's tools ask a server about itself.

use serde::{Deserialize, Serialize};

use crate::admin::{
    AppChange, AppStatus, CreateApp, CreateKey, LANGUAGE_DEFAULT, NAME_CHARS_MAX, NewApp, NoBody,
    UpdateApp,
};
use crate::json::{Body, Object};
use crate::request::request;
use crate::violations::{Findings, path};
use crate::{ChannelView, Feed, ProviderKind, Timestamp, Webhook};

/// Answer of `POST /admin/v1/apps/:id/providers/:provider/test`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ProviderChecked {
    /// Whether the provider takes the credentials, as far as can be told without sending.
    pub ok: bool,
    /// What it said, or why it was not heard.
    pub detail: String,
    /// How deliveries through it stand: good credentials do not let go what is stopped. `None` from
    /// a server that does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<ChannelView>,
}

/// Answer of `GET /admin/v1/diagnostics`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Diagnostics {
    /// Version of the server.
    pub version: String,
    /// The server's clock.
    pub at: Timestamp,
    /// What poll urls begin with.
    pub public_url: String,
    /// What keeps the server from its work, a line each; empty while `/readyz` is 200.
    pub obstacles: Vec<String>,
    /// Its database.
    pub storage: StorageDiagnostics,
    /// When its TLS certificate expires; null where it serves none, or the end is not known.
    #[serde(default)]
    pub certificate_not_after: Option<Timestamp>,
    /// How far its clock is ahead of the time that it trusts, in milliseconds; 0 as a rule. Nothing is
    /// deleted for its age while it is more.
    #[serde(default)]
    pub clock_leap_ms: u64,
}

/// How the database is set up, and how much room it has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StorageDiagnostics {
    /// `sqlite`.
    pub backend: String,
    /// How changes reach the file; `wal`.
    pub journal_mode: String,
    /// What a commit waits for; `full` is the disk.
    pub synchronous: String,
    /// Size of the database, in bytes.
    pub database_bytes: u64,
    /// Size of its log, in bytes.
    pub log_bytes: u64,
    /// Room left where it lies, in bytes; null where the system does not tell.
    pub free_bytes: Option<u64>,
}

/// Answer of `GET /admin/v1/apps/:id/devices/diagnostics`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AppDiagnostics {
    /// How the newest iOS devices fit the provider `apns`.
    pub ios: IosDiagnostics,
    /// Those providers that are configured, or have devices to deliver to.
    #[serde(default)]
    pub channels: Vec<ChannelDiagnostics>,
    /// Webhooks that the server disabled, or whose last attempt failed.
    #[serde(default)]
    pub webhooks: Vec<Webhook>,
    /// Feeds whose last fetch failed.
    #[serde(default)]
    pub feeds: Vec<Feed>,
}

/// Whether devices of a platform can be delivered to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ChannelDiagnostics {
    /// Which provider.
    pub provider: ProviderKind,
    /// Whether it is configured; every delivery fails with `provider_not_configured` when not.
    pub configured: bool,
    /// How many enabled devices are on its platform.
    pub devices: u64,
    /// How deliveries to them stand.
    pub channel: ChannelView,
}

/// How iOS devices were registered, of a sample of the newest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct IosDiagnostics {
    /// The topic of every message, as `apns` is configured; null when it is not.
    pub topic: Option<String>,
    /// How many devices were looked at.
    pub sampled: u64,
    /// Of them with `ios_env` `sandbox`.
    pub sandbox: u64,
    /// Their `store_identifier`s, the most frequent first; devices without one are not counted.
    pub store_identifiers: Vec<IdentifierCount>,
}

/// How many devices name one app.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct IdentifierCount {
    /// `store_identifier` of a registration.
    pub store_identifier: String,
    /// How many of the sample have it.
    pub devices: u64,
}

// Reads and checks the bodies of the admin API.

request!(CreateApp => NewApp, Body::Required, read_create, check_create);
request!(UpdateApp => AppChange, Body::Required, read_update, check_update);
request!(CreateKey => CreateKey, Body::Optional, read_key, check_key);
request!(NoBody => NoBody, Body::Optional, read_nothing, check_nothing);

fn read_create(object: &mut Object<'_, '_>) -> CreateApp {
    CreateApp { name: object.required_string("name"), language: object.string("language") }
}

fn check_create(request: CreateApp, _now: Timestamp, findings: &mut Findings) -> Option<NewApp> {
    let name = findings.required_up_to(&path("name"), request.name, NAME_CHARS_MAX);
    let language = findings.text_up_to(&path("language"), request.language, NAME_CHARS_MAX);
    Some(NewApp { name, language: language.unwrap_or_else(|| LANGUAGE_DEFAULT.to_owned()) })
}

fn read_update(object: &mut Object<'_, '_>) -> UpdateApp {
    UpdateApp {
        name: object.string("name"),
        language: object.string("language"),
        status: object.string("status"),
    }
}

fn check_update(request: UpdateApp, _now: Timestamp, findings: &mut Findings) -> Option<AppChange> {
    let status = request.status.as_deref();
    Some(AppChange {
        name: findings.text_up_to(&path("name"), request.name, NAME_CHARS_MAX),
        language: findings.text_up_to(&path("language"), request.language, NAME_CHARS_MAX),
        status: findings.optional_word(&path("status"), status, &AppStatus::ALL, AppStatus::as_str),
    })
}

fn read_key(object: &mut Object<'_, '_>) -> CreateKey {
    CreateKey { name: object.string("name") }
}

fn check_key(request: CreateKey, _now: Timestamp, findings: &mut Findings) -> Option<CreateKey> {
    Some(CreateKey { name: findings.text_up_to(&path("name"), request.name, NAME_CHARS_MAX) })
}

fn read_nothing(_: &mut Object<'_, '_>) -> NoBody {
    NoBody {}
}

#[expect(clippy::unnecessary_wraps, reason = "the form of every check")]
fn check_nothing(body: NoBody, _now: Timestamp, _: &mut Findings) -> Option<NoBody> {
    Some(body)
}
