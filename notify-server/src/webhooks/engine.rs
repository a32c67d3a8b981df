//! The engine polls the store for due messages, claims messages for each webhook as far as the
//! webhook has free slots, sends them and stores the results. A slow endpoint occupies only the
//! slots of its own webhook. A second task deletes expired events.

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
use crate::store::{AttemptOutcome, SharedStore, StoreError, WebhookClaim, WebhookNo};
use crate::telemetry::WebhookMetrics;

/// Most concurrent attempts to one endpoint.
const IN_FLIGHT_PER_WEBHOOK_MAX: u32 = 8;
/// Most concurrent attempts. Even with a hundred hanging endpoints, the next one gets a slot.
const IN_FLIGHT_MAX: u32 = 1_024;
/// Duration of a claim, in milliseconds: the longest attempt, and the same time again to store its
/// result.
const LEASE_MS: i64 = 2 * ATTEMPT_TIMEOUT.as_millis() as i64;
/// Most messages that one claim creates from events.
const CREATED_PER_CLAIM_MAX: usize = 100;
/// Shortest time between two polls, which limits the polls when many events arrive. It is measured
/// in real time, because it limits the load of the machine.
const POLL_INTERVAL_MIN: Duration = Duration::from_millis(20);
/// Longest time between two polls if no message is due, in milliseconds.
const POLL_INTERVAL_MAX_MS: i64 = 60_000;
/// Wait before the next poll after an error of the store.
const ERROR_RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// The engine that sends webhook messages.
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

    /// Runs until `stopping` is cancelled.
    pub(super) async fn run(self, stopping: CancellationToken) {
        let (mut settled, mut notifier) =
            (self.settled.subscribe(), self.notifier.subscribe_to_all());
        // A single server releases the claims that its predecessor left, so that their messages are
        // sent at once. With several servers, claims may belong to a running server. They are left
        // to expire, as they are if the release fails.
        if !self.clustered
            && let Err(error) = self.store.release_messages().await
        {
            let cause = error_chain(&error);
            tracing::warn!(
                cause,
                "the claims of webhook messages from before the start were not released"
            );
        }
        loop {
            let polled_at = Instant::now();
            let until = match self.poll().await {
                Ok(Poll { is_incomplete: true, .. }) => self.clock.now(),
                Ok(Poll { next_at, is_incomplete: false }) => {
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
                () = tokio::time::sleep_until(polled_at + POLL_INTERVAL_MIN) => {}
            }
        }
    }

    /// Starts attempts for due messages as far as slots are free.
    async fn poll(&self) -> Result<Poll, StoreError> {
        let now = self.clock.now();
        let work = self.store.webhook_work(now).await?;
        let mut is_incomplete = false;
        for webhook in work.ready {
            let slots = self.free_slots(webhook);
            // If a claim starts nothing, it read a batch of events to which the webhook does not
            // subscribe. More events may follow.
            if slots > 0 && self.start(webhook, slots, now).await? == 0 {
                is_incomplete = true;
            }
        }
        Ok(Poll { next_at: work.next_at, is_incomplete })
    }

    /// How many attempts of a webhook can start now.
    fn free_slots(&self, webhook: WebhookNo) -> u32 {
        let in_flight = self.in_flight.lock().unwrap_or_else(PoisonError::into_inner);
        let total: u32 = in_flight.values().sum();
        let webhook_in_flight = in_flight.get(&webhook).copied().unwrap_or(0);
        let webhook_slots = IN_FLIGHT_PER_WEBHOOK_MAX.saturating_sub(webhook_in_flight);
        webhook_slots.min(IN_FLIGHT_MAX.saturating_sub(total))
    }

    /// Claims up to `slots` messages of a webhook and starts an attempt for each. Returns the
    /// number of attempts.
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
                .take(CREATED_PER_CLAIM_MAX)
                .collect(),
        };
        let claim_id = claim.claim;
        let Some(mut to) = self.store.claim_messages(claim).await? else { return Ok(0) };
        let messages = std::mem::take(&mut to.messages);
        let (to, attempt_count) = (Arc::new(to), messages.len());
        for message in messages {
            let slot = Slot::take(self, webhook);
            let (attempts, store) = (self.attempts.clone(), self.store.clone());
            let (clock, metrics) = (self.clock.clone(), self.metrics.clone());
            let (to, settled) = (to.clone(), self.settled.clone());
            self.tasks.spawn(async move {
                let (started, at) = (Instant::now(), clock.now());
                let result = attempts.make(&to, &message).await;
                let outcome = AttemptOutcome {
                    webhook,
                    message: message.no,
                    claim: claim_id,
                    step: result.step,
                    status: result.status,
                    reason: result.reason,
                    latency_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
                    at,
                    url: to.url.clone(),
                    is_gone: result.is_gone,
                    failing_before: at.plus_ms(-FAILING_MAX_MS),
                };
                metrics.count_attempt(&outcome);
                match store.settle_message(outcome).await {
                    Ok(None) => {}
                    Ok(Some(reason)) => {
                        metrics.count_disabled(reason);
                        tracing::warn!(app = %to.app, webhook = %to.id, reason, "a webhook was disabled");
                    }
                    Err(error) => {
                        let cause = error_chain(&error);
                        tracing::warn!(cause, "the result of an attempt to send a webhook message was not stored");
                    }
                }
                drop(slot);
                settled.notify();
            });
        }
        Ok(attempt_count)
    }
}

/// The result of a poll.
struct Poll {
    /// When the next message is due.
    next_at: Option<Timestamp>,
    /// Whether more messages may be due now, so that the engine polls again at once.
    is_incomplete: bool,
}

/// The slot of one attempt; released on drop, even after a panic.
struct Slot {
    in_flight: Arc<Mutex<HashMap<WebhookNo, u32>>>,
    webhook: WebhookNo,
}

impl Slot {
    fn take(engine: &Engine, webhook: WebhookNo) -> Self {
        let mut in_flight = engine.in_flight.lock().unwrap_or_else(PoisonError::into_inner);
        *in_flight.entry(webhook).or_default() += 1;
        Self { in_flight: engine.in_flight.clone(), webhook }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut in_flight = self.in_flight.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = in_flight.get_mut(&self.webhook) {
            *count -= 1;
            if *count == 0 {
                in_flight.remove(&self.webhook);
            }
        }
    }
}

/// How often expired rows are deleted, in milliseconds.
const TRIM_EVERY_MS: i64 = 60_000;
/// Pause between two steps, in which other writes can run. It is measured in real time, because it
/// limits the load of the machine.
const TRIM_PAUSE: Duration = Duration::from_millis(50);

/// The task that deletes expired events and messages. It works in small steps concurrently with the
/// engine, so that no attempt waits for it.
pub(super) struct Trimmer {
    pub(super) store: SharedStore,
    pub(super) clock: SharedClock,
    pub(super) trusted_clock: Arc<TrustedClock>,
    pub(super) metrics: WebhookMetrics,
}

impl Trimmer {
    /// Runs until `stopping` is cancelled.
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

    /// Deletes one batch. Returns whether more expired rows may be left.
    async fn step(&self) -> bool {
        match self.store.trim_events(self.trusted_clock.now()).await {
            Ok(trimmed) => {
                self.metrics.count_dropped(trimmed.dropped);
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
