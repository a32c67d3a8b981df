//! A server in this process: port 0, SQLite in a temporary folder, the sandbox beside it.

use anyhow::{Context, Result, ensure};
use notify_client::Client;
use notify_core::{AppId, NotificationId, NotificationRecord, PageQuery, ProviderKind};
use notify_sandbox::{Sandbox, SandboxConfig, Settings};
use notify_server::app::App;
use notify_server::config::Config;
use tokio::net::TcpListener;

use crate::backend::Settings as BackendSettings;
use crate::{Backend, Caller};

/// Messages a second that no test reaches.
const UNPACED_PER_SECOND: u32 = 10_000;

/// Starts a sandbox on a free port.
///
/// # Errors
/// When there is none.
pub async fn start_sandbox() -> Result<Sandbox> {
    start_sandbox_with(SandboxConfig::default()).await
}

/// The same with another configuration.
///
/// # Errors
/// When there is no free port.
pub async fn start_sandbox_with(config: SandboxConfig) -> Result<Sandbox> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    Ok(Sandbox::start(listener, config).await?)
}

/// Lets the first application send to a sandbox, and answers which that is.
///
/// # Errors
/// When the client has no admin key.
pub async fn configure_providers(client: &Client, sandbox: &Sandbox) -> Result<AppId> {
    let admin = client.admin();
    let apps = admin.list_apps(&PageQuery::default()).await?;
    let app = apps.apps.first().context("the first start makes an application")?.id;
    admin.put_provider(app, ProviderKind::Apns, &sandbox.apns_config()).await?;
    admin.put_provider(app, ProviderKind::Fcm, &sandbox.fcm_config()).await?;
    admin.put_provider(app, ProviderKind::WebPush, &sandbox.webpush_config()).await?;
    Ok(app)
}

/// A running server with one application, its keys, and a sandbox that plays its providers.
pub struct TestServer {
    /// The fake providers.
    pub sandbox: Sandbox,
    /// The application.
    pub app_id: AppId,
    app: Option<App>,
    config: Config,
    folder: tempfile::TempDir,
    api_key: String,
    admin_key: String,
}

impl TestServer {
    /// Starts a server, starts a sandbox, and configures APNs, FCM and Web Push to send to it.
    ///
    /// # Errors
    /// When one of the two does not start.
    pub async fn start() -> Result<Self> {
        Self::start_with(|_| {}).await
    }

    /// The same with settings changed.
    ///
    /// # Errors
    /// When one of the two does not start.
    pub async fn start_with(change: impl FnOnce(&mut Config)) -> Result<Self> {
        Self::start_on(Backend::chosen(), change).await
    }

    /// The same on a backend, whatever the environment asks for.
    ///
    /// # Errors
    /// When one of the two does not start.
    pub async fn start_on(backend: Backend, change: impl FnOnce(&mut Config)) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let data_dir = folder.path().join("data");
        let settings = BackendSettings::of(backend, &data_dir);
        let base = settings.map_or_else(|| Ok(Config::default()), |settings| settings.config())?;
        let mut config = Config {
            listen: "127.0.0.1:0".into(),
            data_dir,
            // The push service of browsers is the sandbox on this machine.
            allow_private_networks: true,
            ..base
        };
        change(&mut config);
        let app = App::start(config.clone()).await?;
        let keys = app.first_keys.as_ref().context("the first start shows keys")?;
        let (api_key, admin_key) = (reveal(&keys.api_key), reveal(&keys.admin_key));
        let sandbox = start_sandbox().await?;
        let client = client(&app.origin, &api_key, &admin_key);
        let app_id = configure_providers(&client, &sandbox).await?;
        Ok(Self { sandbox, app_id, app: Some(app), config, folder, api_key, admin_key })
    }

    /// Where it serves.
    #[must_use]
    pub fn origin(&self) -> &str {
        &self.app().origin
    }

    /// Its application's key.
    #[must_use]
    pub fn api_key(&self) -> &str {
        &self.api_key
    }

    /// Its admin key.
    #[must_use]
    pub fn admin_key(&self) -> &str {
        &self.admin_key
    }

    /// Its data folder.
    #[must_use]
    pub fn data_dir(&self) -> &std::path::Path {
        &self.config.data_dir
    }

    /// A client with both keys.
    ///
    /// # Panics
    /// When the client cannot be built.
    #[must_use]
    pub fn client(&self) -> Client {
        client(self.origin(), &self.api_key, &self.admin_key)
    }

    /// A plain caller with the application's key.
    ///
    /// # Errors
    /// When no HTTP client can be made.
    pub fn caller(&self) -> Result<Caller> {
        Caller::app(self.origin(), &self.api_key)
    }

    /// A plain caller with the admin key.
    ///
    /// # Errors
    /// When no HTTP client can be made.
    pub fn admin(&self) -> Result<Caller> {
        Caller::admin(self.origin(), &self.admin_key)
    }

    /// Reads a notification until it is completed or canceled. Bounded.
    ///
    /// # Errors
    /// When it is not read, or not completed in time.
    pub async fn completed(&self, id: &NotificationId) -> Result<NotificationRecord> {
        crate::completed(&self.client(), id).await
    }

    /// Stops the server in order and starts it again on the same data.
    ///
    /// # Errors
    /// When it does not stop in time, or does not start.
    pub async fn restart(&mut self) -> Result<()> {
        self.restart_with(|_| {}).await
    }

    /// The same with other settings.
    ///
    /// # Errors
    /// When it does not stop in time, or does not start.
    pub async fn restart_with(&mut self, change: impl FnOnce(&mut Config)) -> Result<()> {
        change(&mut self.config);
        let app = self.app.take().context("the server runs")?;
        ensure!(app.stop().await, "the server did not stop in time");
        self.app = Some(App::start(self.config.clone()).await?);
        Ok(())
    }

    /// Stops everything.
    ///
    /// # Errors
    /// When the server does not stop in time.
    pub async fn stop(mut self) -> Result<()> {
        let app = self.app.take().context("the server runs")?;
        ensure!(app.stop().await, "the server did not stop in time");
        self.sandbox.stop().await;
        self.folder.close()?;
        Ok(())
    }

    fn app(&self) -> &App {
        self.app.as_ref().expect("the server runs until it is stopped")
    }
}

/// Lets an application send to a sandbox on all five platforms, as fast as it can: the paces of
/// Messenger and Telegram are not what a fault is about.
///
/// # Errors
/// When the client has no admin key.
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
    let unpaced = Settings {
        messenger_per_second: 0,
        telegram_per_second: 0,
        telegram_chat_burst: 0,
        ..Settings::default()
    };
    sandbox.set(unpaced);
    Ok(())
}

fn client(origin: &str, api_key: &str, admin_key: &str) -> Client {
    let keys = Client::builder(origin).api_key(api_key).admin_key(admin_key);
    keys.build().expect("the origin is a url")
}

fn reveal(key: &secrecy::SecretString) -> String {
    secrecy::ExposeSecret::expose_secret(key).to_owned()
}
