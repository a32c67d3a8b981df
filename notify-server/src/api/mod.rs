//! The HTTP face of the server: `/v1`, `/admin/v1` and what stands beside them.
//!
//! ```text
//! serve (connections) -> front (id, key, limits, body) -> table -> handlers -> store
//! ```
//!
//! To add a route: a handler in the file of its resource, and a line in [`routes`].

mod endpoint;
mod error;
mod handlers;
mod inbound;
mod json_reply;
mod openapi;
mod pipeline;
mod request_ctx;
mod router;
mod routes;
mod server;

use std::sync::Arc;

use url::Url;

pub(crate) use handlers::event_stream::Streams;
pub(crate) use pipeline::{Front, Keyring};
pub(crate) use server::{Limits, Serving, origin, serve};

use crate::channel::Channels;
use crate::clock::{SharedClock, TrustedClock};
use crate::config::Config;
use crate::enrichment::Answers;
use crate::enrichment::feeds::FeedChecks;
use crate::operations::Operations;
use crate::outbound::Outbound;
use crate::secrets::MasterKey;
use crate::store::SharedStore;
use crate::telemetry::Metrics;
use crate::webhooks::WebhooksView;

/// The parts of the server that the API works with.
pub(crate) struct Api {
    /// Storage.
    pub(crate) store: SharedStore,
    /// Time.
    pub(crate) clock: SharedClock,
    /// Time by which records are over.
    pub(crate) trusted: Arc<TrustedClock>,
    /// Seals provider configurations.
    pub(crate) master_key: Arc<MasterKey>,
    /// What addresses that callers give may be.
    pub(crate) outbound: Outbound,
    /// Held from reading what a change of a provider keeps until it is written: of two at once
    /// neither may lose the key that the other made.
    pub(crate) provider_changes: tokio::sync::Mutex<()>,
    /// Counts.
    pub(crate) metrics: Arc<Metrics>,
    /// What an operator looks at and tries.
    pub(crate) operations: Operations,
    /// Settings.
    pub(crate) config: Arc<Config>,
    /// What poll urls begin with; without a slash at the end.
    pub(crate) public_url: String,
    /// How deliveries stand.
    pub(crate) channels: Arc<dyn Channels>,
    /// What webhooks came to, and that events were written.
    pub(crate) webhooks: WebhooksView,
    /// Streams that are open.
    pub(crate) streams: Arc<Streams>,
    /// What campaigns show.
    pub(crate) enrichments: Answers,
    /// Looks at feeds.
    pub(crate) feed_checks: Arc<dyn FeedChecks>,
}

impl Api {
    /// The public address of a poll (B32).
    pub(crate) fn poll_url(&self, public_id: uuid::Uuid) -> String {
        crate::payload::poll_url(&self.public_url, public_id)
    }
}

/// The url to begin others with: no slash at its end.
pub(crate) fn base_of(url: &Url) -> String {
    url.as_str().trim_end_matches('/').to_owned()
}

/// The OpenAPI document, as `/openapi.json` answers and `notify-server openapi` prints it.
#[must_use]
pub fn openapi_json() -> String {
    openapi::document(&routes::routes())
}
