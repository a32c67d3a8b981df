//! The settings. A flag overrides the environment, which overrides the file of `--config`, which
//! overrides the default. Only this module reads the environment.

mod environment;
mod load;
mod settings;

#[cfg(test)]
mod tests;

use std::path::PathBuf;

use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use url::Url;

use crate::delivery::{MAX_UNACKED_DEFAULT, MAX_UNACKED_WITHOUT_DEDUP_DEFAULT};
use crate::outbound::{NoProxy, ProxyUrl};
use crate::store::SessionTimeouts;
use crate::store::postgres::DatabaseUrl;
use crate::store::sqlite::READERS_DEFAULT;
pub use environment::unknown_variables;
pub use load::configuration_document;
pub use load::{ConfigError, Sources};
pub(crate) use load::{default_of, secret_variable};
pub(crate) use settings::{Kind, SETTINGS, Setting};
pub use settings::{LogFormat, Networks, Span, Switch};

/// Name of the database file in the data folder.
pub const DATABASE_FILE: &str = "notify.db";
/// Name of the master key file in the data folder.
pub const MASTER_KEY_FILE: &str = "master.key";
/// Environment variable with the master key itself.
pub(crate) const MASTER_KEY_VARIABLE: &str = "NOTIFY_MASTER_KEY";
/// Environment variable with the target of `notify-server move`. It is an alternative to `--to` that other users
/// of the machine cannot read.
pub(crate) const MOVE_TO_VARIABLE: &str = "NOTIFY_MOVE_TO";

/// Every setting, with its default.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Config {
    /// Listening address.
    pub listen: String,
    /// Another listening address, which alone has the admin API and the metrics.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admin_listen: Option<String>,
    /// Most applications that have metrics of their own.
    pub metrics_apps: usize,
    /// Folder of the database and the master key.
    pub data_dir: PathBuf,
    /// PostgreSQL database to use instead of the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub database_url: Option<DatabaseUrl>,
    /// Url under which clients reach the server, used in the urls of polls.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "web_address")]
    pub public_url: Option<Url>,
    /// Certificate chain, PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_cert: Option<PathBuf>,
    /// Private key, PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_key: Option<PathBuf>,
    /// Whether feeds, webhooks and web push endpoints may have loopback and private addresses.
    pub allow_private_networks: bool,
    /// The proxy through which the server reaches other hosts; `HTTPS_PROXY` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub egress_proxy: Option<ProxyUrl>,
    /// Most requests per second with one API key; 0 means no limit.
    pub rate_limit: u32,
    /// Most failed authentications per minute from one client address; 0 means no limit.
    pub auth_failures_per_minute: u32,
    /// Most votes per minute from one client address, on the pages of all polls; 0 means no limit.
    pub poll_votes_per_minute: u32,
    /// Most requests per minute of one browser or one app with the secret of its device, and most requests with a
    /// wrong secret from one client address to one application; 0 means no limit.
    pub web_requests_per_minute: u32,
    /// Most requests of browsers, and as many of apps with a publishable key, without the secret of a device, per
    /// minute from one client address to one application; 0 means no limit.
    pub web_address_requests_per_minute: u32,
    /// Most subscriptions of browsers without an API key, and as many registrations of apps with a
    /// publishable key, per minute to one application; 0 means no limit.
    pub web_subscriptions_per_minute: u32,
    /// The proxies whose `X-Forwarded-For` is trusted.
    pub trusted_proxies: Networks,
    /// Largest body of a request, in bytes.
    pub max_body_bytes: usize,
    /// Longest time in which the head of a request must arrive.
    pub header_timeout: Span,
    /// Longest time to wait for the body of a request, unless the body arrives at 1 KiB a second or
    /// faster.
    pub body_timeout: Span,
    /// How long a connection may be idle between requests.
    pub idle_timeout: Span,
    /// How long a client may leave its response unread.
    pub write_timeout: Span,
    /// Most connections of clients.
    pub max_connections: usize,
    /// Most connections from one address; 0 means no limit.
    pub max_connections_per_address: usize,
    /// How long the server waits after a stop signal for requests and messages in flight.
    pub shutdown_grace: Span,
    /// Number of database connections for reads.
    pub reader_threads: usize,
    /// Most messages that are in flight or whose outcome is not stored yet.
    #[serde(alias = "delivery-credit")]
    pub max_unacked_deliveries: usize,
    /// Most messages to Messenger and Telegram and raw data messages that are in flight or whose outcome is not
    /// stored yet.
    pub max_unacked_without_dedup: usize,
    /// Whether the providers' ids of accepted messages are stored.
    pub keep_message_ids: bool,
    /// How many days a notification is kept after it ended; 0 means forever.
    pub keep_notifications_days: u32,
    /// How many days after its end the outcomes of a notification for each device are kept; 0 means
    /// forever.
    pub keep_outcomes_days: u32,
    /// How many days after its end the events of a notification are kept; 0 means forever.
    pub keep_events_days: u32,
    /// How many days after it was last seen a device is removed if a browser or an app registered it without
    /// an API key and it has accepted no message; 0 means never.
    pub keep_anonymous_devices_days: u32,
    /// The most such devices of an application; 0 means any number.
    pub max_anonymous_devices: u32,
    /// How many days an entry of the audit trail is kept; 0 means forever.
    pub keep_audit_days: u32,
    /// Whether the server has the administration console.
    pub console: Switch,
    /// Address of the console alone. Without it, the console is at the listening address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub console_listen: Option<String>,
    /// How long a session of the console may be unused before it ends.
    pub console_idle_timeout: Span,
    /// How long a session of the console lasts at most.
    pub console_session_timeout: Span,
    /// File of the master key; `master.key` in the data folder by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub master_key_file: Option<PathBuf>,
    /// Filter of the log.
    pub log: String,
    /// Format of the log.
    pub log_format: LogFormat,
    /// The master key itself. It comes only from `NOTIFY_MASTER_KEY`: other users could read it in
    /// the file or in the arguments.
    #[serde(skip)]
    pub master_key: Option<SecretString>,
    /// The hosts that are reached without the proxy. They come only from `NO_PROXY`.
    #[serde(skip)]
    pub no_proxy: NoProxy,
}

