//! The size of the measurements. The figures of the small scale are meaningless; it only shows that the
//! benchmark works.

use std::time::Duration;

/// The sizes of one run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scale {
    /// The number of interleaved rounds. The table shows medians over the rounds.
    pub(crate) rounds: usize,
    /// The duration of one phase of load.
    pub(crate) phase: Duration,
    /// The number of connections of a phase with many connections.
    pub(crate) connections: usize,
    /// The devices of the large database, which most rows use.
    pub(crate) devices_many: u64,
    /// The notifications of the console row.
    pub(crate) notifications: u64,
    /// The devices of the small fan-out of the memory row, and of the small import.
    pub(crate) memory_few: u64,
    /// The devices of the import in the server's own format. Its cost per device does not depend on their number.
    pub(crate) import_native: u64,
    /// The devices of the small application of the statistics row and of the enrichment row.
    pub(crate) statistics_few: u64,
    /// The devices of each provider in the send row and in the trouble row.
    pub(crate) send_devices: u64,
    /// The single-device notifications of the small measurement over many connections.
    pub(crate) singles: u64,
    /// The single-device notifications of the large measurement over many connections.
    pub(crate) singles_many: u64,
    /// The single-device notifications that are sent one at a time.
    pub(crate) singles_alone: u64,
    /// The number of requests between two `GOAWAY` of the trouble row.
    pub(crate) goaway_every: u64,
    /// The messages of node-apn. Its cost per message does not depend on their number.
    pub(crate) peer_devices: u64,
    /// The browsers of the web push row.
    pub(crate) browsers: u64,
    /// The messages of npm's web-push.
    pub(crate) peer_browsers: u64,
    /// The jobs of graphile-worker.
    pub(crate) peer_jobs: u64,
}

impl Scale {
    /// The scale for which the goals are set.
    pub(crate) fn full() -> Self {
        Self {
            rounds: 3,
            phase: Duration::from_secs(3),
            connections: 64,
            devices_many: 1_000_000,
            notifications: 100_000,
            memory_few: 10_000,
            import_native: 100_000,
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

    /// A scale whose run takes a few seconds, even in a debug build.
    pub(crate) fn quick() -> Self {
        Self {
            rounds: 1,
            phase: Duration::from_millis(200),
            connections: 8,
            devices_many: 2_000,
            notifications: 500,
            memory_few: 200,
            import_native: 500,
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
