//! The paths of a run: the binaries of the server and of the command next to this binary, and a folder on a
//! real disk for databases.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};
use tempfile::TempDir;

/// The paths of one run.
pub(crate) struct Paths {
    /// The binary of the measured server.
    pub(crate) server: PathBuf,
    /// The binary of the `notify` command.
    pub(crate) command: PathBuf,
    /// The folder of seeded databases. Each has a folder named by its number of devices.
    pub(crate) seeds: PathBuf,
    /// The folder of all other files, which is deleted at the end.
    scratch: TempDir,
}

impl Paths {
    /// Finds the binaries and builds them where necessary; see [`build`].
    pub(crate) fn find(seeds: Option<PathBuf>) -> anyhow::Result<Self> {
        let own = std::env::current_exe()?;
        let folder = own.parent().context("an executable has a folder")?;
        let find = |package, name: &str| {
            let binary = folder.join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
            build(folder, package, name, &binary)?;
            if !binary.exists() {
                bail!("{} is missing: build {package} first", binary.display());
            }
            Ok(binary)
        };
        let server = find("notify-push-server", "notify-server")?;
        let command = find("notify-push-cli", "notify")?;
        // The scratch folder lies in the build folder. `/tmp` may be in memory, where a flush costs nothing.
        let scratch = tempfile::Builder::new().prefix("notify-bench-").tempdir_in(folder)?;
        let seeds = seeds.unwrap_or_else(|| scratch.path().join("seeds"));
        std::fs::create_dir_all(&seeds)?;
        Ok(Self { server, command, seeds, scratch })
    }

    /// Creates an empty folder.
    pub(crate) fn folder(&self) -> anyhow::Result<TempDir> {
        Ok(tempfile::tempdir_in(self.scratch.path())?)
    }

    /// A folder on the disk that holds the databases.
    pub(crate) fn disk(&self) -> &Path {
        self.scratch.path()
    }
}

/// Profiles whose binaries are measured.
const MEASURED: [&str; 2] = ["dist", "release"];

/// Builds a binary with cargo, if this program runs under cargo. In a profile that is measured it always
/// builds, so that the benchmark never measures an old binary. Other profiles are not used to measure, so
/// an existing binary is good enough for them.
fn build(folder: &Path, package: &str, name: &str, binary: &Path) -> anyhow::Result<()> {
    let profile = folder.file_name().and_then(OsStr::to_str);
    let measured = profile.filter(|profile| MEASURED.contains(profile));
    let Some(cargo) = std::env::var_os("CARGO") else { return Ok(()) };
    if binary.exists() && measured.is_none() {
        return Ok(());
    }
    let mut command = Command::new(cargo);
    command.args(["build", "-p", package, "--bin", name]);
    if let Some(profile) = measured {
        command.args(["--profile", profile]);
    }
    let status = command.current_dir(env!("CARGO_MANIFEST_DIR")).status()?;
    if !status.success() {
        bail!("{package} could not be built");
    }
    Ok(())
}
