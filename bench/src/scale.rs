//! The size of the measurements. The small scale only proves that the benchmark works.

use std::time::Duration;

/// Amounts of one run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scale {
    /// Interleaved rounds; the table shows medians.
    pub(crate) rounds: usize,
    /// How long one phase of load lasts.
    pub(crate) phase: Duration,
    /// Connections of a loaded phase.
    pub(crate) connections: usize,
    /// Devices of the large database: accept, memory, statistics, fan-out.
    pub(crate) devices_many: u64,
    /// Devices of the small fan-out of the memory row.
    pub(crate) memory_few: u64,
    /// Devices of the small application of the statistics row.
    pub(crate) statistics_few: u64,
    /// Devices per provider of the send row, and of the trouble row.
    pub(crate) send_devices: u64,
    /// Sends to one device each, over many connections: few, and many; and one at a time.
    pub(crate) singles: u64,
    pub(crate) singles_many: u64,
    pub(crate) singles_alone: u64,
    /// Requests between two `GOAWAY` of the trouble row.
    pub(crate) goaway_every: u64,
    /// Messages of node-apn, whose cost per message does not depend on their number.
    pub(crate) peer_devices: u64,
    /// Browsers of the web push row.
    pub(crate) browsers: u64,
    /// Messages of npm's web-push.
    pub(crate) peer_browsers: u64,
    /// Jobs of graphile-worker.
    pub(crate) peer_jobs: u64,
}

impl Scale {
    /// The scale of the goals.
    pub(crate) fn full() -> Self {
        Self {
            rounds: 3,
            phase: Duration::from_secs(3),
            connections: 64,
            devices_many: 1_000_000,
            memory_few: 10_000,
            statistics_few: 1_000,
            send_devices: 200_000,
            singles: 5_000,
            singles_many: 100_000,
            singles_alone: 200,
            goaway_every: 5_000,
            peer_devices: 50_000,
            browsers: 100_000,
            peer_browsers: 10_000,
            peer_jobs: 100_000,
        }
    }

    /// A few seconds in total, even in a debug build.
    pub(crate) fn quick() -> Self {
        Self {
            rounds: 1,
            phase: Duration::from_millis(200),
            connections: 8,
            devices_many: 2_000,
            memory_few: 200,
            statistics_few: 100,
            send_devices: 500,
            singles: 200,
            singles_many: 400,
            singles_alone: 10,
            goaway_every: 250,
            peer_devices: 500,
            browsers: 200,
            peer_browsers: 200,
            peer_jobs: 1_000,
        }
    }
}
