//! Peers from npm: installed when they are first wanted. One that cannot be is told of in its row,
//! in the place of a figure.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::Process;
use crate::table::say;

/// The scripts and what they need.
pub(crate) struct Peers(Result<PathBuf, String>);

impl Peers {
    /// Installs them, unless they are there or not wanted.
    pub(crate) fn find(wanted: bool) -> Self {
        if !wanted {
            return Self(Err("not wanted".to_owned()));
        }
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers");
        // npm writes this file last.
        let is_there = folder.join("node_modules/.package-lock.json").exists();
        Self(if is_there { Ok(folder) } else { install(folder) })
    }

    /// Why there are none.
    pub(crate) fn missing(&self) -> Option<&str> {
        self.0.as_ref().err().map(String::as_str)
    }

    /// A peer that has its orders and is ready, or why there is none.
    pub(crate) fn start(
        &self,
        script: &str,
        orders: &impl serde::Serialize,
    ) -> anyhow::Result<Result<Process, String>> {
        let folder = match &self.0 {
            Ok(folder) => folder,
            Err(reason) => return Ok(Err(reason.clone())),
        };
        let mut command = Command::new("node");
        let mut peer = Process::start(command.arg(script).current_dir(folder))?;
        peer.tell(&serde_json::to_string(orders)?)?;
        peer.hear()?;
        Ok(Ok(peer))
    }
}

/// Nothing but what the lock file names, and none of their scripts is run.
fn install(folder: PathBuf) -> Result<PathBuf, String> {
    say("installing the peers from npm");
    let mut npm = Command::new("npm");
    npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"]);
    match npm.current_dir(&folder).status() {
        Ok(status) if status.success() => Ok(folder),
        Ok(status) => Err(format!("npm ci ended with {status}")),
        Err(error) => Err(format!("no npm: {error}")),
    }
}
