//! A client of one server, with the key of an application and the admin key.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use crate::http_load::call;
use crate::servers::{Keys, Sandbox};

/// How often a notification's status is read. One request costs the server about 50 µs.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// A client with the keys of a server's first application and administrator.
pub(crate) struct Caller {
    pub(crate) address: SocketAddr,
    pub(crate) keys: Keys,
}

impl Caller {
    async fn admin(&self, method: &str, path: &str, body: Option<&Value>) -> anyhow::Result<Value> {
        let bearer = format!("Bearer {}", self.keys.admin_key);
        call(self.address, method, path, &[("authorization", &bearer)], body).await
    }

    pub(crate) async fn v1(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<Value> {
        call(self.address, method, path, &[("x-api-key", &self.keys.api_key)], body).await
    }

    /// The id of the first application.
    pub(crate) async fn first_app(&self) -> anyhow::Result<String> {
        let apps = self.admin("GET", "/admin/v1/apps", None).await?;
        Ok(apps["apps"][0]["id"].as_str().context("the first application")?.to_owned())
    }

    /// Creates another application, and returns a key of it.
    pub(crate) async fn second_app_key(&self) -> anyhow::Result<String> {
        let app = self.admin("POST", "/admin/v1/apps", Some(&json!({"name": "second"}))).await?;
        let id = app["id"].as_str().context("an application")?;
        let path = format!("/admin/v1/apps/{id}/keys");
        let key = self.admin("POST", &path, Some(&json!({}))).await?;
        Ok(key["api_key"].as_str().context("a key")?.to_owned())
    }

    /// Configures `providers` of the first application to send to a sandbox.
    pub(crate) async fn configure_providers(
        &self,
        sandbox: &Sandbox,
        providers: &[&str],
    ) -> anyhow::Result<()> {
        let app = self.first_app().await?;
        for provider in providers {
            let path = format!("/admin/v1/apps/{app}/providers/{provider}");
            self.admin("PUT", &path, Some(&sandbox.config(provider).await?)).await?;
        }
        Ok(())
    }

    /// Posts a notification and returns the path of its record.
    pub(crate) async fn post(&self, body: &Value) -> anyhow::Result<String> {
        let created = self.v1("POST", "/v1/notifications", Some(body)).await?;
        Ok(format!("/v1/notifications/{}", created["id"].as_str().context("an id")?))
    }

    /// Waits for [`POLL_INTERVAL`], then returns the record of a notification if it is completed.
    pub(crate) async fn poll_completed(&self, path: &str) -> anyhow::Result<Option<Value>> {
        tokio::time::sleep(POLL_INTERVAL).await;
        let record = self.v1("GET", path, None).await?;
        Ok((record["status"] == "completed").then_some(record))
    }

    /// Sends a notification to `devices` devices and waits until it is completed. Fails if any message was
    /// not sent.
    pub(crate) async fn fan_out(&self, body: &Value, devices: u64) -> anyhow::Result<()> {
        let path = self.post(body).await?;
        let record = loop {
            if let Some(record) = self.poll_completed(&path).await? {
                break record;
            }
        };
        ensure!(record["counts"]["sent"] == devices, "not every message was sent: {record}");
        Ok(())
    }
}
