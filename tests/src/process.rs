//! A server in a separate process, which a test can kill.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::{Backend, Caller, Settings, WAIT_MAX, binary};

/// The path of a program of the system. Debian puts some of them where only root looks.
#[must_use]
pub fn system_program(name: &str) -> PathBuf {
    let system = Path::new("/usr/sbin").join(name);
    if system.is_file() { system } else { name.into() }
}

/// The settings with which a server process is started.
#[derive(Debug, Clone)]
pub struct Launch {
    data_dir: PathBuf,
    program: &'static str,
    /// A command that replaces itself by the command after it (`exec`).
    wrapper: Vec<String>,
    arguments: Vec<String>,
    variables: Vec<(&'static str, String)>,
    installation: Option<Settings>,
    log_filter: String,
    log_file: Option<PathBuf>,
}

impl Launch {
    /// A server on this data folder, which logs only errors.
    #[must_use]
    pub fn on(data_dir: &Path) -> Self {
        Self {
            data_dir: data_dir.to_owned(),
            program: "notify-server",
            wrapper: Vec::new(),
            arguments: Vec::new(),
            variables: Vec::new(),
            installation: Settings::of(Backend::chosen(), data_dir),
            log_filter: "error".to_owned(),
            log_file: None,
        }
    }

    /// The data folder.
    #[must_use]
    pub fn data_dir(&self) -> &Path {
        &self.data_dir
    }

    /// Starts another binary in place of `notify-server`.
    #[must_use]
    pub fn program(mut self, name: &'static str) -> Self {
        self.program = name;
        self
    }

    /// Starts the server through a command that replaces itself by the command after it (`exec`). The
    /// server then has the process id of the wrapper.
    #[must_use]
    pub fn within<'a>(mut self, wrapper: impl IntoIterator<Item = &'a str>) -> Self {
        self.wrapper = wrapper.into_iter().map(str::to_owned).collect();
        self
    }

    /// Adds a variable to the environment.
    #[must_use]
    pub fn variable(mut self, name: &'static str, value: &str) -> Self {
        self.variables.push((name, value.to_owned()));
        self
    }

    /// Uses a PostgreSQL database, even if `NOTIFY_TEST_BACKEND` selects SQLite.
    #[must_use]
    pub fn installation(mut self, settings: &Settings) -> Self {
        self.installation = Some(settings.clone());
        self
    }

    /// Uses SQLite, even if `NOTIFY_TEST_BACKEND` selects PostgreSQL.
    #[must_use]
    pub fn on_file(mut self) -> Self {
        self.installation = None;
        self
    }

    /// Adds an argument.
    #[must_use]
    pub fn argument(mut self, argument: &str) -> Self {
        self.arguments.push(argument.to_owned());
        self
    }

    /// Appends the log to a file, with this filter.
    #[must_use]
    pub fn log(mut self, filter: &str, file: &Path) -> Self {
        filter.clone_into(&mut self.log_filter);
        self.log_file = Some(file.to_owned());
        self
    }

    fn spawn(&self, stderr: Stdio) -> Result<Child> {
        let program = binary(self.program)?;
        let mut command = match self.wrapper.split_first() {
            None => Command::new(program),
            Some((wrapper, arguments)) => {
                let mut command = Command::new(wrapper);
                command.args(arguments).arg(program);
                command
            }
        };
        if let Some(installation) = &self.installation {
            command.env("NOTIFY_DATABASE_URL", &installation.database_url);
            command.env("NOTIFY_MASTER_KEY", &installation.master_key);
        }
        let child = command
            .arg("--data-dir")
            .arg(&self.data_dir)
            .args(["--listen", "127.0.0.1:0"])
            .args(&self.arguments)
            .env("NOTIFY_LOG", &self.log_filter)
            // The memory of a server depends on its number of threads, so all machines use the same number.
            .env("TOKIO_WORKER_THREADS", "2")
            .envs(self.variables.iter().map(|(name, value)| (*name, value)))
            .stdout(Stdio::piped())
            .stderr(stderr)
            .kill_on_drop(true)
            .spawn()?;
        Ok(child)
    }

    /// Starts the server and waits until it listens.
    ///
    /// # Errors
    /// When the server ends, or does not listen in time.
    pub async fn start(&self) -> Result<ServerProcess> {
        match self.begin().await? {
            Ok(running) => Ok(running),
            Err(status) => bail!("the server ended before it listened: {status}"),
        }
    }

