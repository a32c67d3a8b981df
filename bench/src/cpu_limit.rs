//! A limit of the CPU time of a process, so that two servers on one machine do not take CPU time from each
//! other.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::Context;

/// The period over which the CPU time is counted, in microseconds.
const PERIOD_US: u64 = 20_000;

/// The number of the next group.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// A control group of Linux. Dropping it removes the group, which must have no process any more.
pub(crate) struct CpuLimit(PathBuf);

impl CpuLimit {
    /// Creates a group whose processes together get `percent` of a core. Needs root, and the controller
    /// `cpu` of either version of control groups.
    pub(crate) fn new(percent: u64) -> anyhow::Result<Self> {
        let quota = PERIOD_US * percent / 100;
        let name =
            format!("notify-bench-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let first_version = Path::new("/sys/fs/cgroup/cpu");
        let (folder, settings) = if first_version.exists() {
            let settings = [
                ("cpu.cfs_period_us", PERIOD_US.to_string()),
                ("cpu.cfs_quota_us", quota.to_string()),
            ];
            (first_version.join(name), settings.to_vec())
        } else {
            let settings = [("cpu.max", format!("{quota} {PERIOD_US}"))];
            (Path::new("/sys/fs/cgroup").join(name), settings.to_vec())
        };
        fs::create_dir(&folder).context("control groups of the CPU")?;
        let limit = Self(folder);
        for (file, value) in settings {
            fs::write(limit.0.join(file), value).with_context(|| format!("setting {file}"))?;
        }
        Ok(limit)
    }

    /// Adds a process with all its threads.
    pub(crate) fn add(&self, process: u32) -> anyhow::Result<()> {
        Ok(fs::write(self.0.join("cgroup.procs"), process.to_string())?)
    }
}

impl Drop for CpuLimit {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}
