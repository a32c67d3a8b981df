//! A fan-out over the API to fake FCM and APNs over TLS, beside a bare h2 client that sends the
//! same requests. The sandbox checks every message and counts the different tokens it accepted.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use crate::bare::h2_client::{self, Orders, TOKEN};
use crate::children::{Keys, Sandbox, Server};
use crate::http_load::call;
use crate::place::Place;
use crate::process::{Cost, Others, cpu_us, flush_p50};
use crate::scale::Scale;
use crate::seed::{Seed, device_id, notification, push_token};
use crate::table::{Goal, Line, Section, grouped, median, median_ratio};

/// Time between looks at a notification; one look costs the server some 50 µs.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Messages of the sandbox that shows what a request looks like.
const SHOWN: usize = 16;
/// Platform, its provider, the number of its first device.
const CHANNELS: [(&str, &str, u64); 2] = [("android", "fcm", 0), ("ios", "apns", 1)];

/// Speaks to one server as one application and as admin.
pub(crate) struct Caller {
    pub(crate) address: SocketAddr,
    pub(crate) keys: Keys,
}

impl Caller {
    async fn admin(&self, method: &str, path: &str, body: Option<&Value>) -> anyhow::Result<Value> {
        let bearer = format!("Bearer {}", self.keys.admin_key);
        call(self.address, method, path, &[("authorization", &bearer)], body).await
    }

    async fn v1(&self, method: &str, path: &str, body: Option<&Value>) -> anyhow::Result<Value> {
        call(self.address, method, path, &[("x-api-key", &self.keys.api_key)], body).await
    }

    /// Configures both providers to send to a sandbox.
    pub(crate) async fn send_to(&self, sandbox: &Sandbox) -> anyhow::Result<()> {
        let apps = self.admin("GET", "/admin/v1/apps", None).await?;
        let app = apps["apps"][0]["id"].as_str().context("the first application")?.to_owned();
        for (_, provider, _) in CHANNELS {
            let path = format!("/admin/v1/apps/{app}/providers/{provider}");
            self.admin("PUT", &path, Some(&sandbox.config(provider).await?)).await?;
        }
        Ok(())
    }

    /// Sends a notification and returns its record when it is completed, all of it sent.
    pub(crate) async fn fan_out(&self, body: &Value, devices: u64) -> anyhow::Result<Value> {
        let created = self.v1("POST", "/v1/notifications", Some(body)).await?;
        let path = format!("/v1/notifications/{}", created["id"].as_str().context("an id")?);
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let record = self.v1("GET", &path, None).await?;
            if record["status"] == "completed" {
                let counts = &record["counts"];
                ensure!(counts["sent"] == devices, "not all was sent: {record}");
                return Ok(record);
            }
        }
    }
}

