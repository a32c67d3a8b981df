//! Notifications: what a caller asks for (spec 4.1, 4.2), what is left after every rule held, and
//! how they read back (B20).

mod read_back;
mod request;
mod valid;

pub use read_back::*;
pub use request::*;
pub use valid::*;
