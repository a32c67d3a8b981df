//! The limits of the engine, with their defaults.

use std::thread::available_parallelism;
use std::time::Duration;

use super::RetryPolicy;
use crate::providers::SendResult;

/// Default of [`EngineConfig::max_unacked`].
pub const MAX_UNACKED_DEFAULT: usize = 4_096;
/// Default of [`EngineConfig::max_unacked_without_dedup`].
pub const MAX_UNACKED_WITHOUT_DEDUP_DEFAULT: usize = 64;
/// Longest message id that is stored, in bytes; Google's have about a hundred.
const MESSAGE_ID_BYTES_MAX: usize = 255;

/// Lease of claimed retries if there are several servers, in milliseconds: far longer than any
/// attempt takes.
const RETRY_LEASE_CLUSTERED_MS: i64 = 600_000;

/// Limits of the engine.
#[derive(Debug, Clone)]
pub struct EngineConfig {
    /// Most deliveries that are in flight, or answered but not committed. A crash repeats at most this
    /// many (hazard 4 of docs/delivery.md). At the limit no further attempt starts.
    pub max_unacked: usize,
    /// Most messages to Messenger and Telegram and raw data messages that are in flight, or answered but not
    /// committed. A crash shows at most this many twice.
    pub max_unacked_without_dedup: usize,
    /// Most devices of one page.
    pub page_rows: u32,
    /// Most devices of a page whose messages `max_unacked_without_dedup` limits, if that is less than `page_rows`.
    /// Such a page is slow, and pages of other notifications may have to wait for it.
    pub page_rows_without_dedup: u32,
    /// Most batches with a condition that are read at the same time. Such a read keeps a core busy, so the
    /// default is half of the cores.
    pub searches_max: usize,
    /// Number of outcomes after which a page, a task of retries or the task of single devices commits.
    pub checkpoint_outcomes: usize,
    /// Time after which a task of retries or of single devices commits the outcomes that it has.
    pub checkpoint_every: Duration,
    /// A page with fewer than `checkpoint_outcomes` outcomes commits at multiples of this interval since the
    /// start of the engine, so that the checkpoints of all pages share a transaction. Its first outcome waits
    /// for at least half an interval. Not zero.
    pub page_checkpoint_every: Duration,
    /// Lease of a page, in milliseconds. Each checkpoint renews it.
    pub lease_ms: i64,
    /// Whether several servers may share the database. If so, this server sends heartbeats, and it
    /// sends messages only while its lease is valid.
    pub clustered: bool,
    /// Time between heartbeats, in milliseconds. Each one renews the server's lease by `lease_ms`.
    pub heartbeat_ms: i64,
    /// Greatest age of an address when it is used, in milliseconds (hazard 8 of docs/delivery.md).
    pub address_age_ms_max: i64,
    /// Number of waiting devices at which a lane opens no further page. The last page may exceed it.
    pub lane_devices_max: usize,
    /// Most open pages of one lane.
    pub lane_pages_max: usize,
    /// Most retries that one lane has claimed and not settled.
    pub lane_retries_max: u32,
    /// Most open retries of one lane. At the limit no first attempt starts until some retries end
    /// (hazard 12 of docs/delivery.md). First attempts that are already in flight may still exceed
    /// the limit when they fail.
    pub lane_retry_rows_max: u64,
    /// Most deferred devices of one lane, which wait for their upstream.
    pub lane_deferred_max: usize,
    /// Most notifications that are started in one transaction.
    pub start_batch: u32,
    /// Most streams of one lane, even if its provider accepts more. The default is a quarter of
    /// `max_unacked`, so that a provider that does not answer leaves permits for other lanes.
    pub lane_streams_max: usize,
    /// Most dispatches that one lane holds in memory. It holds only the numbers of further dispatches.
    /// There is no limit for all lanes together, because a held lane could then use it up and keep
    /// other lanes from starting.
    pub lane_dispatches_max: usize,
    /// Whether to store the message ids that providers return.
    pub keep_message_ids: bool,
    /// When and how often a delivery is retried.
    pub retry: RetryPolicy,
    /// Seed of the jitter; random if absent.
    pub seed: Option<u64>,
    /// The planted defect of a simulation.
    #[cfg(test)]
    pub overlooked: Option<super::start::Overlooked>,
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self {
            max_unacked: MAX_UNACKED_DEFAULT,
            max_unacked_without_dedup: MAX_UNACKED_WITHOUT_DEDUP_DEFAULT,
            page_rows: 2_000,
            page_rows_without_dedup: 250,
            searches_max: (available_parallelism().map_or(1, usize::from) / 2).max(1),
            checkpoint_outcomes: 500,
            checkpoint_every: Duration::from_millis(50),
            page_checkpoint_every: Duration::from_millis(100),
            lease_ms: 15_000,
            clustered: false,
            heartbeat_ms: 3_000,
            address_age_ms_max: 1_000,
            lane_devices_max: 2_000,
            lane_pages_max: 256,
            lane_retries_max: 200,
            lane_retry_rows_max: 10_000,
            lane_deferred_max: 20_000,
            start_batch: 256,
            lane_streams_max: 1_024,
            lane_dispatches_max: 256,
            keep_message_ids: false,
            retry: RetryPolicy::default(),
            seed: None,
            #[cfg(test)]
            overlooked: None,
        }
    }
}

impl EngineConfig {
    /// Most devices of a page.
    pub(super) fn page_rows_of(&self, supports_dedup: bool) -> u32 {
        if supports_dedup {
            self.page_rows
        } else {
            self.page_rows.min(self.page_rows_without_dedup)
        }
    }

    /// Most of the messages that [`Self::max_unacked_without_dedup`] limits in one lane: three quarters, so that a
    /// provider that does not answer leaves permits for other lanes.
    pub(super) fn lane_unacked_without_dedup_max(&self) -> usize {
        self.max_unacked_without_dedup - self.max_unacked_without_dedup / 4
    }

    /// Lease of claimed retries, in milliseconds. With several servers this is longer than any attempt
    /// takes: other servers do not know which retries are in flight here, and would send them again
    /// when the lease expires. If this server dies, the others take its retries over earlier.
    pub(crate) fn retry_lease_ms(&self) -> i64 {
        if self.clustered { RETRY_LEASE_CLUSTERED_MS } else { self.lease_ms }
    }

    /// The provider's id of the message, if it is stored: `keep_message_ids` is set, and the id is not
    /// longer than [`MESSAGE_ID_BYTES_MAX`]. Longer ids are dropped, because anyone can run the push
    /// service that returns them.
    pub(crate) fn message_id_to_store(&self, answer: &SendResult) -> Option<Box<str>> {
        match answer {
            SendResult::Delivered { message_id: Some(id) }
                if self.keep_message_ids && id.len() <= MESSAGE_ID_BYTES_MAX =>
            {
                Some(id.clone())
            }
            SendResult::Delivered { .. }
            | SendResult::Unregistered { .. }
            | SendResult::Retry { .. }
            | SendResult::Throttle { .. }
            | SendResult::AuthRejected { .. }
            | SendResult::ServiceRefused { .. }
            | SendResult::AddressChanged { .. }
            | SendResult::InvalidMessage { .. }
            | SendResult::NotPermitted { .. }
            | SendResult::Unknown { .. } => None,
        }
    }
}
