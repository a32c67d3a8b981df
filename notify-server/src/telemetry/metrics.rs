//! All metrics, and the text of `/metrics`.

#[cfg(test)]
mod tests;

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

use crate::store::{AppNo, AttemptOutcome, MessageStep};
use crate::telemetry::apps::AppMetrics;
use crate::telemetry::delivery::DeliveryMetrics;
use crate::telemetry::process::ProcessMetrics;
use crate::telemetry::sample::{Gauges, Sample};

/// Histogram bounds of a request's duration, in seconds: from a response from memory to the body
/// timeout. The list is short, because each bound adds a series to every route.
const DURATION_BUCKETS_SECONDS: [f64; 7] = [0.001, 0.005, 0.025, 0.1, 0.5, 2.5, 15.0];

/// Labels of a request. The route is a template or `unknown`. The method is a method of the route
/// or `other`. So the set of labels is closed.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    route: &'static str,
    code: u16,
    method: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RouteLabel {
    route: &'static str,
}

/// All metrics. Each server has separate metrics, so that the servers of two tests share nothing.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Mutex<Registry>,
    requests: Family<RequestLabels, Counter>,
    durations: Family<RouteLabel, Histogram, fn() -> Histogram>,
    accepted: Counter,
    refused_calls: Family<RefusedLabel, Counter>,
    delivery: DeliveryMetrics,
    webhooks: WebhookMetrics,
    feeds: FeedMetrics,
    retention: RetentionMetrics,
    gauges: Gauges,
    apps: AppMetrics,
    process: ProcessMetrics,
}

impl Metrics {
    /// Metrics in which at most `apps_max` applications have series of their own.
    pub(crate) fn new(apps_max: usize) -> Self {
        let mut registry = Registry::with_prefix("notify");
        let build = Info::new(vec![("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("build", "What is running", build);
        let requests = Family::default();
        registry.register("http_requests", "Requests answered", requests.clone());
        let durations: Family<RouteLabel, Histogram, fn() -> Histogram> =
            Family::new_with_constructor(|| Histogram::new(DURATION_BUCKETS_SECONDS));
        let help = "From the head of a request to its response";
        let name = "http_request_duration";
        registry.register_with_unit(name, help, Unit::Seconds, durations.clone());
        let accepted = Counter::default();
        let help = "Notifications accepted for delivery, without reports and replays";
        registry.register("notifications_accepted", help, accepted.clone());
        let refused_calls = Family::default();
        let help = "Calls of apps and browsers refused by a rate limit";
        registry.register("device_calls_refused", help, refused_calls.clone());
        for limit in RefusedBy::ALL {
            // As for feeds: a rate needs an initial value.
            drop(refused_calls.get_or_create(&RefusedLabel { limit: limit.as_str() }));
        }
        let apps = AppMetrics::new(apps_max);
        apps.register(&mut registry);
        let delivery = DeliveryMetrics::new(apps.clone());
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
            refused_calls,
            delivery,
            webhooks,
            feeds,
            retention,
            gauges,
            apps,
            process: ProcessMetrics::default(),
        }
    }

    /// Metrics by application.
    #[must_use]
    pub(crate) fn apps(&self) -> &AppMetrics {
        &self.apps
    }

    /// Metrics of the delivery engine.
    #[must_use]
    pub(crate) fn delivery(&self) -> DeliveryMetrics {
        self.delivery.clone()
    }

    /// Metrics of the webhook engine.
    #[must_use]
    pub(crate) fn webhooks(&self) -> WebhookMetrics {
        self.webhooks.clone()
    }

    /// Metrics of feeds.
    #[must_use]
    pub(crate) fn feeds(&self) -> FeedMetrics {
        self.feeds.clone()
    }

    /// Metrics of retention.
    #[must_use]
    pub(crate) fn retention(&self) -> RetentionMetrics {
        self.retention.clone()
    }

    /// The text of all metrics, with the given sample.
    pub(crate) fn encode(&self, sample: &Sample, format: MetricsFormat) -> String {
        let mut text = String::new();
        // The lock covers both steps, so that another request cannot set its sample in between.
        let registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        self.gauges.show(sample);
        self.apps.show(sample.app_queues.as_deref());
        text::encode_registry(&mut text, &registry).expect("writing to a String cannot fail");
        let started_at = Duration::from_millis(u64::try_from(sample.started_at.0).unwrap_or(0));
        self.process.encode(sample.process.as_ref(), started_at.as_secs_f64(), &mut text);
        text::encode_eof(&mut text).expect("writing to a String cannot fail");
        drop(registry);
        format.render(text)
    }

    /// Counts a response.
    pub(crate) fn count_response(
        &self,
        method: &'static str,
        route: &'static str,
        code: u16,
        took: Duration,
    ) {
        self.requests.get_or_create(&RequestLabels { route, code, method }).inc();
        self.durations.get_or_create(&RouteLabel { route }).observe(took.as_secs_f64());
    }

    /// Counts a notification that was accepted for delivery; replays do not count.
    pub(crate) fn count_notification(&self, app: AppNo) {
        self.accepted.inc();
        self.apps.accepted(app);
    }

    /// Counts a call of an app or a browser that a limit refused.
    pub(crate) fn count_refused_call(&self, app: AppNo, limit: RefusedBy) {
        self.refused_calls.get_or_create(&RefusedLabel { limit: limit.as_str() }).inc();
        self.apps.refused_call(app);
    }
}

// The two formats of the metrics: the text format of Prometheus (version 0.0.4), which all
// collectors accept, and `OpenMetrics` for clients that request it.

/// A format of the metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MetricsFormat {
    /// Prometheus text format 0.0.4.
    Prometheus,
    /// `OpenMetrics` 1.0.
    OpenMetrics,
}

impl MetricsFormat {
    /// The format for an `Accept` header: `OpenMetrics` if the header names it, otherwise
    /// Prometheus' format.
    pub(crate) fn of(accept: Option<&str>) -> Self {
        match accept {
            Some(accept) if accept.contains("application/openmetrics-text") => Self::OpenMetrics,
            Some(_) | None => Self::Prometheus,
        }
    }

