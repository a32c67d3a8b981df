//! Notifications: requests, their validated forms, and responses.

mod explain;
mod request;
mod response;
mod rules;
mod valid;

pub use explain::*;
pub use request::*;
pub use response::*;
pub use rules::FCM_KEYS_RESERVED;
pub use valid::*;
