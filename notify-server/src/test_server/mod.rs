//! A whole server for the tests of programs that use Notify. The sandbox is its push providers, its clock can
//! be advanced, and its data are in a temporary folder. The crate `notify-testing` and
//! `notify-server sandbox --with-server` are built on it. It is a module of the server: a crate of its own would
//! depend on the server, and the server's command `sandbox` on it.

mod control;
mod failure;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use notify_core::{
    AppId, Device, DeviceId, NotificationId, Platform, ProviderKind, ProviderStatus, Timestamp,
};
use notify_sandbox::{
    Clock as SandboxClock, ReceivedRequest, RuleError, Sandbox, SandboxConfig, SandboxError,
    Settings,
};
use secrecy::ExposeSecret;
use serde::Serialize;
use serde_json::Value;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::time::Instant;

pub use self::control::Control;
pub use self::failure::Failure;
use crate::app::{AbortGuard, App, AppError, existing_master_key};
use crate::clock::{Clock, ShiftedClock};
use crate::config::{Config, Span, Switch};
use crate::playground::{address, platform_of, provider_of};
use crate::store::sqlite::{self, SqliteOptions};
use crate::store::{AppNo, PageRequest, ProviderRow, StoreError, Workload};

/// How long [`TestServer::settle`] waits, in real time.
pub const SETTLE_MAX: Duration = Duration::from_secs(60);
/// How long, in real time, nothing reaches a provider and nothing is committed before work counts as waiting, if all
/// of it is for platforms of which a provider or a service gets no deliveries.
const STALL: Duration = Duration::from_millis(300);
/// How often [`TestServer::settle`] looks.
const SETTLE_INTERVAL: Duration = Duration::from_millis(2);
/// The most times at which work becomes due during one [`TestServer::advance`].
pub const STOPS_MAX: usize = 10_000;
/// The longest time by which [`TestServer::advance`] advances the clock: ten years.
pub const ADVANCE_MAX: Duration = Duration::from_hours(10 * 365 * 24);
/// How long requests and messages in flight may take when the server stops.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(2);
/// The threads that read the database.
const READERS: usize = 2;
/// The rate of each provider, in messages a second, which no test reaches.
const UNPACED_PER_SECOND: u32 = 100_000;

