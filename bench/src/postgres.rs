//! A temporary PostgreSQL cluster on the measured disk, for a peer or for servers.

use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use tempfile::TempDir;

use crate::paths::Paths;
use crate::proc::{Usage, cpu_us, cpu_us_with_ended, written};

/// The user that runs PostgreSQL when the benchmark runs as root. PostgreSQL refuses to run as root.
const USER: &str = "postgres";

/// A running PostgreSQL server. Dropping it stops it.
pub(crate) struct Postgres {
    pg_ctl: PathBuf,
    data: PathBuf,
    port: u16,
    _folder: TempDir,
}

impl Postgres {
    /// Creates a cluster with default settings and starts it. The inner error is the reason why PostgreSQL is
    /// not available.
    pub(crate) fn start(paths: &Paths) -> anyhow::Result<Result<Self, String>> {
        let (Some(initdb), Some(pg_ctl)) = (program("initdb"), program("pg_ctl")) else {
            return Ok(Err("no PostgreSQL".to_owned()));
        };
        let folder = paths.folder()?;
        if is_root()? {
            // The other user must be able to enter the folders.
            for above in [paths.disk(), folder.path()] {
                std::fs::set_permissions(above, std::fs::Permissions::from_mode(0o755))?;
            }
            let status = Command::new("chown").arg(USER).arg(folder.path()).status()?;
            if !status.success() {
                return Ok(Err(format!("no user {USER} to run PostgreSQL")));
            }
        }
        let data = folder.path().join("data");
        let mut make = as_user(&initdb)?;
        make.args(["--auth=trust", "--username=postgres", "--pgdata"]).arg(&data);
        quiet(&mut make, "initdb")?;
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let options = format!("-h 127.0.0.1 -p {port} -k ''");
        let mut start = as_user(&pg_ctl)?;
        start.args(["start", "--wait", "--silent", "--options", &options, "--pgdata"]).arg(&data);
        start.arg("--log").arg(folder.path().join("log"));
        quiet(&mut start, "pg_ctl")?;
        Ok(Ok(Self { pg_ctl, data, port, _folder: folder }))
    }

    /// Runs a query that returns one value.
    pub(crate) fn query_value(&self, sql: &str) -> anyhow::Result<String> {
        let psql = program("psql").context("psql comes with PostgreSQL")?;
        let output = Command::new(psql).args(["-qAt", "-c", sql]).arg(self.url()).output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout)?.trim().to_owned())
    }

    /// Does the work that PostgreSQL would otherwise do during the next measurement. After a checkpoint, the log
    /// of each measurement has as many whole pages.
    pub(crate) fn settle(&self) -> anyhow::Result<()> {
        self.query_value("vacuum analyze")?;
        self.query_value("checkpoint")?;
        Ok(())
    }

    /// The CPU time and the bytes written to disk of all processes of PostgreSQL so far.
    pub(crate) fn usage(&self) -> anyhow::Result<Usage> {
        let file = std::fs::read_to_string(self.data.join("postmaster.pid"))?;
        let postmaster: u32 = file.lines().next().context("a process id")?.parse()?;
        let children =
            std::fs::read_to_string(format!("/proc/{postmaster}/task/{postmaster}/children"))?;
        let mut used =
            Usage { cpu_us: cpu_us_with_ended(postmaster)?, written: written(postmaster)? };
        for child in children.split_whitespace() {
            // A process that ends in the meantime is counted with its parent the next time.
            let Ok(child) = child.parse() else { continue };
            used.cpu_us += cpu_us(child).unwrap_or_default();
            used.written += written(child).unwrap_or_default();
        }
        Ok(used)
    }

    /// The URL for clients.
    pub(crate) fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        let stop = as_user(&self.pg_ctl).map(|mut stop| {
            stop.args(["stop", "--mode=immediate", "--silent", "--pgdata"]).arg(&self.data).status()
        });
        // Nothing can be done if PostgreSQL does not stop.
        drop(stop);
    }
}

/// The path of a program of PostgreSQL. It is searched on `PATH` and in Debian's folders.
fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let on_path = std::env::split_paths(&path).map(|folder| folder.join(name));
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let of_debian = versions.map(|version| version.path().join("bin").join(name));
    on_path.chain(of_debian).find(|program| program.is_file())
}

fn is_root() -> anyhow::Result<bool> {
    use std::os::unix::fs::MetadataExt;
    Ok(std::fs::metadata("/proc/self").context("a process of our own")?.uid() == 0)
}

fn as_user(program: &Path) -> anyhow::Result<Command> {
    if !is_root()? {
        return Ok(Command::new(program));
    }
    let mut command = Command::new("runuser");
    command.args(["-u", USER, "--"]).arg(program);
    // The user may not be allowed to enter the current folder.
    command.current_dir("/");
    Ok(command)
}

fn quiet(command: &mut Command, name: &str) -> anyhow::Result<()> {
    let done = command.stdout(std::process::Stdio::null()).status()?;
    ensure!(done.success(), "{name} ended with {done}");
    Ok(())
}
