//! Fake providers on one port: APNs, FCM, the push services of browsers, Messenger and Telegram.
//! The fakes check requests as strictly as the real services, respond as scripted and list the
//! requests that they received. `notify-server sandbox` runs them for users, and the tests run them
//! in process.
//!
//! Two rules keep the fakes useful as a check. A fake shares no code with the server, because a
//! shared mistake would go unnoticed. A fake never accepts a request that the real service refuses.
//! The crate prints and logs nothing.
//!
//! | path | service |
//! |---|---|
//! | `/apns/3/device/TOKEN`, `/apns-sandbox/3/device/TOKEN` | APNs, production and development |
//! | `/3/device/TOKEN` | APNs, production, for clients with a fixed path |
//! | `/fcm/v1/projects/ID/messages:send`, `/token` | FCM HTTP v1 and its OAuth2 token endpoint |
//! | `/push/ID` | Web Push: the endpoint of a subscription made by `/sandbox/subscriptions` |
//! | `/messenger/vN.N/me/messages` | Messenger's Send API |
//! | `/telegram/botTOKEN/METHOD` | Telegram's Bot API: `sendMessage`, `sendPhoto`, `getMe` |
//! | `/`, `/sandbox/…` | the page and the control API, see `control.rs` |
//!
//! The port accepts TLS (ALPN `h2`, `http/1.1`), plain HTTP/1.1 and plain HTTP/2 with prior
//! knowledge. The first bytes of a connection tell them apart. `docs/sandbox.md` describes the
//! settings, the rules and the scripts.
//!
//! # Token scripts
//!
//! The end of a token can be a script, which selects the response that the token gets. The script
//! applies only to a request that passes every check, so a script never hides a mistake.
//!
//! For FCM, Messenger, Telegram and the id of a Web Push subscription, the script follows the last
//! `~`. It is a status, a keyword or a fault (`silence`, `reset`, `refuse`, `goaway`, `cut`).
//! `:N` after it adds `Retry-After: N`, and `xN` limits it to the first N attempts. Examples are
//! `phone~429:3` and `phone~503x2`. After the number of a person or a chat, `-` works as `~` does.
//!
//! For APNs, the script is the last eight hex digits of the token: `dea`, one digit for the attempts
//! (`d` for all attempts, `1` to `9` for the first 1 to 9 attempts), three digits for the status, and
//! the index of the reason. The index counts the reasons with this status in [`ApnsReason::ALL`].
//! `…dead4100` is 410 `Unregistered`; `…dea25030` is 503 twice, then 200. With status `000` the index
//! selects a fault from the list above.
//!
//! [`apns_token`], [`fcm_token`], [`messenger_recipient`], [`telegram_chat`] and
//! [`Sandbox::subscribe`] make such tokens.

mod apns;
mod browser;
mod control;
mod credentials;
mod fcm;
mod handler;
mod jwt;
mod messenger;
mod oauth;
mod own_callers;
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
pub use credentials::{Certificate, SandboxError};
pub use fcm::fcm_token;
pub use messenger::{messenger_keywords, messenger_recipient};
pub use own_callers::refusal;
pub use request_log::{Count, Counts, ReceivedRequest};
pub use rules::{Rule, RuleError};
pub use script::{Environment, Fault, Provider, ScriptedResponse};
pub use state::{Clock, SandboxConfig, Settings};
pub use telegram::{telegram_chat, telegram_keywords};
pub use webpush::{SubscribeError, WebPushError};

use state::SandboxState;

/// A running sandbox. Dropping it stops it.
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

    /// The address that the sandbox listens on.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.address
    }

    /// The origin for clients: `https://` and the address.
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

    /// The body for `PUT …/providers/apns` with the credentials of a second team. APNs refuses
    /// requests of two teams on one connection.
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

    /// Subscribes a browser whose push service gives `response` to every message.
    /// `application_server_key` is the public VAPID key that the page subscribes with, in base64url.
    /// The default is the key of [`webpush_config`](Self::webpush_config).
    ///
    /// # Errors
    /// When the key is invalid, or when the reason of the response has no keyword. A [`Rule`] can give
    /// a response without a keyword.
    pub fn subscribe(
        &self,
        application_server_key: Option<&str>,
        response: &ScriptedResponse,
    ) -> Result<notify_core::WebSubscription, SubscribeError> {
        let script = webpush::script(response).ok_or(SubscribeError::Script)?;
        webpush::subscribe(&self.state, application_server_key, None, &script)
    }

    /// The messages in the log, oldest first. A full log drops its oldest message for each new one.
    #[must_use]
    pub fn received(&self) -> Vec<ReceivedRequest> {
        self.state.log.entries()
    }

    /// The counts of all messages since the start or the last [`clear`](Self::clear), also of those
    /// that the log has dropped.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.state.log.counts()
    }

    /// Waits until `count` messages have arrived since the start or the last [`clear`](Self::clear),
    /// or until `timeout` has passed. Returns the messages in the log in both cases.
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

    /// Adds a rule before the existing ones, for the next `times` requests to its token. Replaces the
    /// earlier rules for this token that have a `times`.
    ///
    /// # Errors
    /// When the provider cannot respond with the rule's status or reason.
    pub fn set_next(&self, rule: Rule) -> Result<(), RuleError> {
        self.state.rules.set_next(rule)
    }

    /// Replaces the settings, which also apply to open connections.
    pub fn set(&self, settings: Settings) {
        self.state.settings.send_replace(settings);
    }

    /// Closes every open connection without `GOAWAY`.
    pub fn drop_connections(&self) {
        self.state.drop_connections();
    }

    /// Clears the log and the counts.
    pub fn clear_received(&self) {
        self.state.log.clear();
    }

    /// Removes all rules.
    pub fn clear_rules(&self) {
        self.state.rules.clear();
    }

    /// Clears the log, the counts, the rules and the rate limits.
    pub fn clear(&self) {
        self.state.rate_limits.clear();
        self.state.log.clear();
        self.state.rules.clear();
    }

    /// A text for users: how to configure an application to send here, and how to see what arrives.
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

/// Compiles the example of the README of the crate.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
