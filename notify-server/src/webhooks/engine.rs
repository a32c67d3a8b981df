//! The engine: polls for due work, claims messages of each endpoint up to its slots, and
//! commits the results. A slow endpoint uses up only its own slots.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use notify_core::{Timestamp, WebhookMessageId};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use super::attempt::{ATTEMPT_TIMEOUT, Attempts};
use super::schedule::FAILING_MAX_MS;
use super::{Deps, EventNotifier};
use crate::clock::{SharedClock, TrustedClock};
use crate::error_chain::error_chain;
use crate::signal::Signal;
use crate::store::{
    AttemptOutcome, ClaimedMessage, ClaimedWebhook, SharedStore, StoreError, WebhookClaim,
    WebhookNo,
};
use crate::telemetry::WebhookMetrics;

/// Most concurrent attempts to one endpoint.
const IN_FLIGHT_PER_WEBHOOK_MAX: u32 = 8;
/// Most concurrent attempts. Even with a hundred hanging endpoints, the next one gets a slot.
const IN_FLIGHT_MAX: u32 = 1_024;
/// How long a claim lasts, in milliseconds: an attempt, and as long again for its commit.
const LEASE_MS: i64 = 2 * ATTEMPT_TIMEOUT.as_millis() as i64;
/// Messages that one claim may make of events.
const MADE_PER_CLAIM: usize = 100;
/// Least time between two polls, which limits their number when many events arrive. Real time: it
/// paces the machine.
const POLL_INTERVAL_MIN: Duration = Duration::from_millis(20);
/// How long until it looks again though nothing is due, in milliseconds.
const POLL_INTERVAL_MAX_MS: i64 = 60_000;
/// How soon again after storage failed.
const ERROR_RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// The engine.
pub(super) struct Engine {
    store: SharedStore,
    clock: SharedClock,
    metrics: WebhookMetrics,
    attempts: Arc<Attempts>,
    settled: Arc<Signal>,
    notifier: Arc<EventNotifier>,
    in_flight: Arc<Mutex<HashMap<WebhookNo, u32>>>,
    tasks: TaskTracker,
    clustered: bool,
}

impl Engine {
    pub(super) fn new(
        deps: Deps,
        attempts: Attempts,
        settled: Arc<Signal>,
        notifier: Arc<EventNotifier>,
        tasks: TaskTracker,
    ) -> Self {
        let Deps { store, clock, metrics, clustered, .. } = deps;
        let (attempts, in_flight) = (Arc::new(attempts), Arc::default());
        Self { store, clock, metrics, attempts, settled, notifier, in_flight, tasks, clustered }
    }

    /// Runs until `stopping`.
    pub(super) async fn run(self, stopping: CancellationToken) {
        let (mut settled, mut notifier) =
            (self.settled.subscribe(), self.notifier.subscribe_to_all());
        // Among others some of that may be theirs: then leases run out, here as where this fails.
        if !self.clustered
            && let Err(error) = self.store.release_messages().await
        {
            let cause = error_chain(&error);
            tracing::warn!(cause, "what was claimed before the start was not given back");
        }
        loop {
            let looked_at = Instant::now();
            let until = match self.poll().await {
                // There is more work than one claim takes.
                Ok((_, true)) => self.clock.now(),
                Ok((next_at, false)) => {
                    let later = self.clock.now().plus_ms(POLL_INTERVAL_MAX_MS);
                    next_at.map_or(later, |next| next.min(later))
                }
                Err(error) => {
                    let cause = error_chain(&error);
                    tracing::warn!(
                        cause,
                        "due webhook messages could not be read; the engine tries again"
                    );
                    tokio::select! {
                        () = stopping.cancelled() => return,
                        () = tokio::time::sleep(ERROR_RETRY_INTERVAL) => continue,
                    }
                }
            };
            tokio::select! {
                () = stopping.cancelled() => return,
                () = settled.changed() => {}
                () = notifier.changed() => {}
                () = self.clock.sleep_until(until) => {}
            }
            tokio::select! {
                () = stopping.cancelled() => return,
                () = tokio::time::sleep_until(looked_at + POLL_INTERVAL_MIN) => {}
            }
        }
    }

