//! Replication of circuit breakers between servers. When one server detects that a provider is
//! unavailable, the other servers apply that instead of detecting it again. A server publishes changes
//! in the store, and the others read them from there. No delivery waits for either.
//!
//! The table shows the state of a breaker after a record of another server. *–* means that the record
//! does not change the breaker.
//!
//! | peer publishes \ we are | closed | suspect | throttled | auth rejected | unreachable | half-open | tripped |
//! |---|---|---|---|---|---|---|---|
//! | available | – | close | close | close | close | close | release ¹ |
//! | throttled ² | throttle | throttle | the later one | – | throttle | throttle | – |
//! | unreachable ³ | apply | – | – | – | apply | – | – |
//! | auth rejected ³ | apply | apply | apply | apply | apply | – | – |
//! | tripped | trip | trip | trip | trip | trip | trip | trip |
//!
//! 1. Only if the record before was *tripped*. Otherwise the record may be older than the trip of this
//!    server.
//! 2. The record has no effect once the throttle has expired.
//! 3. The record delays the next probe of every other server by a random part of [`PROBE_JITTER_MS`],
//!    and the next probe of the server that published it by [`REPORTER_PROBE_DELAY_MS`]. A different
//!    server therefore probes first, and a server whose own network, clock or credentials are broken
//!    does not keep the provider blocked for all servers. The record has no effect while peers are
//!    ignored, which is for [`PEER_DISTRUST_MS`] after one server contradicted another.
//!
//! A half-open breaker applies neither *unreachable* nor *auth rejected*, because the result of its own
//! probe will be more recent than the record.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use notify_core::{Platform, ProviderStatus, Timestamp};
use tokio::sync::Notify;

use crate::delivery::breaker::{BreakerState, CircuitBreaker};
use crate::delivery::context::EngineContext;
use crate::delivery::lane::Lane;
use crate::store::{AppNo, BreakerKey, BreakerRecord, BreakerUpdate, InstanceId, StoreError};

/// How much later than its due time the server that published a record probes, in milliseconds.
const REPORTER_PROBE_DELAY_MS: i64 = 3_000;
/// The period over which the first probes of the other servers are spread, in milliseconds. The result
/// of the first probe usually arrives before the others are sent.
const PROBE_JITTER_MS: f64 = 1_000.0;
/// How long a server ignores reports of other servers after one server contradicted another, in
/// milliseconds. Otherwise a server that is itself at fault could block the others again and again.
const PEER_DISTRUST_MS: i64 = 600_000;
/// The shortest extension of a throttle that is published, in milliseconds. The answers to messages in
/// flight may each extend the throttle a little, and need not all be published.
const THROTTLE_EXTENSION_MIN_MS: i64 = 1_000;
/// Most records read at a time.
const RECORDS_PER_READ: u32 = 1_000;

/// The replication of one breaker.
#[derive(Debug)]
pub(crate) struct PeerSync {
    outbox: LaneOutbox,
    /// Locked after the breaker's state.
    replica: Mutex<ReplicaState>,
}

/// The latest record of the breaker, and the state of its replication.
#[derive(Debug)]
struct ReplicaState {
    /// Number of the latest record that this server has read; 0 if it has read none.
    latest_no: i64,
    /// Status in that record.
    status: ProviderStatus,
    /// The server that reported the provider unreachable or our credentials rejected; `None` once the
    /// provider is available again.
    reported_by: Option<InstanceId>,
    /// Whether the breaker changed since its status was last published.
    is_dirty: bool,
    /// Until when reports of other servers are ignored.
    ignore_peers_until: Timestamp,
}

/// A status to publish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PendingUpdate {
    pub(crate) status: ProviderStatus,
    /// Number of the latest record that this server has read; 0 if it has read none.
    pub(crate) known_no: i64,
}

/// The effect of a record on the lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UpdateEffect {
    /// The record was applied before, or does not change the breaker.
    Ignored,
    /// The breaker changed.
    Applied,
    /// The lane has to stop, because the guard of the store tripped.
    Trip,
    /// The lane has to resume, because an administrator released it.
    Release,
}

/// The server that applies a record, and the time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ApplyContext {
    /// This server.
    pub(crate) instance: InstanceId,
    /// Servers alive, this one included.
    pub(crate) servers: u32,
    pub(crate) now: Timestamp,
    /// A random number from 0 to 1.
    pub(crate) jitter: f64,
}

