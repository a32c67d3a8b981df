//! Single-device notifications, the most common call. They are sent over 64 connections and one at a time.
//! The row measures the time from the start of the `POST` until the provider receives the message, and the
//! cost until the outcome is stored. The baseline is a `POST` that only stores; for sends to a server that has
//! just started, it is the same sends to a server that has already sent.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use crate::benches::messages::PROVIDERS;
use crate::caller::Caller;
use crate::http_load::{Connection, MakeRequest, call, load, text, write_request};
use crate::paths::Paths;
use crate::proc::{Costs, OtherLoad, flush_p50, written};
use crate::scale::Scale;
use crate::seed::{DAY_MS, DAYS, Seed, device_id, is_android, notification, now, push_token};
use crate::servers::{Keys, Sandbox, Server};
use crate::table::{Goal, Line, Section, grouped, median, median_ratio};

/// How often the number of stored outcomes is read.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// How often the number of received messages is read.
const RECEIPT_POLL_INTERVAL: Duration = Duration::from_millis(1);
/// The longest wait for the last outcome.
const WAIT_MAX: Duration = Duration::from_secs(300);
/// The number of messages that the sandbox keeps in full. A phase that measures latencies sends fewer.
const JOURNAL: usize = 10_000;

/// The measurements of one kind of send, over all rounds.
#[derive(Default)]
struct Measured {
    costs: Costs,
    /// The server's commits for each send, by round. Each commit is flushed once.
    commits: Vec<f64>,
    /// The bytes written to disk for each send, by round.
    bytes: Vec<f64>,
    /// The milliseconds from the start of each `POST` to the receipt, of all rounds.
    latencies: Vec<f64>,
}

/// Runs the benchmark and returns its section of the report.
pub(crate) async fn run(scale: &Scale, paths: &Paths) -> anyhow::Result<Section> {
    let devices = scale.send_devices * 2;
    let seed = Seed::with(paths, devices).await?;
    let data = seed.copy(paths)?;
    let (server, _) = Server::start(paths, data.path())?;
    let sandbox = Arc::new(Sandbox::start(JOURNAL)?);
    let caller = Caller { address: server.address, keys: seed.keys.clone() };
    caller.configure_providers(&sandbox, &PROVIDERS).await?;
    let setup = Setup { server, sandbox, key: seed.keys.api_key.clone(), devices };
    // The providers are configured once, so that each round starts with what an ordinary restart finds.
    let cold_data = seed.copy(paths)?;
    setup.start_on(paths, cold_data.path(), &caller.keys).await?.server.stop()?;
    // The first sends open the connections to both providers.
    setup.send(scale.connections as u64, scale.connections).await?;

    let mut section = Section::default();
    let [mut few, mut cold, mut many, mut alone] = std::array::from_fn(|_| Measured::default());
    let mut stored = Costs::default();
    let later = notification(&["android"], Some(now().plus_ms(DAYS * DAY_MS))).to_string();
    let store_only = post(&setup.key, move |_| later.clone());
    for _ in 0..scale.rounds {
        let other_load = OtherLoad::watch()?;
        section.flushes.push(flush_p50(paths.disk())?);
        let target = (setup.server.address, setup.server.id());
        stored.0.push(load(target, scale.connections, scale.phase, &store_only).await?);
        setup.measure(&mut few, scale.singles, scale.connections).await?;
        let started = setup.start_on(paths, cold_data.path(), &caller.keys).await?;
        started.measure(&mut cold, scale.singles, scale.connections).await?;
        started.server.stop()?;
        setup.measure(&mut many, scale.singles_many, scale.connections).await?;
        setup.measure(&mut alone, scale.singles_alone, 1).await?;
        section.flushes.push(flush_p50(paths.disk())?);
        section.other_load.push(other_load.share()?);
    }
    setup.server.stop()?;
    let baseline = format!("a POST that only stores: {}", stored.text());
    for (measured, count, goals) in [
        (&few, scale.singles, [Some(0.25), Some(8_000.0), Some(0.1), None]),
        (&many, scale.singles_many, [Some(0.25), Some(8_000.0), Some(0.1), None]),
        (&alone, scale.singles_alone, [Some(0.8), None, None, Some(8.0)]),
    ] {
        let is_alone = std::ptr::eq(measured, &alone);
        let how = if is_alone { "one at a time" } else { "64 connections" };
        let what = format!("{} sends to one device each, {how}", grouped(count as f64));
        let figures = [
            ("CPU, ms a send", median(&measured.costs.cpu()) / 1_000.0),
            ("bytes written a send", median(&measured.bytes)),
            ("commits a send", median(&measured.commits)),
            ("p50 ms to the provider", percentile(&measured.latencies, 50)),
        ];
        let goals = figures.into_iter().zip(goals);
        for ((unit, ratio), goal) in goals.filter_map(|(figure, goal)| Some((figure, goal?))) {
            let (what, figure) = (format!("{what}: {unit}"), measured.text());
            let (baseline, goal) = (baseline.clone(), Goal::FigureAtMost(goal));
            section.lines.push(Line { row: "single", what, figure, baseline, ratio, goal });
        }
    }
    section.lines.extend(lines_of_start(scale.singles, &cold, &few));
    section.notes.push(
        "single: half of the devices on FCM, half on APNs, over TLS to the sandbox; from the start \
         of the POST until every outcome is stored; a commit is one flush of the log"
            .to_owned(),
    );
    Ok(section)
}