    /// Starts what can be started; returns when the next message is due, and whether to poll again at once.
    async fn poll(&self) -> Result<(Option<Timestamp>, bool), StoreError> {
        let now = self.clock.now();
        let work = self.store.webhook_work(now).await?;
        let mut again = false;
        for webhook in work.ready {
            let slots = self.free_slots(webhook);
            // Nothing was started although there were events: none that the webhook subscribes to.
            again |= slots > 0 && self.start(webhook, slots, now).await? == 0;
        }
        Ok((work.next_at, again))
    }

    fn free_slots(&self, webhook: WebhookNo) -> u32 {
        let in_flight = self.in_flight.lock().unwrap_or_else(PoisonError::into_inner);
        let all: u32 = in_flight.values().sum();
        let its = in_flight.get(&webhook).copied().unwrap_or(0);
        IN_FLIGHT_PER_WEBHOOK_MAX.saturating_sub(its).min(IN_FLIGHT_MAX.saturating_sub(all))
    }

    /// Claims messages of a webhook and starts an attempt for each; returns their number.
    async fn start(
        &self,
        webhook: WebhookNo,
        slots: u32,
        now: Timestamp,
    ) -> Result<usize, StoreError> {
        let claim = WebhookClaim {
            webhook,
            now,
            lease_until: now.plus_ms(LEASE_MS),
            claim: fastrand::i64(..),
            limit: slots,
            ids: std::iter::repeat_with(|| WebhookMessageId(Uuid::now_v7()))
                .take(MADE_PER_CLAIM)
                .collect(),
        };
        let number = claim.claim;
        let Some(mut to) = self.store.claim_messages(claim).await? else { return Ok(0) };
        let messages = std::mem::take(&mut to.messages);
        let (to, started) = (Arc::new(to), messages.len());
        for message in messages {
            let slot = Slot::take(self, webhook);
            let (attempts, store) = (self.attempts.clone(), self.store.clone());
            let (clock, metrics) = (self.clock.clone(), self.metrics.clone());
            let (to, settled) = (to.clone(), self.settled.clone());
            self.tasks.spawn(async move {
                let (began, at) = (Instant::now(), clock.now());
                let outcome = attempt(&attempts, &to, webhook, number, &message, began, at).await;
                metrics.attempted(&outcome);
                match store.settle_message(outcome).await {
                    Ok(None) => {}
                    Ok(Some(reason)) => {
                        metrics.disabled(reason);
                        tracing::warn!(app = %to.app, webhook = %to.id, reason, "a webhook was disabled");
                    }
                    Err(error) => {
                        let cause = error_chain(&error);
                        tracing::warn!(cause, "what result of a webhook's message was not stored");
                    }
                }
                drop(slot);
                settled.notify();
            });
        }
        Ok(started)
    }
}

async fn attempt(
    attempts: &Attempts,
    to: &ClaimedWebhook,
    webhook: WebhookNo,
    claim: i64,
    message: &ClaimedMessage,
    began: Instant,
    at: Timestamp,
) -> AttemptOutcome {
    let ended = attempts.make(to, message).await;
    AttemptOutcome {
        webhook,
        message: message.no,
        claim,
        step: ended.step,
        status: ended.status,
        reason: ended.reason,
        latency_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
        at,
        url: to.url.clone(),
        is_gone: ended.is_gone,
        failing_before: at.plus_ms(-FAILING_MAX_MS),
    }
}

/// The slot of one attempt; released on drop, even after a panic.
struct Slot(Arc<Mutex<HashMap<WebhookNo, u32>>>, WebhookNo);

impl Slot {
    fn take(engine: &Engine, webhook: WebhookNo) -> Self {
        let mut in_flight = engine.in_flight.lock().unwrap_or_else(PoisonError::into_inner);
        *in_flight.entry(webhook).or_default() += 1;
        Self(engine.in_flight.clone(), webhook)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut in_flight = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(its) = in_flight.get_mut(&self.1) {
            *its -= 1;
            if *its == 0 {
                in_flight.remove(&self.1);
            }
        }
    }
}

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
