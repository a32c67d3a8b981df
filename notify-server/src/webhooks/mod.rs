//! Events out: webhooks by the Standard Webhooks scheme, and the streams that show the same.
//!
//! ```text
//! what happens ──▶ events (log, same transaction) ──┬──▶ stream ──▶ readers
//!                                                   └──▶ messages (a row each) ──▶ engine ──▶ endpoints
//! ```
//!
//! A small engine of its own beside `delivery`: an endpoint is a url that any application gives, so
//! that nothing of it, neither slots nor connections nor pauses, is shared with the push path. What
//! it does is in rows: after a crash a message is tried again under the same `webhook-id` once its
//! lease ran out.

mod attempt;
mod engine;
mod notifier;
mod schedule;
mod signature;
mod trim;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use notify_core::{Timestamp, WebhookAttempt, WebhookData, WebhookEvent, WebhookId};
use notify_core::{WebhookMessageId, WebhookOutcome};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::attempt::Attempts;
use self::engine::Engine;
use self::notifier::Happened;
use self::trim::Trimmer;
use crate::clock::{SharedClock, TrustedClock};
use crate::outbound::Outbound;
use crate::secrets::MasterKey;
use crate::signal::Changes;
use crate::store::{AppNo, SharedStore, StoreError};
use crate::telemetry::WebhookMetrics;
pub(crate) use crate::webhooks::signature::{make_secret, open_secret};

/// How long who tests a webhook waits for what comes of it: an attempt, and a little.
const TEST_WAIT: Duration = Duration::from_secs(25);

/// What the engine works with.
pub(crate) struct Around {
    pub(crate) store: SharedStore,
    pub(crate) clock: SharedClock,
    pub(crate) trusted: Arc<TrustedClock>,
    pub(crate) outbound: Outbound,
    pub(crate) master_key: Arc<MasterKey>,
    pub(crate) metrics: WebhookMetrics,
    /// Whether other servers may work on the same storage.
    pub(crate) among_others: bool,
}

/// The engine, running.
pub(crate) struct Webhooks {
    stopping: CancellationToken,
    tasks: TaskTracker,
}

/// What the API sees of it.
#[derive(Clone)]
pub(crate) struct WebhooksView {
    store: SharedStore,
    settled: Arc<Changes>,
    happened: Arc<Happened>,
}

impl Webhooks {
    /// Starts it.
    pub(crate) fn start(around: Around) -> (Self, WebhooksView) {
        let (settled, happened) = (Arc::<Changes>::default(), Arc::<Happened>::default());
        let view = WebhooksView {
            store: around.store.clone(),
            settled: settled.clone(),
            happened: happened.clone(),
        };
        around.store.subscribe(happened.clone());
        let (stopping, tasks) = (CancellationToken::new(), TaskTracker::new());
        let attempts = Attempts::new(&around);
        let (store, clock, metrics) =
            (around.store.clone(), around.clock.clone(), around.metrics.clone());
        let trusted = around.trusted.clone();
        tasks.spawn(Trimmer { store, clock, trusted, metrics }.run(stopping.clone()));
        let engine = Engine::new(around, attempts, (settled, happened), tasks.clone());
        tasks.spawn(engine.run(stopping.clone()));
        (Self { stopping, tasks }, view)
    }

    /// Begins nothing more, and waits for what is under way; false when that took longer than the
    /// grace. What is left is tried again at the next start.
    pub(crate) async fn stop(&self, grace: Duration) -> bool {
        self.stopping.cancel();
        self.tasks.close();
        tokio::time::timeout(grace, self.tasks.wait()).await.is_ok()
    }
}

impl WebhooksView {
    /// Tells of events that were written.
    pub(crate) fn happened(&self) -> &Happened {
        &self.happened
    }

    /// What came of the first attempt of a message, or how it stands when that takes too long.
    pub(crate) async fn outcome(
        &self,
        app: AppNo,
        webhook: WebhookId,
        message: WebhookMessageId,
    ) -> Result<WebhookAttempt, StoreError> {
        let mut settled = self.settled.subscribe();
        let until = tokio::time::Instant::now() + TEST_WAIT;
        loop {
            let attempt = self.store.webhook_attempt(app, webhook, message).await?;
            if attempt.attempts > 0 || attempt.outcome != WebhookOutcome::Pending {
                return Ok(attempt);
            }
            if tokio::time::timeout_at(until, settled.changed()).await.is_err() {
                return Ok(attempt);
            }
        }
    }
}

/// The JSON of an event, the same on every attempt and on the stream.
pub(crate) fn body(at: Timestamp, data: WebhookData) -> Bytes {
    let event = WebhookEvent { timestamp: at, data };
    serde_json::to_vec(&event).expect("our models have string keys and finite numbers").into()
}
