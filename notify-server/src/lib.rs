//! Notify's server: the binary's whole inside, as a library that tests can run in one process.

mod api;
pub mod clock;
pub mod config;
mod keys;
pub mod delivery;
pub mod payload;
pub mod provider_config;
pub mod providers;
pub mod sandbox;
pub mod secrets;
pub mod store;
pub mod telemetry;

pub use api::openapi_json;
