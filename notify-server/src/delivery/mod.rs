//! The delivery engine: from an accepted notification to the outcome of every device.
//!
//! Three ideas carry it. An audience is a query, not a million rows: accepting a notification
//! writes one row. Work is done in pages of about a thousand devices, claimed by a cursor and
//! committed in checkpoints, so that a crash repeats only what was in flight. And policy has one
//! place: [`decide`] turns a provider's answer into what happens next.
//!
//! ```text
//! EngineTask ──due──▶ LaneTask (application × platform) ──page───▶ PageTask   ─┐
//!                         ├──────────────────────────one device──▶ SingleTask ─┼─▶ Sender ──▶ Provider
//!                         └──────────────────────────retries─────▶ RetryTask  ─┘
//! ```

mod breaker;
mod breaker_sync;
mod config;
mod context;
mod decision;
mod deferred;
mod device_tracker;
mod dispatch;
mod engine;
mod lane;
mod membership;
mod page_task;
mod permits;
mod rate_limiter;
mod retry_task;
mod sender;
mod single_task;

pub use config::{EngineConfig, MAX_UNACKED_DEFAULT};
pub use context::{Configured, EngineDeps, ProviderSource};
pub use decision::{AttemptContext, Decision, RetryPolicy, decide};
pub use engine::{Engine, EngineHandle};

// The provider interface, for engines with another provider.
pub use crate::providers::{
    Address, CredentialCheck, Provider, RenderedBody, RenderedMessage, SendResult,
};

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
