//! Every limit of the engine, with its default.

use std::time::Duration;

use super::RetryPolicy;
use crate::providers::SendResult;

/// Most deliveries in flight or not committed yet, unless configured otherwise.
pub const MAX_UNACKED_DEFAULT: usize = 4_096;
/// Longest id of a message that is kept, in bytes; Google's have about a hundred.
const MESSAGE_ID_BYTES_MAX: usize = 255;

/// How long retries are claimed among other servers, in milliseconds: far longer than any takes.
const RETRY_LEASE_CLUSTERED_MS: i64 = 600_000;

/// Limits of the engine.
#[derive(Debug, Clone)]
pub struct EngineConfig {
    /// Most deliveries that are in flight, or answered but not committed (W, trap 4): what a crash
    /// can repeat at the most. No credit, no new stream.
    pub max_unacked: usize,
    /// Most devices of one page.
    pub page_rows: u32,
    /// Outcomes after which a page commits.
    pub checkpoint_outcomes: usize,
    /// Time after which a page commits what it has.
    pub checkpoint_every: Duration,
    /// How long a page is this process's without renewing, in milliseconds.
    pub lease_ms: i64,
    /// Whether other servers may work on the same storage: then this one says that it lives, and
    /// sends only while the others can have heard it.
    pub clustered: bool,
    /// How often it says so, in milliseconds. It counts as alive for `lease_ms` each time.
    pub heartbeat_ms: i64,
    /// How old an address may be when it is used, in milliseconds (trap 8).
    pub address_age_ms_max: i64,
    /// Most devices read ahead by one lane.
    pub lane_devices_max: usize,
    /// Most pages open in one lane.
    pub lane_pages_max: usize,
    /// Most retries that one lane takes at once.
    pub lane_retries_max: u32,
    /// Most retries of one lane: above it nothing new is sent before some of them ended (trap 12).
    /// What is in flight then comes on top.
    pub lane_retry_rows_max: u64,
    /// Most devices of one lane that wait for the service behind them.
    pub lane_deferred_max: usize,
    /// Most notifications started in one transaction.
    pub start_batch: u32,
    /// Most streams of one lane, however many its provider offers: a quarter of the credit, so that
    /// a provider that does not answer leaves credit to the others.
    pub lane_streams_max: usize,
    /// Most dispatches that one lane holds in memory; of the rest it knows the numbers. No bound
    /// across lanes: one that is held must not keep others from starting.
    pub lane_dispatches_max: usize,
    /// Whether the providers' ids of messages are kept (B20).
    pub keep_message_ids: bool,
    /// When and how often a delivery is tried again.
    pub retry: RetryPolicy,
    /// Seed of the jitter; drawn at random when absent.
    pub seed: Option<u64>,
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self {
            max_unacked: MAX_UNACKED_DEFAULT,
            page_rows: 1_000,
            checkpoint_outcomes: 200,
            checkpoint_every: Duration::from_millis(50),
            lease_ms: 15_000,
            clustered: false,
            heartbeat_ms: 3_000,
            address_age_ms_max: 1_000,
            lane_devices_max: 4_000,
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
        }
    }
}

impl EngineConfig {
    /// How long claimed retries are this process's, in milliseconds. Among others they are until it
    /// dies: an attempt may take longer than a lease, and nobody else knows what is in hand here.
    pub(crate) fn retry_lease_ms(&self) -> i64 {
        if self.clustered { RETRY_LEASE_CLUSTERED_MS } else { self.lease_ms }
    }

    /// The id that the provider gave the message, where it is to be kept. One that is too long is
    /// not: a provider may be anybody.
    pub(crate) fn kept_message_id(&self, answer: &SendResult) -> Option<Box<str>> {
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
