//! A server under load during an outage of its database, and what holds for every cause: callers
//! get responses in time, nothing that was accepted is lost or repeated, and the server recovers by
//! itself.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use fastrand::Rng;
use http::Method;
use notify_client::Client;
use notify_tests::{LoggedResponse, RestartableServer, Settings, Verdict, until};

use crate::launch;
use crate::load::{Load, script_errors};

/// Applications that send concurrently.
const TENANTS: u64 = 2;
/// Longest wait for the answer to a request while the database is away: the 5 s of T15, and some for
/// a machine with more to do.
const ANSWER_MAX: Duration = Duration::from_secs(7);
/// Longest time until a notification is accepted again: the 5 s of T15, and some.
const AGAIN_MAX: Duration = Duration::from_secs(7);
/// What callers get during an outage.
const AWAY: &str = "the server failed with status 503";

/// What callers got while the database was unreachable or impaired.
pub(crate) struct Answers {
    /// How long the slowest waited.
    pub(crate) within: Duration,
    /// Whether a notification was accepted.
    pub(crate) accepts: bool,
    /// Whether `/readyz` was successful.
    pub(crate) is_ready: bool,
}

/// A server under load.
pub(crate) struct Served {
    pub(crate) server: RestartableServer,
    pub(crate) load: Load,
}

impl Served {
    /// Starts one on a database, and the load.
    pub(crate) async fn start(folder: &Path, on: &Settings, rng: &mut Rng) -> Result<Self> {
        let server =
            RestartableServer::start(launch(&folder.join("data")).installation(on)).await?;
        let mut load = Load::prepare(&server, TENANTS, &folder.join("request_log")).await?;
        script_errors(&server, rng)?;
        load.begin(&server, rng);
        Ok(Self { server, load })
    }

    /// Sends requests that wait for a write, a read, both and nothing. Each gets a response in
    /// time.
    pub(crate) async fn probe(&self, name: &str) -> Result<Answers> {
        let started = Instant::now();
        let client = Client::builder(&self.server.origin.borrow()).retries(0).timeout(ANSWER_MAX);
        let client = client.api_key(self.load.tenants[0].api_key.as_str()).build()?;
        let caller = self.server.caller();
        let get = |path: &'static str| caller.send(&Method::GET, path, "");
        let (write, read, ready, alive) =
            (self.load.ask_over(&client, name), get("/v1/tags"), get("/readyz"), get("/healthz"));
        let asking = async { tokio::try_join!(write, read, ready, alive) };
        let asked = tokio::time::timeout(ANSWER_MAX, asking).await;
        let asked = asked.with_context(|| format!("{name}: no answer in time"))?;
        let (response, read, ready, alive) = asked.with_context(|| name.to_owned())?;
        let within = started.elapsed();
        let is_clean = match &response {
            LoggedResponse::Accepted(_) => true,
            LoggedResponse::Unknown(what) => what.starts_with(AWAY),
            LoggedResponse::Rejected(_) => false,
        };
        ensure!(is_clean, "{name}: {response:?}");
        ensure!(matches!(read.status, 200 | 503), "{name}: a read is {}", read.status);
        let says_when = read.status == 200 || !read.header("retry-after").is_empty();
        ensure!(says_when, "{name}: it does not say when to ask again");
        ensure!(alive.status == 200, "{name}: /healthz is {}", alive.status);
        let accepts = matches!(response, LoggedResponse::Accepted(_));
        Ok(Answers { within, accepts, is_ready: ready.status == 200 })
    }

    /// Waits until a notification is accepted again, and has callers who wait ask on; returns how long
    /// that took.
    pub(crate) async fn recovered(&self, name: &str) -> Result<Duration> {
        let started = Instant::now();
        let client = self.server.client_of(&self.load.tenants[0].api_key)?;
        let mut tries = 0_u32;
        until("a notification is accepted again", async || {
            tries += 1;
            let response = self.load.ask_over(&client, &format!("after-{name}-{tries}")).await?;
            Ok(matches!(response, LoggedResponse::Accepted(_)).then_some(()))
        })
        .await?;
        let took = started.elapsed();
        ensure!(took <= AGAIN_MAX, "{name}: on again after {took:.1?}");
        self.server.origin.send_modify(|_| {});
        Ok(took)
    }

    /// Ends the load, waits until all work is done, checks it and stops the server.
    pub(crate) async fn judge(self) -> Result<Verdict> {
        let Self { mut server, mut load } = self;
        load.end().await?;
        load.drain(&server).await?;
        let verdict = load.judge(&server).await?;
        verdict.ensure_sound()?;
        ensure!(verdict.repeated() == 0, "the process lived through it all: {verdict:?}");
        server.stop().await?;
        server.sandbox.stop().await;
        Ok(verdict)
    }
}
