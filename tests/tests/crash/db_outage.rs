//! A server under load during an outage of its database, and the checks for all kinds of outages. Callers get
//! responses in time, no accepted notification is lost or repeated, and the server recovers without help.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use fastrand::Rng;
use http::Method;
use notify_client::Client;
use notify_tests::{LoggedResponse, RestartableServer, Settings, Verdict, until};

use crate::launch;
use crate::load::{Load, script_errors};

/// The number of applications that send concurrently.
const TENANTS: u64 = 2;
/// The longest time for the response to a request during an outage: the 5 s of T15, and a margin for a busy
/// machine. A request that waited for the database would get no response in an outage.
const ANSWER_MAX: Duration = Duration::from_secs(20);
/// The error text that callers get during an outage.
const AWAY: &str = "the server failed with status 503";

/// The responses to callers during an outage.
pub(crate) struct Answers {
    /// The time of the slowest response.
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
    /// Starts a server on a database, and starts the load.
    pub(crate) async fn start(folder: &Path, on: &Settings, rng: &mut Rng) -> Result<Self> {
        let server =
            RestartableServer::start(launch(&folder.join("data")).installation(on)).await?;
        let mut load = Load::prepare(&server, TENANTS, &folder.join("request_log")).await?;
        script_errors(&server, rng)?;
        load.begin(&server, rng);
        Ok(Self { server, load })
    }

    /// Sends requests that need a write, a read, both and neither. Each must get a response in
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

    /// Waits until the server accepts a notification and is ready. Returns these responses.
    pub(crate) async fn until_served(&self, name: &str) -> Result<Answers> {
        let mut tries = 0_u32;
        until("a caller is served", async || {
            tries += 1;
            let answers = self.probe(&format!("{name}-{tries}")).await?;
            Ok((answers.accepts && answers.is_ready).then_some(answers))
        })
        .await
    }

    /// Waits until a notification is accepted again, and lets waiting callers continue. Returns how long
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
