//! Campaigns and the templates that define them (spec 2.1 to 2.5, B27 to B29).

mod read_back;
mod request;
mod valid;

pub use read_back::*;
pub use request::*;
pub use valid::*;
