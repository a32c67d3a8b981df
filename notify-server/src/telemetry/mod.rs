//! What the server tells about itself: the log on standard error and the metrics of `/metrics`.
//! Never a key, token, body or id as a label or field value of its own accord; labels come from
//! closed lists, so that the number of series is bounded whatever clients and providers send.

mod delivery;
mod exposition;
mod feeds;
mod log;
mod masked;
mod metrics;
mod reason;
mod retention;
mod sample;
mod webhooks;

pub(crate) use delivery::DeliveryMetrics;
pub(crate) use exposition::Form;
pub(crate) use feeds::{FeedMetrics, FeedResult};
pub(crate) use log::start_log;
pub(crate) use masked::masked;
pub(crate) use metrics::Metrics;
pub(crate) use retention::RetentionMetrics;
pub(crate) use sample::{Pause, QueueSample, Sample};
pub(crate) use webhooks::WebhookMetrics;
