//! Everything that the connections of one sandbox share.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::answer::Environment;
use super::apns::VerifiedTokens;
use super::buckets::Buckets;
use super::certificates::Certificate;
use super::credentials::{Credentials, SandboxError};
use super::fcm::AccessTokens;
use super::journal::Journal;
use super::rules::Rules;
use super::webpush::{Subscriptions, VerifiedVapid};
use crate::clock::{SharedClock, SystemClock};

/// Messages the journal keeps unless told otherwise.
const JOURNAL_ENTRIES_MAX: usize = 10_000;

/// The most APNs tokens that can be declared.
const DECLARED_MAX: usize = 1_000_000;

/// How a sandbox is made.
#[derive(Clone)]
pub struct SandboxConfig {
    /// Messages the journal keeps in full; 0 keeps counts alone, for benchmarks.
    pub journal_entries_max: usize,
    /// Where time comes from.
    pub clock: SharedClock,
    /// The topics APNs knows; the first is that of [`super::Sandbox::apns_config`].
    pub apns_topics: Vec<String>,
    /// What can be changed later, too.
    pub settings: Settings,
}

impl Default for SandboxConfig {
    fn default() -> Self {
        Self {
            journal_entries_max: JOURNAL_ENTRIES_MAX,
            clock: Arc::new(SystemClock::start()),
            apns_topics: vec!["com.example.notify".to_owned(), "com.example.second".to_owned()],
            settings: Settings::default(),
        }
    }
}

/// What can be changed while it runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// `MAX_CONCURRENT_STREAMS` of a connection that has proved itself; also that of FCM.
    pub max_concurrent_streams: u32,
    /// The same until an APNs connection's first success.
    pub max_concurrent_streams_at_start: u32,
    /// Goes back to the limit of the start after each APNs rejection, until the next success.
    pub drop_streams_on_rejection: bool,
    /// How long an access token lasts, in seconds.
    pub access_token_seconds: u32,
    /// How much of the page's quota Messenger's answers say is used, in percent; 0 says nothing.
    pub messenger_usage_percent: u32,
    /// After how many minutes access is regained, as they say beside it.
    pub messenger_regain_minutes: u32,
    /// Whether Messenger refuses calls without `appsecret_proof`.
    pub messenger_requires_proof: bool,
    /// Messages a second that Messenger takes; 0 takes all.
    pub messenger_per_second: u32,
    /// Messages a second that Telegram takes of the bot; 0 takes all.
    pub telegram_per_second: u32,
    /// Messages at once that Telegram takes to one chat, refilled at one a second (a group's are 20
    /// a minute); 0 takes all.
    pub telegram_chat_burst: u32,
    /// Bytes that a client may send ahead on one stream of a new connection; with 0 no body ever
    /// comes through.
    pub stream_window_bytes: u32,
    /// What new connections are shown.
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

/// Where an APNs token belongs; what is absent is not checked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Declared {
    /// Elsewhere it is `BadDeviceToken`.
    pub environment: Option<Environment>,
    /// For others it is `DeviceTokenNotForTopic`.
    pub topic: Option<String>,
}

/// The shared inside of a sandbox.
pub(super) struct Scene {
    pub(super) origin: String,
    pub(super) credentials: Credentials,
    pub(super) clock: SharedClock,
    pub(super) journal: Journal,
    pub(super) rules: Rules,
    pub(super) settings: watch::Sender<Settings>,
    pub(super) access_tokens: AccessTokens,
    pub(super) buckets: Buckets,
    pub(super) verified_tokens: VerifiedTokens,
    pub(super) subscriptions: Subscriptions,
    pub(super) verified_vapid: VerifiedVapid,
    pub(super) apns_topics: Vec<String>,
    declared: Mutex<HashMap<String, Declared>>,
    connections: AtomicU64,
    /// Ends the connections that are open.
    open: Mutex<CancellationToken>,
}

