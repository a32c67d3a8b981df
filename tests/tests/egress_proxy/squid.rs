//! A squid on this machine that wants credentials, and the hosts that only it knows.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};
use notify_tests::{system_program, until};
use tempfile::TempDir;
use tokio::net::TcpStream;

/// User and password, as in a url. The password contains characters with a meaning in urls.
pub(crate) const CREDENTIALS: &str = "ada:p%40ss%3Aword";
/// User and password as they are sent (RFC 7617), which must never be shown.
pub(crate) const BASIC: &str = "YWRhOnBAc3M6d29yZA==";
/// The password as it must never be shown.
pub(crate) const PASSWORD: &str = "p@ss:word";
/// A host that the rules of the proxy forbid.
pub(crate) const FORBIDDEN: &str = "forbidden.sandbox.test";

/// Checks `user password` lines (squid's interface of Basic helpers). Squid may escape the password.
const HELPER: &str = r#"
while read -r line; do
  case $line in
    "ada p@ss:word" | "ada p%40ss%3Aword") echo OK ;;
    *) echo ERR ;;
  esac
done
"#;

/// How often it is started if another program takes its port.
const STARTS_MAX: usize = 3;

/// A running proxy.
pub(crate) struct Squid {
    child: Child,
    folder: TempDir,
    pub(crate) port: u16,
}

impl Squid {
    /// Starts a proxy that resolves these names to this machine.
    pub(crate) async fn start(names: &[&str]) -> Result<Self> {
        let mut log = String::new();
        for _ in 0..STARTS_MAX {
            let mut squid = Self::spawn(names)?;
            let started = until("squid listens", async || {
                if squid.child.try_wait()?.is_some() {
                    return Ok(Some(false));
                }
                let is_open = TcpStream::connect(("127.0.0.1", squid.port)).await.is_ok();
                Ok(is_open.then_some(true))
            });
            if started.await? {
                return Ok(squid);
            }
            log = squid.read("cache.log");
        }
        bail!("squid does not start: {log}")
    }

    fn spawn(names: &[&str]) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        // If it is started as root, it becomes another user before it writes its log.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777))?;
        let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let hosts = names.iter().chain([&FORBIDDEN]).fold(String::new(), |mut hosts, name| {
            let _ = writeln!(hosts, "127.0.0.1 {name}");
            hosts
        });
        fs::write(folder.path().join("hosts"), hosts)?;
        fs::write(folder.path().join("helper"), HELPER)?;
        let configuration = folder.path().join("squid.conf");
        fs::write(&configuration, configure(folder.path(), port))?;
        let child = Command::new(system_program("squid"))
            .args(["-N", "-f"])
            .arg(&configuration)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("squid must be installed")?;
        Ok(Self { child, folder, port })
    }

    /// The url with these credentials, such as `user:password@`.
    pub(crate) fn url(&self, credentials: &str) -> String {
        format!("http://{credentials}@127.0.0.1:{}", self.port)
    }

    /// The targets of the connections that were requested, each with the status of the proxy's answer, such as
    /// `200 fcm.example:443`. The line of a connection is written when it ends.
    pub(crate) fn requests(&self) -> Vec<String> {
        let log = self.read("access.log");
        // The connection that waited for the start has made no request.
        let lines = log.lines().filter(|line| !line.contains("error:"));
        lines.map(str::to_owned).collect()
    }

    /// Ends the proxy and its connections.
    pub(crate) fn stop(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.folder.path().join(name)).unwrap_or_default()
    }
}

impl Drop for Squid {
    fn drop(&mut self) {
        let _ = self.stop();
    }
}

fn configure(folder: &Path, port: u16) -> String {
    let folder = folder.display();
    format!(
        "http_port 127.0.0.1:{port}
hosts_file {folder}/hosts
# No name is looked up elsewhere.
dns_nameservers 127.0.0.1
dns_timeout 1 second
pid_filename none
coredump_dir {folder}
cache_log {folder}/cache.log
logformat short %>Hs %ru
access_log stdio:{folder}/access.log logformat=short
buffered_logs off
cache_mem 8 MB
pinger_enable off
visible_hostname localhost
shutdown_lifetime 0 seconds
auth_param basic program /bin/sh {folder}/helper
auth_param basic children 1 startup=1
acl known proxy_auth REQUIRED
acl forbidden dstdomain {FORBIDDEN}
acl CONNECT method CONNECT
http_access deny !known
http_access deny forbidden
http_access allow CONNECT
http_access deny all
"
    )
}
