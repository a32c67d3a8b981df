//! A server in this process, on a free port, with its data in a temporary folder. A sandbox is its push
//! providers, unless the test needs no providers.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use notify_client::Client;
use notify_core::{AppId, NotificationId, NotificationRecord, PageQuery, ProviderKind, Timestamp};
use notify_sandbox::{Sandbox, SandboxConfig, Settings};
use notify_server::app::{App, open_store};
use notify_server::clock::ManualClock;
use notify_server::config::{Config, Span};
use notify_server::store::{PageRequest, SharedStore};
use secrecy::ExposeSecret;
use serde_json::json;
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};

use crate::backend::Installation;
use crate::log::capture_log;
use crate::{Backend, Caller};

/// The time at which a manual clock starts: 2026-11-21.
pub const NOW: Timestamp = Timestamp(1_795_219_200_000);
/// A rate limit, in messages a second, that no test reaches.
const UNPACED_PER_SECOND: u32 = 10_000;
/// The read connections of a server without providers on PostgreSQL. The number is low, because many such
/// servers run at the same time.
const READERS: usize = 2;

/// Starts a sandbox on a free port.
///
/// # Errors
/// When there is no free port.
pub async fn start_sandbox() -> Result<Sandbox> {
    start_sandbox_with(SandboxConfig::default()).await
}

/// Starts a sandbox with this configuration on a free port.
///
/// # Errors
/// When there is no free port.
pub async fn start_sandbox_with(config: SandboxConfig) -> Result<Sandbox> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    Ok(Sandbox::start(listener, config).await?)
}

/// Configures APNs, FCM and Web Push of the first application to send to a sandbox. Returns the application.
///
/// # Errors
/// When a request fails, for example because the client has no admin key.
pub async fn configure_providers(client: &Client, sandbox: &Sandbox) -> Result<AppId> {
    let admin = client.admin();
    let apps = admin.list_apps(&PageQuery::default()).await?;
    let app = apps.apps.first().context("the first start makes an application")?.id;
    admin.put_provider(app, ProviderKind::Apns, &sandbox.apns_config()).await?;
    admin.put_provider(app, ProviderKind::Fcm, &sandbox.fcm_config()).await?;
    admin.put_provider(app, ProviderKind::WebPush, &sandbox.webpush_config()).await?;
    Ok(app)
}

/// Configures an application to send to a sandbox on all five platforms. Removes the rate limits of the
/// sandbox's Messenger and Telegram.
///
/// # Errors
/// When a request fails, for example because the client has no admin key.
pub async fn configure_all(client: &Client, app: AppId, sandbox: &Sandbox) -> Result<()> {
    let mut configs = [
        (ProviderKind::Apns, sandbox.apns_config()),
        (ProviderKind::Fcm, sandbox.fcm_config()),
        (ProviderKind::WebPush, sandbox.webpush_config()),
        (ProviderKind::Messenger, sandbox.messenger_config()),
        (ProviderKind::Telegram, sandbox.telegram_config()),
    ];
    for (provider, config) in &mut configs {
        config["rate_per_second"] = UNPACED_PER_SECOND.into();
        client.admin().put_provider(app, *provider, config).await?;
    }
    sandbox.set(unlimited());
    Ok(())
}

/// The settings of a sandbox without rate limits.
#[must_use]
pub fn unlimited() -> Settings {
    Settings {
        messenger_per_second: 0,
        telegram_per_second: 0,
        telegram_chat_burst: 0,
        ..Settings::default()
    }
}

/// A running server with one application and its keys. Its functions panic when a step fails that always
/// works without a bug.
///
/// [`Self::start`] uses the machine's clock and a sandbox for APNs, FCM and Web Push.
/// [`Self::with_manual_clock`] is for tests in which hours pass. The server and the sandbox share a clock
/// that shows [`NOW`] until the test moves it. [`Self::without_providers`] is for tests of the API alone. It
/// starts quickly and uses a manual clock, and [`logged`](crate::logged) returns its log.
pub struct TestServer {
    /// The first application.
    pub app_id: AppId,
    app: Option<App>,
    clock: Option<Arc<ManualClock>>,
    sandbox: Option<Sandbox>,
    config: Config,
    api_key: String,
    admin_key: String,
    folder: TempDir,
    /// The PostgreSQL database, which all servers on it share. It is deleted with the last server.
    installation: Option<Arc<Installation>>,
}

impl TestServer {
    /// Starts a server and a sandbox, and configures APNs, FCM and Web Push to send to the sandbox.
    pub async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    /// Like [`Self::start`], with changed settings.
    pub async fn start_with(change: impl FnOnce(&mut Config)) -> Self {
        Self::start_on(Backend::chosen(), change).await
    }