/// Why a test server fails.
#[derive(Debug, thiserror::Error)]
pub enum TestServerError {
    /// The temporary folder cannot be made.
    #[error("cannot make a temporary folder")]
    Folder(#[source] std::io::Error),
    /// There is no free port.
    #[error("cannot listen on a port of the loopback interface")]
    Listen(#[source] std::io::Error),
    /// The sandbox does not start.
    #[error("cannot start the sandbox")]
    Sandbox(#[from] SandboxError),
    /// The server does not start.
    #[error("cannot start the server")]
    Server(#[from] AppError),
    /// The database cannot be used.
    #[error("cannot use the database")]
    Store(#[from] StoreError),
    /// There is no such device.
    #[error("there is no device `{0}`")]
    UnknownDevice(String),
    /// The device has no address, so no provider gets messages to it.
    #[error("the device `{0}` has no address")]
    NoAddress(DeviceId),
    /// The sandbox cannot fail so.
    #[error("cannot make the provider fail")]
    Failure(#[from] RuleError),
    /// The server still had work at the end of [`SETTLE_MAX`].
    #[error("the server still has work after {} seconds", SETTLE_MAX.as_secs())]
    Unsettled,
    /// More than [`STOPS_MAX`] times at which work became due were on the way.
    #[error("work becomes due at more than {STOPS_MAX} times: advance the clock in shorter steps")]
    TooManyStops,
    /// The clock cannot be advanced by more than [`ADVANCE_MAX`].
    #[error("the clock can be advanced by at most {} seconds", ADVANCE_MAX.as_secs())]
    TooFar,
}

/// A message that a provider accepted for a device.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Message {
    /// When the provider received it, on the clock of the server.
    pub at: Timestamp,
    /// The platform of the device.
    pub platform: Platform,
    /// The id of the notification; absent in chats, which do not get it.
    pub notification_id: Option<NotificationId>,
    /// The title; absent in chats.
    pub title: Option<String>,
    /// The text.
    pub text: Option<String>,
    /// The url that a tap opens; absent in chats.
    pub url: Option<String>,
    /// Whether the system shows nothing of it and only wakes the app.
    pub is_silent: bool,
    /// The decrypted body, as the provider received it.
    pub payload: Value,
}

impl Message {
    fn of(request: ReceivedRequest) -> Self {
        let text = |text: Option<&str>| text.map(str::to_owned);
        let id = request.notification_id().and_then(|id| NotificationId::new(id.to_owned()).ok());
        Self {
            at: Timestamp(request.at_ms),
            platform: platform_of(request.provider),
            notification_id: id,
            title: text(request.title()),
            text: text(request.text()),
            url: text(request.url()),
            is_silent: request.is_silent(),
            payload: request.payload,
        }
    }
}

/// A running server with one application, and its sandbox. Dropping it ends both without waiting for the work
/// in progress.
pub struct TestServer {
    /// The first field, so that the server ends before its data are deleted.
    _abort: AbortGuard,
    app: App,
    app_id: AppId,
    app_no: AppNo,
    api_key: String,
    admin_key: String,
    clock: Arc<ShiftedClock>,
    sandbox: Sandbox,
    folder: TempDir,
}

impl std::fmt::Debug for TestServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TestServer").field("origin", &self.origin()).finish_non_exhaustive()
    }
}

impl TestServer {
    /// Starts a server and a sandbox on free ports of the loopback interface, and configures all providers.
    ///
    /// # Errors
    /// When there is no free port, or the temporary folder cannot be used.
    pub async fn start() -> Result<Self, TestServerError> {
        let loopback = (std::net::Ipv4Addr::LOCALHOST, 0);
        let sandbox = TcpListener::bind(loopback).await.map_err(TestServerError::Listen)?;
        let server = TcpListener::bind(loopback).await.map_err(TestServerError::Listen)?;
        Self::start_on(sandbox, server).await
    }

    /// Like [`start`](Self::start), on these listeners.
    ///
    /// # Errors
    /// When the temporary folder cannot be used.
    pub async fn start_on(
        sandbox: TcpListener,
        server: TcpListener,
    ) -> Result<Self, TestServerError> {
        let clock = ShiftedClock::start();
        let folder = tempfile::Builder::new().prefix("notify-test-").tempdir();
        let folder = folder.map_err(TestServerError::Folder)?;
        let address = server.local_addr().map_err(TestServerError::Listen)?;
        let config = config(folder.path(), address);
        let (sandbox, app) = tokio::join!(
            start_sandbox(sandbox, clock.clone()),
            start_server(&config, server, clock.clone())
        );
        // The guard comes first, so that a start that fails leaves nothing running.
        let app = app?;
        let abort = app.abort_on_drop();
        let sandbox = sandbox?;
        let Some(keys) = &app.first_keys else { return Err(StoreError::NotFound.into()) };
        let api_key = keys.api_key.expose_secret().to_owned();
        let admin_key = keys.admin_key.expose_secret().to_owned();
        let apps = app.store.list_apps(PageRequest { limit: 1, cursor: None }).await?;
        let app_id = apps.rows.first().ok_or(StoreError::NotFound)?.id;
        let (app_no, _) = app.store.app(app_id).await?;
        configure_providers(&config, &app, app_id, &sandbox, clock.now()).await?;
        Ok(Self { _abort: abort, app, app_id, app_no, api_key, admin_key, clock, sandbox, folder })
    }

    /// The origin, such as `http://127.0.0.1:40123`.
    #[must_use]
    pub fn origin(&self) -> &str {
        &self.app.origin
    }

    /// The address on which the server listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.app.address
    }

    /// The id of the application.
    #[must_use]
    pub fn app_id(&self) -> AppId {
        self.app_id
    }

    /// The API key of the application.
    #[must_use]
    pub fn api_key(&self) -> &str {
        &self.api_key
    }

    /// The admin key.
    #[must_use]
    pub fn admin_key(&self) -> &str {
        &self.admin_key
    }

    /// The fake providers.
    #[must_use]
    pub fn sandbox(&self) -> &Sandbox {
        &self.sandbox
    }

    /// The folder with the data. It is deleted with the server.
    #[must_use]
    pub fn data_dir(&self) -> &Path {
        self.folder.path()
    }

    /// The time of the server and of its providers.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Waits until the server has no work that is due: everything is sent that can be sent at this time. Work
    /// for later stays: scheduled notifications, retries, and what waits for a rate, the end of a pause or a
    /// provider whose circuit breaker is open.
    ///
    /// # Errors
    /// [`TestServerError::Unsettled`] when the server still has work after [`SETTLE_MAX`].
    pub async fn settle(&self) -> Result<(), TestServerError> {
        self.until_settled().await.map(drop)
    }

    /// As [`settle`](Self::settle). Returns when the next work becomes due. The clock goes on, so that time may
    /// have passed.
    async fn until_settled(&self) -> Result<Option<Timestamp>, TestServerError> {
        let deadline = Instant::now() + SETTLE_MAX;
        let mut commits = self.app.engine.progress();
        let (mut received, mut unchanged_since) = (self.sandbox.counts().received, Instant::now());
        loop {
            // One time and one read decide both whether work is due and when the next is. Otherwise what becomes due
            // between two reads would be missed.
            let now = self.now();
            let workload = self.app.store.workload(now).await?;
            if !workload.is_busy() {
                return Ok(self.next_due(&workload, now));
            }
            let is_held = |&(app, platform)| self.held_until(app, platform, now).next().is_some();
            let is_waiting = !workload.has_starts_due && workload.lanes.iter().all(is_held);
            let (at, count) = (Instant::now(), self.sandbox.counts().received);
            if count != received || commits.has_changed().unwrap_or(false) || !is_waiting {
                commits.mark_unchanged();
                (received, unchanged_since) = (count, at);
            }
            if at - unchanged_since >= STALL {
                return Ok(self.next_due(&workload, now));
            }
            if at >= deadline {
                return Err(TestServerError::Unsettled);
            }
            tokio::time::sleep(SETTLE_INTERVAL).await;
        }
    }

    /// When the next work becomes due after `now`.
    fn next_due(&self, workload: &Workload, now: Timestamp) -> Option<Timestamp> {
        let own = Platform::ALL.into_iter().map(|platform| (self.app_no, platform));
        let lanes = own.chain(workload.lanes.iter().copied());
        let held = lanes.flat_map(|(app, platform)| self.held_until(app, platform, now));
        held.flatten().chain(workload.next_due).min()
    }

    /// Until when a provider and each upstream service of it get no deliveries; `None` until an administrator
    /// releases it. Those that get deliveries are left out.
    fn held_until(
        &self,
        app: AppNo,
        platform: Platform,
        now: Timestamp,
    ) -> impl Iterator<Item = Option<Timestamp>> {
        let channel = self.app.engine.handle().channel(app, platform);
        let services = channel.services.into_iter().map(|service| service.status);
        std::iter::once(channel.status).chain(services).filter_map(move |status| match status {
            ProviderStatus::Available => None,
            ProviderStatus::Tripped => Some(None),
            ProviderStatus::Throttled { until }
            | ProviderStatus::Unreachable { probe_at: until }
            | ProviderStatus::AuthRejected { probe_at: until, .. } => {
                (until > now).then_some(Some(until))
            }
        })
    }

    /// Advances the clock of the server and of its providers. Work that becomes due on the way is done at its
    /// time, in its order.
    ///
    /// # Errors
    /// [`TestServerError::TooFar`] beyond [`ADVANCE_MAX`]. [`TestServerError::TooManyStops`] when work becomes due
    /// at more than [`STOPS_MAX`] times; the clock then stands at the last of them. And as
    /// [`settle`](Self::settle).
    pub async fn advance(&self, by: Duration) -> Result<(), TestServerError> {
        let by_ms = i64::try_from(by.as_millis()).ok().filter(|_| by <= ADVANCE_MAX);
        let target = self.now().plus_ms(by_ms.ok_or(TestServerError::TooFar)?);
        for _ in 0..STOPS_MAX {
            let Some(next_due) = self.until_settled().await?.filter(|due| *due < target) else {
                self.advance_to(target);
                return self.settle().await;
            };
            self.advance_to(next_due);
        }
        Err(TestServerError::TooManyStops)
    }

    fn advance_to(&self, time: Timestamp) {
        let ms = u64::try_from(time.ms_since(self.now())).unwrap_or(0);
        self.clock.advance(Duration::from_millis(ms));
    }

    /// Waits as [`settle`](Self::settle), and returns the messages that the provider accepted for a device, the
    /// oldest first.
    ///
    /// # Errors
    /// When there is no such device, or as `settle`.
    pub async fn delivered_to(&self, device: &str) -> Result<Vec<Message>, TestServerError> {
        let requests = self.attempts_to(device).await?;
        let accepted = |request: &ReceivedRequest| (200..300).contains(&request.status);
        Ok(requests.into_iter().filter(accepted).map(Message::of).collect())
    }

    /// Waits as [`settle`](Self::settle), and returns everything that the provider received for a device, also
    /// what it refused, the oldest first.
    ///
    /// # Errors
    /// When there is no such device, or as `settle`.
    pub async fn attempts_to(&self, device: &str) -> Result<Vec<ReceivedRequest>, TestServerError> {
        self.settle().await?;
        let device = self.device(device).await?;
        let Some(address) = address(&device) else { return Ok(Vec::new()) };
        let provider = provider_of(device.platform);
        let is_to_device = |request: &ReceivedRequest| {
            request.provider == provider
                && request.token.as_deref() == Some(&address)
                && !request.is_credential_check()
        };
        Ok(self.sandbox.received().into_iter().filter(is_to_device).collect())
    }

    /// Makes the next `times` messages to a device fail. Replaces an earlier `fail_next` for this device.
    ///
    /// # Errors
    /// When there is no such device, it has no address, its provider has no such failure, or `times` is 0.
    pub async fn fail_next(
        &self,
        device: &str,
        failure: Failure,
        times: u32,
    ) -> Result<(), TestServerError> {
        let device = self.device(device).await?;
        let Some(address) = address(&device) else {
            return Err(TestServerError::NoAddress(device.device_id));
        };
        let rule = failure.rule(provider_of(device.platform)).token(&address);
        Ok(self.sandbox.set_next(notify_sandbox::Rule { times: Some(times), ..rule })?)
    }

    /// Makes all messages on a platform fail, until [`recover`](Self::recover).
    ///
    /// # Errors
    /// When the provider has no such failure.
    pub fn fail(&self, platform: Platform, failure: Failure) -> Result<(), TestServerError> {
        Ok(self.sandbox.add_rule(failure.rule(provider_of(platform)))?)
    }

    /// Removes all rules of the sandbox. A circuit breaker that is open closes after its next probe: advance the
    /// clock.
    pub fn recover(&self) {
        self.sandbox.clear_rules();
    }

    /// Forgets the messages that the providers received.
    pub fn forget_messages(&self) {
        self.sandbox.clear_received();
    }

    /// Stops the server and the sandbox, and deletes the data.
    pub async fn stop(self) {
        self.app.stop().await;
        self.sandbox.stop().await;
    }

    async fn device(&self, id: &str) -> Result<Device, TestServerError> {
        let unknown = || TestServerError::UnknownDevice(id.to_owned());
        let id = DeviceId::new(id.to_owned()).map_err(|_| unknown())?;
        match self.app.store.device(self.app_no, id).await {
            Err(StoreError::NotFound) => Err(unknown()),
            result => Ok(result?),
        }
    }
}

fn config(folder: &Path, address: SocketAddr) -> Config {
    Config {
        public_url: format!("http://{address}").parse().ok(),
        data_dir: folder.to_owned(),
        // The push service of browsers is the sandbox on this machine.
        allow_private_networks: true,
        console: Switch::Off,
        shutdown_grace: Span::from_secs(SHUTDOWN_GRACE.as_secs()),
        ..Config::default()
    }
}

async fn start_server(
    config: &Config,
    listener: TcpListener,
    clock: Arc<ShiftedClock>,
) -> Result<App, TestServerError> {
    let (path, options) =
        (config.database_path(), SqliteOptions { lock: true, readers: READERS, synced: false });
    let opened = tokio::task::spawn_blocking(move || sqlite::open(&path, options)).await;
    let store = opened.map_err(|_| AppError::Interrupted)?.map_err(AppError::from)?;
    Ok(App::start_on(config.clone(), listener, store, clock).await?)
}

/// Configures all providers of the application to be the sandbox.
async fn configure_providers(
    config: &Config,
    app: &App,
    app_id: AppId,
    sandbox: &Sandbox,
    now: Timestamp,
) -> Result<(), TestServerError> {
    let master_key = existing_master_key(config)?.ok_or(AppError::NoMasterKey)?;
    for (provider, mut body) in [
        (ProviderKind::Apns, sandbox.apns_config()),
        (ProviderKind::Fcm, sandbox.fcm_config()),
        (ProviderKind::WebPush, sandbox.webpush_config()),
        (ProviderKind::Messenger, sandbox.messenger_config()),
        (ProviderKind::Telegram, sandbox.telegram_config()),
    ] {
        body["rate_per_second"] = UNPACED_PER_SECOND.into();
        let sealed = master_key.seal(app_id, provider, body.to_string().as_bytes());
        app.store.put_provider(app_id, ProviderRow { provider, sealed, updated_at: now }).await?;
    }
    Ok(())
}

async fn start_sandbox(
    listener: TcpListener,
    clock: Arc<ShiftedClock>,
) -> Result<Sandbox, SandboxError> {
    let settings = Settings {
        max_concurrent_streams_at_start: Settings::default().max_concurrent_streams,
        messenger_per_second: 0,
        telegram_per_second: 0,
        telegram_chat_burst: 0,
        ..Settings::default()
    };
    let config = SandboxConfig {
        uses_fixed_rsa_key: true,
        clock: SandboxClock::from_fn(move || clock.wall().as_ms()),
        settings,
        ..SandboxConfig::default()
    };
    Sandbox::start(listener, config).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_threads_of_a_dropped_server_end() {
        let server = TestServer::start().await.unwrap();
        let engine = server.app.engine.handle();
        assert!(engine.is_running());
        drop(server);
        let ended = tokio::time::timeout(Duration::from_secs(10), engine.ended());
        ended.await.expect("the delivery engine ends");
    }
}
