//! Everything that is counted, and the text of `/metrics`.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

use super::delivery::DeliveryMetrics;
use super::exposition::Form;
use super::feeds::FeedMetrics;
use super::retention::RetentionMetrics;
use super::sample::{Gauges, Sample};
use super::webhooks::WebhookMetrics;

/// Bounds of the request duration, in seconds: from an answer out of memory to the body timeout.
/// Few, since each is a series of every route.
const DURATION_BUCKETS_SECONDS: [f64; 7] = [0.001, 0.005, 0.025, 0.1, 0.5, 2.5, 15.0];

/// Labels of an answered request. The route is a template of the table or `unknown`, the method one
/// that the route has or `other`: a closed set.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answered {
    route: &'static str,
    code: u16,
    method: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Route {
    route: &'static str,
}

/// Everything that is counted. Each server has its own, so that tests share nothing.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Mutex<Registry>,
    requests: Family<Answered, Counter>,
    durations: Family<Route, Histogram, fn() -> Histogram>,
    accepted: Counter,
    delivery: DeliveryMetrics,
    webhooks: WebhookMetrics,
    feeds: FeedMetrics,
    retention: RetentionMetrics,
    gauges: Gauges,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("notify");
        let build = Info::new(vec![("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("build", "What is running", build);
        let requests = Family::default();
        registry.register("http_requests", "Requests answered", requests.clone());
        let durations: Family<Route, Histogram, fn() -> Histogram> =
            Family::new_with_constructor(|| Histogram::new(DURATION_BUCKETS_SECONDS));
        let help = "From a request's head to its answer";
        let name = "http_request_duration";
        registry.register_with_unit(name, help, Unit::Seconds, durations.clone());
        let accepted = Counter::default();
        let help = "Notifications accepted for delivery; reports and replays are none";
        registry.register("notifications_accepted", help, accepted.clone());
        let delivery = DeliveryMetrics::default();
        delivery.register(&mut registry);
        let webhooks = WebhookMetrics::default();
        webhooks.register(&mut registry);
        let feeds = FeedMetrics::default();
        feeds.register(&mut registry);
        let retention = RetentionMetrics::default();
        retention.register(&mut registry);
        let gauges = Gauges::default();
        gauges.register(&mut registry);
        let registry = Mutex::new(registry);
        Self {
            registry,
            requests,
            durations,
            accepted,
            delivery,
            webhooks,
            feeds,
            retention,
            gauges,
        }
    }
}

impl Metrics {
    /// What the delivery engine counts.
    #[must_use]
    pub(crate) fn delivery(&self) -> DeliveryMetrics {
        self.delivery.clone()
    }

    /// What the webhook engine counts.
    #[must_use]
    pub(crate) fn webhooks(&self) -> WebhookMetrics {
        self.webhooks.clone()
    }

    /// What fetching feeds counts.
    #[must_use]
    pub(crate) fn feeds(&self) -> FeedMetrics {
        self.feeds.clone()
    }

    /// What retention counts.
    #[must_use]
    pub(crate) fn retention(&self) -> RetentionMetrics {
        self.retention.clone()
    }

    /// Everything, with what was just looked up.
    pub(crate) fn encode(&self, sample: &Sample, form: Form) -> String {
        let mut text = String::new();
        // Held over both, so that no other look comes in between.
        let registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        self.gauges.show(sample);
        prometheus_client::encoding::text::encode(&mut text, &registry)
            .expect("writing to a String cannot fail");
        drop(registry);
        form.render(text)
    }

    /// Counts an answer to a method of a route.
    pub(crate) fn answered(
        &self,
        (method, route): (&'static str, &'static str),
        code: u16,
        took: Duration,
    ) {
        self.requests.get_or_create(&Answered { route, code, method }).inc();
        self.durations.get_or_create(&Route { route }).observe(took.as_secs_f64());
    }

    /// Counts a notification that was accepted for delivery; replays do not count.
    pub(crate) fn accepted(&self) {
        self.accepted.inc();
    }
}

#[cfg(test)]
mod tests;
