//! Gauges that are sampled when the metrics are requested: queues, provider status, connections and
//! tokens.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use notify_core::{ProviderKind, ProviderStatus, Timestamp};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use crate::telemetry::apps::AppQueueSample;
use crate::telemetry::process::ProcessSample;

/// The queue of one provider.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct QueueSample {
    pub(crate) provider: ProviderKind,
    /// Deliveries that are claimed and have no outcome yet.
    pub(crate) sending: u64,
    /// Retries that are due.
    pub(crate) retry_due: u64,
    /// Retries that are not due yet.
    pub(crate) retry_waiting: u64,
    /// Age of the oldest overdue work, in seconds; 0 if there is none.
    pub(crate) oldest_due_age_seconds: f64,
}

/// The values of all gauges at one moment.
#[derive(Debug, Clone)]
pub(crate) struct Sample {
    /// `None` if storage does not respond.
    pub(crate) queues: Option<Vec<QueueSample>>,
    /// The queues of applications; `None` if storage does not respond.
    pub(crate) app_queues: Option<Vec<AppQueueSample>>,
    /// The process; `None` if the system does not show it.
    pub(crate) process: Option<ProcessSample>,
    /// When the server started.
    pub(crate) started_at: Timestamp,
    /// The status of each lane.
    pub(crate) lane_statuses: Vec<(ProviderKind, ProviderStatus)>,
    /// The number of connections of each provider: first those with requests in flight, then those
    /// without.
    pub(crate) connections: Vec<(ProviderKind, [u64; 2])>,
    /// Age of the oldest token in use of each provider, in seconds.
    pub(crate) token_ages: Vec<(ProviderKind, f64)>,
    /// How many transactions had to wait for another process since the start.
    pub(crate) busy: u64,
    /// Transactions that this server committed, since the start.
    pub(crate) commits: u64,
    /// The number of running servers of this database, including this server.
    pub(crate) servers: u32,
    /// How far the clock jumped ahead, in seconds; 0 if the operator confirmed the jump or there
    /// was none.
    pub(crate) clock_leap_seconds: f64,
    /// When the TLS certificate expires; `None` without TLS.
    pub(crate) certificate_not_after: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ChannelLabel {
    channel: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabels {
    channel: &'static str,
    state: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PausedLabels {
    channel: &'static str,
    why: &'static str,
}

type Seconds = Gauge<f64, AtomicU64>;
/// An empty set of labels. A family without labels can be cleared, unlike a gauge, so that its
/// series is missing.
type NoLabels = [(&'static str, &'static str); 0];

/// The series that show the last sample.
#[derive(Debug, Default)]
pub(super) struct Gauges {
    depth: Family<StateLabels, Gauge>,
    oldest: Family<ChannelLabel, Seconds>,
    connections: Family<StateLabels, Gauge>,
    paused: Family<PausedLabels, Gauge>,
    token_ages: Family<ChannelLabel, Seconds>,
    busy: Counter,
    commits: Counter,
    storage: Gauge,
    servers: Gauge,
    clock_leap: Seconds,
    certificate: Family<NoLabels, Seconds>,
}

impl Gauges {
    pub(super) fn register(&self, registry: &mut Registry) {
        let help = "Deliveries without an outcome; counted up to a bound";
        registry.register("queue_depth", help, self.depth.clone());
        let help = "Age of the oldest work that is due and not done";
        let unit = || Unit::Seconds;
        registry.register_with_unit("oldest_due_age", help, unit(), self.oldest.clone());
        let help = "HTTP/2 connections to providers";
        registry.register("provider_connections", help, self.connections.clone());
        let help = "Applications whose deliveries wait on the channel";
        registry.register("channel_paused", help, self.paused.clone());
        let help = "Age of the oldest provider token in use";
        registry.register_with_unit("provider_token_age", help, unit(), self.token_ages.clone());
        let help = "Transactions that waited because another process held the database";
        registry.register("db_busy", help, self.busy.clone());
        let help = "Transactions committed by this server; a transaction may contain many writes";
        registry.register("db_commits", help, self.commits.clone());
        let help = "Whether storage answered when the metrics were requested: 0 when it did not";
        registry.register("db_up", help, self.storage.clone());
        let help = "Running servers of this database, including this server";
        registry.register("servers", help, self.servers.clone());
        let help = "How far the clock jumped ahead, as long as the jump is not confirmed";
        registry.register_with_unit("clock_leap", help, unit(), self.clock_leap.clone());
        let help = "When the TLS certificate expires, as a unix time; missing without TLS";
        let name = "tls_certificate_not_after";
        registry.register_with_unit(name, help, unit(), self.certificate.clone());
    }

    /// Sets all series to the values of a sample.
    pub(super) fn show(&self, sample: &Sample) {
        self.show_queues(sample.queues.as_deref());
        for provider in ProviderKind::ALL {
            let channel = provider.as_str();
            for why in ProviderStatus::WAIT_REASONS {
                let waits = |(kind, status): &&(ProviderKind, ProviderStatus)| {
                    *kind == provider && status.wait_reason() == Some(why)
                };
                let count = sample.lane_statuses.iter().filter(waits).count();
                let labels = PausedLabels { channel, why };
                self.paused.get_or_create(&labels).set(to_gauge(count as u64));
            }
            let connections = sample.connections.iter().find(|(kind, _)| *kind == provider);
            let counts = connections.map_or([0; 2], |(_, counts)| *counts);
            for (state, count) in ["busy", "idle"].into_iter().zip(counts) {
                self.connections
                    .get_or_create(&StateLabels { channel, state })
                    .set(to_gauge(count));
            }
        }
        self.storage.set(i64::from(sample.queues.is_some()));
        self.servers.set(i64::from(sample.servers));
        self.clock_leap.set(sample.clock_leap_seconds);
        self.token_ages.clear();
        for (provider, age) in &sample.token_ages {
            self.token_ages.get_or_create(&ChannelLabel { channel: provider.as_str() }).set(*age);
        }
        self.certificate.clear();
        if let Some(not_after) = sample.certificate_not_after {
            let seconds = Duration::from_millis(u64::try_from(not_after.0).unwrap_or(0));
            self.certificate.get_or_create(&[]).set(seconds.as_secs_f64());
        }
        for (counter, total) in [(&self.busy, sample.busy), (&self.commits, sample.commits)] {
            counter.inc_by(total.saturating_sub(counter.get()));
        }
    }

    /// Sets the series of the queues. If the store does not respond, the series are removed: old
    /// values would look current.
    fn show_queues(&self, queues: Option<&[QueueSample]>) {
        let Some(queues) = queues else {
            self.depth.clear();
            self.oldest.clear();
            return;
        };
        for queue in queues {
            let channel = queue.provider.as_str();
            for (state, count) in [
                ("sending", queue.sending),
                ("retry_due", queue.retry_due),
                ("retry_waiting", queue.retry_waiting),
            ] {
                self.depth.get_or_create(&StateLabels { channel, state }).set(to_gauge(count));
            }
            self.oldest.get_or_create(&ChannelLabel { channel }).set(queue.oldest_due_age_seconds);
        }
    }
}

fn to_gauge(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
