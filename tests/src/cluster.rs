//! A PostgreSQL server that a test kills, stops and starts, or makes a standby of another server. It flushes
//! to disk, which the server that tests share does not. Dropping it deletes its data.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use notify_server::store::postgres::testing::{as_ordinary_user, free_port, programs};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// The longest time that one command may take. The slowest commands are a start after a crash and the copy
/// of another server.
const COMMAND_WAIT: Duration = Duration::from_secs(60);
/// A shell script that reads commands, one per line, and answers each with a line. Its input ends when this
/// process ends, also when the process is killed. The script then kills the server and deletes its folder.
/// Its arguments are the folder, the folder of PostgreSQL's programs and the port.
const SCRIPT: &str = r#"
data="$1/data"
port="$3"
PATH="$2:$PATH"
postmaster() { sed -n 1p "$data/postmaster.pid"; }
all_pids() { pid=$(postmaster) && echo "$pid" $(cat "/proc/$pid/task/$pid/children"); }
end() {
    pids=$(all_pids 2>/dev/null) && kill -KILL $pids
    rm -rf "$1"
}
trap 'end "$1"' EXIT
run() {
    pg_ctl -D "$data" -w -t 50 -l "$1/log" \
        -o "-p $port -c unix_socket_directories= -c listen_addresses=127.0.0.1 -c max_connections=100
            -c wal_receiver_status_interval=1 -c wal_retrieve_retry_interval=200ms" start
}
while read -r command of; do
    case "$command" in
        make) initdb --no-sync -D "$data" -U postgres -A trust -E UTF8 --locale=C && run "$1" ;;
        follow)
            rm -rf "$data" &&
            pg_basebackup --no-sync -D "$data" -h 127.0.0.1 -p "$of" -U postgres -R -X stream -c fast &&
            run "$1" ;;
        start)
            # Child processes survive a killed postmaster for a moment. Until they end, no server can start.
            for _ in $(seq 100); do
                run "$1" && break
                sleep 0.1
            done
            pg_ctl -D "$data" status ;;
        stop) pg_ctl -D "$data" -w -m "$of" stop ;;
        kill) kill -KILL "$(postmaster)" ;;
        freeze)
            # First the postmaster: it could start a process that the list of processes does not have.
            kill -STOP "$(postmaster)" && if [ "$of" = all ]; then kill -STOP $(all_pids); fi ;;
        thaw) kill -CONT $(all_pids) ;;
        promote) pg_ctl -D "$data" -w promote ;;
        query) psql -h 127.0.0.1 -p "$port" -U postgres -d postgres -v ON_ERROR_STOP=1 -Atc "$of" >"$1/answer" ;;
    esac >>"$1/output" 2>&1 </dev/null && echo done || echo failed
done
"#;

/// How a server is stopped without killing it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopMode {
    /// Closes the sessions and writes all data.
    Fast,
    /// Ends at once, as in a crash. The next start recovers.
    Immediate,
}

/// The processes that are frozen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frozen {
    /// The process that accepts new connections.
    Postmaster,
    /// Every process of the server.
    All,
}

/// A PostgreSQL server.
pub struct Cluster {
    folder: TempDir,
    port: u16,
    commands: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
    _keeper: Child,
}

impl Cluster {
    /// Creates a server and starts it.
    ///
    /// # Errors
    /// When PostgreSQL is not installed or does not start.
    pub async fn make() -> Result<Self> {
        let mut cluster = Self::keep()?;
        cluster.run_command("make").await?;
        Ok(cluster)
    }

    /// Creates a standby of `primary` and starts it.
    ///
    /// # Errors
    /// When `primary` cannot be copied.
    pub async fn standby_of(primary: &Self) -> Result<Self> {
        let mut cluster = Self::keep()?;
        cluster.follow(primary).await?;
        Ok(cluster)
    }

    fn keep() -> Result<Self> {
        let (folder, port) = (tempfile::tempdir()?, free_port());
        let mut keeper = std::process::Command::new("sh");
        keeper.arg("-c").arg(SCRIPT).arg("sh").arg(folder.path()).arg(programs());
        keeper.arg(port.to_string()).current_dir("/");
        as_ordinary_user(&mut keeper, &[folder.path()]);
        let mut keeper = Command::from(keeper);
        keeper.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut keeper = keeper.spawn().context("there is a shell")?;
        let commands = keeper.stdin.take().context("it is piped")?;
        let answers = BufReader::new(keeper.stdout.take().context("it is piped")?).lines();
        Ok(Self { folder, port, commands, answers, _keeper: keeper })
    }

