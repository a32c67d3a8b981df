//! The processes beside this one, spoken with by lines. Each ends with this process.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use crate::proc::{Cost, cpu_us};

/// How long a child may take to end after it was asked to.
const STOP_TIMEOUT: Duration = Duration::from_secs(60);

/// A child that is spoken with by lines.
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

    pub(crate) fn tell(&mut self, line: &str) -> anyhow::Result<()> {
        let input = self.input.as_mut().context("the input is open")?;
        writeln!(input, "{line}")?;
        Ok(input.flush()?)
    }

    pub(crate) fn hear(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        if self.output.read_line(&mut line)? == 0 {
            bail!("the process ended: {}", self.child.wait()?);
        }
        Ok(line.trim_end().to_owned())
    }

    /// Has a child that is ready do its work (see [`perform`]): its CPU from then until it is done.
    pub(crate) fn measure(&mut self, count: u64) -> anyhow::Result<Cost> {
        let cpu_before = cpu_us(self.id())?;
        self.tell("go")?;
        let wall = Duration::from_micros(self.hear()?.parse()?);
        Ok(Cost { count, wall, cpu_us: cpu_us(self.id())? - cpu_before })
    }

    /// Asks it to end, and waits.
    pub(crate) fn stop(mut self) -> anyhow::Result<()> {
        Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status()?;
        let until = Instant::now() + STOP_TIMEOUT;
        while self.child.try_wait()?.is_none() {
            if Instant::now() > until {
                bail!("a process did not end");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A program of our own as a child that reads its orders from one line, ready to work.
pub(crate) fn ordered(what: &str, orders: &impl serde::Serialize) -> anyhow::Result<Process> {
    let mut command = Command::new(std::env::current_exe()?);
    let mut child = Process::start(command.arg(what))?;
    child.tell(&serde_json::to_string(orders)?)?;
    child.hear()?;
    Ok(child)
}

/// The child's side: the orders.
pub(crate) fn orders<Orders: serde::de::DeserializeOwned>() -> anyhow::Result<Orders> {
    Ok(serde_json::from_str(&told()?)?)
}

/// The child's side of [`Process::measure`]: says that it is ready, works when it is told to, and
/// says how many microseconds it took.
pub(crate) async fn perform(work: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    crate::table::say("ready");
    told()?;
    let started = Instant::now();
    work.await?;
    crate::table::say(&started.elapsed().as_micros().to_string());
    // The parent looks at us once more, then closes the input.
    told().map(drop)
}

fn told() -> anyhow::Result<String> {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    Ok(line)
}