impl PeerSync {
    pub(crate) fn new(outbox: LaneOutbox) -> Self {
        let replica = ReplicaState {
            latest_no: 0,
            status: ProviderStatus::Available,
            reported_by: None,
            is_dirty: false,
            ignore_peers_until: Timestamp(i64::MIN),
        };
        Self { outbox, replica: Mutex::new(replica) }
    }

    /// Marks the status of the breaker as unpublished, so that it is published soon.
    pub(super) fn mark_dirty(&self) {
        self.lock().is_dirty = true;
        self.outbox.mark();
    }

    fn lock(&self) -> MutexGuard<'_, ReplicaState> {
        self.replica.lock().expect("no holder of the replica panics")
    }

    /// Takes the status to publish; `None` if the breaker did not change, or if the latest record has
    /// this status already.
    pub(super) fn take_update(
        &self,
        state: &BreakerState,
        now: Timestamp,
    ) -> Option<PendingUpdate> {
        let mut replica = self.lock();
        if !std::mem::take(&mut replica.is_dirty) {
            return None;
        }
        let status = status_to_publish(state, now)?;
        let is_new = match (&status, effective_status(&replica.status, now)) {
            (ProviderStatus::Throttled { until }, ProviderStatus::Throttled { until: before }) => {
                until.ms_since(before) >= THROTTLE_EXTENSION_MIN_MS
            }
            (status, before) => *status != before,
        };
        is_new.then_some(PendingUpdate { status, known_no: replica.latest_no })
    }

    /// Applies a record to the breaker, whose state is `state`. The caller makes the lane trip or resume
    /// if the result is [`UpdateEffect::Trip`] or [`UpdateEffect::Release`].
    pub(super) fn apply(
        &self,
        state: &mut BreakerState,
        record: &BreakerRecord,
        context: ApplyContext,
    ) -> UpdateEffect {
        let mut replica = self.lock();
        if record.no <= replica.latest_no {
            return UpdateEffect::Ignored;
        }
        let previous_status = replica.replace(record, context.now);
        if record.by == Some(context.instance) {
            if needs_probe(&record.status) {
                replica.reported_by = record.by;
                if context.servers > 1 {
                    delay_probe(state);
                }
            }
            return UpdateEffect::Ignored;
        }
        let ignores_peers = context.now < replica.ignore_peers_until;
        if needs_probe(&record.status) {
            if ignores_peers {
                return UpdateEffect::Ignored;
            }
            replica.reported_by = record.by;
        }
        if record.status == ProviderStatus::Tripped {
            return UpdateEffect::Trip;
        }
        if record.status == ProviderStatus::Available && *state == BreakerState::Tripped {
            return if previous_status == ProviderStatus::Tripped {
                UpdateEffect::Release
            } else {
                UpdateEffect::Ignored
            };
        }
        let Some(next) = next_state(&record.status, state, context) else {
            return UpdateEffect::Ignored;
        };
        replica.is_dirty = false;
        *state = next;
        UpdateEffect::Applied
    }
}

impl ReplicaState {
    /// Stores a record as the latest one. Returns the status in the record before it.
    fn replace(&mut self, record: &BreakerRecord, now: Timestamp) -> ProviderStatus {
        self.latest_no = record.no;
        if !needs_probe(&record.status) {
            let is_contradicted = match (self.reported_by.take(), record.by) {
                (Some(reporter), Some(author)) => author != reporter,
                (None, _) | (_, None) => false,
            };
            if record.status == ProviderStatus::Available && is_contradicted {
                self.ignore_peers_until = now.plus_ms(PEER_DISTRUST_MS);
            }
        }
        std::mem::replace(&mut self.status, record.status.clone())
    }
}

