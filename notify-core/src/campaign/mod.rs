//! Campaigns and the templates that define them.

mod build;
mod button;
mod check;
mod check_button;
mod check_feature;
mod feature;
mod kind;
mod listing;
mod read;
mod read_back;
mod request;
mod valid;

pub use button::*;
pub use feature::*;
pub use kind::*;
pub(crate) use read::TemplateDraft;
pub use read_back::*;
pub use request::*;
pub use valid::*;
