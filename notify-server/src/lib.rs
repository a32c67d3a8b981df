//! Notify's server: the binary's whole inside, as a library that tests can run in one process.

pub mod clock;
pub mod payload;
pub mod provider_config;
pub mod providers;
pub mod sandbox;
pub mod store;
