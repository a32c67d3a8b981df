//! Measurements: from `/proc`, the CPU time and memory of a process and the CPU time of the machine; and
//! the duration of a flush to this disk. They work only on Linux.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;

use crate::table::{grouped, median, median_ratio};

/// The length of a tick in `/proc/*/stat`, in microseconds. `USER_HZ` is 100 on every current Linux.
const TICK_US: u64 = 10_000;
/// The number of flushes of one measurement.
const FLUSHES: usize = 50;
/// The bytes that each flush writes: one database page.
const FLUSH_BYTES: usize = 4_096;

/// The cost of `count` operations.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cost {
    pub(crate) count: u64,
    pub(crate) wall: Duration,
    /// The CPU time of the measured process.
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

/// The costs of one kind of work, one per round.
#[derive(Debug, Default)]
pub(crate) struct Costs(pub(crate) Vec<Cost>);

impl Costs {
    pub(crate) fn rates(&self) -> Vec<f64> {
        self.0.iter().map(Cost::per_second).collect()
    }

    pub(crate) fn cpu(&self) -> Vec<f64> {
        self.0.iter().map(Cost::cpu_us_each).collect()
    }

    /// A text with the CPU time of one operation and the rate.
    pub(crate) fn text(&self) -> String {
        let (cpu, rate) = (median(&self.cpu()), grouped(median(&self.rates())));
        format!("CPU {cpu:.2} µs each, {rate}/s")
    }

    /// [`Self::text`] of a peer. A peer that did not run has the `reason` instead.
    pub(crate) fn text_or(&self, peer: &str, reason: &str) -> String {
        if self.0.is_empty() {
            return format!("{peer}: missing ({reason})");
        }
        format!("{peer}: {}", self.text())
    }

    /// The CPU time relative to the baseline: the median of the rounds' ratios.
    pub(crate) fn cpu_ratio(&self, baseline: &Self) -> f64 {
        median_ratio(&self.cpu(), &baseline.cpu())
    }
}

/// The cost of `count` operations whose parts were measured one after another in the same round.
pub(crate) fn sum(parts: &[Cost], count: u64) -> Cost {
    let wall = parts.iter().map(|part| part.wall).sum();
    Cost { count, wall, cpu_us: parts.iter().map(|part| part.cpu_us).sum() }
}

/// The user and system time of a process so far, with its ended threads.
pub(crate) fn cpu_us(pid: u32) -> anyhow::Result<u64> {
    Ok(ticks(&stat(pid)?, 2)? * TICK_US)
}

/// The user and system time of a process so far, with its ended threads and ended children.
pub(crate) fn cpu_us_with_ended(pid: u32) -> anyhow::Result<u64> {
    Ok(ticks(&stat(pid)?, 4)? * TICK_US)
}

/// The bytes that a process has caused to be written to disk so far.
pub(crate) fn written(pid: u32) -> anyhow::Result<u64> {
    let counters = fs::read_to_string(format!("/proc/{pid}/io"))?;
    let line = counters.lines().find_map(|line| line.strip_prefix("write_bytes: "));
    Ok(line.context("/proc/PID/io has no write_bytes")?.parse()?)
}

/// The CPU time and the bytes written to disk so far.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Usage {
    pub(crate) cpu_us: u64,
    /// The bytes written to disk.
    pub(crate) written: u64,
}

fn stat(pid: u32) -> anyhow::Result<String> {
    let path = format!("/proc/{pid}/stat");
    fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))
}

/// The sum of the first `count` of utime, stime, cutime and cstime (proc(5), fields 14 to 17).
fn ticks(stat: &str, count: usize) -> anyhow::Result<u64> {
    // The process name before the last parenthesis may contain spaces and parentheses.
    let fields = stat.rsplit_once(')').context("a stat line has a name")?.1.split_whitespace();
    let times: Vec<u64> = fields.skip(11).take(count).map(str::parse).collect::<Result<_, _>>()?;
    Ok(times.into_iter().sum())
}

/// A field of `/proc/PID/status` in KiB, such as `VmHWM`.
pub(crate) fn memory_kib(pid: u32, field: &str) -> anyhow::Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    let number = line
        .and_then(|line| line.split_whitespace().next())
        .context("/proc/PID/status has no such field")?;
    Ok(number.parse()?)
}

/// Measures the CPU use of all processes outside the benchmark.
pub(crate) struct OtherLoad {
    since: Instant,
    machine: u64,
    ours: u64,
}

impl OtherLoad {
    /// Starts a measurement.
    pub(crate) fn watch() -> anyhow::Result<Self> {
        Ok(Self { since: Instant::now(), machine: machine_ticks()?, ours: our_ticks()? })
    }

    /// The average CPU use since [`OtherLoad::watch`], as a share of one core.
    pub(crate) fn share(&self) -> anyhow::Result<f64> {
        let machine = machine_ticks()?.saturating_sub(self.machine);
        let ours = our_ticks()?.saturating_sub(self.ours);
        let theirs_us = machine.saturating_sub(ours) * TICK_US;
        Ok(theirs_us as f64 / 1e6 / self.since.elapsed().as_secs_f64())
    }
}

/// The busy ticks of all cores: user, nice, system, irq, softirq and steal.
fn machine_ticks() -> anyhow::Result<u64> {
    let text = fs::read_to_string("/proc/stat")?;
    let first = text.lines().next().context("/proc/stat is empty")?;
    let numbers: Vec<u64> =
        first.split_whitespace().skip(1).map(str::parse).collect::<Result<_, _>>()?;
    Ok([0, 1, 2, 5, 6, 7].iter().filter_map(|field| numbers.get(*field)).sum())
}

/// The ticks of this process, of its ended children and of its running children.
fn our_ticks() -> anyhow::Result<u64> {
    let own = std::process::id();
    let mut sum = ticks(&stat(own)?, 4)?;
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
        // A process that has ended meanwhile is not one of our children. An ended child stays in `/proc`
        // until we wait for it.
        let Ok(stat) = stat(pid) else { continue };
        let parent = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1));
        if parent == Some(own.to_string().as_str()) {
            sum += ticks(&stat, 2)?;
        }
    }
    Ok(sum)
}

/// The median duration of appending a page to a file and flushing it.
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

/// A text with the number of cores and the model of the first core.
pub(crate) fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    format!("{cores} cores, {}", model.map_or("unknown model", |(_, model)| model))
}
