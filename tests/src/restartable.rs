//! A server process that a test kills, stops and starts again. The data folder, the keys and the sandbox stay
//! the same.

use std::process::ExitStatus;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use notify_client::{Client, ClientBuilder};
use notify_sandbox::{Sandbox, SandboxConfig};
use tokio::sync::watch;

use crate::checker::EndedProcess;
use crate::received::Arrival;
use crate::{Caller, Launch, ServerProcess, start_sandbox_with};

/// The number of messages that the sandbox's log keeps. No run sends more.
const JOURNAL_MAX: usize = 1_000_000;
/// The longest time that a clean stop may take: the default of `--shutdown-grace`.
const STOP_MAX: Duration = Duration::from_secs(30);

/// A server that is killed, stopped and started again, with its sandbox.
pub struct RestartableServer {
    /// The settings with which the server is started.
    pub launch: Launch,
    /// The fake providers.
    pub sandbox: Sandbox,
    /// The current origin of its API. Each start uses another port.
    pub origin: watch::Sender<String>,
    /// The processes that have ended, in order.
    pub ended: Vec<EndedProcess>,
    /// The key of the first application.
    pub api_key: String,
    /// The admin key.
    pub admin_key: String,
    running: Option<ServerProcess>,
}

impl RestartableServer {
    /// Starts a server on an empty folder, and a sandbox that logs every message.
    ///
    /// # Errors
    /// When one of the two does not start.
    pub async fn start(launch: Launch) -> Result<Self> {
        let config = SandboxConfig { log_entries_max: JOURNAL_MAX, ..SandboxConfig::default() };
        let sandbox = start_sandbox_with(config).await?;
        let running = launch.start().await?;
        let api_key = running.api_key.clone().context("the first start shows a key")?;
        let admin_key = running.admin_key.clone().context("the first start shows a key")?;
        let origin = watch::Sender::new(running.origin.clone());
        let (ended, running) = (Vec::new(), Some(running));
        Ok(Self { launch, sandbox, origin, ended, api_key, admin_key, running })
    }

    /// The running process.
    ///
    /// # Errors
    /// When the server does not run.
    pub fn running(&self) -> Result<&ServerProcess> {
        self.running.as_ref().context("the server runs")
    }

    /// A client of the first application. The client does not retry, so that the test sees each failure.
    ///
    /// # Errors
    /// When the client cannot be built.
    pub fn client(&self) -> Result<Client> {
        self.client_of(&self.api_key)
    }

    /// A client without retries that uses the key of another application.
    ///
    /// # Errors
    /// When the client cannot be built.
    pub fn client_of(&self, api_key: &str) -> Result<Client> {
        Ok(self.builder_of(api_key).retries(0).build()?)
    }

    /// As [`Self::client_of`], with the retries of the SDK. For what a test prepares before it fails anything.
    ///
    /// # Errors
    /// When the client cannot be built.
    pub fn preparing_client_of(&self, api_key: &str) -> Result<Client> {
        Ok(self.builder_of(api_key).build()?)
    }

    fn builder_of(&self, api_key: &str) -> ClientBuilder {
        let mut builder = Client::builder(&self.origin.borrow());
        // Before the first start has printed the keys, only requests without one are sent.
        if !api_key.is_empty() {
            builder = builder.api_key(api_key);
        }
        if !self.admin_key.is_empty() {
            builder = builder.admin_key(self.admin_key.as_str());
        }
        builder
    }

    /// A plain caller with the first application's key.
    #[must_use]
    pub fn caller(&self) -> Caller {
        Caller::app(&self.origin.borrow(), &self.api_key)
    }

    /// A plain caller with another key of the application.
    #[must_use]
    pub fn caller_with(&self, key: &str) -> Caller {
        Caller::app(&self.origin.borrow(), key)
    }

    /// A plain caller with the admin key.
    #[must_use]
    pub fn admin(&self) -> Caller {
        Caller::admin(&self.origin.borrow(), &self.admin_key)
    }

