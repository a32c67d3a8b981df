//! Peers from npm, installed on first use. If one cannot be installed, its row shows the reason instead of
//! a figure.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::Process;
use crate::table::print_line;

/// The scripts and what they need.
pub(crate) struct Peers(Result<PathBuf, String>);

impl Peers {
    /// Installs them if they are needed and not yet installed.
    pub(crate) fn find(wanted: bool) -> Self {
        if !wanted {
            return Self(Err("not requested".to_owned()));
        }
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers");
        // npm writes this file last.
        let is_there = folder.join("node_modules/.package-lock.json").exists();
        Self(if is_there { Ok(folder) } else { install(folder) })
    }

    /// Why they are not available.
    pub(crate) fn missing(&self) -> Option<&str> {
        self.0.as_ref().err().map(String::as_str)
    }

    /// Starts a peer with its parameters and waits until it is ready; the inner error is why it is not
    /// available.
    pub(crate) fn start(
        &self,
        script: &str,
        parameters: &impl serde::Serialize,
    ) -> anyhow::Result<Result<Process, String>> {
        let folder = match &self.0 {
            Ok(folder) => folder,
            Err(reason) => return Ok(Err(reason.clone())),
        };
        let mut command = Command::new("node");
        let mut peer = Process::start(command.arg(script).current_dir(folder))?;
        peer.send_line(&serde_json::to_string(parameters)?)?;
        peer.read_line()?;
        Ok(Ok(peer))
    }
}

/// Installs exactly what the lock file names, without running install scripts.
fn install(folder: PathBuf) -> Result<PathBuf, String> {
    print_line("installing the peers from npm");
    let mut npm = Command::new("npm");
    npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"]);
    match npm.current_dir(&folder).status() {
        Ok(status) if status.success() => Ok(folder),
        Ok(status) => Err(format!("npm ci ended with {status}")),
        Err(error) => Err(format!("no npm: {error}")),
    }
}
