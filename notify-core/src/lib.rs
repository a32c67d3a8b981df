//! The words of the Notify API: models, validation and pure rules.
//!
//! Client and server share this crate, so the two cannot disagree about a field, a limit or the
//! text of an error. It does no I/O, reads no clock and knows no async runtime: an instant that a
//! rule needs comes in as a value.
//!
//! A *request model* (such as [`CreateNotification`]) is what a caller builds or sends; its fields
//! may hold anything of the right type. Its *validated form* (such as [`Notification`]) is what is
//! left after every rule held, and cannot express a wrong state. [`Request`] leads from one to the
//! other and reports every broken rule at once, as [`Violations`].

pub mod json;

mod admin;
mod campaign;
mod day;
mod device;
mod enrichment;
mod event;
mod feed;
mod id;
mod notification;
mod platform;
mod poll;
mod provider_status;
mod query;
mod request;
mod rules;
#[cfg(feature = "openapi")]
pub mod schema;
mod statistics;
mod tag;
mod text;
mod time;
mod violations;
mod web;
mod webhook;

pub use admin::*;
pub use campaign::*;
pub use day::*;
pub use device::*;
pub use enrichment::*;
pub use event::*;
pub use feed::*;
pub use id::*;
pub use notification::*;
pub use platform::*;
pub use poll::*;
pub use provider_status::*;
pub(crate) use query::{CURSOR, LIMIT, take_limit};
pub use query::{LIMIT_DEFAULT, LIMIT_MAX, NoQuery, PageQuery, Parameter, ParameterForm};
pub use request::*;
pub use rules::{LISTED_NAME_CHARS_MAX, TEXT_CHARS_MAX, URL_CHARS_MAX};
pub use statistics::*;
pub use tag::*;
pub use text::*;
pub use time::*;
pub use violations::*;
pub use web::*;
pub use webhook::*;