/// The state after a record of another server; `None` if the record does not change the state. This is
/// the table in the description of the module.
fn next_state(
    published: &ProviderStatus,
    state: &BreakerState,
    context: ApplyContext,
) -> Option<BreakerState> {
    let spread = |probe_at: &Timestamp| {
        #[expect(clippy::cast_possible_truncation, reason = "a part of a second")]
        let later_ms = (context.jitter * PROBE_JITTER_MS) as i64;
        probe_at.plus_ms(later_ms)
    };
    match (published, state) {
        (ProviderStatus::Tripped, _)
        | (_, BreakerState::Tripped)
        | (ProviderStatus::Available, BreakerState::Closed) => None,
        (ProviderStatus::Available, _) => Some(BreakerState::Closed),

        (ProviderStatus::Throttled { .. }, BreakerState::AuthRejected { .. }) => None,
        (ProviderStatus::Throttled { until }, BreakerState::Throttled { until: before })
            if before >= until =>
        {
            None
        }
        (ProviderStatus::Throttled { until }, _) => {
            (context.now < *until).then_some(BreakerState::Throttled { until: *until })
        }

        (
            ProviderStatus::Unreachable { probe_at },
            BreakerState::Closed | BreakerState::Unreachable { .. },
        ) => Some(BreakerState::Unreachable { probe_at: spread(probe_at) }),
        (ProviderStatus::Unreachable { .. }, _) => None,

        (ProviderStatus::AuthRejected { .. }, BreakerState::HalfOpen { .. }) => None,
        (ProviderStatus::AuthRejected { reason, probe_at }, _) => {
            Some(BreakerState::AuthRejected {
                reason: reason.clone().unwrap_or_default().into(),
                probe_at: spread(probe_at),
            })
        }
    }
}

/// The status to publish for a state; `None` for a state that is not replicated.
fn status_to_publish(state: &BreakerState, now: Timestamp) -> Option<ProviderStatus> {
    match state {
        BreakerState::Closed
        | BreakerState::Throttled { .. }
        | BreakerState::AuthRejected { .. }
        | BreakerState::Unreachable { .. } => Some(state.status(now)),
        // Only this server can act on its suspicion or its probe. The guard of the store publishes a
        // trip in the transaction in which it trips.
        BreakerState::Suspect | BreakerState::HalfOpen { .. } | BreakerState::Tripped => None,
    }
}

/// The status that a published status means at that time. An expired throttle means `Available`.
fn effective_status(status: &ProviderStatus, now: Timestamp) -> ProviderStatus {
    match status {
        ProviderStatus::Throttled { until } if now >= *until => ProviderStatus::Available,
        status => status.clone(),
    }
}

/// Whether the status lasts until a probe succeeds.
fn needs_probe(status: &ProviderStatus) -> bool {
    match status {
        ProviderStatus::AuthRejected { .. } | ProviderStatus::Unreachable { .. } => true,
        ProviderStatus::Available | ProviderStatus::Throttled { .. } | ProviderStatus::Tripped => {
            false
        }
    }
}

/// Delays the next probe of this server, so that another server probes first.
fn delay_probe(state: &mut BreakerState) {
    if let BreakerState::AuthRejected { probe_at, .. } | BreakerState::Unreachable { probe_at } =
        state
    {
        *probe_at = probe_at.plus_ms(REPORTER_PROBE_DELAY_MS);
    }
}

/// The lanes with a circuit breaker to publish, and whether other servers may have published records.
#[derive(Debug, Default)]
pub(crate) struct DirtyLanes {
    lanes: Mutex<BTreeSet<(AppNo, Platform)>>,
    pull_requested: AtomicBool,
    notify: Notify,
}

impl DirtyLanes {
    /// Requests a read of new records, because other servers may have published some.
    pub(crate) fn request_pull(&self) {
        self.pull_requested.store(true, Ordering::Release);
        self.notify.notify_one();
    }

    fn pop(&self) -> Option<(AppNo, Platform)> {
        self.lanes.lock().expect("no holder of the dirty lanes panics").pop_first()
    }
}

/// Marks one lane as having a circuit breaker to publish. The breakers of the lane share it.
#[derive(Debug, Clone)]
pub(crate) struct LaneOutbox {
    pub(crate) dirty: Arc<DirtyLanes>,
    pub(crate) app: AppNo,
    pub(crate) platform: Platform,
}

impl LaneOutbox {
    /// Records that a breaker of the lane changed.
    fn mark(&self) {
        let mut lanes = self.dirty.lanes.lock().expect("no holder of the dirty lanes panics");
        lanes.insert((self.app, self.platform));
        drop(lanes);
        self.dirty.notify.notify_one();
    }
}

