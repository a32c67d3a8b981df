//! Diagnostics for operators: tests of credentials, status of deliveries, state of the server.

use serde::{Deserialize, Serialize};

use crate::{ApiKey, AppId, ChannelView, Feed, ProviderKind, Timestamp, Webhook};

/// Answer of `POST /admin/v1/apps/:id/providers/:provider/test`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ProviderTestResult {
    /// Whether the provider accepts the credentials, as far as this can be tested without sending.
    pub ok: bool,
    /// The provider's answer, or why there was none.
    pub detail: String,
    /// Status of deliveries through this provider. Deliveries can be blocked although the credentials
    /// are valid. Absent in answers of older servers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<ChannelView>,
}

/// Answer of `GET /admin/v1/diagnostics`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Diagnostics {
    /// Version of the server.
    pub version: String,
    /// The server's time, unix ms.
    pub at: Timestamp,
    /// Base url of poll pages.
    pub public_url: String,
    /// Why the server is not ready, one line each; empty while `/readyz` is 200.
    pub obstacles: Vec<String>,
    /// State of the database.
    pub storage: StorageDiagnostics,
    /// When the TLS certificate of the server expires, unix ms; null without one, or when unknown.
    #[serde(default)]
    pub certificate_not_after: Option<Timestamp>,
    /// How far the system clock is ahead of the time that retention trusts, in milliseconds; normally 0.
    /// While this is greater than 0, the server deletes no rows because of their age.
    #[serde(default)]
    pub clock_leap_ms: u64,
    /// How far the server's clock is ahead of the providers', in milliseconds, as of their last response; negative
    /// if it is behind; null before the first response. A provider's time has whole seconds.
    #[serde(default)]
    pub clock_ahead_ms: Option<i64>,
    /// The proxy of outgoing connections; null without one.
    #[serde(default)]
    pub egress_proxy: Option<EgressProxyDiagnostics>,
    /// When this server started, unix ms. Absent in answers of older servers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// Number of servers that share the database, this one included, as of the last heartbeat. Absent in
    /// answers of older servers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub servers: Option<u32>,
    /// Ids of erased devices and users that the server is still removing from stored requests. Answers do not
    /// show these ids any more. Absent in answers of older servers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending_erasures: Option<PendingErasures>,
    /// Applications whose apps or browsers were refused by a rate limit since the server started, the last
    /// refused first.
    #[serde(default)]
    pub refused_calls: Vec<RefusedCalls>,
}

/// The calls of the apps and browsers of an application (`/device/v1`, `/web/v1`) that a rate limit refused
/// since this server started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RefusedCalls {
    /// The application.
    pub app_id: AppId,
    /// Its name.
    pub app_name: String,
    /// Number of calls above the limit of one device (`--web-requests-per-minute`).
    pub device: u64,
    /// Number of calls above the limits of one client address (`--web-address-requests-per-minute`).
    pub address: u64,
    /// Number of registrations above the limit of the application (`--web-subscriptions-per-minute`).
    pub application: u64,
    /// When the last call was refused, unix ms.
    pub last_at: Timestamp,
    /// The proxy that forwarded the last call above a limit of its client address, if this proxy is not in
    /// `--trusted-proxies`. All clients behind it count as one address.
    pub untrusted_proxy: Option<String>,
}

/// The proxy through which the server reaches other hosts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EgressProxyDiagnostics {
    /// Host and port, without credentials.
    pub address: String,
    /// Why the last connection failed, if the proxy was the cause; otherwise null.
    pub failure: Option<String>,
}

/// Ids of erased devices and users that stored requests may still contain.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PendingErasures {
    /// Number of ids.
    pub ids: u64,
    /// When the first of them was erased, unix ms; null if there is none.
    pub oldest_at: Option<Timestamp>,
    /// Number of stored requests that have to be searched, at most 1,000,000.
    pub requests_left: u64,
}

/// Settings and size of the database.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StorageDiagnostics {
    /// `sqlite` or `postgres`.
    pub backend: String,
    /// How changes are journaled; `wal` in both databases.
    pub journal_mode: String,
    /// What a commit waits for. With `full`, it waits until the data is on the disk.
    pub synchronous: String,
    /// Size of the database, in bytes.
    pub database_bytes: u64,
    /// Size of the write-ahead log, in bytes.
    pub log_bytes: u64,
    /// Free space on the disk of the database, in bytes; null when unknown.
    pub free_bytes: Option<u64>,
    /// Number of roles of PostgreSQL other than the server's that may connect to the database. They can stop
    /// all writes. Null with SQLite.
    #[serde(default)]
    pub foreign_roles: Option<u64>,
}

/// Answer of `GET /admin/v1/apps/:id/devices/diagnostics`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AppDiagnostics {
    /// Whether the newest iOS devices match the configuration of `apns`.
    pub ios: IosDiagnostics,
    /// Providers that are configured or have devices.
    #[serde(default)]
    pub channels: Vec<ChannelDiagnostics>,
    /// Webhooks that the server disabled, or whose last attempt failed.
    #[serde(default)]
    pub webhooks: Vec<Webhook>,
    /// Feeds whose last fetch failed.
    #[serde(default)]
    pub feeds: Vec<Feed>,
    /// API keys that expire within 14 days.
    #[serde(default)]
    pub expiring_keys: Vec<ApiKey>,
    /// Devices that browsers and apps registered without an API key and that have not accepted a message yet.
    /// Absent in answers of older servers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anonymous_devices: Option<AnonymousDevices>,
}

/// Devices that anybody could have registered, and that have not accepted a message yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AnonymousDevices {
    /// Number of devices, at most `max`.
    pub devices: u64,
    /// The most devices that the server keeps (`--max-anonymous-devices`); null if it keeps any number. Then
    /// `devices` is at most 1,000,000.
    pub max: Option<u64>,
}

/// Whether notifications can be delivered through a provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ChannelDiagnostics {
    /// Which provider.
    pub provider: ProviderKind,
    /// Whether the provider is configured. If not, every delivery fails with `provider_not_configured`.
    pub configured: bool,
    /// Number of enabled devices on the provider's platform.
    pub devices: u64,
    /// Status of deliveries through the provider.
    pub channel: ChannelView,
    /// Push tokens of the newest devices that cannot be tokens of the provider; absent if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unusable_tokens: Option<UnusableTokens>,
}

/// Push tokens to which nothing is sent, because they cannot be tokens of the provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UnusableTokens {
    /// Number of devices in the sample.
    pub sampled: u64,
    /// Number of devices in the sample with such a token.
    pub devices: u64,
    /// What the token of the newest of them looks like.
    pub looks_like: String,
}

/// The registrations of the newest iOS devices, as a sample of all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct IosDiagnostics {
    /// The configured topic of `apns`; null when `apns` is not configured.
    pub topic: Option<String>,
    /// Number of devices in the sample.
    pub sampled: u64,
    /// Number of devices in the sample with `ios_env` `sandbox`.
    pub sandbox: u64,
    /// The `store_identifier`s of the sample, the most frequent first. Devices without a
    /// `store_identifier` are left out.
    pub store_identifiers: Vec<IdentifierCount>,
}

/// Number of devices with one `store_identifier`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct IdentifierCount {
    /// The `store_identifier`.
    pub store_identifier: String,
    /// Number of devices in the sample with this `store_identifier`.
    pub devices: u64,
}
