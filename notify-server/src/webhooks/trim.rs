//! Deletes what is over of the log of events and of messages, a step at a time, beside the engine: no
//! attempt waits for it.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::clock::{SharedClock, TrustedClock};
use crate::error_chain::with_causes;
use crate::store::SharedStore;
use crate::telemetry::WebhookMetrics;

/// How often what is over is trimmed, in milliseconds.
const TRIM_EVERY_MS: i64 = 60_000;
/// Time between two steps of a trim, which leaves the writer to others. Real time: it paces the
/// machine.
const TRIM_PAUSE: Duration = Duration::from_millis(50);

/// What trimming works with.
pub(super) struct Trimmer {
    pub(super) store: SharedStore,
    pub(super) clock: SharedClock,
    pub(super) trusted: Arc<TrustedClock>,
    pub(super) metrics: WebhookMetrics,
}

impl Trimmer {
    /// Trims until `stopping`.
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

    /// One step; whether there is more.
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
                let cause = with_causes(&error);
                tracing::warn!(cause, "expired events were not deleted");
                false
            }
        }
    }
}
