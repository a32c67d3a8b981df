//! The API over HTTP, on a server without providers.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod admin;
mod admin_address;
mod app_devices;
mod authentication;
mod caching;
mod campaigns;
mod connections;
mod devices;
mod erasures;
mod faults;
mod fixtures;
mod hooks;
mod idempotency;
mod keys;
mod listings;
mod notifications;
mod operations;
mod operators;
mod poll_page;
mod polls;
mod postgres;
mod prefix;
mod request_limits;
mod routes;
mod segments;
mod timeouts;
mod unread_requests;
mod unread_responses;
mod users;
mod web;

use std::time::Duration;

/// Longest time that a test of this suite waits for anything.
const PATIENCE: Duration = notify_tests::WAIT_MAX;