/// Measures the row.
pub(crate) async fn run(scale: &Scale, place: &Place) -> anyhow::Result<Section> {
    let seed = Seed::with(place, scale.send_devices * 2).await?;
    let data = seed.copy(place)?;
    let (server, _) = Server::start(place, data.path())?;
    let caller = Caller { address: server.address, keys: seed.keys };
    let shown = show(&caller).await?;
    let sandbox = Sandbox::start(0)?;
    caller.send_to(&sandbox).await?;

    let mut section = Section::default();
    let mut costs = vec![[Vec::new(), Vec::new()]; CHANNELS.len()];
    let mut connections = 0;
    for _ in 0..scale.rounds {
        let others = Others::watch()?;
        section.flushes.push(flush_p50(place.disk())?);
        for (channel, [ours, bare]) in CHANNELS.iter().zip(&mut costs) {
            let (platform, provider, first) = *channel;
            let body = notification(&[platform], None);
            let cpu_before = cpu_us(server.id())?;
            let started = std::time::Instant::now();
            caller.fan_out(&body, scale.send_devices).await?;
            let wall = started.elapsed();
            let cpu_us = cpu_us(server.id())? - cpu_before;
            let accepted = sandbox.take_accepted().await?;
            // The one that asks for the counts is among them.
            connections += accepted.connections.saturating_sub(1);
            ensure!(accepted.tokens == scale.send_devices, "accepted {}", accepted.tokens);
            ours.push(Cost { count: scale.send_devices, wall, cpu_us });

            let config = sandbox.config(provider).await?;
            let orders = orders(&shown, (platform, provider), config)?;
            let address = sandbox.address;
            let orders = Orders { address, first, count: scale.send_devices, ..orders };
            bare.push(h2_client::run(&orders)?);
            let accepted = sandbox.take_accepted().await?;
            ensure!(accepted.tokens == scale.send_devices + 1, "accepted {}", accepted.tokens);
        }
        section.others.push(others.share()?);
    }
    server.stop()?;
    section.notes.push(format!(
        "send: the server opened {connections} connections in all, the bare client one each time; \
         both sides share the cores with the sandbox, so that rates are its"
    ));
    for ((_, provider, _), [ours, bare]) in CHANNELS.iter().zip(&costs) {
        section.lines.push(line(scale, provider, ours, bare));
    }
    Ok(section)
}

fn line(scale: &Scale, provider: &str, ours: &[Cost], bare: &[Cost]) -> Line {
    let cpu = |costs: &[Cost]| costs.iter().map(Cost::cpu_us_each).collect::<Vec<_>>();
    let text = |costs: &[Cost]| {
        let rates: Vec<f64> = costs.iter().map(Cost::per_second).collect();
        format!("CPU {:.2} µs each, {}/s", median(&cpu(costs)), grouped(median(&rates)))
    };
    Line {
        row: "send",
        what: format!("{} devices on {provider}", grouped(scale.send_devices as f64)),
        figure: text(ours),
        beside: format!("bare h2: {}", text(bare)),
        ratio: median_ratio(&cpu(ours), &cpu(bare)),
        goal: Goal::AtMost(1.5),
    }
}

/// Has the server send one message of each kind to a sandbox that shows what came.
async fn show(caller: &Caller) -> anyhow::Result<Value> {
    let sandbox = Sandbox::start(SHOWN)?;
    caller.send_to(&sandbox).await?;
    for (platform, _, first) in CHANNELS {
        let mut body = notification(&[platform], None);
        body[format!("{platform}_device_ids")] = json!([device_id(first)]);
        caller.fan_out(&body, 1).await?;
    }
    let received = call(sandbox.address, "GET", "/sandbox/received", &[], None).await?;
    Ok(received["received"].clone())
}

/// The same request for a bare client.
fn orders(
    shown: &Value,
    (platform, provider): (&str, &str),
    config: Value,
) -> anyhow::Result<Orders> {
    let shown = shown.as_array().context("a list")?;
    let first = CHANNELS.iter().find(|channel| channel.0 == platform).context("a channel")?.2;
    let message = shown.iter().find(|message| message["provider"] == provider);
    let message = message.context("the server sent one message of each kind")?;
    let headers = message["headers"].as_object().context("headers")?.iter();
    let own = ["authorization", "apns-id"];
    let headers = headers
        .filter(|(name, _)| !own.contains(&name.as_str()))
        .filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())))
        .collect();
    let endpoint = config["endpoint"].as_str().context("an endpoint")?;
    let url = match config["service_account"]["project_id"].as_str() {
        Some(project) => format!("{endpoint}/v1/projects/{project}/messages:send"),
        None => format!("{endpoint}/3/device/{TOKEN}"),
    };
    let body = message["payload"].to_string().replace(&push_token(first), TOKEN);
    let has_id = message["headers"]["apns-id"].is_string();
    let address = SocketAddr::from(([127, 0, 0, 1], 0));
    Ok(Orders { address, config, url, headers, has_id, body, first, count: 0 })
}
