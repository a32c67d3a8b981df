//! Notify's server as a library. The binary contains only `main`, so that tests can run whole
//! servers in one process.

mod api;
pub mod app;
mod bounded_cache;
mod cached_body;
mod certificates;
pub mod cli;
pub mod clock;
pub mod commands;
pub mod config;
pub mod delivery;
mod descriptors;
mod enrichment;
mod erasure;
mod error_chain;
pub mod failpoint;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod keys;
mod misspelt;
mod operations;
mod outbound;
mod pasted;
pub mod payload;
mod playground;
mod provider_config;
mod provider_source;
mod providers;
mod push_service;
mod reasons;
mod retention;
mod secrets;
mod signal;
pub mod store;
mod telemetry;
#[cfg(feature = "sandbox")]
pub mod test_server;
mod tls_problem;
mod user_tokens;
mod webhooks;
mod zone_offsets;

pub use api::{openapi_json, strict_openapi_json};
pub use certificates::TlsError;
pub use error_chain::error_chain;