    /// Like [`Self::start_with`], on this backend, whichever backend `NOTIFY_TEST_BACKEND` selects.
    ///
    /// # Panics
    /// When the server or the sandbox does not start.
    pub async fn start_on(backend: Backend, change: impl FnOnce(&mut Config)) -> Self {
        let mut server = Self::launch(backend, None, |config| {
            // The push service of browsers is the sandbox on this machine.
            config.allow_private_networks = true;
            change(config);
        })
        .await;
        let sandbox = start_sandbox().await.expect("a sandbox starts");
        let configured = configure_providers(&server.client(), &sandbox).await;
        configured.expect("the providers are configured");
        server.sandbox = Some(sandbox);
        server
    }

    /// Starts a server without providers on the machine's clock, with changed settings.
    pub async fn unconfigured_with(change: impl FnOnce(&mut Config)) -> Self {
        Self::launch(Backend::chosen(), None, change).await
    }

    /// Starts a server without providers, on a clock that the test moves.
    pub async fn without_providers() -> Self {
        Self::without_providers_with(|_| {}).await
    }

    /// Like [`Self::without_providers`], on SQLite, even if `NOTIFY_TEST_BACKEND` selects PostgreSQL.
    pub async fn without_providers_on_sqlite() -> Self {
        capture_log();
        Self::launch(Backend::Sqlite, Some(ManualClock::at(NOW)), |_| {}).await
    }

    /// Like [`Self::without_providers`], with changed settings.
    pub async fn without_providers_with(change: impl FnOnce(&mut Config)) -> Self {
        capture_log();
        let backend = Backend::chosen();
        Self::launch(backend, Some(ManualClock::at(NOW)), |config| {
            config.shutdown_grace = Span::from_secs(5);
            if backend == Backend::Postgres {
                config.reader_threads = READERS;
            }
            change(config);
        })
        .await
    }

    /// Starts a server and a sandbox that share a clock, which the test moves. No provider is configured.
    ///
    /// # Panics
    /// When the server or the sandbox does not start.
    pub async fn with_manual_clock(settings: Settings) -> Self {
        let clock = ManualClock::at(NOW);
        let sandbox = SandboxConfig {
            clock: notify_sandbox::Clock::manual(clock.watch()),
            settings,
            ..SandboxConfig::default()
        };
        let mut server = Self::launch(Backend::chosen(), Some(clock), |config| {
            config.allow_private_networks = true;
        })
        .await;
        let sandbox = start_sandbox_with(sandbox).await;
        server.sandbox = Some(sandbox.expect("a sandbox starts"));
        server
    }

