//! A failing disk. `strace` makes system calls of a running process fail.

use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::WAIT_MAX;

/// A fault, which lasts until [`Self::end`] or until it is dropped.
pub struct DiskFault {
    tracer: Child,
}

impl DiskFault {
    /// Makes system calls of a process fail. With `fdatasync` and `error=EIO:when=1+3`, in each thread the
    /// first call of `fdatasync` and every third call after it fail.
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
        // strace reports every new thread. If nobody read its output, a full pipe would block strace.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Ok(Self { tracer })
    }

    /// Ends the fault. Returns when the process runs without it.
    ///
    /// # Errors
    /// When strace, and with it the fault, ended earlier, or when strace does not end in time.
    pub async fn end(mut self) -> Result<()> {
        ensure!(self.tracer.try_wait()?.is_none(), "strace ended before the fault did");
        let tracer = self.tracer.id().context("the tracer runs")?.to_string();
        let status = Command::new("kill").args(["-INT", &tracer]).status().await?;
        ensure!(status.success(), "kill -INT failed");
        tokio::time::timeout(WAIT_MAX, self.tracer.wait()).await.context("strace ends")??;
        Ok(())
    }
}
