//! The Notify API: request and response models, and their validation.
//!
//! Client and server share this crate, so that they agree on every field, limit and error text. It does
//! no I/O, reads no clock and needs no async runtime: rules that compare instants take the current time
//! as a parameter.
//!
//! A *request model* (such as [`CreateNotification`]) is the body of a request; its fields may hold
//! any value of their type. Its *validated form* (such as [`Notification`]) satisfies every rule and
//! cannot express an invalid state. [`Request`] converts one to the other and reports all violations
//! together, as [`Violations`].
//!
//! Unless the documentation of a field states otherwise: instants are unix milliseconds; a field of a request
//! that is absent equals one that is `null`; and an optional text that is empty equals an absent one.

pub mod address;
#[cfg(feature = "campaign-files")]
pub mod campaign_files;
pub mod doctor;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
pub mod json;

mod admin;
mod attribute;
mod audience;
mod campaign;
mod device;
mod enrichment;
mod event;
mod feed;
mod field;
mod id;
mod language;
mod notification;
mod platform;
mod poll;
mod provider_status;
mod request;
#[cfg(feature = "openapi")]
pub mod schema;
mod segment;
mod statistics;
mod tag;
mod text;
mod time;
mod user;
mod violations;
mod web;
mod webhook;
mod wire_enum;
mod wire_url;

pub use admin::*;
pub use attribute::*;
pub use audience::*;
pub use campaign::*;
pub use device::*;
pub use enrichment::*;
pub use event::*;
pub use feed::*;
pub use id::*;
pub use language::{Languages, find_language};
pub use notification::*;
pub use platform::*;
pub use poll::*;
pub use provider_status::*;
pub use request::*;
pub(crate) use request::{CURSOR, LIMIT, take_limit};
pub use segment::*;
pub use statistics::*;
pub use tag::*;
pub use text::*;
pub use time::*;
pub use user::*;
pub use violations::*;
pub use web::*;
pub use webhook::*;
pub use wire_enum::UnknownName;
pub use wire_url::wire_url;

/// Runs the example of the README of the crate.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
