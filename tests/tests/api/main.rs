//! The API over HTTP: a real server on port 0 with SQLite in a temporary folder, and
//! what a user sees of PostgreSQL.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod kit;

mod admin;
mod bodies;
mod caching;
mod campaigns;
mod devices;
mod faults;
mod front;
mod hooks;
mod idempotency;
#[cfg(feature = "testing")]
mod listings;
mod notifications;
mod operations;
mod poll_page;
mod polls;
#[cfg(feature = "testing")]
mod postgres;
mod secrets;
mod slow;
mod stop;
mod table;
mod tenancy;
mod unread;
mod web;
