//! The checks of `notify doctor`: problems that prevent delivery, with a remedy for each.
//!
//! They are pure functions from facts to [`Finding`]s. The facts are answers of the admin API. The caller
//! reads them, through the SDK or in the server itself, and passes [`Unavailable`] if that fails.

mod app;
mod channel;
mod clock;
mod content;
mod finding;
mod hints;
mod server;

pub use self::app::{AppFacts, AppName, AppState, ProviderFacts, check_app};
pub use self::clock::clock_difference;
pub use self::finding::{Finding, Status, Unavailable};
pub use self::server::{ServerFacts, check_server, hint_for_obstacle};
