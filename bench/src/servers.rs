//! The real server and the sandbox as child processes.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Context;
use notify_sandbox::{Sandbox as FakeProviders, SandboxConfig};
use serde_json::Value;

use crate::http_load::{call, text};
use crate::paths::Paths;
use crate::proc::{Cost, cpu_us};
use crate::process::Process;

/// A time after which the server no longer responds with cached metrics. It caches them for one second.
const METRICS_CACHE_TIME: Duration = Duration::from_millis(1_100);

/// The keys that the server prints on its first start.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub(crate) struct Keys {
    pub(crate) api_key: String,
    pub(crate) admin_key: String,
}

/// The server under measurement.
pub(crate) struct Server {
    process: Process,
    pub(crate) address: SocketAddr,
}

impl Server {
    /// Starts the binary on a data folder; returns the keys if the folder was empty.
    pub(crate) fn start(paths: &Paths, data: &Path) -> anyhow::Result<(Self, Option<Keys>)> {
        Self::start_on(paths, data, None)
    }

    /// Starts the binary on a data folder. With `database_url`, its database is on PostgreSQL and only the
    /// master key comes from the folder. Returns the keys if the database was empty.
    pub(crate) fn start_on(
        paths: &Paths,
        data: &Path,
        database_url: Option<&str>,
    ) -> anyhow::Result<(Self, Option<Keys>)> {
        let mut command = Command::new(&paths.server);
        command.args(["serve", "--listen", "127.0.0.1:0", "--allow-private-networks"]);
        command.arg("--data-dir").arg(data);
        command.env("NOTIFY_LOG", "error");
        if let Some(url) = database_url {
            command.env("NOTIFY_DATABASE_URL", url);
            command.arg("--master-key-file").arg(data.join("master.key"));
        }
        let mut process = Process::start(&mut command)?;
        let (mut api_key, mut admin_key) = (None, None);
        loop {
            let line = process.read_line()?;
            if let Some(key) = line.strip_prefix("api key: ") {
                api_key = Some(key.to_owned());
            } else if let Some(key) = line.strip_prefix("admin key: ") {
                admin_key = Some(key.to_owned());
            } else if let Some(address) = line.strip_prefix("listening on http://") {
                let address = address.parse()?;
                let keys = api_key.zip(admin_key);
                let keys = keys.map(|(api_key, admin_key)| Keys { api_key, admin_key });
                return Ok((Self { process, address }, keys));
            }
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// The number of transactions committed so far.
    pub(crate) async fn commits(&self) -> anyhow::Result<u64> {
        tokio::time::sleep(METRICS_CACHE_TIME).await;
        let metrics = text(self.address, "/metrics").await?;
        let value = metrics.lines().find_map(|line| line.strip_prefix("notify_db_commits_total "));
        Ok(value.context("a counter of commits")?.parse()?)
    }

    /// Runs `work`, which makes the server do `count` operations, and returns their cost to the server.
    pub(crate) async fn measure(
        &self,
        count: u64,
        work: impl Future<Output = anyhow::Result<()>>,
    ) -> anyhow::Result<Cost> {
        let cpu_before = cpu_us(self.id())?;
        let started = Instant::now();
        work.await?;
        let wall = started.elapsed();
        Ok(Cost { count, wall, cpu_us: cpu_us(self.id())? - cpu_before })
    }

    pub(crate) fn stop(self) -> anyhow::Result<()> {
        self.process.stop()
    }
}

/// The fake providers in a child process.
pub(crate) struct Sandbox {
    _process: Process,
    pub(crate) address: SocketAddr,
}

impl Sandbox {
    /// Starts the sandbox, which keeps the newest `journal` messages in full.
    pub(crate) fn start(journal: usize) -> anyhow::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("sandbox").arg(journal.to_string());
        let mut process = Process::start(&mut command)?;
        let address = process.read_line()?.parse()?;
        Ok(Self { _process: process, address })
    }

    /// The body for `PUT …/providers/:provider`.
    pub(crate) async fn config(&self, provider: &str) -> anyhow::Result<Value> {
        call(self.address, "GET", &format!("/sandbox/config/{provider}"), &[], None).await
    }

    /// Posts rules or settings.
    pub(crate) async fn configure(&self, path: &str, body: &Value) -> anyhow::Result<()> {
        call(self.address, "POST", path, &[], Some(body)).await.map(drop)
    }

    /// The counts so far.
    pub(crate) async fn counts(&self) -> anyhow::Result<Value> {
        call(self.address, "GET", "/sandbox/counts", &[], None).await
    }

    /// The counts since the last call. Clears the counts and the messages.
    pub(crate) async fn take_accepted(&self) -> anyhow::Result<Accepted> {
        let counts = self.counts().await?;
        call(self.address, "DELETE", "/sandbox/received", &[], None).await?;
        let count = |name: &str| counts[name].as_u64().context("a count");
        Ok(Accepted { tokens: count("accepted_tokens")?, connections: count("connections")? })
    }
}

/// The counts of a sandbox.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Accepted {
    /// The number of different tokens of accepted messages.
    pub(crate) tokens: u64,
    /// The number of connections opened, including the connections that read the counts.
    pub(crate) connections: u64,
}

/// Runs in the child of [`Sandbox`]: serves until standard input ends.
pub(crate) async fn serve_sandbox(journal: usize) -> anyhow::Result<()> {
    let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let config = SandboxConfig { log_entries_max: journal, ..SandboxConfig::default() };
    let sandbox = FakeProviders::start(listener, config).await?;
    crate::table::print_line(&sandbox.addr().to_string());
    let (ended, end) = tokio::sync::oneshot::channel();
    // Tokio reads standard input in a thread of the runtime, which would keep the runtime from ending. A
    // plain thread does not.
    std::thread::spawn(move || {
        let read = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        let _ = ended.send(read);
    });
    let _ = end.await;
    sandbox.stop().await;
    Ok(())
}
