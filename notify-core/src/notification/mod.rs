//! Notifications: what a caller asks for, what is left after every rule held, and
//! how they read back.

mod audience;
mod check;
mod explain;
mod message;
mod payload;
mod read;
mod read_back;
mod request;
mod schedule;
mod valid;

pub use explain::*;
pub use payload::FCM_KEYS_RESERVED;
pub use read_back::*;
pub use request::*;
pub use valid::*;
