//! The `notify` command as users run it: a process with its settings in the environment.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use crate::{WAIT_MAX, binary};

/// The command with an address and keys. It does not inherit the environment of the test, so it never sees
/// the developer's own settings.
#[derive(Debug, Clone)]
pub struct Notify {
    binary: PathBuf,
    environment: Vec<(&'static str, String)>,
}

/// The result of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// The exit status; `None` when a signal ended the command.
    pub status: Option<i32>,
    /// The standard output, which has the result.
    pub stdout: String,
    /// The standard error, which has the errors, one per line.
    pub stderr: String,
}

impl Notify {
    /// The command for a server.
    ///
    /// # Errors
    /// When the command is not built.
    pub fn new(origin: &str, api_key: &str, admin_key: &str) -> Result<Self> {
        let environment = vec![
            ("NOTIFY_URL", origin.to_owned()),
            ("NOTIFY_API_KEY", api_key.to_owned()),
            ("NOTIFY_ADMIN_KEY", admin_key.to_owned()),
        ];
        Ok(Self { binary: binary("notify")?, environment })
    }

    /// Changes an environment variable of the command.
    #[must_use]
    pub fn with(mut self, variable: &'static str, value: &str) -> Self {
        self.environment.retain(|(name, _)| *name != variable);
        self.environment.push((variable, value.to_owned()));
        self
    }

    fn command(&self, home: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.binary);
        command
            .args(arguments)
            .env_clear()
            .env("HOME", home)
            .envs(self.environment.iter().map(|(name, value)| (*name, value)))
            .stdin(Stdio::null())
            .kill_on_drop(true);
        command
    }

    /// Starts a command that runs until it is interrupted.
    ///
    /// # Errors
    /// When the command does not start.
    pub fn follow(&self, arguments: &[&str]) -> Result<Following> {
        let home = tempfile::tempdir()?;
        let mut child = self.command(home.path(), arguments).stdout(Stdio::piped()).spawn()?;
        let lines = BufReader::new(child.stdout.take().context("stdout is piped")?).lines();
        Ok(Following { child, lines, _home: home })
    }

    /// Runs a command to its end.
    ///
    /// # Errors
    /// When the command does not start or does not end in time.
    pub async fn run(&self, arguments: &[&str]) -> Result<Output> {
        let home = tempfile::tempdir()?;
        let running = self.command(home.path(), arguments).output();
        let output = tokio::time::timeout(WAIT_MAX, running)
            .await
            .context("notify did not end in time")??;
        Ok(Output {
            status: output.status.code(),
            stdout: String::from_utf8(output.stdout)?,
            stderr: String::from_utf8(output.stderr)?,
        })
    }

    /// Runs a command that must succeed, and parses its result as JSON.
    ///
    /// # Errors
    /// When the command fails or its result is not JSON.
    pub async fn json(&self, arguments: &[&str]) -> Result<Value> {
        let output = self.run(arguments).await?;
        anyhow::ensure!(output.status == Some(0), "notify {arguments:?}: {output:?}");
        serde_json::from_str(&output.stdout).with_context(|| output.stdout.clone())
    }
}

/// A command that runs until it is interrupted, such as `notify tail`.
pub struct Following {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    _home: tempfile::TempDir,
}

impl Following {
    /// The next line of its output; `None` when the command has ended.
    ///
    /// # Errors
    /// When no line arrives in time.
    pub async fn line(&mut self) -> Result<Option<String>> {
        let line = tokio::time::timeout(WAIT_MAX, self.lines.next_line()).await;
        Ok(line.context("no line arrived in time")??)
    }

    /// Interrupts the command as Ctrl-C does (SIGINT), waits until it has ended, and returns its exit
    /// status.
    ///
    /// # Errors
    /// When the command does not end in time.
    pub async fn interrupt(mut self) -> Result<Option<i32>> {
        let process = self.child.id().context("it runs")?.to_string();
        let status = Command::new("kill").args(["-INT", &process]).status().await?;
        anyhow::ensure!(status.success(), "kill -INT failed");
        let ended = tokio::time::timeout(WAIT_MAX, self.child.wait()).await;
        Ok(ended.context("the command did not end in time")??.code())
    }
}
