//! A small disk for a server: a tmpfs in a mount namespace. The namespace ends with the test. If the kernel
//! forbids such namespaces, the test fails.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::WAIT_MAX;

/// The sizes of the writes that fill the disk, in bytes. Large writes come first; small writes fill the rest.
const FILL_STEPS: [usize; 2] = [65_536, 512];

/// A small disk, which is visible only in its namespace.
pub struct TightDisk {
    /// The process that keeps the namespace alive. It ends when its standard input is closed.
    holder: Child,
    folder: PathBuf,
}

impl TightDisk {
    /// Mounts a disk of `bytes` bytes at an existing folder.
    ///
    /// # Errors
    /// When the kernel does not allow such a namespace.
    pub async fn mount(folder: &Path, bytes: u64) -> Result<Self> {
        let script = "mount -t tmpfs -o size=$1 tmpfs \"$0\" && echo mounted && exec cat";
        let mut holder = Command::new("unshare")
            .args(["--map-root-user", "--mount", "sh", "-c", script])
            .arg(folder)
            .arg(bytes.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("unshare (util-linux) is needed to mount a small disk")?;
        let stdout = holder.stdout.take().context("stdout is piped")?;
        let mut lines = BufReader::new(stdout).lines();
        let line = tokio::time::timeout(WAIT_MAX, lines.next_line()).await.context("mount")??;
        ensure!(line.as_deref() == Some("mounted"), "no disk was mounted: are namespaces allowed?");
        Ok(Self { holder, folder: folder.to_owned() })
    }

    /// The command line before a command that runs it in the namespace, in the same process.
    ///
    /// # Errors
    /// When the namespace is gone.
    pub fn within(&self) -> Result<Vec<String>> {
        let holder = self.holder.id().context("the namespace is there")?.to_string();
        let words = ["nsenter", "--target", &holder, "--user", "--mount", "--preserve-credentials"];
        Ok(words.map(str::to_owned).to_vec())
    }

    /// The path of a file on the disk, for processes outside the namespace.
    ///
    /// # Errors
    /// When the namespace is gone.
    pub fn path(&self, name: &str) -> Result<PathBuf> {
        let holder = self.holder.id().context("the namespace is there")?;
        let inside = self.folder.strip_prefix("/")?;
        Ok(Path::new("/proc").join(holder.to_string()).join("root").join(inside).join(name))
    }

    /// Fills the disk to the last byte.
    ///
    /// # Errors
    /// When a write fails for another reason than a full disk.
    pub fn fill(&self) -> Result<()> {
        let path = self.path("filler")?;
        let mut filler = OpenOptions::new().create(true).append(true).open(path)?;
        FILL_STEPS.into_iter().try_for_each(|step| fill(&mut filler, step))
    }

    /// Fills the disk except for `bytes` bytes.
    ///
    /// # Errors
    /// When a write fails for another reason than a full disk.
    pub fn fill_but(&self, bytes: u64) -> Result<()> {
        self.fill()?;
        let filler = OpenOptions::new().write(true).open(self.path("filler")?)?;
        let length = filler.metadata()?.len();
        Ok(filler.set_len(length.saturating_sub(bytes))?)
    }

    /// Frees the space.
    ///
    /// # Errors
    /// When the disk was not filled.
    pub fn free(&self) -> Result<()> {
        Ok(std::fs::remove_file(self.path("filler")?)?)
    }
}

fn fill(filler: &mut File, step: usize) -> Result<()> {
    let bytes = vec![b'x'; step];
    loop {
        match filler.write_all(&bytes) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::StorageFull => return Ok(()),
            Err(error) => return Err(error).context("the disk is filled"),
        }
    }
}
