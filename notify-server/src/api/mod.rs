//! The HTTP API: `/v1`, `/admin/v1`, `/web/v1`, inbound webhooks, pages and probes.
//!
//! ```text
//! server (connections) -> pipeline (routing, authentication, limits, body) -> handlers -> store
//! ```
//!
//! To add a route, write a handler in the file of its resource and add a line in [`routes`].

mod caller;
#[cfg(feature = "console")]
mod console;
#[cfg(not(feature = "console"))]
#[path = "console_absent.rs"]
mod console;
mod device_calls;
mod error;
mod handlers;
mod inbound;
mod json_reply;
mod limiter;
mod network;
mod openapi;
mod path;
mod pipeline;
mod request_ctx;
mod router;
mod routes;
mod server;

use std::sync::Arc;

use url::Url;

#[cfg(feature = "console")]
pub(crate) use console::FirstSignIn;
pub(crate) use device_calls::DeviceCalls;
pub(crate) use handlers::event_stream::Streams;
pub(crate) use pipeline::{KeyCache, Pipeline, Port};
#[cfg(any(test, fuzzing))]
pub(crate) use request_ctx::decode_pairs;
pub use routes::{openapi_json, strict_openapi_json};
pub(crate) use server::{Limits, ServerState, origin, serve};

use crate::clock::{SharedClock, TrustedClock};
use crate::config::Config;
use crate::enrichment::EnrichmentCache;
use crate::enrichment::feeds::FeedReader;
use crate::operations::Operations;
use crate::outbound::Outbound;
#[cfg(feature = "sandbox")]
use crate::playground::Playground;
use crate::secrets::MasterKey;
use crate::store::SharedStore;
use crate::telemetry::Metrics;
use crate::webhooks::WebhooksHandle;

/// The parts of the server that handlers use.
pub(crate) struct Api {
    /// The store.
    pub(crate) store: SharedStore,
    /// The keys in use, and when they were last used.
    pub(crate) key_cache: Arc<KeyCache>,
    /// The server's clock.
    pub(crate) clock: SharedClock,
    /// The clock that decides when records expire.
    pub(crate) trusted_clock: Arc<TrustedClock>,
    /// Seals provider configurations.
    pub(crate) master_key: Arc<MasterKey>,
    /// Rules for addresses from callers.
    pub(crate) outbound: Outbound,
    /// Locked while a provider is changed, so that concurrent changes do not overwrite each other's
    /// generated keys.
    pub(crate) provider_changes: tokio::sync::Mutex<()>,
    /// Metrics.
    pub(crate) metrics: Arc<Metrics>,
    /// Diagnostics and checks for operators.
    pub(crate) operations: Operations,
    /// Settings.
    pub(crate) config: Arc<Config>,
    /// The base of poll URLs, without a trailing slash.
    pub(crate) public_url: String,
    /// The webhook engine, to wait for outcomes of webhook messages and for new events.
    pub(crate) webhooks: WebhooksHandle,
    /// Open event streams.
    pub(crate) streams: Arc<Streams>,
    /// Rate limits of the calls that apps and browsers make for their own device.
    pub(crate) device_calls: DeviceCalls,
    /// Cached enrichments.
    pub(crate) enrichments: EnrichmentCache,
    /// Fetches feeds that callers want to check.
    pub(crate) feed_reader: Arc<FeedReader>,
    /// The link that signs in at the first start.
    #[cfg(feature = "console")]
    pub(crate) first_sign_in: FirstSignIn,
    /// The playground.
    #[cfg(feature = "sandbox")]
    pub(crate) playground: Arc<Playground>,
}

impl Api {
    /// The public address of a poll.
    pub(crate) fn poll_url(&self, public_id: uuid::Uuid) -> String {
        crate::payload::poll_url(&self.public_url, public_id)
    }
}

/// A URL without its trailing slash, so that a path can be appended.
pub(crate) fn without_trailing_slash(url: &Url) -> String {
    url.as_str().trim_end_matches('/').to_owned()
}
