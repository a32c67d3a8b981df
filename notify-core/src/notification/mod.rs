//! Notifications: what a caller asks for, what is left after every rule held, and
//! how they read back.

mod audience;
mod build;
mod check;
mod deliveries;
mod explain;
mod message;
mod payload;
mod preview;
mod read;
mod read_back;
mod request;
mod schedule;
mod valid;

pub use build::NoDeviceIds;
pub use deliveries::*;
pub use explain::*;
pub use payload::FCM_KEYS_RESERVED;
pub use preview::*;
pub use read_back::*;
pub use request::*;
pub use valid::*;
