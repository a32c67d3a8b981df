//! A server with an Android device, on a clock that the test moves.

use std::time::Duration;

use anyhow::{Context, Result};
use http::Method;
use notify_core::NotificationRecord;
use notify_sandbox::Settings;
use notify_tests::{Caller, TestServer, configure_providers, until};
use serde_json::{Value, json};

/// The server with its callers.
pub(crate) struct Fixture {
    pub(crate) server: TestServer,
    pub(crate) caller: Caller,
}

impl Fixture {
    pub(crate) async fn start() -> Result<Self> {
        let server = TestServer::with_manual_clock(Settings::default()).await;
        let caller = server.caller();
        configure_providers(&server.client(), server.sandbox()).await?;
        let phone = json!({"device_id": "phone", "platform": "android",
            "sdk_type": "android_push", "push_token": "token-phone"});
        caller.post("/v1/devices", &phone).await.ok();
        Ok(Self { server, caller })
    }

    /// Creates a webhook. Returns its path and its secret.
    pub(crate) async fn webhook(&self, url: &str, events: &[&str]) -> Result<(String, String)> {
        let body = json!({"url": url, "events": events});
        let made = self.caller.post("/v1/webhooks", &body).await.ok();
        let text =
            |name: &str| Ok::<_, anyhow::Error>(made[name].as_str().context("text")?.to_owned());
        Ok((format!("/v1/webhooks/{}", text("id")?), text("secret")?))
    }

    /// Sends to the device and waits for completion.
    pub(crate) async fn send(&self) -> Result<NotificationRecord> {
        let body = json!({"text": "t", "android_device_ids": ["phone"]});
        let id = self.caller.post("/v1/notifications", &body).await.ok()["id"].clone();
        self.server.completed(&serde_json::from_value(id)?).await
    }

    /// Waits until the messages of a webhook satisfy a condition, and returns them, newest first.
    pub(crate) async fn attempts(
        &self,
        webhook: &str,
        wanted: impl Fn(&[Value]) -> bool,
    ) -> Result<Vec<Value>> {
        let path = format!("{webhook}/attempts?limit=1000");
        let mut last = Vec::new();
        let waiting = until("the attempts are as wanted", async || {
            let listed = self.caller.get(&path).await.ok();
            last = listed["attempts"].as_array().context("a list")?.clone();
            Ok(wanted(&last).then(|| last.clone()))
        });
        let found = waiting.await;
        found.with_context(|| format!("last seen: {last:?}"))
    }

    /// Changes a webhook.
    pub(crate) async fn change(&self, webhook: &str, change: &Value) -> Result<()> {
        self.caller.send(&Method::PATCH, webhook, change.to_string()).await?.ok();
        Ok(())
    }

    /// Moves the clock.
    pub(crate) fn advance(&self, by: Duration) {
        self.server.clock().advance(by);
    }
}
