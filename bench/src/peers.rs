//! Peers from npm, which are installed on first use. If they cannot be installed, their lines of the table
//! show the reason instead of a figure.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::Process;
use crate::table::print_line;

/// The folder with the peers' scripts and packages, or the reason why the peers are not available.
pub(crate) struct Peers(Result<PathBuf, String>);

impl Peers {
    /// Installs the peers if they are requested and not yet installed.
    pub(crate) fn find(is_requested: bool) -> Self {
        if !is_requested {
            return Self(Err("not requested".to_owned()));
        }
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers");
        // npm writes this file last, so it marks a complete installation.
        let is_installed = folder.join("node_modules/.package-lock.json").exists();
        Self(if is_installed { Ok(folder) } else { install(folder) })
    }

    /// The reason why the peers are not available, if they are not.
    pub(crate) fn missing(&self) -> Option<&str> {
        self.0.as_ref().err().map(String::as_str)
    }

    /// Starts a peer with its parameters and waits until it is ready. The inner error is the reason why the
    /// peers are not available.
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

/// Installs the packages of the lock file without running their install scripts.
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
