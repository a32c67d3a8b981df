//! Fake providers on one port: APNs, FCM, browsers' push services, Messenger and Telegram that check what they are sent as strictly as the real
//! ones, answer as they are told, and show what they received. A product feature
//! (`notify-server sandbox`) and the tests' opposite number; it must never print, nor accept what
//! the real ones would refuse.
//!
//! | path | what |
//! |---|---|
//! | `/apns/3/device/TOKEN`, `/apns-sandbox/3/device/TOKEN` | APNs, production and development |
//! | `/3/device/TOKEN` | the same in production, for clients with a fixed path |
//! | `/fcm/v1/projects/ID/messages:send`, `/token` | FCM HTTP v1 and its OAuth2 token endpoint |
//! | `/push/ID` | Web Push: the endpoints of subscriptions that `/sandbox/subscriptions` made |
//! | `/messenger/vN.N/me/messages` | Messenger's Send API |
//! | `/telegram/botTOKEN/METHOD` | Telegram's Bot API: `sendMessage`, `sendPhoto`, `getMe` |
//! | `/`, `/sandbox/…` | the page and the scripting API, see [`control`] |
//!
//! The port speaks TLS (ALPN `h2`, `http/1.1`) and, told apart by the first byte, plain HTTP/1.1
//! and HTTP/2 with prior knowledge.
//!
//! # Scripting by token
//!
//! Only a request that passes every check is answered by script: a script never hides a mistake.
//!
//! FCM: what follows the last `-` of the token. A status (`-503`), or `unregistered`, `invalid`,
//! `badrequest`, `mismatch`, `denied`, `unauthenticated`, `thirdparty`, `notfound`, `quota`,
//! `internal`, `unavailable`, `unspecified`, `empty`, or a fault: `silence`, `reset`, `refuse`,
//! `goaway`, `cut`. Then `:N` adds `Retry-After: N`, and `xN` means the first N attempts alone:
//! `phone-429:3`, `phone-503x2`.
//!
//! Web Push: what follows the last `-` of a subscription's endpoint, in the same way: a status, or a
//! word of [`Refusal::ALL`], or a fault; [`Sandbox::subscribe`] makes such subscriptions.
//! Messenger and Telegram: a recipient is a number and `-`, then as with FCM; the words are those
//! of `docs/sandbox.md`. [`messenger_recipient`] and [`telegram_chat`] build such recipients.
//!
//! APNs: the last eight hex digits, `dea` + how often + status + index. How often is `d` (always)
//! or `1` to `9` (the first so many attempts); the status is three decimal digits; the index picks
//! the reason among that status's in the order of [`apns::Reason::ALL`]: `…dead4100` is 410
//! `Unregistered`, `…dea25030` is 503 twice, then 200. Status `000` is a fault: 0 silence, 1 reset,
//! 2 refuse, 3 goaway, 4 cut. [`apns_token`] and [`fcm_token`] build such tokens.

mod answer;
pub mod apns;
mod buckets;
mod certificates;
pub mod control;
mod credentials;
mod dress;
mod exchange;
mod fcm;
mod journal;
mod jwt;
mod messenger;
mod page;
mod rules;
mod scene;
mod suffix;
mod telegram;
mod transport;
mod webpush;

#[cfg(test)]
mod tests;

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use answer::{Action, Answer, Environment, Provider};
pub use apns::apns_token;
pub use certificates::Certificate;
pub use credentials::SandboxError;
pub use fcm::fcm_token;
pub use journal::{Count, Counts, Received};
pub use messenger::{messenger_recipient, messenger_words};
pub use rules::{Rule, RuleError};
pub use scene::{Declared, SandboxConfig, Settings};
pub use telegram::{telegram_chat, telegram_words};
pub use webpush::{Browser, Refusal, SubscribeError};

use scene::Scene;

/// A running sandbox; dropping it stops it.
pub struct Sandbox {
    scene: Arc<Scene>,
    address: SocketAddr,
    stopping: CancellationToken,
    tasks: TaskTracker,
}

impl Sandbox {
    /// Makes keys and certificates and serves on `listener`.
    ///
    /// # Errors
    /// When the listener has no address, or keys or certificates cannot be made.
    pub async fn start(listener: TcpListener, config: SandboxConfig) -> Result<Self, SandboxError> {
        let address = listener.local_addr().map_err(SandboxError::Listener)?;
        // Key generation takes up to a second of CPU; the runtime has better to do meanwhile.
        let scene = tokio::task::spawn_blocking(move || Scene::new(address, config))
            .await
            .map_err(|_| SandboxError::Interrupted)??;
        let scene = Arc::new(scene);
        let (stopping, tasks) = (CancellationToken::new(), TaskTracker::new());
        let accepting =
            transport::accept(listener, Arc::clone(&scene), stopping.clone(), tasks.clone());
        tasks.spawn(accepting);
        Ok(Self { scene, address, stopping, tasks })
    }

