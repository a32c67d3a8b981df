//! Metrics that are sampled on request: queues, pauses, connections, tokens.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use notify_core::{ProviderKind, Timestamp};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

/// Why deliveries of a lane wait, from transient causes to those that an operator must fix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Pause {
    /// The provider asked to slow down.
    Throttled,
    /// The provider cannot be reached.
    Unreachable,
    /// The provider refuses our credentials, or they are being probed.
    Credentials,
    /// So many addresses were reported as unregistered that an administrator must check.
    Guard,
}

impl Pause {
    const ALL: [Self; 4] = [Self::Throttled, Self::Unreachable, Self::Credentials, Self::Guard];

    fn as_str(self) -> &'static str {
        match self {
            Self::Throttled => "throttled",
            Self::Unreachable => "unreachable",
            Self::Credentials => "credentials",
            Self::Guard => "guard",
        }
    }
}

/// How much waits on one channel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct QueueSample {
    pub(crate) provider: ProviderKind,
    /// Deliveries claimed and without an outcome.
    pub(crate) sending: u64,
    /// Retries whose time has come.
    pub(crate) retry_due: u64,
    /// Retries whose time has not come.
    pub(crate) retry_waiting: u64,
    /// Age of the oldest due item that is not done, in seconds; 0 if there is none.
    pub(crate) oldest_due_age_seconds: f64,
}

/// One sample of the server.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sample {
    /// `None`: storage does not respond.
    pub(crate) queues: Option<Vec<QueueSample>>,
    /// A lane each.
    pub(crate) pauses: Vec<(ProviderKind, Pause)>,
    /// Connections by channel: busy ones, and idle ones.
    pub(crate) connections: Vec<(ProviderKind, [u64; 2])>,
    /// Age of the oldest token in use of each channel, in seconds.
    pub(crate) token_ages: Vec<(ProviderKind, f64)>,
    /// How often storage was busy, since the start.
    pub(crate) busy: u64,
    /// Transactions that this server committed, since the start.
    pub(crate) commits: u64,
    /// Servers alive on the same storage, this one included.
    pub(crate) servers: u32,
    /// How far the clock is ahead by a leap that is not confirmed, in seconds.
    pub(crate) clock_leap_seconds: f64,
    /// When the TLS certificate expires, where there is one.
    pub(crate) certificate_not_after: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Channel {
    channel: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct InState {
    channel: &'static str,
    state: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Paused {
    channel: &'static str,
    why: &'static str,
}

type Seconds = Gauge<f64, AtomicU64>;
/// No labels.
type NoLabels = [(&'static str, &'static str); 0];

/// The last sample, as series.
#[derive(Debug, Default)]
pub(super) struct Gauges {
    depth: Family<InState, Gauge>,
    oldest: Family<Channel, Seconds>,
    connections: Family<InState, Gauge>,
    paused: Family<Paused, Gauge>,
    token_ages: Family<Channel, Seconds>,
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
        let help = "Age of the oldest thing that is due and not done";
        let unit = || Unit::Seconds;
        registry.register_with_unit("oldest_due_age", help, unit(), self.oldest.clone());
        let help = "HTTP/2 connections to providers";
        registry.register("provider_connections", help, self.connections.clone());
        let help = "Applications whose deliveries wait on the channel";
        registry.register("channel_paused", help, self.paused.clone());
        let help = "Age of the oldest provider token in use";
        registry.register_with_unit("provider_token_age", help, unit(), self.token_ages.clone());
        let help = "Transactions given up because another process held the database";
        registry.register("db_busy", help, self.busy.clone());
        let help = "Transactions committed by this server; one may hold many writes";
        registry.register("db_commits", help, self.commits.clone());
        let help = "Whether storage answered this look: 0 when it did not";
        registry.register("db_up", help, self.storage.clone());
        let help = "Servers alive on this storage, this one included";
        registry.register("servers", help, self.servers.clone());
        let help = "How far the clock is ahead by a leap that is not confirmed";
        registry.register_with_unit("clock_leap", help, unit(), self.clock_leap.clone());
        let help = "When the TLS certificate expires, as a unix time; none without TLS";
        let name = "tls_certificate_not_after";
        registry.register_with_unit(name, help, unit(), self.certificate.clone());
    }

    pub(super) fn show(&self, sample: &Sample) {
        self.show_queues(sample.queues.as_deref());
        for provider in ProviderKind::ALL {
            let channel = provider.as_str();
            for why in Pause::ALL {
                let count = sample.pauses.iter().filter(|pause| **pause == (provider, why)).count();
                let labels = Paused { channel, why: why.as_str() };
                self.paused.get_or_create(&labels).set(shown(count as u64));
            }
            let of = sample.connections.iter().find(|(of, _)| *of == provider);
            for (state, count) in ["busy", "idle"].into_iter().zip(of.map_or([0; 2], |of| of.1)) {
                self.connections.get_or_create(&InState { channel, state }).set(shown(count));
            }
        }
        self.storage.set(i64::from(sample.queues.is_some()));
        self.servers.set(i64::from(sample.servers));
        self.clock_leap.set(sample.clock_leap_seconds);
        self.token_ages.clear();
        for (provider, age) in &sample.token_ages {
            self.token_ages.get_or_create(&Channel { channel: provider.as_str() }).set(*age);
        }
        self.certificate.clear();
        if let Some(not_after) = sample.certificate_not_after {
            let seconds = Duration::from_millis(u64::try_from(not_after.0).unwrap_or(0));
            self.certificate.get_or_create(&[]).set(seconds.as_secs_f64());
        }
        for (counter, now) in [(&self.busy, sample.busy), (&self.commits, sample.commits)] {
            counter.inc_by(now.saturating_sub(counter.get()));
        }
    }

    /// Without storage there are no figures, and old ones would look like news.
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
                self.depth.get_or_create(&InState { channel, state }).set(shown(count));
            }
            self.oldest.get_or_create(&Channel { channel }).set(queue.oldest_due_age_seconds);
        }
    }
}

fn shown(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
