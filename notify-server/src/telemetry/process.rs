//! The metrics of the process that all programs share by convention (`process_*`). They come from
//! `/proc/self`, which only Linux has, and have no prefix.

use std::sync::atomic::AtomicU64;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use crate::descriptors;

/// The clock ticks of `/proc/self/stat` per second. Linux shows programs this rate on all architectures that
/// Rust supports, whatever rate the kernel uses.
const TICKS_PER_SECOND: f64 = 100.0;
/// The bytes of the unit of `/proc/self/status`.
const KIB: u64 = 1_024;

/// The process at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct ProcessSample {
    /// CPU time in user and system mode, in seconds.
    pub(crate) cpu_seconds: f64,
    /// Memory in RAM, in bytes.
    pub(crate) resident_bytes: u64,
    /// Memory that is mapped, in bytes.
    pub(crate) virtual_bytes: u64,
    /// Threads.
    pub(crate) threads: u64,
    /// Open files.
    pub(crate) open_files: u64,
}

impl ProcessSample {
    /// Reads the process; `None` where the system does not show it. Blocks for as long as the system needs to
    /// list the open files.
    pub(crate) fn read() -> Option<Self> {
        let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
        let status = std::fs::read_to_string("/proc/self/status").ok()?;
        // One of the entries is the open folder itself.
        let open_files = std::fs::read_dir("/proc/self/fd").ok()?.count().saturating_sub(1);
        Self::parse(&stat, &status, open_files as u64)
    }

    fn parse(stat: &str, status: &str, open_files: u64) -> Option<Self> {
        // The name of the program is in parentheses and may contain spaces. The fields after it begin with the
        // third one.
        let (_, fields) = stat.rsplit_once(')')?;
        let field = |number: usize| fields.split_ascii_whitespace().nth(number - 3);
        let ticks = |number: usize| field(number)?.parse::<f64>().ok();
        let kib = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.trim_start_matches(':').trim().trim_end_matches(" kB").parse::<u64>().ok()
        };
        Some(Self {
            cpu_seconds: (ticks(14)? + ticks(15)?) / TICKS_PER_SECOND,
            resident_bytes: kib("VmRSS")? * KIB,
            virtual_bytes: kib("VmSize")? * KIB,
            threads: kib("Threads")?,
            open_files,
        })
    }
}

/// The series of the process.
#[derive(Debug)]
pub(super) struct ProcessMetrics {
    registry: Registry,
    cpu: Counter<f64, AtomicU64>,
    resident: Gauge,
    mapped: Gauge,
    threads: Gauge,
    open_files: Gauge,
    open_files_max: Gauge,
    started_at: Gauge<f64, AtomicU64>,
}

impl Default for ProcessMetrics {
    fn default() -> Self {
        let mut registry = Registry::default();
        let cpu = Counter::default();
        let help = "CPU time in user and system mode";
        registry.register_with_unit("process_cpu", help, Unit::Seconds, cpu.clone());
        let [resident, mapped, threads, open_files, open_files_max] = [
            ("process_resident_memory_bytes", "Memory in RAM"),
            ("process_virtual_memory_bytes", "Memory that is mapped"),
            ("process_threads", "Threads"),
            ("process_open_fds", "Open file descriptors"),
            ("process_max_fds", "Limit of open file descriptors"),
        ]
        .map(|(name, help)| {
            let gauge = Gauge::default();
            registry.register(name, help, gauge.clone());
            gauge
        });
        let started_at = Gauge::<f64, AtomicU64>::default();
        let help = "When the server started, as a unix time";
        registry.register_with_unit("process_start_time", help, Unit::Seconds, started_at.clone());
        Self { registry, cpu, resident, mapped, threads, open_files, open_files_max, started_at }
    }
}

impl ProcessMetrics {
    /// Appends the series to a text. Without a sample there are none. `started_at` is from the server's
    /// clock: the start time in `/proc/self/stat` counts from the boot, and the systemd unit hides
    /// `/proc/stat`, which has the time of the boot.
    pub(super) fn encode(
        &self,
        sample: Option<&ProcessSample>,
        started_at: f64,
        text: &mut String,
    ) {
        let Some(sample) = sample else { return };
        self.cpu.inc_by((sample.cpu_seconds - self.cpu.get()).max(0.0));
        let open_files_max = descriptors::limit().map_or(u64::MAX, |limit| limit as u64);
        for (gauge, value) in [
            (&self.resident, sample.resident_bytes),
            (&self.mapped, sample.virtual_bytes),
            (&self.threads, sample.threads),
            (&self.open_files, sample.open_files),
            (&self.open_files_max, open_files_max),
        ] {
            gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
        }
        self.started_at.set(started_at);
        prometheus_client::encoding::text::encode_registry(text, &self.registry)
            .expect("writing to a String cannot fail");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_read_whatever_its_name_is() {
        let status =
            "Name:\tx\nVmPeak:\t   90 kB\nVmSize:\t   80 kB\nVmRSS:\t   40 kB\nThreads:\t7\n";
        let expected = ProcessSample {
            cpu_seconds: 1.75,
            resident_bytes: 40_960,
            virtual_bytes: 81_920,
            threads: 7,
            open_files: 12,
        };
        for name in ["notify-server", "a b", "a) S 1 (b"] {
            let stat =
                format!("42 ({name}) S 1 42 42 0 -1 4194560 9 8 7 6 150 25 4 3 20 0 7 0 99 5");
            assert_eq!(ProcessSample::parse(&stat, status, 12), Some(expected), "{name}");
        }
        assert_eq!(ProcessSample::parse("42 (x", status, 12), None);
        assert_eq!(ProcessSample::parse("42 (x) S 1", status, 12), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_has_memory_threads_and_files() {
        let before = ProcessSample::read().unwrap();
        assert!(before.resident_bytes > 0 && before.virtual_bytes >= before.resident_bytes);
        assert!(before.threads > 0 && before.open_files > 0, "{before:?}");
        let metrics = ProcessMetrics::default();
        let mut text = String::new();
        metrics.encode(Some(&before), 1_795_219_200.25, &mut text);
        for name in [
            "process_cpu_seconds_total",
            "process_resident_memory_bytes",
            "process_virtual_memory_bytes",
            "process_threads",
            "process_open_fds",
            "process_max_fds",
        ] {
            assert!(text.contains(&format!("\n{name} ")), "{name} in\n{text}");
        }
        assert!(text.contains("\nprocess_start_time_seconds 1795219200.25\n"), "{text}");
        let mut empty = String::new();
        metrics.encode(None, 0.0, &mut empty);
        assert_eq!(empty, "");
    }
}
