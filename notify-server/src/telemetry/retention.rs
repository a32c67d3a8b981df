//! What retention counts.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;

/// What retention counts; clones count together.
#[derive(Debug, Clone, Default)]
pub(crate) struct RetentionMetrics {
    anonymous_devices_removed: Counter,
}

impl RetentionMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        let help = "Browsers removed that subscribed without an API key and never took a message";
        registry.register(
            "anonymous_devices_removed",
            help,
            self.anonymous_devices_removed.clone(),
        );
    }

    /// Counts anonymous devices that were removed.
    pub(crate) fn anonymous_devices_removed(&self, devices: u64) {
        self.anonymous_devices_removed.inc_by(devices);
    }
}
