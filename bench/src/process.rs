//! Child processes that are controlled by lines on standard input and output. Dropping a [`Process`] kills
//! it.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use crate::proc::{Cost, cpu_us};

/// How long a child may take to end after SIGTERM.
const STOP_TIMEOUT: Duration = Duration::from_secs(60);

/// A child process.
pub(crate) struct Process {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Process {
    pub(crate) fn start(command: &mut Command) -> anyhow::Result<Self> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().context("the output is a pipe")?);
        Ok(Self { child, input, output })
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn send_line(&mut self, line: &str) -> anyhow::Result<()> {
        let input = self.input.as_mut().context("the input is open")?;
        writeln!(input, "{line}")?;
        Ok(input.flush()?)
    }

    pub(crate) fn read_line(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        if self.output.read_line(&mut line)? == 0 {
            bail!("the process ended: {}", self.child.wait()?);
        }
        Ok(line.trim_end().to_owned())
    }

    /// Starts the work of a child that is ready (see [`run_measured`]). Returns the duration that the child
    /// reports and the CPU time that the work took.
    pub(crate) fn measure(&mut self, count: u64) -> anyhow::Result<Cost> {
        let cpu_before = cpu_us(self.id())?;
        self.send_line("go")?;
        let wall = Duration::from_micros(self.read_line()?.parse()?);
        Ok(Cost { count, wall, cpu_us: cpu_us(self.id())? - cpu_before })
    }

    /// Sends SIGTERM and waits until the process has ended. Fails after [`STOP_TIMEOUT`].
    pub(crate) fn stop(mut self) -> anyhow::Result<()> {
        Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status()?;
        let deadline = Instant::now() + STOP_TIMEOUT;
        while self.child.try_wait()?.is_none() {
            if Instant::now() > deadline {
                bail!("a process did not end");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // An error means that the process has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts this program as a child with a hidden subcommand, sends the parameters on one line, and waits
/// until the child is ready.
pub(crate) fn start_worker(
    subcommand: &str,
    parameters: &impl serde::Serialize,
) -> anyhow::Result<Process> {
    let mut command = Command::new(std::env::current_exe()?);
    let mut child = Process::start(command.arg(subcommand))?;
    child.send_line(&serde_json::to_string(parameters)?)?;
    child.read_line()?;
    Ok(child)
}

/// Runs in the child of [`start_worker`]: reads the parameters.
pub(crate) fn read_parameters<T: serde::de::DeserializeOwned>() -> anyhow::Result<T> {
    Ok(serde_json::from_str(&read_stdin_line()?)?)
}

/// Runs in the child of [`Process::measure`]: reports that the child is ready, waits for the start
/// signal, does the work and reports its duration in microseconds.
pub(crate) async fn run_measured(
    work: impl Future<Output = anyhow::Result<()>>,
) -> anyhow::Result<()> {
    crate::table::print_line("ready");
    read_stdin_line()?;
    let started = Instant::now();
    work.await?;
    crate::table::print_line(&started.elapsed().as_micros().to_string());
    // The parent reads our CPU time before it closes the input, so the child must not end earlier.
    read_stdin_line().map(drop)
}

fn read_stdin_line() -> anyhow::Result<String> {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    Ok(line)
}
