//! Deletes expired data, so that a server that runs for years keeps only what it is configured to
//! keep: notifications, outcomes of each device, events, and responses kept for replay.

use std::sync::Arc;
use std::time::Duration;

use notify_core::Timestamp;
use tokio_util::sync::CancellationToken;

use crate::clock::{SharedClock, TrustedClock};
use crate::config::Config;
use crate::error_chain::error_chain;
use crate::store::{
    REPLAY_KEPT_MS, RetentionCutoffs, RetentionProgress, SessionTimeouts, SharedStore, StoreError,
};
use crate::telemetry::RetentionMetrics;

/// How often expired data is deleted, in milliseconds.
const RUN_INTERVAL_MS: i64 = 3_600_000;
/// Interval after an error of the store, or while a jump of the clock is not confirmed, in
/// milliseconds.
const RETRY_INTERVAL_MS: i64 = 60_000;
/// Pause between two steps, in which other writes can run. It is measured in real time, because it
/// limits the load of the machine.
const PAUSE: Duration = Duration::from_millis(50);
const DAY_MS: i64 = 86_400_000;

/// How long each kind of data is kept, in days; 0 means forever. The fields are the settings
/// `--keep-notifications-days` and so on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RetentionPolicy {
    notifications_days: u32,
    outcomes_days: u32,
    events_days: u32,
    anonymous_devices_days: u32,
    /// The most anonymous devices of an application; 0 means any number.
    anonymous_devices_max: u32,
    audit_days: u32,
    session_timeouts: SessionTimeouts,
}

impl RetentionPolicy {
    pub(crate) fn of(config: &Config) -> Self {
        Self {
            notifications_days: config.keep_notifications_days,
            outcomes_days: config.keep_outcomes_days,
            events_days: config.keep_events_days,
            anonymous_devices_days: config.keep_anonymous_devices_days,
            anonymous_devices_max: config.max_anonymous_devices,
            audit_days: config.keep_audit_days,
            session_timeouts: config.session_timeouts(),
        }
    }

    fn cutoffs(self, now: Timestamp) -> RetentionCutoffs {
        let before = |days: u32| (days > 0).then(|| now.plus_ms(-i64::from(days) * DAY_MS));
        RetentionCutoffs {
            idempotency_before: now.plus_ms(-REPLAY_KEPT_MS),
            outcomes_before: before(self.outcomes_days),
            events_before: before(self.events_days),
            notifications_before: before(self.notifications_days),
            anonymous_before: before(self.anonymous_devices_days),
            anonymous_surplus: None,
            audit_before: before(self.audit_days),
            sessions: self.session_timeouts.cutoffs(now),
            at: now,
        }
    }
}

/// Deletes expired data.
pub(crate) struct Retention {
    pub(crate) store: SharedStore,
    pub(crate) clock: SharedClock,
    pub(crate) trusted_clock: Arc<TrustedClock>,
    pub(crate) policy: RetentionPolicy,
    pub(crate) metrics: RetentionMetrics,
}

impl Retention {
    /// Deletes expired data at once and then every hour, until `stopping` is cancelled. It keeps no
    /// state: the next run, in this process or another one, finds the data that is left.
    pub(crate) async fn run(self, stopping: CancellationToken) {
        let Self { store, clock, trusted_clock, policy, metrics } = self;
        loop {
            // The interval is measured from the start of this run, so that long runs do not shift
            // the next run.
            let now = clock.now();
            let next_ms = match run_once(&store, &trusted_clock, policy, &stopping).await {
                Ok(deleted) => {
                    metrics.count_removed_devices(deleted.anonymous_devices);
                    log_deleted(deleted);
                    // After a jump of the clock, the next run is soon, so that a confirmation by
                    // the operator takes effect soon.
                    if trusted_clock.leap().is_zero() { RUN_INTERVAL_MS } else { RETRY_INTERVAL_MS }
                }
                Err(error) => {
                    tracing::warn!(
                        cause = error_chain(&error),
                        "expired data was not deleted; the server tries again"
                    );
                    RETRY_INTERVAL_MS
                }
            };
            tokio::select! {
                () = stopping.cancelled() => return,
                () = clock.sleep_until(now.plus_ms(next_ms)) => {}
            }
        }
    }
}

