//! Deletes expired events and messages in small steps, concurrently with the engine, so that no
//! attempt waits for it.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::clock::{SharedClock, TrustedClock};
use crate::error_chain::error_chain;
use crate::store::SharedStore;
use crate::telemetry::WebhookMetrics;

/// How often expired rows are deleted, in milliseconds.
const TRIM_EVERY_MS: i64 = 60_000;
/// Pause between two steps, in which other writes can run. Real time, since it limits the load of the
/// machine.
const TRIM_PAUSE: Duration = Duration::from_millis(50);

/// The task that deletes expired events and messages.
pub(super) struct Trimmer {
    pub(super) store: SharedStore,
    pub(super) clock: SharedClock,
    pub(super) trusted: Arc<TrustedClock>,
    pub(super) metrics: WebhookMetrics,
}

impl Trimmer {
    /// Runs until `stopping`.
    pub(super) async fn run(self, stopping: CancellationToken) {
        loop {
            if self.step().await {
                tokio::select! {
                    () = stopping.cancelled() => return,
                    () = tokio::time::sleep(TRIM_PAUSE) => continue,
                }
            }
            let until = self.clock.now().plus_ms(TRIM_EVERY_MS);
            tokio::select! {
                () = stopping.cancelled() => return,
                () = self.clock.sleep_until(until) => {}
            }
        }
    }

    /// Runs one step; returns whether there is more.
    async fn step(&self) -> bool {
        match self.store.trim_events(self.trusted.now()).await {
            Ok(trimmed) => {
                self.metrics.dropped(trimmed.dropped);
                if trimmed.dropped > 0 {
                    let events = trimmed.dropped;
                    tracing::warn!(events, "webhooks did not keep up: events were dropped");
                }
                trimmed.more
            }
            Err(error) => {
                let cause = error_chain(&error);
                tracing::warn!(cause, "expired events were not deleted");
                false
            }
        }
    }
}
