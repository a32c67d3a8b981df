//! The rules of every request, as tables of bodies and violations.

#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

mod browsers;
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
