//! The delivery engine: from an accepted notification to the outcome of every device.
//!
//! Three ideas carry it. An audience is a query, not a million rows: accepting writes one row. Work
//! is done in pages of about a thousand devices, claimed by a cursor, whose outcomes are committed
//! in checkpoints, so that a crash repeats what was in flight and no more. And policy has one
//! place: [`decide`] turns what a provider said into what happens next.
//!
//! ```text
//! EngineRun ──due──▶ LaneRun (application × platform) ──claims──▶ PageRun ──attempt──▶ Provider
//!                        └──────────── due ─────────────▶ retries
//! ```

mod attempt;
mod breaker;
mod breaker_sync;
mod config;
mod decision;
mod engine;
mod job;
mod lane;
mod marks;
mod pace;
mod page;
mod retries;
mod shared;
mod singles;
mod slots;
mod standing;
mod starts;

pub use config::{CREDIT_DEFAULT, EngineConfig};
pub use decision::{Attempted, Next, RetryPolicy, decide};
pub use engine::{Engine, EngineHandle};
pub use shared::{Configured, ProviderSource, Surroundings};

// What a provider is made of, for engines that are given another one.
pub use crate::providers::{Address, Answer, Checked, Prepared, PreparedBody, Provider};

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