/// Deletes data that has expired by the trusted time. Stores the trusted time first, so that the
/// server detects a jump of the clock also after a restart. If the operator has confirmed a jump,
/// the store has recorded the confirmation, and this process trusts its clock again.
async fn run_once(
    store: &SharedStore,
    trusted_clock: &TrustedClock,
    policy: RetentionPolicy,
    stopping: &CancellationToken,
) -> Result<RetentionProgress, StoreError> {
    let was_confirmed = store.store_clock_mark(trusted_clock.mark()).await?;
    if was_confirmed {
        trusted_clock.confirm();
        store.store_clock_mark(trusted_clock.mark()).await?;
    }
    let cutoffs = policy.cutoffs(trusted_clock.now());
    let mut deleted = delete_all(store, cutoffs, stopping).await?;
    // After the others have expired, so that only what is left is counted.
    for surplus in store.anonymous_surplus(u64::from(policy.anonymous_devices_max)).await? {
        if stopping.is_cancelled() {
            break;
        }
        let cutoffs = RetentionCutoffs { anonymous_surplus: Some(surplus), ..cutoffs };
        deleted.add(delete_all(store, cutoffs, stopping).await?);
    }
    Ok(deleted)
}

/// Repeats [`crate::store::Store::delete_expired`] until no expired data is left or the server
/// stops. Returns the sums of what it deleted.
async fn delete_all(
    store: &SharedStore,
    cutoffs: RetentionCutoffs,
    stopping: &CancellationToken,
) -> Result<RetentionProgress, StoreError> {
    let mut total = RetentionProgress::default();
    loop {
        // Each step is one transaction with a bounded number of rows.
        let step = store.delete_expired(cutoffs).await?;
        total.add(step);
        if !step.more {
            return Ok(total);
        }
        tokio::select! {
            () = stopping.cancelled() => return Ok(total),
            () = tokio::time::sleep(PAUSE) => {}
        }
    }
}

/// Logs how much was deleted.
fn log_deleted(deleted: RetentionProgress) {
    let RetentionProgress {
        idempotency_records,
        outcomes,
        events,
        notifications,
        anonymous_devices,
        audit_entries,
        sessions,
        more: _,
    } = deleted;
    // Idempotency records and sessions expire all the time, so they alone are not worth a log line.
    if outcomes + events + notifications + anonymous_devices + audit_entries > 0 {
        tracing::info!(
            answers = idempotency_records,
            outcomes,
            events,
            notifications,
            anonymous_devices,
            audit_entries,
            sessions,
            "deleted expired data"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::SessionCutoffs;

    #[test]
    fn cutoffs_count_days_back_and_zero_keeps_forever() {
        let now = Timestamp(1_780_000_000_000);
        let policy = RetentionPolicy {
            notifications_days: 90,
            outcomes_days: 1,
            events_days: 0,
            anonymous_devices_days: 7,
            anonymous_devices_max: 100,
            audit_days: 2,
            session_timeouts: SessionTimeouts { idle_ms: 7_200_000, total_ms: 43_200_000 },
        };
        let expected = RetentionCutoffs {
            idempotency_before: Timestamp(1_779_913_600_000),
            outcomes_before: Some(Timestamp(1_779_913_600_000)),
            events_before: None,
            notifications_before: Some(Timestamp(1_772_224_000_000)),
            anonymous_before: Some(Timestamp(1_779_395_200_000)),
            anonymous_surplus: None,
            audit_before: Some(Timestamp(1_779_827_200_000)),
            sessions: SessionCutoffs {
                created_before: Timestamp(1_779_956_800_000),
                used_before: Timestamp(1_779_992_800_000),
            },
            at: now,
        };
        assert_eq!(policy.cutoffs(now), expected);
    }
}
