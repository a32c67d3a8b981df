//! Notifications: requests, their validated forms, and responses.

mod explain;
mod kinds;
mod language;
mod options;
mod pace;
mod request;
mod response;
#[cfg(feature = "openapi")]
mod schema;
mod silent;
mod valid;
mod variables;

pub use explain::*;
pub(crate) use kinds::parse_local_time;
pub use kinds::*;
pub use language::*;
pub use options::*;
pub use pace::*;
pub use request::*;
pub use response::*;
pub use valid::*;
pub use variables::*;
