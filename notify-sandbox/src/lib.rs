//! Fake providers on one port: APNs, FCM, the push services of browsers, Messenger and Telegram.
//! They check requests as strictly as the real services, respond as scripted and show what they
//! received. `notify-server sandbox` runs them for users, and the tests run them in process. A fake
//! must share no code with the server that it checks, nor accept what the real service refuses.
//! The crate prints and logs nothing.
//!
//! | path | what |
//! |---|---|
//! | `/apns/3/device/TOKEN`, `/apns-sandbox/3/device/TOKEN` | APNs, production and development |
//! | `/3/device/TOKEN` | APNs, production, for clients with a fixed path |
//! | `/fcm/v1/projects/ID/messages:send`, `/token` | FCM HTTP v1 and its OAuth2 token endpoint |
//! | `/push/ID` | Web Push: the endpoint of a subscription made by `/sandbox/subscriptions` |
//! | `/messenger/vN.N/me/messages` | Messenger's Send API |
//! | `/telegram/botTOKEN/METHOD` | Telegram's Bot API: `sendMessage`, `sendPhoto`, `getMe` |
//! | `/`, `/sandbox/…` | the page and the control API, see `control.rs` |
//!
//! The port speaks TLS (ALPN `h2`, `http/1.1`) and, by the first byte, plain HTTP/1.1 and
//! HTTP/2 with prior knowledge. `docs/sandbox.md` describes the settings, the rules and the scripts.
//!
//! # Token scripts
//!
//! A token can say which response it gets. Only a request that passes every check is scripted, so
//! that a script never hides a mistake.
//!
//! FCM, Messenger, Telegram and the id of a Web Push subscription: what follows the last `-` is a
//! status, a keyword or a fault (`silence`, `reset`, `refuse`, `goaway`, `cut`), then `:N` for
//! `Retry-After: N`, and `xN` for the first N attempts only: `phone-429:3`, `phone-503x2`.
//!
//! APNs: the last eight hex digits are `dea`, the attempts (`d` for all, `1` to `9` for the first so
//! many), the status in three digits, and the index of the reason among those of the status in
//! [`ApnsReason::ALL`]: `…dead4100` is 410 `Unregistered`, `…dea25030` is 503 twice, then 200.
//! Status `000` is a fault, by its index in the list above.
//!
//! [`apns_token`], [`fcm_token`], [`messenger_recipient`], [`telegram_chat`] and
//! [`Sandbox::subscribe`] make such tokens.

mod apns;
mod browser;
mod clock;
mod control;
mod credentials;
mod fcm;
mod handler;
mod jwt;
mod messenger;
mod oauth;
mod page;
mod rate_limits;
mod request_log;
mod rules;
mod script;
mod state;
mod telegram;
mod transport;
mod webpush;

#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use apns::{ApnsReason, apns_token};
pub use browser::Browser;
pub use clock::Clock;
pub use credentials::{Certificate, SandboxError};
pub use fcm::fcm_token;
pub use messenger::{messenger_keywords, messenger_recipient};
pub use request_log::{Count, Counts, ReceivedRequest};
pub use rules::{Rule, RuleError};
pub use script::{Environment, Fault, Provider, ScriptedResponse};
pub use state::{SandboxConfig, Settings};
pub use telegram::{telegram_chat, telegram_keywords};
pub use webpush::{SubscribeError, WebPushError};

use state::SandboxState;

/// A running sandbox, which stops when it is dropped.
pub struct Sandbox {
    state: Arc<SandboxState>,
    address: SocketAddr,
    shutdown: CancellationToken,
    tasks: TaskTracker,
}

impl Sandbox {
    /// Generates keys and certificates and serves on `listener`.
    ///
    /// # Errors
    /// When the listener has no address, or keys or certificates cannot be generated.
    pub async fn start(listener: TcpListener, config: SandboxConfig) -> Result<Self, SandboxError> {
        let address = listener.local_addr().map_err(SandboxError::Listener)?;
        // Key generation takes up to a second of CPU time, too long for the runtime's threads.
        let state = tokio::task::spawn_blocking(move || SandboxState::new(address, config))
            .await
            .map_err(|_| SandboxError::Interrupted)??;
        let state = Arc::new(state);
        let (shutdown, tasks) = (CancellationToken::new(), TaskTracker::new());
        let accept =
            transport::accept(listener, Arc::clone(&state), shutdown.clone(), tasks.clone());
        tasks.spawn(accept);
        Ok(Self { state, address, shutdown, tasks })
    }

