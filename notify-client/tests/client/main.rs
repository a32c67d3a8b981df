//! The SDK against a mock server: every method, error and retry.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

mod admin;
#[cfg(feature = "blocking")]
mod blocking;
mod campaigns;
mod devices;
mod failures;
mod notifications;
mod users;
