//! What the webhook engine counts.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use crate::store::{AttemptOutcome, MessageStep};

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Attempted {
    outcome: &'static str,
    reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Disabled {
    reason: &'static str,
}

/// What the webhook engine counts; clones count together.
#[derive(Debug, Clone, Default)]
pub(crate) struct WebhookMetrics {
    attempts: Family<Attempted, Counter>,
    disabled: Family<Disabled, Counter>,
    dropped: Counter,
}

impl WebhookMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        let help = "Attempts to send a message to a webhook, by how the message went on";
        registry.register("webhook_attempts", help, self.attempts.clone());
        let help = "Webhooks disabled by the server";
        registry.register("webhooks_disabled", help, self.disabled.clone());
        let help = "Events dropped before they were sent to a webhook";
        registry.register("webhook_events_dropped", help, self.dropped.clone());
    }

    /// Counts an attempt.
    pub(crate) fn attempted(&self, outcome: &AttemptOutcome) {
        let reason = outcome.reason.unwrap_or("none");
        let word = match outcome.step {
            MessageStep::Delivered => "delivered",
            MessageStep::Again { .. } => "again",
            MessageStep::Failed => "failed",
        };
        self.attempts.get_or_create(&Attempted { outcome: word, reason }).inc();
    }

    /// Counts a webhook that was disabled.
    pub(crate) fn disabled(&self, reason: &'static str) {
        self.disabled.get_or_create(&Disabled { reason }).inc();
    }

    /// Counts events that were dropped.
    pub(crate) fn dropped(&self, events: u64) {
        self.dropped.inc_by(events);
    }
}
