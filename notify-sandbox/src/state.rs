//! What the connections of a sandbox share, and its settings.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::apns::{self, VerifiedTokens};
use crate::clock::Clock;
use crate::credentials::{Certificate, Credentials, SandboxError};
use crate::oauth::AccessTokens;
use crate::rate_limits::RateLimits;
use crate::request_log::RequestLog;
use crate::rules::Rules;
use crate::script::{Environment, Provider};
use crate::webpush::{Subscriptions, VerifiedVapid};

/// Messages the log keeps by default.
const LOG_ENTRIES_MAX: usize = 10_000;

/// The most APNs tokens with a [`TokenInfo`].
const TOKEN_INFOS_MAX: usize = 1_000_000;

/// How a sandbox starts.
#[derive(Debug, Clone)]
pub struct SandboxConfig {
    /// Messages the log keeps in full; with 0 it only counts, which suits benchmarks.
    pub log_entries_max: usize,
    /// Tells the time.
    pub clock: Clock,
    /// The initial settings.
    pub settings: Settings,
}

impl Default for SandboxConfig {
    fn default() -> Self {
        Self {
            log_entries_max: LOG_ENTRIES_MAX,
            clock: Clock::default(),
            settings: Settings::default(),
        }
    }
}

/// What can change while a sandbox runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// `MAX_CONCURRENT_STREAMS` of FCM, and of an APNs connection after its first success.
    pub max_concurrent_streams: u32,
    /// The same before an APNs connection's first success.
    pub max_concurrent_streams_at_start: u32,
    /// Whether an APNs rejection restores the initial limit until the next success.
    pub drop_streams_on_rejection: bool,
    /// How long an access token lasts, in seconds.
    pub access_token_seconds: u32,
    /// The used share of the page's quota in Messenger's usage headers, in percent; 0 omits them.
    pub messenger_usage_percent: u32,
    /// The minutes until access returns, in the same headers.
    pub messenger_regain_minutes: u32,
    /// Whether Messenger refuses calls without `appsecret_proof`.
    pub messenger_requires_proof: bool,
    /// Messages a second that Messenger accepts; 0 is no limit.
    pub messenger_per_second: u32,
    /// Messages a second that Telegram accepts from the bot; 0 is no limit.
    pub telegram_per_second: u32,
    /// Messages at once that Telegram accepts to one chat, refilled at one a second (to a group at
    /// 20 a minute); 0 is no limit.
    pub telegram_chat_burst: u32,
    /// Bytes that a client may send ahead on a stream of a new connection; with 0 no body arrives.
    pub stream_window_bytes: u32,
    /// The certificate of new connections.
    pub certificate: Certificate,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            max_concurrent_streams: 1_000,
            max_concurrent_streams_at_start: 1,
            drop_streams_on_rejection: false,
            access_token_seconds: 3_599,
            messenger_usage_percent: 0,
            messenger_regain_minutes: 0,
            messenger_requires_proof: false,
            messenger_per_second: 300,
            telegram_per_second: 30,
            telegram_chat_burst: 20,
            stream_window_bytes: 1 << 16,
            certificate: Certificate::Good,
        }
    }
}

/// Where an APNs token belongs; an absent field is not checked.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct TokenInfo {
    /// In the other environment the token is `BadDeviceToken`.
    pub(crate) environment: Option<Environment>,
    /// For another topic the token is `DeviceTokenNotForTopic`.
    pub(crate) topic: Option<String>,
}

/// The shared state of a sandbox.
pub(crate) struct SandboxState {
    pub(crate) origin: String,
    pub(crate) credentials: Credentials,
    pub(crate) clock: Clock,
    pub(crate) log: RequestLog,
    pub(crate) rules: Rules,
    pub(crate) settings: watch::Sender<Settings>,
    pub(crate) access_tokens: AccessTokens,
    pub(crate) rate_limits: RateLimits,
    pub(crate) verified_tokens: VerifiedTokens,
    pub(crate) subscriptions: Subscriptions,
    pub(crate) verified_vapid: VerifiedVapid,
    token_infos: Mutex<HashMap<String, TokenInfo>>,
    connections: AtomicU64,
    /// Cancelled to drop the connections that are open.
    open: Mutex<CancellationToken>,
}

