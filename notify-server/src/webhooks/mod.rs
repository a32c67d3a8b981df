//! Outgoing events: webhooks that follow Standard Webhooks, and streams of the same events.
//!
//! ```text
//! changes ───────▶ events (log, same transaction) ──┬──▶ stream ──▶ readers
//!                                                   └──▶ messages (a row each) ──▶ engine ──▶ endpoints
//! ```
//!
//! This engine is separate from `delivery`. Any application can register any url as an endpoint, so
//! a slow endpoint must not take slots or connections from the delivery of notifications. The
//! engine keeps its state in the store. After a crash, a message is sent again with the same
//! `webhook-id` when its lease has expired.

mod attempt;
mod engine;
mod schedule;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use notify_core::{Timestamp, WebhookAttempt, WebhookData, WebhookEvent, WebhookId};
use notify_core::{WebhookMessageId, WebhookOutcome};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::attempt::Attempts;
pub(crate) use self::attempt::{make_secret, open_secret};
use self::engine::{Engine, Trimmer};
use crate::clock::{SharedClock, TrustedClock};
use crate::outbound::Outbound;
use crate::secrets::MasterKey;
use crate::signal::{Signal, Waiter};
use crate::store::{AppNo, Change, ChangeListener, SharedStore, StoreError};
use crate::telemetry::WebhookMetrics;

/// How long a test of a webhook waits for its result: slightly longer than an attempt.
const TEST_WAIT: Duration = Duration::from_secs(25);

/// Dependencies of the engine.
pub(crate) struct Deps {
    pub(crate) store: SharedStore,
    pub(crate) clock: SharedClock,
    pub(crate) trusted_clock: Arc<TrustedClock>,
    pub(crate) outbound: Outbound,
    pub(crate) master_key: Arc<MasterKey>,
    pub(crate) metrics: WebhookMetrics,
    /// Whether other servers may work on the same storage.
    pub(crate) clustered: bool,
}

/// The running engine.
pub(crate) struct Webhooks {
    stopping: CancellationToken,
    tasks: TaskTracker,
}

/// The part of the engine that the API uses.
#[derive(Clone)]
pub(crate) struct WebhooksHandle {
    store: SharedStore,
    settled: Arc<Signal>,
    notifier: Arc<EventNotifier>,
}

impl Webhooks {
    /// Starts the engine and the task that deletes expired events.
    pub(crate) fn start(deps: Deps) -> (Self, WebhooksHandle) {
        let (settled, notifier) = (Arc::<Signal>::default(), Arc::<EventNotifier>::default());
        let handle = WebhooksHandle {
            store: deps.store.clone(),
            settled: settled.clone(),
            notifier: notifier.clone(),
        };
        deps.store.subscribe(notifier.clone());
        let (stopping, tasks) = (CancellationToken::new(), TaskTracker::new());
        let attempts = Attempts::new(&deps);
        let (store, clock, metrics) =
            (deps.store.clone(), deps.clock.clone(), deps.metrics.clone());
        let trusted_clock = deps.trusted_clock.clone();
        tasks.spawn(Trimmer { store, clock, trusted_clock, metrics }.run(stopping.clone()));
        let engine = Engine::new(deps, attempts, settled, notifier, tasks.clone());
        tasks.spawn(engine.run(stopping.clone()));
        (Self { stopping, tasks }, handle)
    }

    /// Cancelling the token stops new attempts.
    #[cfg(feature = "sandbox")]
    pub(crate) fn stopping(&self) -> CancellationToken {
        self.stopping.clone()
    }

    /// Stops new attempts and waits up to `grace` for attempts in flight. Returns false when they
    /// took longer. Their messages are sent again after the next start.
    pub(crate) async fn stop(&self, grace: Duration) -> bool {
        self.stopping.cancel();
        self.tasks.close();
        tokio::time::timeout(grace, self.tasks.wait()).await.is_ok()
    }
}

impl WebhooksHandle {
    /// The notifier, to which streams subscribe.
    pub(crate) fn notifier(&self) -> &EventNotifier {
        &self.notifier
    }

    /// Waits up to [`TEST_WAIT`] for the first attempt of a message. Returns the state of the
    /// message, which is still pending if the attempt takes longer.
    pub(crate) async fn outcome(
        &self,
        app: AppNo,
        webhook: WebhookId,
        message: WebhookMessageId,
    ) -> Result<WebhookAttempt, StoreError> {
        let mut settled = self.settled.subscribe();
        let until = tokio::time::Instant::now() + TEST_WAIT;
        loop {
            let attempt = self.store.webhook_message(app, webhook, message).await?;
            if attempt.attempts > 0 || attempt.outcome != WebhookOutcome::Pending {
                return Ok(attempt);
            }
            if tokio::time::timeout_at(until, settled.changed()).await.is_err() {
                return Ok(attempt);
            }
        }
    }
}

/// The JSON of an event. It is the same in every attempt and on the stream.
pub(crate) fn body(at: Timestamp, data: WebhookData) -> Bytes {
    let event = WebhookEvent { timestamp: at, data };
    serde_json::to_vec(&event).expect("our models have string keys and finite numbers").into()
}

/// Number of signals for applications. Applications that share a signal wake each other's streams,
/// which costs an additional read but never misses an event.
const SIGNALS: usize = 256;

/// Wakes subscribers after events were written, and after webhooks or applications changed. The
/// engine subscribes to all applications, a stream to its own application.
#[derive(Debug)]
pub(crate) struct EventNotifier {
    any: Signal,
    by_app: Box<[Signal]>,
}

impl Default for EventNotifier {
    fn default() -> Self {
        let by_app = std::iter::repeat_with(Signal::default).take(SIGNALS).collect();
        Self { any: Signal::default(), by_app }
    }
}

impl EventNotifier {
    /// Subscribes to the events of all applications.
    pub(super) fn subscribe_to_all(&self) -> Waiter {
        self.any.subscribe()
    }

    /// Subscribes to the events of an application.
    pub(crate) fn subscribe(&self, app: AppNo) -> Waiter {
        self.signal_of(app).subscribe()
    }

    fn signal_of(&self, app: AppNo) -> &Signal {
        &self.by_app[usize::try_from(app.0.unsigned_abs()).unwrap_or(0) % SIGNALS]
    }
}

impl ChangeListener for EventNotifier {
    fn on_change(&self, change: Change) {
        match change {
            Change::Events(app) | Change::App(app) => {
                self.any.notify();
                self.signal_of(app).notify();
            }
            Change::Resync => {
                self.any.notify();
                self.by_app.iter().for_each(Signal::notify);
            }
            Change::Delivery(_) | Change::Enrichment(_) | Change::Keys => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn streams_of_other_applications_are_not_woken() {
        let notifier = EventNotifier::default();
        let (mut all, mut own) = (notifier.subscribe_to_all(), notifier.subscribe(AppNo(1)));
        let mut other = notifier.subscribe(AppNo(2));
        for change in [Change::Events(AppNo(1)), Change::App(AppNo(1))] {
            notifier.on_change(change);
            assert!(all.changed().now_or_never().is_some(), "{change:?}");
            assert!(own.changed().now_or_never().is_some(), "{change:?}");
            assert!(other.changed().now_or_never().is_none(), "{change:?}");
        }
    }
}