    async fn run_command(&mut self, command: &str) -> Result<()> {
        self.commands.write_all(format!("{command}\n").as_bytes()).await?;
        let answer = tokio::time::timeout(COMMAND_WAIT, self.answers.next_line()).await;
        match answer.with_context(|| format!("{command}: not in time"))??.as_deref() {
            Some("done") => Ok(()),
            Some(_) | None => {
                let output = std::fs::read_to_string(self.folder.path().join("output"));
                bail!("{command}: {}", output.unwrap_or_default())
            }
        }
    }

    /// The loopback port on which the server listens.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Stops the server and waits until it has stopped.
    ///
    /// # Errors
    /// When the server does not run.
    pub async fn stop(&mut self, mode: StopMode) -> Result<()> {
        self.run_command(match mode {
            StopMode::Fast => "stop fast",
            StopMode::Immediate => "stop immediate",
        })
        .await
    }

    /// Kills the postmaster (SIGKILL). The other processes then end.
    ///
    /// # Errors
    /// When the server does not run.
    pub async fn kill(&mut self) -> Result<()> {
        self.run_command("kill").await
    }

    /// Starts the server again and waits until it accepts connections.
    ///
    /// # Errors
    /// When the server does not start.
    pub async fn start(&mut self) -> Result<()> {
        self.run_command("start").await
    }

    /// Suspends processes (SIGSTOP). The kernel still accepts connections and bytes for them.
    ///
    /// # Errors
    /// When the server does not run.
    pub async fn freeze(&mut self, what: Frozen) -> Result<()> {
        self.run_command(match what {
            Frozen::Postmaster => "freeze postmaster",
            Frozen::All => "freeze all",
        })
        .await
    }

    /// Resumes all processes.
    ///
    /// # Errors
    /// When the server does not run.
    pub async fn thaw(&mut self) -> Result<()> {
        self.run_command("thaw").await
    }

    /// Makes a standby the primary and waits until it accepts writes.
    ///
    /// # Errors
    /// When the server is not a standby.
    pub async fn promote(&mut self) -> Result<()> {
        self.run_command("promote").await
    }

    /// Makes a stopped server a standby of `primary`. Its data is replaced by a copy of the primary's.
    ///
    /// # Errors
    /// When `primary` cannot be copied.
    pub async fn follow(&mut self, primary: &Self) -> Result<()> {
        self.run_command(&format!("follow {}", primary.port)).await
    }

    /// Executes a statement without line breaks and returns its result as text.
    ///
    /// # Errors
    /// When the statement fails.
    pub async fn query(&mut self, sql: &str) -> Result<String> {
        self.run_command(&format!("query {sql}")).await?;
        Ok(std::fs::read_to_string(self.folder.path().join("answer"))?.trim().to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the server's port is open.
    async fn takes_connections(cluster: &Cluster) -> bool {
        tokio::net::TcpStream::connect(("127.0.0.1", cluster.port())).await.is_ok()
    }

    #[tokio::test]
    async fn a_restarted_server_and_a_promoted_standby_have_every_commit() -> Result<()> {
        let mut cluster = Cluster::make().await?;
        cluster.query("create table kept (n int)").await?;
        for (nth, mode) in
            [None, Some(StopMode::Immediate), Some(StopMode::Fast)].iter().enumerate()
        {
            cluster.query(&format!("insert into kept values ({nth})")).await?;
            match mode {
                None => cluster.kill().await?,
                Some(mode) => {
                    cluster.stop(*mode).await?;
                    anyhow::ensure!(!takes_connections(&cluster).await, "{mode:?}");
                }
            }
            cluster.start().await?;
            assert_eq!(cluster.query("select count(*) from kept").await?, (nth + 1).to_string());
        }
        let mut standby = Cluster::standby_of(&cluster).await?;
        assert_eq!(standby.query("select pg_is_in_recovery()").await?, "t");
        assert!(standby.query("insert into kept values (4)").await.is_err(), "it only reads");
        cluster.kill().await?;
        standby.promote().await?;
        standby.query("insert into kept values (4)").await?;
        assert_eq!(standby.query("select count(*) from kept").await?, "4");
        let (process, port) = (standby.query("show data_directory").await?, standby.port());
        drop(standby);
        let ended = async || {
            let refused = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_err();
            Ok((refused && !std::path::Path::new(&process).exists()).then_some(()))
        };
        crate::until("the server ends and its data is deleted", ended).await
    }
}