    /// The address that it listens on.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.address
    }

    /// `https://` and the address.
    #[must_use]
    pub fn origin(&self) -> String {
        self.state.origin.clone()
    }

    /// The certificate that clients must trust, as PEM.
    #[must_use]
    pub fn ca_certificate(&self) -> &str {
        &self.state.credentials.ca_pem
    }

    /// The body for `PUT …/providers/apns`.
    #[must_use]
    pub fn apns_config(&self) -> serde_json::Value {
        self.state.config(Provider::Apns)
    }

    /// The same for a second team, which must not share a connection with the first.
    #[must_use]
    pub fn second_apns_config(&self) -> serde_json::Value {
        self.state.apns_config(1)
    }

    /// The body for `PUT …/providers/fcm`.
    #[must_use]
    pub fn fcm_config(&self) -> serde_json::Value {
        self.state.config(Provider::Fcm)
    }

    /// The body for `PUT …/providers/webpush`.
    #[must_use]
    pub fn webpush_config(&self) -> serde_json::Value {
        self.state.config(Provider::WebPush)
    }

    /// The body for `PUT …/providers/messenger`.
    #[must_use]
    pub fn messenger_config(&self) -> serde_json::Value {
        self.state.config(Provider::Messenger)
    }

    /// The body for `PUT …/providers/telegram`.
    #[must_use]
    pub fn telegram_config(&self) -> serde_json::Value {
        self.state.config(Provider::Telegram)
    }

    /// Subscribes a browser whose push service responds as scripted. `application_server_key` is the
    /// public VAPID key that the page subscribes with, in base64url; by default that of
    /// [`webpush_config`](Self::webpush_config).
    ///
    /// # Errors
    /// When the key is invalid, or the response has a reason without a keyword, which needs a
    /// [`Rule`].
    pub fn subscribe(
        &self,
        application_server_key: Option<&str>,
        response: &ScriptedResponse,
    ) -> Result<notify_core::WebSubscription, SubscribeError> {
        let script = webpush::script(response).ok_or(SubscribeError::Script)?;
        webpush::subscribe(&self.state, application_server_key, None, &script)
    }

    /// The messages received, oldest first; the oldest go when the log is full.
    #[must_use]
    pub fn received(&self) -> Vec<ReceivedRequest> {
        self.state.log.entries()
    }

    /// The counts by response, which cover all messages.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.state.log.counts()
    }

    /// Waits until `count` messages arrived since the start or the last [`clear`](Self::clear), at
    /// most for `timeout`, and returns the messages in the log.
    pub async fn wait_for(&self, count: usize, timeout: Duration) -> Vec<ReceivedRequest> {
        self.state.log.wait_for(count, timeout).await;
        self.received()
    }

    /// Adds a rule after the existing ones.
    ///
    /// # Errors
    /// When the provider cannot respond with the rule's status or reason.
    pub fn add_rule(&self, rule: Rule) -> Result<(), RuleError> {
        self.state.rules.add(rule)
    }

    /// Replaces the settings, on open connections too.
    pub fn set(&self, settings: Settings) {
        self.state.settings.send_replace(settings);
    }

    /// Ends every open connection without notice.
    pub fn drop_connections(&self) {
        self.state.drop_connections();
    }

    /// Clears the log, the counts, the rules and the rate limits.
    pub fn clear(&self) {
        self.state.rate_limits.clear();
        self.state.log.clear();
        self.state.rules.clear();
    }

    /// What to configure and where to look, for people.
    #[must_use]
    pub fn instructions(&self) -> String {
        page::instructions(&self.state)
    }

    /// Closes every connection and waits until all tasks have ended.
    pub async fn stop(self) {
        self.shutdown.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

impl std::fmt::Debug for Sandbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sandbox").field("address", &self.address).finish_non_exhaustive()
    }
}
