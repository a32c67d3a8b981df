//! Devices: registration, subscriptions, reading back.

mod build;
mod offset;
mod platform;
mod read_back;
mod register;
mod request;
mod subscribe;
mod valid;

pub(crate) use subscribe::{check_subscription, read_subscription};

pub use offset::UTC_OFFSET_CHARS_MAX;
pub use read_back::*;
pub use request::*;
pub use valid::*;
