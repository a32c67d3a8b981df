//! The delivery engine: from an accepted notification to the outcome of every device.
//!
//! The engine has three principles. First, an audience is a query and not a million rows: accepting a
//! notification writes one row. Second, the engine works in pages of at most 2,000 devices. A
//! cursor claims each page, and checkpoints commit its outcomes, so that a crash repeats only the
//! deliveries that were in flight. Third, one function holds the retry policy: [`decide`] maps a
//! provider's answer to what happens next.
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
mod intents;
mod lane;
mod membership;
mod messages;
mod pace;
mod page_task;
mod permits;
mod rate_limiter;
mod retry_task;
mod sender;
mod single_task;
mod start;

pub use config::{EngineConfig, MAX_UNACKED_DEFAULT, MAX_UNACKED_WITHOUT_DEDUP_DEFAULT};
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
