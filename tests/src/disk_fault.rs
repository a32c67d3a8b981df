//! A failing disk: `strace` makes system calls of a running process fail.

use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::WAIT_MAX;

/// A fault that lasts until it is ended.
pub struct DiskFault {
    tracer: Child,
}

impl DiskFault {
    /// Makes system calls of a process fail, such as `fdatasync:error=EIO:when=1+3`: the first, and
    /// then every third of each thread.
    ///
    /// # Errors
    /// When the process cannot be traced.
    pub async fn begin(process: u32, calls: &str, fault: &str) -> Result<Self> {
        let mut tracer = Command::new("strace")
            .args(["--follow-forks", "--attach", &process.to_string()])
            .args(["--output", "/dev/null"])
            .args(["-e", &format!("trace={calls}"), "-e", &format!("inject={calls}:{fault}")])
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("strace is needed to make a disk fail")?;
        let stderr = tracer.stderr.take().context("stderr is piped")?;
        let mut lines = BufReader::new(stderr).lines();
        let line = tokio::time::timeout(WAIT_MAX, lines.next_line()).await.context("strace")??;
        let line = line.unwrap_or_default();
        ensure!(line.contains("attached"), "the process cannot be traced: {line}");
        // It reports every new thread; a full pipe would end it, and the fault with it.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Ok(Self { tracer })
    }

    /// Ends the fault, and returns when the process runs without it.
    ///
    /// # Errors
    /// When the tracer has ended before, and the fault with it, or does not end now.
    pub async fn end(mut self) -> Result<()> {
        ensure!(self.tracer.try_wait()?.is_none(), "strace ended before the fault did");
        let tracer = self.tracer.id().context("the tracer runs")?.to_string();
        let status = Command::new("kill").args(["-INT", &tracer]).status().await?;
        ensure!(status.success(), "kill -INT failed");
        tokio::time::timeout(WAIT_MAX, self.tracer.wait()).await.context("strace ends")??;
        Ok(())
    }
}
