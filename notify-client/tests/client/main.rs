//! The SDK against a server that answers what a test says: every method, every error, every retry.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

mod admin;
#[cfg(feature = "blocking")]
mod blocking;
mod campaigns;
mod devices;
mod failures;
mod notifications;