impl SandboxState {
    pub(crate) fn new(address: SocketAddr, config: SandboxConfig) -> Result<Self, SandboxError> {
        Ok(Self {
            origin: format!("https://{}", reachable(address)),
            credentials: Credentials::generate(address.ip())?,
            clock: config.clock,
            log: RequestLog::new(config.log_entries_max),
            rules: Rules::default(),
            settings: watch::Sender::new(config.settings),
            access_tokens: AccessTokens::default(),
            rate_limits: RateLimits::default(),
            verified_tokens: VerifiedTokens::default(),
            subscriptions: Subscriptions::default(),
            verified_vapid: VerifiedVapid::default(),
            token_infos: Mutex::default(),
            connections: AtomicU64::new(0),
            open: Mutex::default(),
        })
    }

    /// The number of a new connection, from 1.
    pub(crate) fn next_connection(&self) -> u64 {
        self.log.connection_opened();
        self.connections.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Tells a connection that is open now when to end.
    pub(crate) fn drop_signal(&self) -> CancellationToken {
        lock(&self.open).clone()
    }

    /// Ends every connection that is open now.
    pub(crate) fn drop_connections(&self) {
        std::mem::take(&mut *lock(&self.open)).cancel();
    }

    /// The body for `PUT …/providers/{provider}`.
    pub(crate) fn config(&self, provider: Provider) -> Value {
        let Credentials { ca_pem, service_account: account, vapid, page, bot, .. } =
            &self.credentials;
        match provider {
            Provider::Apns => self.apns_config(0),
            Provider::Fcm | Provider::Oauth => json!({
                "service_account": {
                    "type": "service_account",
                    "project_id": account.project_id,
                    "private_key_id": account.private_key_id,
                    "private_key": account.private_key_pem,
                    "client_email": account.client_email,
                    "token_uri": self.token_uri(),
                },
                "endpoint": format!("{}/fcm", self.origin),
                "ca_certificate": ca_pem,
            }),
            Provider::WebPush => json!({
                "subject": "mailto:push@notify.sandbox",
                "vapid_private_key": vapid.private_key,
                "ca_certificate": ca_pem,
            }),
            Provider::Messenger => json!({
                "page_access_token": page.access_token,
                "app_secret": page.app_secret,
                "verify_token": page.verify_token,
                "endpoint": format!("{}/messenger", self.origin),
                "ca_certificate": ca_pem,
            }),
            Provider::Telegram => json!({
                "bot_token": bot.token,
                "webhook_secret": bot.webhook_secret,
                "endpoint": format!("{}/telegram", self.origin),
                "ca_certificate": ca_pem,
            }),
        }
    }

    pub(crate) fn apns_config(&self, team: usize) -> Value {
        let key = &self.credentials.apns_keys[team];
        json!({
            "team_id": key.team_id,
            "key_id": key.key_id,
            "private_key": key.private_key_pem,
            "topic": apns::TOPICS[team],
            "endpoint": format!("{}/apns", self.origin),
            "sandbox_endpoint": format!("{}/apns-sandbox", self.origin),
            "ca_certificate": self.credentials.ca_pem,
        })
    }

    pub(crate) fn token_uri(&self) -> String {
        format!("{}/token", self.origin)
    }

    /// Says where a token belongs; beyond the limit this has no effect.
    pub(crate) fn set_token_info(&self, token: &str, info: TokenInfo) {
        let mut infos = lock(&self.token_infos);
        if infos.len() < TOKEN_INFOS_MAX {
            infos.insert(token.to_ascii_lowercase(), info);
        }
    }

    pub(crate) fn token_info(&self, token: &str) -> TokenInfo {
        lock(&self.token_infos).get(token).cloned().unwrap_or_default()
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("nothing panics while it holds a lock")
}

/// An address that a client on this machine can connect to and that is on the certificate.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip @ (IpAddr::V4(_) | IpAddr::V6(_)) => ip,
    };
    SocketAddr::new(ip, address.port())
}
