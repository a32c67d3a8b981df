//! Observability: the log on standard error and the metrics of `/metrics`. No label or log field
//! contains a key, a token or a body. All labels come from closed lists, or are ids of a bounded number
//! of applications, so that the number of series is bounded.

mod apps;
mod delivery;
mod log;
mod metrics;
mod process;
mod sample;

pub(crate) use apps::{AppQueueSample, METRICS_APPS_MAX};
pub(crate) use delivery::DeliveryMetrics;
pub(crate) use log::LogThrottle;
pub(crate) use log::masked;
pub(crate) use log::start_log;
pub(crate) use metrics::Metrics;
pub(crate) use metrics::MetricsFormat;
pub(crate) use metrics::RefusedBy;
pub(crate) use metrics::RetentionMetrics;
pub(crate) use metrics::WebhookMetrics;
pub(crate) use metrics::{FeedMetrics, FeedResult};
pub(crate) use process::ProcessSample;
pub(crate) use sample::{QueueSample, Sample};