/// The sends to a server that has just started, compared with those to a server that has already sent.
fn lines_of_start(sends: u64, cold: &Measured, warm: &Measured) -> [Line; 2] {
    let line = |unit, ratio| Line {
        row: "single",
        what: format!("{} sends to a server that has just started: {unit}", grouped(sends as f64)),
        figure: cold.text(),
        baseline: format!("the same sends to a server that has already sent: {}", warm.text()),
        ratio,
        goal: Goal::AtMost(1.3),
    };
    [
        line("CPU", median_ratio(&cold.costs.cpu(), &warm.costs.cpu())),
        line("bytes written", median_ratio(&cold.bytes, &warm.bytes)),
    ]
}

impl Measured {
    fn text(&self) -> String {
        let [p50, p99] = [50, 99].map(|percent| percentile(&self.latencies, percent));
        format!(
            "{}, {:.0} bytes written, {:.3} commits; to the provider p50 {p50:.0} ms, p99 {p99:.0} ms",
            self.costs.text(),
            median(&self.bytes),
            median(&self.commits),
        )
    }
}

/// A server, its providers and its devices.
struct Setup {
    server: Server,
    sandbox: Arc<Sandbox>,
    key: String,
    devices: u64,
}

impl Setup {
    /// Starts a further server, on this folder, with the same providers and devices. This run of it has sent
    /// nothing yet.
    async fn start_on(&self, paths: &Paths, data: &Path, keys: &Keys) -> anyhow::Result<Self> {
        let (server, _) = Server::start(paths, data)?;
        let caller = Caller { address: server.address, keys: keys.clone() };
        caller.configure_providers(&self.sandbox, &PROVIDERS).await?;
        let (sandbox, key) = (self.sandbox.clone(), self.key.clone());
        Ok(Self { server, sandbox, key, devices: self.devices })
    }

    /// Sends to `count` devices and adds the results to `measured`.
    async fn measure(
        &self,
        measured: &mut Measured,
        count: u64,
        connections: usize,
    ) -> anyhow::Result<()> {
        self.sandbox.take_accepted().await?;
        let commits = self.server.commits().await?;
        let bytes = written(self.server.id())?;
        let mut began = Vec::new();
        let cost = self
            .server
            .measure(count, async {
                began = self.send(count, connections).await?;
                Ok(())
            })
            .await?;
        measured.costs.0.push(cost);
        let bytes = written(self.server.id())? - bytes;
        measured.bytes.push(bytes as f64 / count as f64);
        let commits = self.server.commits().await? - commits;
        measured.commits.push(commits as f64 / count as f64);
        if count <= JOURNAL as u64 {
            measured.latencies.extend(self.latencies(&began).await?);
        }
        let accepted = self.sandbox.take_accepted().await?;
        ensure!(accepted.tokens == count, "{} of {count} were accepted", accepted.tokens);
        Ok(())
    }