/// Publishes and reads records until the engine ends.
pub(super) async fn run(context: Arc<EngineContext>) {
    // The number of the last record that was read. Records are numbered in the order of their commits.
    let mut last_read_no = 0;
    while !context.ended.is_cancelled() {
        if let Err(error) = push(&context).await {
            context.backoff_after_storage_error(&error).await;
            continue;
        }
        if context.dirty_lanes.pull_requested.swap(false, Ordering::AcqRel)
            && let Err(error) = pull(&context, &mut last_read_no).await
        {
            context.dirty_lanes.request_pull();
            context.backoff_after_storage_error(&error).await;
            continue;
        }
        tokio::select! {
            () = context.dirty_lanes.notify.notified() => {}
            () = context.ended.cancelled() => return,
        }
    }
}

/// Publishes the breakers of all lanes that are marked.
async fn push(context: &EngineContext) -> Result<(), StoreError> {
    while let Some((app, platform)) = context.dirty_lanes.pop() {
        if let Some(lane) = context.lane_of(app, platform) {
            lane.publish_breakers().await?;
        }
    }
    Ok(())
}

/// Reads and applies the records after `last_read_no`, which is advanced.
async fn pull(context: &EngineContext, last_read_no: &mut i64) -> Result<(), StoreError> {
    loop {
        let records = context.store.breakers_since(None, *last_read_no, RECORDS_PER_READ).await?;
        let is_last_read = records.len() < RECORDS_PER_READ as usize;
        for record in records {
            *last_read_no = record.no;
            if let Some(lane) = context.lane_of(record.key.app, record.key.platform) {
                lane.apply_record(&record);
            }
        }
        if is_last_read {
            return Ok(());
        }
    }
}

impl Lane {
    /// Publishes those circuit breakers of the lane that have changed: the breaker of the provider, and
    /// those of its upstreams.
    async fn publish_breakers(&self) -> Result<(), StoreError> {
        self.publish(&self.breaker, "").await?;
        for (name, upstream) in self.upstreams.all_with_own_breaker() {
            self.publish(&upstream.breaker, &name).await?;
        }
        Ok(())
    }

    /// Publishes one breaker if it changed. `service` is the name of its upstream; it is empty for the
    /// breaker of the provider.
    async fn publish(&self, breaker: &CircuitBreaker, service: &str) -> Result<(), StoreError> {
        let now = self.context.clock.now();
        let Some(PendingUpdate { status, known_no }) = breaker.take_update(now) else {
            return Ok(());
        };
        let key = BreakerKey { app: self.app, platform: self.platform, service: service.into() };
        let update = BreakerUpdate { key, status, by: self.context.instance, known_no, at: now };
        match self.context.store.publish_breaker(update).await {
            Ok(latest) => self.apply(breaker, &latest),
            // The application was erased.
            Err(StoreError::NotFound) => {}
            Err(error) => {
                breaker.requeue_update();
                return Err(error);
            }
        }
        Ok(())
    }

    /// Applies the records that were published before the lane started.
    pub(super) async fn load_records(&self) -> Result<(), StoreError> {
        let lane = Some((self.app, self.platform));
        for record in self.context.store.breakers_since(lane, 0, RECORDS_PER_READ).await? {
            self.apply_record(&record);
        }
        Ok(())
    }

    /// Applies the latest record of one of the lane's breakers.
    fn apply_record(&self, record: &BreakerRecord) {
        match &*record.key.service {
            "" => self.apply(&self.breaker, record),
            name => {
                // An upstream beyond the limit shares a breaker, which is not replicated.
                if let Some(upstream) = self.upstreams.get_with_own_breaker(name) {
                    self.apply(&upstream.breaker, record);
                }
            }
        }
    }

    fn apply(&self, breaker: &CircuitBreaker, record: &BreakerRecord) {
        let context = ApplyContext {
            instance: self.context.instance,
            servers: self.context.membership.servers(),
            now: self.context.clock.now(),
            jitter: self.context.jitter(),
        };
        match breaker.apply_record(record, context) {
            UpdateEffect::Ignored => {}
            UpdateEffect::Applied => {
                // Pages with deferred devices wait at the breaker of the lane, even if the breaker of an
                // upstream changed.
                self.breaker.wake_waiters();
                tracing::info!(
                    app.id = %self.app_label(),
                    platform = %self.platform,
                    service = &*record.key.service,
                    status = ?record.status,
                    "another server published a new status of the provider"
                );
            }
            UpdateEffect::Trip => self.trip_guard(),
            UpdateEffect::Release => self.on_provider_change(),
        }
    }
}
