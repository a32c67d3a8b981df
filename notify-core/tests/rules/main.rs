//! The rules of every request, as tables of bodies and violations.

#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

mod attributes;
mod audiences;
mod browsers;
mod buttons;
mod campaigns;
mod conditions;
mod devices;
mod everywhere;
mod expressions;
mod languages;
mod lengths;
mod messages;
mod models;
mod notifications;
mod options;
mod pace;
mod polls;
mod properties;
mod pure;
mod queries;
#[cfg(feature = "openapi")]
mod schemas;
mod silent;
mod small;
mod support;
mod urls;
mod users;
mod variables;