    /// Sends to `count` devices and waits until every outcome is stored. Returns the time at which each
    /// `POST` began, in Unix milliseconds.
    async fn send(&self, count: u64, connections: usize) -> anyhow::Result<Vec<f64>> {
        ensure!(count <= self.devices, "there are {} devices", self.devices);
        let sent_before = self.sent().await?;
        let next = Arc::new(AtomicU64::new(0));
        let make = post(&self.key, |number| single_notification(number).to_string());
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..connections {
            let (mut connection, make, next) =
                (Connection::open(self.server.address).await?, make.clone(), next.clone());
            let sandbox = self.sandbox.address;
            tasks.spawn(async move {
                let (mut request, mut began) = (Vec::new(), Vec::new());
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        return anyhow::Ok(began);
                    }
                    request.clear();
                    make(number, &mut request);
                    began.push((number, now().as_ms() as f64));
                    let (status, body) = connection.exchange(&request).await?;
                    ensure!(status == 200, "{status} {}", String::from_utf8_lossy(body));
                    if connections == 1 {
                        wait_received(sandbox, number + 1).await?;
                    }
                }
            });
        }
        let mut began = vec![0.0; usize::try_from(count)?];
        while let Some(done) = tasks.join_next().await {
            for (number, at) in done?? {
                began[usize::try_from(number)?] = at;
            }
        }
        let waiting = Instant::now();
        while self.sent().await? < sent_before + count {
            ensure!(waiting.elapsed() < WAIT_MAX, "not every outcome was stored");
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        Ok(began)
    }

    /// The number of deliveries whose stored outcome is "sent".
    async fn sent(&self) -> anyhow::Result<u64> {
        let metrics = text(self.server.address, "/metrics").await?;
        let lines = metrics.lines().filter(|line| {
            line.starts_with("notify_deliveries_total{") && line.contains("\"sent\"")
        });
        lines.map(|line| Ok(line.rsplit(' ').next().context("a value")?.parse::<u64>()?)).sum()
    }

    /// The milliseconds from the start of each `POST` until the sandbox received its message.
    async fn latencies(&self, began: &[f64]) -> anyhow::Result<Vec<f64>> {
        let path = format!("/sandbox/received?limit={JOURNAL}");
        let journal = call(self.sandbox.address, "GET", &path, &[], None).await?;
        let received = journal["received"].as_array().context("a list of messages")?;
        let received_at: HashMap<&str, f64> = received
            .iter()
            .filter_map(|message| Some((message["token"].as_str()?, message["at_ms"].as_f64()?)))
            .collect();
        let tokens = (0..began.len() as u64).map(push_token);
        let latency = |(token, began): (String, &f64)| {
            let received_at = received_at.get(token.as_str()).context("a received message")?;
            Ok((received_at - began).max(0.0))
        };
        tokens.zip(began).map(latency).collect()
    }
}

/// Waits until the sandbox has accepted `count` messages.
async fn wait_received(sandbox: std::net::SocketAddr, count: u64) -> anyhow::Result<()> {
    let waiting = Instant::now();
    loop {
        let counts = call(sandbox, "GET", "/sandbox/counts", &[], None).await?;
        if counts["accepted"].as_u64().is_some_and(|accepted| accepted >= count) {
            return Ok(());
        }
        ensure!(waiting.elapsed() < WAIT_MAX, "a message was not received");
        tokio::time::sleep(RECEIPT_POLL_INTERVAL).await;
    }
}

/// A notification to the device with this number. Device ids replace the platforms.
fn single_notification(number: u64) -> Value {
    let list = if is_android(number) { "android_device_ids" } else { "ios_device_ids" };
    let mut body = notification(&["android"], None);
    body.as_object_mut().expect("an object").remove("platforms");
    body[list] = json!([device_id(number)]);
    body
}

fn post(api_key: &str, body: impl Fn(u64) -> String + Send + Sync + 'static) -> MakeRequest {
    let key = api_key.to_owned();
    Arc::new(move |number, request| {
        let (body, headers) = (body(number), [("x-api-key", key.as_str())]);
        write_request(request, ("POST", "/v1/notifications"), &headers, body.as_bytes());
    })
}

/// The percentile `percent`; NaN without values.
fn percentile(values: &[f64], percent: usize) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let index = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
    sorted.get(index).copied().unwrap_or(f64::NAN)
}
