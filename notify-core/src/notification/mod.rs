//! Notifications: what a caller asks for (spec 4.1, 4.2), what is left after every rule held, and
//! how they read back (B20).

mod audience;
mod build;
mod check;
mod message;
mod payload;
mod read;
mod read_back;
mod request;
mod schedule;
mod valid;

pub use build::NoDeviceIds;
pub use payload::FCM_KEYS_RESERVED;
pub use read_back::*;
pub use request::*;
pub use valid::*;