/// Parses a url. The error for a url without a scheme names the schemes.
fn web_address<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Url>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let refused = |error| match error {
        url::ParseError::RelativeUrlWithoutBase => {
            serde::de::Error::custom(format!("`{text}` must begin with https:// or http://"))
        }
        other => serde::de::Error::custom(format!("`{text}` is no url: {other}")),
    };
    Url::parse(&text).map(Some).map_err(refused)
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:8080".to_owned(),
            admin_listen: None,
            metrics_apps: 0,
            data_dir: "./notify-data".into(),
            database_url: None,
            public_url: None,
            tls_cert: None,
            tls_key: None,
            allow_private_networks: false,
            egress_proxy: None,
            rate_limit: 0,
            auth_failures_per_minute: 300,
            poll_votes_per_minute: 600,
            web_requests_per_minute: 120,
            web_address_requests_per_minute: 600,
            web_subscriptions_per_minute: 1_200,
            trusted_proxies: Networks::default(),
            max_body_bytes: 1_048_576,
            header_timeout: Span::from_secs(10),
            body_timeout: Span::from_secs(15),
            idle_timeout: Span::from_secs(60),
            write_timeout: Span::from_secs(15),
            max_connections: 16_384,
            max_connections_per_address: 8_192,
            shutdown_grace: Span::from_secs(30),
            reader_threads: READERS_DEFAULT,
            max_unacked_deliveries: MAX_UNACKED_DEFAULT,
            max_unacked_without_dedup: MAX_UNACKED_WITHOUT_DEDUP_DEFAULT,
            keep_message_ids: false,
            keep_notifications_days: 90,
            keep_outcomes_days: 30,
            keep_events_days: 90,
            keep_anonymous_devices_days: 7,
            max_anonymous_devices: 1_000_000,
            keep_audit_days: 365,
            console: if cfg!(feature = "console") { Switch::On } else { Switch::Off },
            console_listen: None,
            console_idle_timeout: Span::from_secs(2 * 3_600),
            console_session_timeout: Span::from_secs(12 * 3_600),
            master_key_file: None,
            log: "info".to_owned(),
            log_format: LogFormat::Text,
            master_key: None,
            no_proxy: NoProxy::default(),
        }
    }
}

impl Config {
    /// The path of the SQLite database. It has no meaning if `database_url` is set.
    #[must_use]
    pub fn database_path(&self) -> PathBuf {
        self.data_dir.join(DATABASE_FILE)
    }

    /// How long sessions of the console last.
    #[must_use]
    pub fn session_timeouts(&self) -> SessionTimeouts {
        let milliseconds = |span: Span| i64::try_from(span.0.as_millis()).unwrap_or(i64::MAX);
        SessionTimeouts {
            idle_ms: milliseconds(self.console_idle_timeout),
            total_ms: milliseconds(self.console_session_timeout),
        }
    }

    /// Whether other servers may work on the same database.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.database_url.is_some()
    }
}
