//! A server with an Android device whose clock the test turns.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use http::Method;
use notify_client::Client;
use notify_core::{NotificationRecord, Timestamp};
use notify_sandbox::{Sandbox, SandboxConfig};
use notify_server::app::{App, open_store};
use notify_server::clock::ManualClock;
use notify_server::config::Config;
use notify_tests::{Caller, completed, configure_providers, until};
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// Where the clock begins.
const START: Timestamp = Timestamp(1_790_000_000_000);

/// The server and what is around it.
pub(crate) struct Rig {
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) caller: Caller,
    pub(crate) client: Client,
    pub(crate) sandbox: Sandbox,
    app: App,
    folder: tempfile::TempDir,
}

impl Rig {
    pub(crate) async fn start() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let config = Config {
            listen: "127.0.0.1:0".into(),
            data_dir: folder.path().join("data"),
            allow_private_networks: true,
            ..Config::default()
        };
        let clock = ManualClock::at(START);
        let sandbox = SandboxConfig {
            clock: notify_sandbox::Clock::manual(clock.watch()),
            ..SandboxConfig::default()
        };
        let sandbox = Sandbox::start(TcpListener::bind("127.0.0.1:0").await?, sandbox).await?;
        let store = open_store(&config, true).await?;
        let listener = TcpListener::bind(&config.listen).await?;
        let app = App::start_on(config, listener, store, clock.clone()).await?;
        let keys = app.first_keys.as_ref().context("the first start shows keys")?;
        let api_key = keys.api_key.expose_secret();
        let client = Client::builder(&app.origin)
            .api_key(api_key)
            .admin_key(keys.admin_key.expose_secret())
            .build()?;
        configure_providers(&client, &sandbox).await?;
        let caller = Caller::app(&app.origin, api_key)?;
        let phone = json!({"device_id": "phone", "platform": "android",
            "sdk_type": "android_push", "push_token": "token-phone"});
        caller.post("/v1/devices", &phone).await?;
        Ok(Self { clock, caller, client, sandbox, app, folder })
    }

    /// Makes a webhook; its path and secret.
    pub(crate) async fn webhook(&self, url: &str, events: &[&str]) -> Result<(String, String)> {
        let body = json!({"url": url, "events": events});
        let made = self.caller.post("/v1/webhooks", &body).await?;
        let text =
            |name: &str| Ok::<_, anyhow::Error>(made[name].as_str().context("text")?.to_owned());
        Ok((format!("/v1/webhooks/{}", text("id")?), text("secret")?))
    }

    /// Sends to the device and waits until it is over.
    pub(crate) async fn send(&self) -> Result<NotificationRecord> {
        let body = json!({"text": "t", "android_device_ids": ["phone"]});
        let id = self.caller.post("/v1/notifications", &body).await?["id"].clone();
        completed(&self.client, &serde_json::from_value(id)?).await
    }

    /// The messages of a webhook, the newest first, once they are as wanted.
    pub(crate) async fn attempts(
        &self,
        webhook: &str,
        wanted: impl Fn(&[Value]) -> bool,
    ) -> Result<Vec<Value>> {
        let path = format!("{webhook}/attempts?limit=1000");
        let mut last = Vec::new();
        let waiting = until("the attempts are as wanted", async || {
            let listed = self.caller.get(&path).await?;
            last = listed["attempts"].as_array().context("a list")?.clone();
            Ok(wanted(&last).then(|| last.clone()))
        });
        let found = waiting.await;
        found.with_context(|| format!("last seen: {last:?}"))
    }

    /// Changes a webhook.
    pub(crate) async fn change(&self, webhook: &str, change: &Value) -> Result<()> {
        self.caller.send(&Method::PATCH, webhook, change.to_string()).await?.ok()?;
        Ok(())
    }

    /// Turns the clock.
    pub(crate) fn turn(&self, by: Duration) {
        self.clock.advance(by);
    }

    /// Stops everything.
    pub(crate) async fn stop(self) -> Result<()> {
        anyhow::ensure!(self.app.stop().await, "the server did not stop in time");
        self.sandbox.stop().await;
        self.folder.close()?;
        Ok(())
    }
}