    /// The address it listens on.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.address
    }

    /// `https://` and the address.
    #[must_use]
    pub fn origin(&self) -> String {
        self.scene.origin.clone()
    }

    /// The certificate that clients must trust, as PEM.
    #[must_use]
    pub fn ca_certificate(&self) -> &str {
        &self.scene.credentials.ca_pem
    }

    /// The body for `PUT …/providers/apns`.
    #[must_use]
    pub fn apns_config(&self) -> serde_json::Value {
        self.scene.apns_config(0)
    }

    /// The same for a second team, which must not share a connection with the first.
    #[must_use]
    pub fn second_apns_config(&self) -> serde_json::Value {
        self.scene.apns_config(1)
    }

    /// The body for `PUT …/providers/fcm`.
    #[must_use]
    pub fn fcm_config(&self) -> serde_json::Value {
        self.scene.fcm_config()
    }

    /// The body for `PUT …/providers/webpush`.
    #[must_use]
    pub fn webpush_config(&self) -> serde_json::Value {
        self.scene.webpush_config()
    }

    /// Subscribes a browser whose push service answers like that. `application_server_key` is the
    /// public VAPID key that the page subscribes with, in base64url; that of
    /// [`webpush_config`](Self::webpush_config) when absent.
    ///
    /// # Errors
    /// When the key is none, or no endpoint can ask for that answer: a reason without a word. That
    /// takes a [`Rule`].
    pub fn subscribe(
        &self,
        application_server_key: Option<&str>,
        answer: &Answer,
    ) -> Result<notify_core::WebSubscription, SubscribeError> {
        let script = webpush::script(answer).ok_or(SubscribeError::Script)?;
        webpush::subscribe(&self.scene, application_server_key, None, &script)
    }

    /// The body for `PUT …/providers/messenger`.
    #[must_use]
    pub fn messenger_config(&self) -> serde_json::Value {
        self.scene.messenger_config()
    }

    /// The body for `PUT …/providers/telegram`.
    #[must_use]
    pub fn telegram_config(&self) -> serde_json::Value {
        self.scene.telegram_config()
    }

    /// The messages received, in order; the oldest go when the journal is full.
    #[must_use]
    pub fn journal(&self) -> Vec<Received> {
        self.scene.journal.entries()
    }

    /// How often each answer was given; nothing of this is ever dropped.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.scene.journal.counts()
    }

    /// Waits until `count` messages came since the start or the last [`clear`](Self::clear), at
    /// most `within`, and returns the journal, which may be shorter when time ran out.
    pub async fn wait_for(&self, count: usize, within: Duration) -> Vec<Received> {
        self.scene.journal.wait_for(count, within).await;
        self.journal()
    }

    /// Adds a rule behind those there are.
    ///
    /// # Errors
    /// When the rule has a status or reason that the provider cannot answer.
    pub fn script(&self, rule: Rule) -> Result<(), RuleError> {
        self.scene.rules.add(rule)
    }

    /// Says to which environment or topic an APNs token belongs.
    pub fn declare(&self, token: &str, declared: Declared) {
        self.scene.declare(token, declared);
    }

    /// Changes the settings, on open connections too.
    pub fn set(&self, settings: Settings) {
        self.scene.settings.send_replace(settings);
    }

    /// Ends every open connection without a word.
    pub fn cut(&self) {
        self.scene.cut();
    }

    /// Forgets what was received, the counts, the rules and what the limits counted.
    pub fn clear(&self) {
        self.scene.buckets.clear();
        self.scene.journal.clear();
        self.scene.rules.clear();
    }

    /// What to configure and where to look, for people to read.
    #[must_use]
    pub fn instructions(&self) -> String {
        page::instructions(&self.scene)
    }

    /// Closes every connection and waits until all is down.
    pub async fn stop(self) {
        self.stopping.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        self.stopping.cancel();
    }
}

impl std::fmt::Debug for Sandbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sandbox").field("address", &self.address).finish_non_exhaustive()
    }
}

/// Runs a sandbox on `listen` until `shutdown`; `print` gets the instructions once it serves.
///
/// # Errors
/// When the address is taken, or keys or certificates cannot be made.
pub async fn run(
    listen: SocketAddr,
    shutdown: impl Future<Output = ()>,
    print: impl FnOnce(&str),
) -> Result<(), SandboxError> {
    let failed = |source| SandboxError::Listen { address: listen, source };
    let listener = TcpListener::bind(listen).await.map_err(failed)?;
    let sandbox = Sandbox::start(listener, SandboxConfig::default()).await?;
    print(&sandbox.instructions());
    shutdown.await;
    sandbox.stop().await;
    Ok(())
}