    async fn launch(
        backend: Backend,
        clock: Option<Arc<ManualClock>>,
        change: impl FnOnce(&mut Config),
    ) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder is made");
        let installation = match backend {
            Backend::Sqlite => None,
            Backend::Postgres => Some(Arc::new(Installation::make())),
        };
        let base = installation.as_ref().map(|installation| installation.settings().config());
        let base = base.transpose().expect("the server takes its settings").unwrap_or_default();
        let mut config =
            Config { listen: "127.0.0.1:0".into(), data_dir: folder.path().join("data"), ..base };
        change(&mut config);
        let app = run(&config, clock.as_ref()).await;
        let keys = app.first_keys.as_ref().expect("the first start shows keys");
        let api_key = keys.api_key.expose_secret().to_owned();
        let admin_key = keys.admin_key.expose_secret().to_owned();
        app.keys_shown().await.expect("the keys are recorded as shown");
        let page = PageRequest { limit: 1, cursor: None };
        let apps = app.store.list_apps(page).await.expect("the applications are read");
        let app_id = apps.rows.first().expect("the first start makes an application").id;
        let (app, sandbox) = (Some(app), None);
        Self { app_id, app, clock, sandbox, config, api_key, admin_key, folder, installation }
    }

    /// Starts another server on the same PostgreSQL database.
    ///
    /// # Panics
    /// When the server does not start, or creates keys again.
    pub async fn start_another(&self) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder is made");
        let config = Config { data_dir: folder.path().join("data"), ..self.config.clone() };
        let app = run(&config, self.clock.as_ref()).await;
        assert!(app.first_keys.is_none(), "keys are created only once");
        Self {
            app_id: self.app_id,
            app: Some(app),
            clock: self.clock.clone(),
            sandbox: None,
            config,
            api_key: self.api_key.clone(),
            admin_key: self.admin_key.clone(),
            folder,
            installation: self.installation.clone(),
        }
    }

    /// The origin, such as `http://127.0.0.1:8080`.
    #[must_use]
    pub fn origin(&self) -> &str {
        &self.app().origin
    }

    /// The origin of the admin API and the metrics.
    #[must_use]
    pub fn admin_origin(&self) -> &str {
        &self.app().admin_origin
    }

    /// The origin of the console.
    ///
    /// # Panics
    /// When the server has no console.
    #[must_use]
    pub fn console_origin(&self) -> &str {
        self.app().console_origin.as_deref().expect("the server has the console")
    }

    /// The link that signs in to the console at the first start.
    ///
    /// # Panics
    /// When the server was started before, or has no console.
    #[must_use]
    pub fn first_sign_in_link(&self) -> String {
        self.app().first_sign_in_link().expect("the first start has a link")
    }

    /// The address on which the server listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.app().address
    }

    /// The key of the first application.
    #[must_use]
    pub fn api_key(&self) -> &str {
        &self.api_key
    }

    /// The admin key.
    #[must_use]
    pub fn admin_key(&self) -> &str {
        &self.admin_key
    }

    /// The data folder.
    #[must_use]
    pub fn data_dir(&self) -> &Path {
        &self.config.data_dir
    }

    /// The database file on SQLite.
    #[must_use]
    pub fn database_file(&self) -> PathBuf {
        self.data_dir().join("notify.db")
    }

    /// The store, to inject faults and to read data that no route returns.
    #[must_use]
    pub fn store(&self) -> &SharedStore {
        &self.app().store
    }

    /// The clock that the test moves.
    ///
    /// # Panics
    /// When the server uses the machine's clock.
    #[must_use]
    pub fn clock(&self) -> &ManualClock {
        self.clock.as_deref().expect("the server is on a manual clock")
    }

    /// The fake providers.
    ///
    /// # Panics
    /// When the server was started without providers.
    #[must_use]
    pub fn sandbox(&self) -> &Sandbox {
        self.sandbox.as_ref().expect("the server was started with providers")
    }

    /// An SDK client with both keys.
    ///
    /// # Panics
    /// When the client cannot be built.
    #[must_use]
    pub fn client(&self) -> Client {
        let keys = Client::builder(self.origin()).api_key(self.api_key.as_str());
        keys.admin_key(self.admin_key.as_str()).build().expect("the origin is a url")
    }

    /// A plain caller with the application's key.
    #[must_use]
    pub fn caller(&self) -> Caller {
        Caller::app(self.origin(), &self.api_key)
    }

    /// A plain caller with the admin key.
    #[must_use]
    pub fn admin(&self) -> Caller {
        Caller::admin(self.admin_origin(), &self.admin_key)
    }

    /// A plain caller without a key.
    #[must_use]
    pub fn anonymous(&self) -> Caller {
        Caller::with_header(self.origin(), "x-nothing", "at all")
    }

    /// Creates another application. Returns its id and a caller with its key.
    ///
    /// # Panics
    /// When the application cannot be created.
    pub async fn create_app(&self, name: &str) -> (String, Caller) {
        let admin = self.admin();
        let id = admin.post("/admin/v1/apps", &json!({"name": name})).await.id();
        let key = admin.post(&format!("/admin/v1/apps/{id}/keys"), &json!({})).await.ok();
        let key = key["api_key"].as_str().expect("the key is text");
        let caller = Caller::app(self.origin(), key);
        (id, caller)
    }

    /// Opens a TCP connection to the server.
    ///
    /// # Panics
    /// When the server does not accept the connection.
    pub async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address()).await.expect("the server takes connections")
    }

    /// Reads a notification until it is completed or canceled, and returns its record.
    ///
    /// # Errors
    /// When the notification cannot be read, or is not completed in time.
    pub async fn completed(&self, id: &NotificationId) -> Result<NotificationRecord> {
        crate::completed(&self.client(), id).await
    }

    /// Stops the server cleanly and starts it again on the same data.
    pub async fn restart(&mut self) {
        self.restart_with(|_| {}).await;
    }

    /// Like [`Self::restart`], with changed settings.
    ///
    /// # Panics
    /// When the server does not stop in time, or does not start.
    pub async fn restart_with(&mut self, change: impl FnOnce(&mut Config)) {
        change(&mut self.config);
        self.stop_app().await;
        let app = run(&self.config, self.clock.as_ref()).await;
        assert!(app.first_keys.is_none(), "keys are created only once");
        self.app = Some(app);
    }

    /// Stops the server and the sandbox, and deletes the data.
    ///
    /// # Panics
    /// When the server does not stop in time.
    pub async fn stop(mut self) {
        self.stop_app().await;
        if let Some(sandbox) = self.sandbox.take() {
            sandbox.stop().await;
        }
        self.folder.close().expect("the temporary folder is removed");
    }

    async fn stop_app(&mut self) {
        let app = self.app.take().expect("the server runs");
        assert!(app.stop().await, "the server did not stop in time");
    }

    fn app(&self) -> &App {
        self.app.as_ref().expect("the server runs until it is stopped")
    }
}

async fn run(config: &Config, clock: Option<&Arc<ManualClock>>) -> App {
    let started = match clock {
        None => App::start(config.clone()).await,
        Some(clock) => {
            let store = open_store(config, true).await.expect("the database is opened");
            let listener = TcpListener::bind(&config.listen).await.expect("there is a free port");
            App::start_on(config.clone(), listener, store, clock.clone()).await
        }
    };
    started.expect("the server starts")
}