    /// Starts the server and waits until it listens or has ended. The inner error is the exit status of a
    /// server that ended before it listened.
    ///
    /// # Errors
    /// When the server neither listens nor ends in time.
    pub async fn begin(&self) -> Result<Result<ServerProcess, ExitStatus>> {
        let stderr = match &self.log_file {
            Some(path) => File::options().create(true).append(true).open(path)?.into(),
            None => Stdio::inherit(),
        };
        let mut child = self.spawn(stderr)?;
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
                    return anyhow::Ok(Some(origin.to_owned()));
                }
            }
            Ok(None)
        };
        let origin = tokio::time::timeout(WAIT_MAX, reading).await.context("not in time")??;
        let Some(origin) = origin else { return Ok(Err(child.wait().await?)) };
        Ok(Ok(ServerProcess { origin, api_key, admin_key, child }))
    }

    /// Starts the server and kills it as soon as it listens, if it has not ended before. Returns the admin
    /// key, if the server printed one, and whether the server listened.
    ///
    /// # Errors
    /// When the server neither listens nor ends in time.
    pub async fn kill_when_listening(&self) -> Result<(Option<String>, bool)> {
        let mut child = self.spawn(Stdio::inherit())?;
        let stdout = child.stdout.take().context("stdout is piped")?;
        let mut lines = BufReader::new(stdout).lines();
        let reading = async {
            let (mut admin_key, mut listened) = (None, false);
            while !listened && let Some(line) = lines.next_line().await? {
                listened = line.starts_with("listening on ");
                admin_key = line.strip_prefix("admin key: ").map(str::to_owned).or(admin_key);
            }
            anyhow::Ok((admin_key, listened))
        };
        let printed = tokio::time::timeout(WAIT_MAX, reading).await.context("not in time")??;
        // An error means that the process has already ended.
        let _ = child.start_kill();
        child.wait().await?;
        Ok(printed)
    }

    /// Starts the server and kills it (SIGKILL) after the time `after`, even if it has not finished its
    /// start.
    ///
    /// # Errors
    /// When the server cannot be started, or ends before it is killed.
    pub async fn kill_after(&self, after: Duration) -> Result<()> {
        let mut child = self.spawn(Stdio::inherit())?;
        if let Ok(status) = tokio::time::timeout(after, child.wait()).await {
            bail!("the server ended before it was killed: {}", status?);
        }
        child.kill().await?;
        Ok(())
    }

    /// Runs the server to its end: it refuses to start, or an argument is a subcommand. Returns the exit
    /// status and the standard error.
    ///
    /// # Errors
    /// When the server does not end in time.
    pub async fn ended(&self) -> Result<(ExitStatus, String)> {
        let ending = self.spawn(Stdio::piped())?.wait_with_output();
        let output = tokio::time::timeout(WAIT_MAX, ending)
            .await
            .context("the server did not end in time")??;
        Ok((output.status, String::from_utf8(output.stderr)?))
    }

    /// Like [`Self::ended`], but returns the standard output.
    ///
    /// # Errors
    /// When the server does not end in time.
    pub async fn answered(&self) -> Result<(ExitStatus, String)> {
        let ending = self.spawn(Stdio::inherit())?.wait_with_output();
        let output = tokio::time::timeout(WAIT_MAX, ending)
            .await
            .context("the server did not end in time")??;
        Ok((output.status, String::from_utf8(output.stdout)?))
    }
}

/// A running `notify-server` process.
pub struct ServerProcess {
    /// The origin of its API.
    pub origin: String,
    /// The API key, which only the first start prints.
    pub api_key: Option<String>,
    /// The admin key, which only the first start prints.
    pub admin_key: Option<String>,
    child: Child,
}

impl ServerProcess {
    /// Starts a server on a data folder.
    ///
    /// # Errors
    /// When it ends, or does not listen in time.
    pub async fn start(data_dir: &Path) -> Result<Self> {
        Launch::on(data_dir).start().await
    }

    /// A plain caller with the API key.
    ///
    /// # Panics
    /// When this was not the first start.
    #[must_use]
    pub fn caller(&self) -> Caller {
        Caller::app(&self.origin, self.api_key.as_deref().expect("this was the first start"))
    }

    /// A plain caller with the admin key.
    ///
    /// # Panics
    /// When this was not the first start.
    #[must_use]
    pub fn admin(&self) -> Caller {
        Caller::admin(&self.origin, self.admin_key.as_deref().expect("this was the first start"))
    }

    /// Kills the server (SIGKILL).
    ///
    /// # Errors
    /// When the process cannot be waited for.
    pub async fn kill(mut self) -> Result<()> {
        self.child.kill().await?;
        Ok(())
    }

    /// Sends SIGTERM and waits until the server has ended.
    ///
    /// # Errors
    /// When the server does not end in time.
    pub async fn terminate(self) -> Result<ExitStatus> {
        self.ask_to_stop().await?;
        self.ended().await
    }

    /// Sends SIGTERM and does not wait.
    ///
    /// # Errors
    /// When the signal cannot be sent.
    pub async fn ask_to_stop(&self) -> Result<()> {
        let process = self.id()?.to_string();
        let status = Command::new("kill").args(["-TERM", &process]).status().await?;
        ensure!(status.success(), "kill -TERM failed");
        Ok(())
    }

    /// Waits until the server has ended, for any reason.
    ///
    /// # Errors
    /// When the server does not end in time.
    pub async fn ended(mut self) -> Result<ExitStatus> {
        let ended = tokio::time::timeout(WAIT_MAX, self.child.wait()).await;
        Ok(ended.context("the server did not end in time")??)
    }

    /// The process id.
    ///
    /// # Errors
    /// When the server has ended.
    pub fn id(&self) -> Result<u32> {
        self.child.id().context("the process runs")
    }

    /// The peak memory of the process so far, in bytes.
    ///
    /// # Errors
    /// When the kernel does not report it.
    pub fn memory_peak(&self) -> Result<u64> {
        let process = self.id()?;
        let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib: u64 = line.context("VmHWM")?.trim().trim_end_matches(" kB").parse()?;
        Ok(kib * 1_024)
    }
}

/// Copies the database of a data folder to `file` with `notify-server backup`.
///
/// # Errors
/// When the command fails.
pub async fn back_up(data_dir: &Path, file: &Path) -> Result<()> {
    let mut command = Command::new(binary("notify-server")?);
    command.arg("--data-dir").arg(data_dir).arg("backup").arg(file).stdout(Stdio::null());
    let status = tokio::time::timeout(WAIT_MAX, command.kill_on_drop(true).status()).await;
    ensure!(status.context("the backup ends")??.success(), "the backup failed");
    Ok(())
}