    /// Kills the server (SIGKILL). `credit` is the number of messages that the kill may repeat.
    ///
    /// # Errors
    /// When the process cannot be waited for.
    pub async fn kill(&mut self, credit: usize) -> Result<()> {
        self.running.take().context("the server runs")?.kill().await?;
        self.note_end(credit);
        Ok(())
    }

    /// Starts the server again and kills it after the time `after`, even if it has not finished its start.
    ///
    /// # Errors
    /// When the server ends before it is killed.
    pub async fn kill_at_start(&mut self, after: Duration, credit: usize) -> Result<()> {
        ensure!(self.running.is_none(), "the server runs");
        self.launch.kill_after(after).await?;
        self.note_end(credit);
        Ok(())
    }

    /// Starts the server with other settings, which make it end during its start.
    ///
    /// # Errors
    /// When the server does not end in time.
    pub async fn ended_at_start(&mut self, launch: &Launch, credit: usize) -> Result<ExitStatus> {
        ensure!(self.running.is_none(), "the server runs");
        let (status, _) = launch.answered().await?;
        self.note_end(credit);
        Ok(status)
    }

    /// Waits until the server ends without a signal, as a `dying-server` does.
    ///
    /// # Errors
    /// When the server does not end in time.
    pub async fn ended(&mut self, credit: usize) -> Result<ExitStatus> {
        let status = self.running.take().context("the server runs")?.ended().await?;
        self.note_end(credit);
        Ok(status)
    }

    /// Stops the server cleanly (SIGTERM), which may not repeat any message. Returns the time that the stop
    /// took.
    ///
    /// # Errors
    /// When the server does not end cleanly, or not within 30 s.
    pub async fn stop(&mut self) -> Result<Duration> {
        let running = self.running.take().context("the server runs")?;
        let signaled = std::time::Instant::now();
        let status = running.terminate().await?;
        let took = signaled.elapsed();
        ensure!(status.code() == Some(0), "it ended with {status}");
        ensure!(took <= STOP_MAX, "it took {took:?} to stop");
        self.note_end(0);
        Ok(took)
    }

    fn note_end(&mut self, repeats_max: usize) {
        let last_connection = self.sandbox.counts().connections;
        self.ended.push(EndedProcess { last_connection, repeats_max });
    }

    /// Starts the server again on the same folder.
    ///
    /// # Errors
    /// When the server does not start.
    pub async fn start_again(&mut self) -> Result<()> {
        let launch = self.launch.clone();
        self.start_again_as(&launch).await
    }

    /// Starts the server again with other settings.
    ///
    /// # Errors
    /// When the server does not start.
    pub async fn start_again_as(&mut self, launch: &Launch) -> Result<()> {
        let ended = self.begin_again_as(launch, 0).await?;
        ensure!(ended.is_none(), "the server ended before it listened: {ended:?}");
        Ok(())
    }

    /// Starts the server again with settings that may make it end before it listens. Returns the exit status
    /// if it ended. `credit` is the number of messages that this end may repeat.
    ///
    /// # Errors
    /// When the server neither listens nor ends in time.
    pub async fn begin_again_as(
        &mut self,
        launch: &Launch,
        credit: usize,
    ) -> Result<Option<ExitStatus>> {
        ensure!(self.running.is_none(), "the server runs");
        let running = match launch.begin().await? {
            Ok(running) => running,
            Err(status) => {
                self.note_end(credit);
                return Ok(Some(status));
            }
        };
        ensure!(running.api_key.is_none(), "the keys are made once");
        self.origin.send_replace(running.origin.clone());
        self.running = Some(running);
        Ok(None)
    }

    /// The messages that the sandbox received.
    ///
    /// # Errors
    /// When the sandbox's log has dropped a message.
    pub fn arrivals(&self) -> Result<Vec<Arrival>> {
        ensure!(self.sandbox.counts().dropped == 0, "the sandbox's log has dropped messages");
        Ok(self.sandbox.received().iter().map(Arrival::of).collect())
    }
}
