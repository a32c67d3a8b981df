//! Notifications: requests, their validated forms, and responses.

mod explain;
mod options;
mod request;
mod response;
mod silent;
mod valid;

pub use explain::*;
pub use options::*;
pub use request::*;
pub use response::*;
pub use valid::*;
pub(crate) use valid::{check_platforms, parse_local_time};
