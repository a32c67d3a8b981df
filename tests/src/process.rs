//! A server as a process of its own, which a test can kill.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, bail};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::WAIT_MAX;

/// A running `notify-server` process.
pub struct ServerProcess {
    /// Where it serves.
    pub origin: String,
    /// The API key, when this was the first start.
    pub api_key: Option<String>,
    /// The admin key, when this was the first start.
    pub admin_key: Option<String>,
    child: Child,
}

impl ServerProcess {
    /// Starts the built binary on a data folder and waits until it listens.
    ///
    /// # Errors
    /// When it ends, or does not listen in time.
    pub async fn start(data_dir: &Path) -> Result<Self> {
        let mut child = Command::new(binary("notify-server")?)
            .arg("--data-dir")
            .arg(data_dir)
            .args(["--listen", "127.0.0.1:0"])
            .env("NOTIFY_LOG", "error")
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let stdout = child.stdout.take().context("stdout is piped")?;
        let mut lines = BufReader::new(stdout).lines();
        let (mut api_key, mut admin_key) = (None, None);
        let reading = async {
            while let Some(line) = lines.next_line().await? {
                if let Some(key) = line.strip_prefix("api key: ") {
                    api_key = Some(key.to_owned());
                } else if let Some(key) = line.strip_prefix("admin key: ") {
                    admin_key = Some(key.to_owned());
                } else if let Some(origin) = line.strip_prefix("listening on ") {
                    return Ok(origin.to_owned());
                }
            }
            bail!("the server ended before it listened")
        };
        let origin = tokio::time::timeout(WAIT_MAX, reading).await.context("not in time")??;
        Ok(Self { origin, api_key, admin_key, child })
    }

    /// Kills it where it stands (SIGKILL).
    ///
    /// # Errors
    /// When the process cannot be waited for.
    pub async fn kill(mut self) -> Result<()> {
        self.child.kill().await?;
        Ok(())
    }
}

/// The binary of that name, built beside this test.
///
/// # Errors
/// When it is not there: `cargo build --workspace --bins` makes it.
fn binary(name: &str) -> Result<PathBuf> {
    let here = std::env::current_exe()?;
    let found = here.ancestors().skip(1).take(3).map(|folder| folder.join(name));
    let found = found.into_iter().find(|path| path.is_file());
    found.with_context(|| format!("{name} is not built: run `cargo build --workspace --bins`"))
}
