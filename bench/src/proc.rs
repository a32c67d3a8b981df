//! Measurements from `/proc`: CPU and memory of a process, CPU of the machine; and the duration of a flush
//! to this disk. Linux only.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;

/// Microseconds of one tick of `/proc/*/stat` (`USER_HZ` is 100 on every Linux that is in use).
const TICK_US: u64 = 10_000;
/// Flushes of one measurement.
const FLUSHES: usize = 50;
/// Bytes of one flush, a database page.
const FLUSH_BYTES: usize = 4_096;

/// The cost of a phase.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cost {
    pub(crate) count: u64,
    pub(crate) wall: Duration,
    /// CPU of the measured process.
    pub(crate) cpu_us: u64,
}

impl Cost {
    pub(crate) fn per_second(&self) -> f64 {
        self.count as f64 / self.wall.as_secs_f64()
    }

    pub(crate) fn cpu_us_each(&self) -> f64 {
        self.cpu_us as f64 / self.count as f64
    }
}

/// User and system time of a process so far, its ended threads included.
pub(crate) fn cpu_us(pid: u32) -> anyhow::Result<u64> {
    Ok(ticks(&stat(pid)?, 2)? * TICK_US)
}

/// The same, including its ended children.
pub(crate) fn cpu_us_with_ended(pid: u32) -> anyhow::Result<u64> {
    Ok(ticks(&stat(pid)?, 4)? * TICK_US)
}

/// Bytes that a process caused to be written to disk so far.
pub(crate) fn written(pid: u32) -> anyhow::Result<u64> {
    let counters = fs::read_to_string(format!("/proc/{pid}/io"))?;
    let line = counters.lines().find_map(|line| line.strip_prefix("write_bytes: "));
    Ok(line.context("a counter of bytes")?.parse()?)
}

/// CPU time and bytes written so far.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Usage {
    pub(crate) cpu_us: u64,
    /// Bytes to disk.
    pub(crate) written: u64,
}

fn stat(pid: u32) -> anyhow::Result<String> {
    let path = format!("/proc/{pid}/stat");
    fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))
}

/// The first `count` of utime, stime, cutime and cstime, summed (proc(5), fields 14 to 17).
fn ticks(stat: &str, count: usize) -> anyhow::Result<u64> {
    // The name, in parentheses, may contain any character.
    let fields = stat.rsplit_once(')').context("a stat line has a name")?.1.split_whitespace();
    let times: Vec<u64> = fields.skip(11).take(count).map(str::parse).collect::<Result<_, _>>()?;
    Ok(times.into_iter().sum())
}

/// A field of `/proc/PID/status` that is counted in KiB, such as `VmHWM`.
pub(crate) fn memory_kib(pid: u32, field: &str) -> anyhow::Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    let number = line.and_then(|line| line.split_whitespace().next()).context("a memory field")?;
    Ok(number.parse()?)
}

/// Measures the CPU use of processes that are not ours.
pub(crate) struct OtherLoad {
    since: Instant,
    machine: u64,
    ours: u64,
}

impl OtherLoad {
    pub(crate) fn watch() -> anyhow::Result<Self> {
        Ok(Self { since: Instant::now(), machine: machine_ticks()?, ours: our_ticks()? })
    }

    /// Their share of one core since [`OtherLoad::watch`].
    pub(crate) fn share(&self) -> anyhow::Result<f64> {
        let machine = machine_ticks()?.saturating_sub(self.machine);
        let ours = our_ticks()?.saturating_sub(self.ours);
        let theirs_us = machine.saturating_sub(ours) * TICK_US;
        Ok(theirs_us as f64 / 1e6 / self.since.elapsed().as_secs_f64())
    }
}

/// Busy ticks of all cores: user, nice, system, irq, softirq and steal.
fn machine_ticks() -> anyhow::Result<u64> {
    let text = fs::read_to_string("/proc/stat")?;
    let first = text.lines().next().context("a first line")?;
    let numbers: Vec<u64> =
        first.split_whitespace().skip(1).map(str::parse).collect::<Result<_, _>>()?;
    Ok([0, 1, 2, 5, 6, 7].iter().filter_map(|field| numbers.get(*field)).sum())
}

/// Ticks of this process, of its ended children and of those that run.
fn our_ticks() -> anyhow::Result<u64> {
    let own = std::process::id();
    let mut sum = ticks(&stat(own)?, 4)?;
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
        // A process may have ended by now; then it was no child of ours, since we wait for those.
        let Ok(stat) = stat(pid) else { continue };
        let parent = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1));
        if parent == Some(own.to_string().as_str()) {
            sum += ticks(&stat, 2)?;
        }
    }
    Ok(sum)
}

/// The median time of a page appended to a file and flushed.
pub(crate) fn flush_p50(folder: &Path) -> anyhow::Result<Duration> {
    let mut file = tempfile::tempfile_in(folder)?;
    let mut times = Vec::with_capacity(FLUSHES);
    for _ in 0..FLUSHES {
        let started = Instant::now();
        file.write_all(&[0x5a; FLUSH_BYTES])?;
        file.sync_all()?;
        times.push(started.elapsed());
    }
    times.sort_unstable();
    Ok(times[FLUSHES / 2])
}

/// The model of the first core and how many there are.
pub(crate) fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    format!("{cores} cores, {}", model.map_or("unknown model", |(_, model)| model))
}
