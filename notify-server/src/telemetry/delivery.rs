//! Metrics of the delivery engine.

use std::sync::Arc;
use std::time::Duration;

use notify_core::ProviderKind;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use crate::reasons;
use crate::store::{AppNo, DeadAddress, DeviceOutcome, Outcome, RetryOutcome, RetryResult};
use crate::telemetry::apps::AppMetrics;

/// Histogram bounds of an attempt's duration, in seconds: from a provider on the same network to
/// the timeout.
const ATTEMPT_BUCKETS_SECONDS: [f64; 8] = [0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ChannelLabel {
    channel: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabels {
    channel: &'static str,
    outcome: &'static str,
    reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DisabledLabels {
    channel: &'static str,
    reason: &'static str,
}

/// Metrics of the delivery engine, shared by clones.
#[derive(Debug, Clone, Default)]
pub struct DeliveryMetrics(Arc<Counts>);

#[derive(Debug)]
struct Counts {
    attempts: Family<ChannelLabel, Counter>,
    durations: Family<ChannelLabel, Histogram, fn() -> Histogram>,
    ended: Family<OutcomeLabels, Counter>,
    disabled: Family<DisabledLabels, Counter>,
    apps: AppMetrics,
}

impl Default for Counts {
    fn default() -> Self {
        Self::new(AppMetrics::default())
    }
}

impl Counts {
    fn new(apps: AppMetrics) -> Self {
        let durations: Family<ChannelLabel, Histogram, fn() -> Histogram> =
            Family::new_with_constructor(|| Histogram::new(ATTEMPT_BUCKETS_SECONDS));
        let counts = Self {
            attempts: Family::default(),
            durations,
            ended: Family::default(),
            disabled: Family::default(),
            apps,
        };
        for provider in ProviderKind::ALL {
            // Every series is created with 0 at the start. Prometheus computes a rate only after an
            // initial value, and an alert works only on a series that exists.
            drop(counts.attempts.get_or_create(&channel(provider)));
            drop(counts.durations.get_or_create(&channel(provider)));
            let (channel, outcome) = (provider.as_str(), Outcome::Sent.as_str());
            let reason = label(None);
            drop(counts.ended.get_or_create(&OutcomeLabels { channel, outcome, reason }));
            let reason = OTHER;
            drop(counts.disabled.get_or_create(&DisabledLabels { channel, reason }));
        }
        counts
    }
}

impl DeliveryMetrics {
    /// Metrics that also count by application.
    pub(super) fn new(apps: AppMetrics) -> Self {
        Self(Arc::new(Counts::new(apps)))
    }

    /// Registers the metrics.
    pub(super) fn register(&self, registry: &mut Registry) {
        let Counts { attempts, durations, ended, disabled, apps: _ } = &*self.0;
        let help = "Requests to a provider that carry a message";
        registry.register("delivery_attempts", help, attempts.clone());
        let help = "From the request of a message to the provider's response";
        let name = "provider_request_duration";
        registry.register_with_unit(name, help, Unit::Seconds, durations.clone());
        let help = "Deliveries that ended, counted when the outcome is stored";
        registry.register("deliveries", help, ended.clone());
        let help = "Addresses that a provider reported dead";
        registry.register("tokens_disabled", help, disabled.clone());
    }

    /// Counts a finished attempt.
    pub(crate) fn attempted(&self, provider: ProviderKind, took: Duration) {
        let channel = channel(provider);
        self.0.attempts.get_or_create(&channel).inc();
        self.0.durations.get_or_create(&channel).observe(took.as_secs_f64());
    }

    /// Counts the outcomes committed by a page.
    pub(crate) fn settled(&self, settled: &[DeviceOutcome], dead: &[DeadAddress]) {
        let mut rest = settled;
        // Most outcomes of a page are equal, so a series is looked up once for each run of equal
        // outcomes.
        while let Some(first) = rest.first() {
            let same = |other: &&DeviceOutcome| {
                let of = |outcome: &DeviceOutcome| (outcome.key.app(), outcome.key.platform());
                of(other) == of(first)
                    && (other.settled, &other.reason) == (first.settled, &first.reason)
            };
            let count = rest.iter().take_while(same).count();
            let provider = first.key.platform().provider();
            self.ended(provider, first.settled, first.reason.as_deref(), count as u64);
            self.0.apps.ended(first.key.app(), first.settled, count as u64);
            rest = &rest[count..];
        }
        dead.iter().for_each(|dead| self.disabled(dead));
    }

    /// Counts the committed outcomes of retries.
    pub(crate) fn retried(&self, provider: ProviderKind, outcomes: &[RetryOutcome]) {
        for outcome in outcomes {
            if let RetryResult::Final { settled, reason, .. } = &outcome.result {
                self.ended(provider, *settled, reason.as_deref(), 1);
                self.0.apps.ended(AppNo::from_key(outcome.no.0), *settled, 1);
            }
            if let Some(dead) = &outcome.dead {
                self.disabled(dead);
            }
        }
    }

    /// Counts deliveries with the same outcome.
    pub(crate) fn ended(
        &self,
        provider: ProviderKind,
        settled: Outcome,
        reason: Option<&str>,
        count: u64,
    ) {
        let (channel, outcome) = (provider.as_str(), settled.as_str());
        let reason = label(reason);
        self.0.ended.get_or_create(&OutcomeLabels { channel, outcome, reason }).inc_by(count);
    }

    fn disabled(&self, dead: &DeadAddress) {
        let channel = dead.key.platform().provider().as_str();
        let reason = label(Some(&dead.reason));
        self.0.disabled.get_or_create(&DisabledLabels { channel, reason }).inc();
    }
}

fn channel(provider: ProviderKind) -> ChannelLabel {
    ChannelLabel { channel: provider.as_str() }
}

// Reasons as labels. The list is closed, because providers can send any text.

/// Reasons of providers that are used as labels, in addition to Notify's own reasons. They are
/// those of the tables in `providers/`. All other reasons count as [`OTHER`]; the notification's
/// `failures` show them in full.
const REASONS: &[&str] = &[
    // APNs.
    "BadCollapseId",
    "BadDeviceToken",
    "BadPath",
    "DeviceTokenNotForTopic",
    "ExpiredToken",
    "InternalServerError",
    "PayloadTooLarge",
    "ServiceUnavailable",
    "Shutdown",
    "TooManyRequests",
    "Unregistered",
    // FCM.
    "INTERNAL",
    "INVALID_ARGUMENT",
    "QUOTA_EXCEEDED",
    "SENDER_ID_MISMATCH",
    "UNAVAILABLE",
    "UNREGISTERED",
    // Web Push and plain HTTP responses.
    "http_400",
    "http_403",
    "http_404",
    "http_410",
    "http_413",
    "http_429",
    "http_500",
    "http_502",
    "http_503",
];

/// The label of every reason that is not in a list.
pub(super) const OTHER: &str = "other";

/// The label of a reason; empty if there is no reason.
pub(super) fn label(reason: Option<&str>) -> &'static str {
    let Some(reason) = reason else { return "" };
    reasons::ALL.iter().chain(REASONS).find(|label| **label == reason).unwrap_or(&OTHER)
}

/// The number of possible labels.
#[cfg(test)]
pub(super) const LABELS_MAX: usize = reasons::ALL.len() + REASONS.len() + 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_reason_gets_the_label_other() {
        assert_eq!(label(Some("BadDeviceToken")), "BadDeviceToken");
        assert_eq!(label(Some("overtaken")), "overtaken");
        assert_eq!(label(Some("http_418 token-of-somebody")), "other");
        assert_eq!(label(None), "");
    }
}
