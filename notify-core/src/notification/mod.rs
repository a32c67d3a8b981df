//! Notifications: requests, their validated forms, and responses.

mod explain;
mod language;
mod options;
mod pace;
mod request;
mod response;
mod silent;
mod valid;
mod variables;

pub use explain::*;
pub use language::*;
pub use options::*;
pub use pace::*;
pub use request::*;
pub use response::*;
pub use valid::*;
pub(crate) use valid::{check_platforms, parse_local_time};
pub use variables::*;