impl Scene {
    pub(super) fn new(address: SocketAddr, config: SandboxConfig) -> Result<Self, SandboxError> {
        Ok(Self {
            origin: format!("https://{}", reachable(address)),
            credentials: Credentials::generate(address.ip())?,
            clock: config.clock,
            journal: Journal::new(config.journal_entries_max),
            rules: Rules::default(),
            settings: watch::Sender::new(config.settings),
            access_tokens: AccessTokens::default(),
            buckets: Buckets::default(),
            verified_tokens: VerifiedTokens::default(),
            subscriptions: Subscriptions::default(),
            verified_vapid: VerifiedVapid::default(),
            apns_topics: config.apns_topics,
            declared: Mutex::default(),
            connections: AtomicU64::new(0),
            open: Mutex::default(),
        })
    }

    /// The number of the next connection, from 1.
    pub(super) fn next_connection(&self) -> u64 {
        self.journal.connection_opened();
        self.connections.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Ends the connection that holds it, once all are cut.
    pub(super) fn until_cut(&self) -> CancellationToken {
        self.open.lock().expect("no holder of the token panics").clone()
    }

    /// Ends every open connection; those that come are not meant.
    pub(super) fn cut(&self) {
        let open = std::mem::take(&mut *self.open.lock().expect("no holder of the token panics"));
        open.cancel();
    }

    pub(super) fn apns_config(&self, team: usize) -> serde_json::Value {
        let key = &self.credentials.apns_keys[team];
        json!({
            "team_id": key.team_id,
            "key_id": key.key_id,
            "private_key": key.private_key_pem,
            "topic": self.apns_topics.get(team).or(self.apns_topics.first()),
            "endpoint": format!("{}/apns", self.origin),
            "sandbox_endpoint": format!("{}/apns-sandbox", self.origin),
            "ca_certificate": self.credentials.ca_pem,
        })
    }

    pub(super) fn fcm_config(&self) -> serde_json::Value {
        let account = &self.credentials.service_account;
        json!({
            "service_account": {
                "type": "service_account",
                "project_id": account.project_id,
                "private_key_id": account.private_key_id,
                "private_key": account.private_key_pem,
                "client_email": account.client_email,
                "token_uri": self.token_uri(),
            },
            "endpoint": format!("{}/fcm", self.origin),
            "ca_certificate": self.credentials.ca_pem,
        })
    }

    pub(super) fn webpush_config(&self) -> serde_json::Value {
        json!({
            "subject": "mailto:push@notify.sandbox",
            "vapid_private_key": self.credentials.vapid.private_key,
            "ca_certificate": self.credentials.ca_pem,
        })
    }

    pub(super) fn messenger_config(&self) -> serde_json::Value {
        let page = &self.credentials.page;
        json!({
            "page_access_token": page.access_token,
            "app_secret": page.app_secret,
            "verify_token": page.verify_token,
            "endpoint": format!("{}/messenger", self.origin),
            "ca_certificate": self.credentials.ca_pem,
        })
    }

    pub(super) fn telegram_config(&self) -> serde_json::Value {
        let bot = &self.credentials.bot;
        json!({
            "bot_token": bot.token,
            "webhook_secret": bot.webhook_secret,
            "endpoint": format!("{}/telegram", self.origin),
            "ca_certificate": self.credentials.ca_pem,
        })
    }

    /// Waits as a rule asked for, on the sandbox's own clock.
    pub(super) async fn wait_ms(&self, delay_ms: u64) {
        let delay_ms = i64::try_from(delay_ms).unwrap_or(i64::MAX);
        self.clock.sleep_until(self.clock.now().plus_ms(delay_ms)).await;
    }

    pub(super) fn token_uri(&self) -> String {
        format!("{}/token", self.origin)
    }

    /// Declares a token; past the limit the declaration is not kept.
    pub(super) fn declare(&self, token: &str, declared: Declared) {
        let mut all = self.declared.lock().expect("no holder of the declarations panics");
        if all.len() < DECLARED_MAX {
            all.insert(token.to_ascii_lowercase(), declared);
        }
    }

    pub(super) fn declared(&self, token: &str) -> Option<Declared> {
        let all = self.declared.lock().expect("no holder of the declarations panics");
        all.get(token).cloned()
    }
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