    /// The content type of the format.
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// Converts a text in `OpenMetrics` to this format.
    pub(super) fn render(self, open_metrics: String) -> String {
        match self {
            Self::OpenMetrics => open_metrics,
            Self::Prometheus => to_prometheus(&open_metrics),
        }
    }
}

/// Converts `OpenMetrics` to Prometheus' format. In Prometheus' format, a family has the full name
/// of its samples, with the suffix. Units, the type `info` and the end marker do not exist.
fn to_prometheus(open_metrics: &str) -> String {
    let mut text = String::with_capacity(open_metrics.len());
    let mut help: Option<(&str, &str)> = None;
    for line in open_metrics.lines() {
        if let Some(name_and_help) = line.strip_prefix("# HELP ") {
            help = name_and_help.split_once(' ');
        } else if let Some(name_and_type) = line.strip_prefix("# TYPE ") {
            let (name, kind) = name_and_type.split_once(' ').unwrap_or((name_and_type, "untyped"));
            let (suffix, prometheus_kind) = match kind {
                "counter" => ("_total", "counter"),
                "info" => ("_info", "gauge"),
                "unknown" => ("", "untyped"),
                kind => ("", kind),
            };
            if let Some((help_name, help)) = help.take()
                && help_name == name
            {
                text.push_str(&format!("# HELP {name}{suffix} {help}\n"));
            }
            text.push_str(&format!("# TYPE {name}{suffix} {prometheus_kind}\n"));
        } else if !line.starts_with('#') {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

// Calls of apps and browsers that were refused.

/// The limit that refused a call of an app or a browser, as a label.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RefusedBy {
    /// The limit of one device.
    Device,
    /// The limits of one client address.
    Address,
    /// The limit of the registrations of one application.
    Application,
}

impl RefusedBy {
    /// All limits, in the order of their numbers.
    pub(crate) const ALL: [Self; 3] = [Self::Device, Self::Address, Self::Application];

    fn as_str(self) -> &'static str {
        match self {
            Self::Device => "device",
            Self::Address => "address",
            Self::Application => "application",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RefusedLabel {
    limit: &'static str,
}

// Metrics of feeds.

/// The result of a fetch, as a label.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FeedResult {
    /// The feed was read.
    Read,
    /// The feed had not changed (304).
    Unchanged,
    /// The guard for outgoing connections refused the address of the feed.
    Blocked,
    /// The feed is gone (410).
    Gone,
    /// The response is not a feed, or is too large.
    Unreadable,
    /// There was no response, or its status is an error.
    Failed,
}

impl FeedResult {
    const ALL: [Self; 6] =
        [Self::Read, Self::Unchanged, Self::Blocked, Self::Gone, Self::Unreadable, Self::Failed];

    fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Unchanged => "unchanged",
            Self::Blocked => "blocked",
            Self::Gone => "gone",
            Self::Unreadable => "unreadable",
            Self::Failed => "failed",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FetchLabels {
    result: &'static str,
}

/// Metrics of feeds, shared by clones.
#[derive(Debug, Clone, Default)]
pub(crate) struct FeedMetrics(Family<FetchLabels, Counter>);

impl FeedMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register("feed_fetches", "Fetches of feeds by how they ended", self.0.clone());
        for result in FeedResult::ALL {
            // Every series is created with 0 at the start, because Prometheus computes a rate only
            // after an initial value.
            drop(self.0.get_or_create(&FetchLabels { result: result.as_str() }));
        }
    }

    /// Counts a fetch.
    pub(crate) fn count_fetch(&self, result: FeedResult) {
        self.0.get_or_create(&FetchLabels { result: result.as_str() }).inc();
    }
}

// Metrics of the webhook engine.

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AttemptLabels {
    outcome: &'static str,
    reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DisabledLabels {
    reason: &'static str,
}

/// Metrics of the webhook engine, shared by clones.
#[derive(Debug, Clone, Default)]
pub(crate) struct WebhookMetrics {
    attempts: Family<AttemptLabels, Counter>,
    disabled: Family<DisabledLabels, Counter>,
    dropped: Counter,
}

impl WebhookMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        let help = "Attempts to send a message to a webhook, by the next step of the message";
        registry.register("webhook_attempts", help, self.attempts.clone());
        let help = "Webhooks disabled by the server";
        registry.register("webhooks_disabled", help, self.disabled.clone());
        let help = "Events dropped before they were sent to a webhook";
        registry.register("webhook_events_dropped", help, self.dropped.clone());
    }

    /// Counts an attempt.
    pub(crate) fn count_attempt(&self, outcome: &AttemptOutcome) {
        let reason = outcome.reason.unwrap_or("none");
        let label = match outcome.step {
            MessageStep::Delivered => "delivered",
            MessageStep::Again { .. } => "again",
            MessageStep::Failed => "failed",
        };
        self.attempts.get_or_create(&AttemptLabels { outcome: label, reason }).inc();
    }

    /// Counts a webhook that was disabled.
    pub(crate) fn count_disabled(&self, reason: &'static str) {
        self.disabled.get_or_create(&DisabledLabels { reason }).inc();
    }

    /// Counts events that were dropped.
    pub(crate) fn count_dropped(&self, events: u64) {
        self.dropped.inc_by(events);
    }
}

// Metrics of retention.

/// Metrics of retention, shared by clones.
#[derive(Debug, Clone, Default)]
pub(crate) struct RetentionMetrics {
    anonymous_devices_removed: Counter,
}

impl RetentionMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        let help =
            "Browsers removed that subscribed without an API key and never accepted a message";
        registry.register(
            "anonymous_devices_removed",
            help,
            self.anonymous_devices_removed.clone(),
        );
    }

