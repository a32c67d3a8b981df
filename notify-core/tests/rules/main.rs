//! The rules of every request, row by row (spec 2, 4, 8; B1, B2, B10 to B33).

#![expect(clippy::unwrap_used, reason = "a test ends where something is not as it must be")]

mod buttons;
mod campaigns;
mod devices;
mod everywhere;
mod lengths;
mod messages;
mod models;
mod notifications;
mod polls;
mod properties;
mod pure;
mod queries;
#[cfg(feature = "openapi")]
mod schemas;
mod small;
mod support;
mod urls;
