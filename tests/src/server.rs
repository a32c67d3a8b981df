//! A server in this process: port 0, SQLite in a temporary folder, the sandbox beside it.

use anyhow::{Context, Result, ensure};
use notify_client::Client;
use notify_core::{NotificationId, NotificationRecord, NotificationStatus, ProviderKind};
use notify_server::app::App;
use notify_server::config::Config;
use notify_server::sandbox::{Sandbox, SandboxConfig};
use tokio::net::TcpListener;

use crate::WAIT_MAX;

/// A running server with one application, its keys, and a sandbox that plays its providers.
pub struct TestServer {
    /// The fake providers.
    pub sandbox: Sandbox,
    app: Option<App>,
    config: Config,
    folder: tempfile::TempDir,
    api_key: String,
    admin_key: String,
}

impl TestServer {
    /// Starts a server, starts a sandbox, and configures APNs and FCM to send to it.
    ///
    /// # Errors
    /// When one of the two does not start.
    pub async fn start() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let config = Config {
            listen: "127.0.0.1:0".into(),
            data_dir: folder.path().join("data"),
            ..Config::default()
        };
        let app = App::start(config.clone()).await?;
        let keys = app.first_keys.as_ref().context("the first start shows keys")?;
        let (api_key, admin_key) = (reveal(&keys.api_key), reveal(&keys.admin_key));
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let sandbox = Sandbox::start(listener, SandboxConfig::default()).await?;
        let server = Self { sandbox, app: Some(app), config, folder, api_key, admin_key };
        server.configure_providers().await?;
        Ok(server)
    }

    async fn configure_providers(&self) -> Result<()> {
        let client = self.client();
        let apps = client.admin().list_apps(&notify_core::PageQuery::default()).await?;
        let app = apps.apps.first().context("the first start makes an application")?.id;
        let admin = client.admin();
        admin.put_provider(app, ProviderKind::Apns, &self.sandbox.apns_config()).await?;
        admin.put_provider(app, ProviderKind::Fcm, &self.sandbox.fcm_config()).await?;
        Ok(())
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
        Client::builder(self.origin())
            .api_key(self.api_key.as_str())
            .admin_key(self.admin_key.as_str())
            .build()
            .expect("the origin is a url")
    }

    /// Reads a notification until it is completed or canceled. Bounded.
    ///
    /// # Errors
    /// When it is not read, or not completed in time.
    pub async fn completed(&self, id: &NotificationId) -> Result<NotificationRecord> {
        let client = self.client();
        let reading = async {
            loop {
                let record = client.notifications().get(id).await?;
                match record.status {
                    NotificationStatus::Completed | NotificationStatus::Canceled => {
                        return Ok::<_, notify_client::Error>(record);
                    }
                    NotificationStatus::Scheduled
                    | NotificationStatus::Queued
                    | NotificationStatus::Sending
                    | NotificationStatus::Reported => tokio::task::yield_now().await,
                }
            }
        };
        let record =
            tokio::time::timeout(WAIT_MAX, reading).await.context("not completed in time")?;
        Ok(record?)
    }

    /// Stops the server in order and starts it again on the same data.
    ///
    /// # Errors
    /// When it does not stop in time, or does not start.
    pub async fn restart(&mut self) -> Result<()> {
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

fn reveal(key: &secrecy::SecretString) -> String {
    secrecy::ExposeSecret::expose_secret(key).to_owned()
}