    /// Counts anonymous devices that were removed.
    pub(crate) fn count_removed_devices(&self, devices: u64) {
        self.anonymous_devices_removed.inc_by(devices);
    }
}

#[cfg(test)]
mod exposition_tests {
    use super::*;

    #[test]
    fn format_is_prometheus_unless_openmetrics_is_accepted() {
        let scraper = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4";
        for (accept, format) in [
            (None, MetricsFormat::Prometheus),
            (Some("*/*"), MetricsFormat::Prometheus),
            (Some("text/plain"), MetricsFormat::Prometheus),
            (Some(scraper), MetricsFormat::OpenMetrics),
        ] {
            assert_eq!(MetricsFormat::of(accept), format, "{accept:?}");
        }
    }

    #[test]
    fn a_family_is_described_under_the_name_of_its_samples() {
        let open_metrics = "# HELP notify_build What is running.\n# TYPE notify_build info\n\
            notify_build_info{version=\"1\"} 1\n# HELP notify_a A thing.\n# TYPE notify_a counter\n\
            notify_a_total{b=\"c\"} 2\n# HELP notify_d_seconds D.\n# TYPE notify_d_seconds gauge\n\
            # UNIT notify_d_seconds seconds\nnotify_d_seconds 0.5\n# EOF\n";
        let expected = "# HELP notify_build_info What is running.\n\
            # TYPE notify_build_info gauge\nnotify_build_info{version=\"1\"} 1\n\
            # HELP notify_a_total A thing.\n# TYPE notify_a_total counter\n\
            notify_a_total{b=\"c\"} 2\n# HELP notify_d_seconds D.\n\
            # TYPE notify_d_seconds gauge\nnotify_d_seconds 0.5\n";
        assert_eq!(MetricsFormat::Prometheus.render(open_metrics.to_owned()), expected);
        assert_eq!(MetricsFormat::OpenMetrics.render(open_metrics.to_owned()), open_metrics);
    }
}
