//! The state that the connections of a sandbox share, its settings and its clock.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use notify_core::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;

use crate::apns::{self, VerifiedTokens};
use crate::credentials::{Certificate, Credentials, SandboxError};
use crate::handler::BODY_BYTES_MAX;
use crate::oauth::AccessTokens;
use crate::rate_limits::RateLimits;
use crate::request_log::RequestLog;
use crate::rules::Rules;
use crate::script::{Environment, Provider};
use crate::webpush::{Subscriptions, VerifiedVapid};

/// The number of messages that the log keeps by default.
const LOG_ENTRIES_MAX: usize = 10_000;

/// The most APNs tokens with a [`TokenInfo`].
const TOKEN_INFOS_MAX: usize = 1_000_000;

/// The configuration of a new sandbox.
#[derive(Debug, Clone)]
pub struct SandboxConfig {
    /// The number of messages that the log keeps in full. With 0 the log only counts, for benchmarks.
    pub log_entries_max: usize,
    /// Whether the page and the control API are served. They require no key.
    pub serves_control: bool,
    /// The most connections that are open at a time. More connections wait to be accepted.
    pub connections_max: usize,
    /// The largest request body that is read, in bytes. The rest of a larger body stays unread.
    pub body_bytes_max: usize,
    /// Whether the service account of FCM has the RSA key that is part of this crate. Generating one takes up
    /// to a second of CPU time in each process.
    pub uses_fixed_rsa_key: bool,
    /// The host in the urls of the sandbox, if clients reach it by a name; the listening address by default.
    pub host: Option<String>,
    /// The clock of the sandbox.
    pub clock: Clock,
    /// The initial settings.
    pub settings: Settings,
}

impl Default for SandboxConfig {
    fn default() -> Self {
        Self {
            log_entries_max: LOG_ENTRIES_MAX,
            serves_control: true,
            connections_max: Semaphore::MAX_PERMITS,
            body_bytes_max: BODY_BYTES_MAX,
            uses_fixed_rsa_key: false,
            host: None,
            clock: Clock::default(),
            settings: Settings::default(),
        }
    }
}

/// The settings that can change while a sandbox runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// `MAX_CONCURRENT_STREAMS` of FCM, and of an APNs connection after its first success.
    pub max_concurrent_streams: u32,
    /// `MAX_CONCURRENT_STREAMS` of an APNs connection before its first success.
    pub max_concurrent_streams_at_start: u32,
    /// Whether an APNs rejection restores the initial limit until the next success.
    pub drop_streams_on_rejection: bool,
    /// The lifetime of an access token, in seconds.
    pub access_token_seconds: u32,
    /// The used share of the page's quota in Messenger's usage headers, in percent. With 0 the headers
    /// are absent.
    pub messenger_usage_percent: u32,
    /// The minutes until the page may send again, in Messenger's usage headers.
    pub messenger_regain_minutes: u32,
    /// Whether Messenger refuses calls without `appsecret_proof`.
    pub messenger_requires_proof: bool,
    /// The messages a second that Messenger accepts; 0 means no limit.
    pub messenger_per_second: u32,
    /// The messages a second that Telegram accepts from the bot; 0 means no limit.
    pub telegram_per_second: u32,
    /// The messages that Telegram accepts to one chat at once; 0 means no limit. One message a second
    /// becomes possible again. A group has a fixed limit instead: 20 messages at once and 20 a minute.
    pub telegram_chat_burst: u32,
    /// The initial flow-control window of a stream on a new connection, in bytes. With 0 a client
    /// cannot send a body.
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

/// The clock of a sandbox: the system's clock, the clock of the caller, or a clock that a test sets.
#[derive(Clone, Default)]
pub struct Clock(Source);

#[derive(Clone, Default)]
enum Source {
    #[default]
    System,
    /// Returns the unix milliseconds. Sleeps take real time.
    Function(Arc<dyn Fn() -> i64 + Send + Sync>),
    /// The unix milliseconds, also for sleeps.
    Manual(watch::Receiver<i64>),
}

impl std::fmt::Debug for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Clock").field(&self.now()).finish()
    }
}

impl Clock {
    /// A clock that shows the unix milliseconds in `now_ms`.
    #[must_use]
    pub fn manual(now_ms: watch::Receiver<i64>) -> Self {
        Self(Source::Manual(now_ms))
    }

