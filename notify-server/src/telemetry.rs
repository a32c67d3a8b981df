//! What the server tells about itself: the log on standard error and the metrics of `/metrics`.
//! Never a key, token, body or id as a label or field value of its own accord.

use std::io::IsTerminal;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};
use tracing_subscriber::EnvFilter;

use crate::config::LogFormat;

/// Content type of what [`Metrics::encode`] writes.
pub(crate) const METRICS_CONTENT_TYPE: &str =
    "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Bounds of the request duration, in seconds: from an answer out of memory to the body timeout.
const DURATION_BUCKETS_SECONDS: [f64; 12] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 15.0];

/// Why logging could not begin.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LogError {
    /// The filter is not one.
    #[error("log: not a filter, such as `info` or `notify_server=debug`")]
    Filter(#[source] tracing_subscriber::filter::ParseError),
    /// Something else logs already.
    #[error("log: already begun")]
    Begun(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// Begins to log on standard error; once in a process.
///
/// # Errors
/// When the filter is malformed, or logging has begun already.
pub(crate) fn start_log(filter: &str, format: LogFormat) -> Result<(), LogError> {
    let filter = EnvFilter::try_new(filter).map_err(LogError::Filter)?;
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    match format {
        LogFormat::Text => log.try_init(),
        LogFormat::Json => log.json().try_init(),
    }
    .map_err(LogError::Begun)
}

/// Labels of an answered request. The route is a template of the table or `unknown`: a closed set.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answered {
    route: &'static str,
    method: &'static str,
    code: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Route {
    route: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AcceptedAs {
    origin: &'static str,
}

/// Everything that is counted. Each server has its own, so that tests share nothing.
#[derive(Debug)]
pub struct Metrics {
    registry: Mutex<Registry>,
    requests: Family<Answered, Counter>,
    durations: Family<Route, Histogram, fn() -> Histogram>,
    accepted: Family<AcceptedAs, Counter>,
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
        let accepted = Family::default();
        registry.register("notifications_accepted", "Notifications stored", accepted.clone());
        Self { registry: Mutex::new(registry), requests, durations, accepted }
    }
}

impl Metrics {
    /// Lets another part of the server add its metrics.
    pub fn register(&self, add: impl FnOnce(&mut Registry)) {
        add(&mut self.registry.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Everything, in the text of `OpenMetrics`.
    #[must_use]
    pub fn encode(&self) -> String {
        let mut text = String::new();
        let registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        prometheus_client::encoding::text::encode(&mut text, &registry)
            .expect("writing to a String cannot fail");
        text
    }

    /// Counts an answer.
    pub(crate) fn answered(
        &self,
        route: &'static str,
        method: &'static str,
        code: u16,
        took: Duration,
    ) {
        self.requests.get_or_create(&Answered { route, method, code }).inc();
        self.durations.get_or_create(&Route { route }).observe(took.as_secs_f64());
    }

    /// Counts a notification that was stored; replays do not count.
    pub(crate) fn accepted(&self, origin: &'static str) {
        self.accepted.get_or_create(&AcceptedAs { origin }).inc();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_open_metrics_text() {
        let metrics = Metrics::default();
        metrics.answered("/v1/devices", "POST", 200, Duration::from_millis(3));
        metrics.accepted("created");
        let text = metrics.encode();
        for line in [
            "notify_http_requests_total{route=\"/v1/devices\",method=\"POST\",code=\"200\"} 1",
            "notify_notifications_accepted_total{origin=\"created\"} 1",
            "notify_http_request_duration_seconds_count{route=\"/v1/devices\"} 1",
            "# EOF",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
        }
        assert!(text.contains("notify_build_info{version="));
    }
}
