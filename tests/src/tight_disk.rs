//! A small disk for a server: a tmpfs in a mount namespace, which ends with the test. Where the kernel
//! forbids such namespaces, the test fails with a message.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::WAIT_MAX;

/// Bytes that are written at once to fill the disk; the last ones in small steps.
const FILL_STEPS: [usize; 2] = [65_536, 512];

/// A small disk, visible in its namespace alone.
pub struct TightDisk {
    /// The process that keeps the namespace: it ends when its standard input does.
    holder: Child,
    folder: PathBuf,
}

impl TightDisk {
    /// Mounts one of that many bytes at an existing folder.
    ///
    /// # Errors
    /// When the kernel allows no such namespace.
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
            .context("unshare (util-linux) is needed for a disk of its own")?;
        let stdout = holder.stdout.take().context("stdout is piped")?;
        let mut lines = BufReader::new(stdout).lines();
        let line = tokio::time::timeout(WAIT_MAX, lines.next_line()).await.context("mount")??;
        ensure!(line.as_deref() == Some("mounted"), "no disk of its own: are namespaces allowed?");
        Ok(Self { holder, folder: folder.to_owned() })
    }

    /// The words in front of a command that run it in the namespace, in the same process.
    ///
    /// # Errors
    /// When the namespace is gone.
    pub fn within(&self) -> Result<Vec<String>> {
        let holder = self.holder.id().context("the namespace is there")?.to_string();
        let words = ["nsenter", "--target", &holder, "--user", "--mount", "--preserve-credentials"];
        Ok(words.map(str::to_owned).to_vec())
    }

    /// A path on the disk, for processes outside of the namespace.
    ///
    /// # Errors
    /// When the namespace is gone.
    pub fn path(&self, name: &str) -> Result<PathBuf> {
        let holder = self.holder.id().context("the namespace is there")?;
        let inside = self.folder.strip_prefix("/")?;
        Ok(Path::new("/proc").join(holder.to_string()).join("root").join(inside).join(name))
    }

    /// Fills it to the last byte.
    ///
    /// # Errors
    /// When anything else than a full disk prevents it.
    pub fn fill(&self) -> Result<()> {
        let path = self.path("filler")?;
        let mut filler = OpenOptions::new().create(true).append(true).open(path)?;
        FILL_STEPS.into_iter().try_for_each(|step| fill(&mut filler, step))
    }

    /// Fills it except for that many bytes.
    ///
    /// # Errors
    /// As [`TightDisk::fill`].
    pub fn fill_but(&self, bytes: u64) -> Result<()> {
        self.fill()?;
        let filler = OpenOptions::new().write(true).open(self.path("filler")?)?;
        let length = filler.metadata()?.len();
        Ok(filler.set_len(length.saturating_sub(bytes))?)
    }

    /// Frees the space.
    ///
    /// # Errors
    /// When it was not filled.
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