    /// A clock that shows the unix milliseconds that `now_ms` returns. Delays take real time.
    #[must_use]
    pub fn from_fn(now_ms: impl Fn() -> i64 + Send + Sync + 'static) -> Self {
        Self(Source::Function(Arc::new(now_ms)))
    }

    pub(crate) fn now(&self) -> Timestamp {
        Timestamp(match &self.0 {
            Source::System => jiff::Timestamp::now().as_millisecond(),
            Source::Function(now_ms) => now_ms(),
            Source::Manual(now_ms) => *now_ms.borrow(),
        })
    }

    /// Sleeps for `ms` milliseconds of this clock.
    pub(crate) async fn sleep_ms(&self, ms: u64) {
        let Source::Manual(mut now_ms) = self.0.clone() else {
            return tokio::time::sleep(Duration::from_millis(ms)).await;
        };
        let until_ms = self.now().plus_ms(i64::try_from(ms).unwrap_or(i64::MAX)).as_ms();
        if now_ms.wait_for(|now_ms| *now_ms >= until_ms).await.is_err() {
            // The test has dropped its clock, so the time never advances.
            std::future::pending::<()>().await;
        }
    }
}

/// The environment and topic of an APNs token. An absent field is not checked.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct TokenInfo {
    /// The environment of the token. A request in the other environment gets `BadDeviceToken`.
    pub(crate) environment: Option<Environment>,
    /// The topic of the token. A request for another topic gets `DeviceTokenNotForTopic`.
    pub(crate) topic: Option<String>,
}

/// The shared state of a sandbox.
pub(crate) struct SandboxState {
    pub(crate) address: SocketAddr,
    pub(crate) origin: String,
    pub(crate) serves_control: bool,
    pub(crate) body_bytes_max: usize,
    /// A permit for each connection that may be opened.
    pub(crate) connection_permits: Arc<Semaphore>,
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
    /// Cancelling this token closes the connections that are open now. A new token then replaces it.
    drop_signal: Mutex<CancellationToken>,
}

impl SandboxState {
    pub(crate) fn new(address: SocketAddr, config: SandboxConfig) -> Result<Self, SandboxError> {
        let host = config.host.as_deref();
        let authority = match host {
            Some(host) => format!("{host}:{}", address.port()),
            None => connectable_address(address).to_string(),
        };
        Ok(Self {
            address,
            origin: format!("https://{authority}"),
            serves_control: config.serves_control,
            body_bytes_max: config.body_bytes_max,
            connection_permits: Arc::new(Semaphore::new(config.connections_max)),
            credentials: Credentials::generate(address.ip(), host, config.uses_fixed_rsa_key)?,
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
            drop_signal: Mutex::default(),
        })
    }

    /// The number of a new connection, from 1.
    pub(crate) fn next_connection(&self) -> u64 {
        self.log.connection_opened();
        self.connections.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// The token by which [`Self::drop_connections`] closes a connection that is open now.
    pub(crate) fn drop_signal(&self) -> CancellationToken {
        lock(&self.drop_signal).clone()
    }

    /// Closes every connection that is open now.
    pub(crate) fn drop_connections(&self) {
        std::mem::take(&mut *lock(&self.drop_signal)).cancel();
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

    /// The body for `PUT …/providers/apns` with the credentials of a team, 0 or 1.
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

    /// Sets the environment and topic of an APNs token. Does nothing when [`TOKEN_INFOS_MAX`] tokens
    /// have an entry already.
    pub(crate) fn set_token_info(&self, token: &str, info: TokenInfo) {
        let mut infos = lock(&self.token_infos);
        if infos.len() < TOKEN_INFOS_MAX {
            infos.insert(token.to_ascii_lowercase(), info);
        }
    }

    /// The environment and topic of an APNs token, which is in lower case.
    pub(crate) fn token_info(&self, token: &str) -> TokenInfo {
        lock(&self.token_infos).get(token).cloned().unwrap_or_default()
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("nothing panics while it holds a lock")
}

/// An address that a client on this machine can connect to and that the certificate names. An
/// unspecified address is replaced by the loopback address.
fn connectable_address(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip @ (IpAddr::V4(_) | IpAddr::V6(_)) => ip,
    };
    SocketAddr::new(ip, address.port())
}
