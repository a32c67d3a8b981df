//! The API over HTTP: a real server on port 0 with SQLite in a temporary folder.

mod kit;

mod admin;
mod bodies;
mod campaigns;
mod devices;
mod front;
mod idempotency;
mod notifications;
mod polls;
mod secrets;
mod slow;
mod stop;
mod table;
mod tenancy;
