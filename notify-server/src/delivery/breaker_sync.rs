//! Replication of circuit breakers between servers: every server applies what another one detected
//! about a provider, instead of detecting it again. Changes are published in the store and read
//! from there; no delivery waits for either.
//!
//! A record changes the breaker of another server as follows; *–* leaves it as it is.
//!
//! | peer publishes \ we are | closed | suspect | throttled | auth rejected | unreachable | half-open | tripped |
//! |---|---|---|---|---|---|---|---|
//! | available | – | close | close | close | close | close | release ¹ |
//! | throttled ² | throttle | throttle | the later one | – | throttle | throttle | – |
//! | unreachable ³ | apply | – | – | – | apply | – | – |
//! | auth rejected ³ | apply | apply | apply | apply | apply | – | – |
//! | tripped | trip | trip | trip | trip | trip | trip | trip |
//!
//! 1. Only if the record before was *tripped*: otherwise the store does not know yet that this server
//!    tripped.
//! 2. Nothing once the throttle has expired.
//! 3. The next probe is delayed by a random part of [`PROBE_JITTER_MS`], and on the server that
//!    published the record by [`REPORTER_PROBE_DELAY_MS`]: a different server probes first, so a server
//!    whose own network, clock or credentials are broken does not keep the provider blocked for all.
//!    Nothing while peers are ignored: for [`PEER_DISTRUST_MS`] after one server contradicted another.
//!
//! A half-open breaker applies neither, since the result of its probe is more recent than the record.

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

/// How much later the server that published a record probes, in milliseconds.
const REPORTER_PROBE_DELAY_MS: i64 = 3_000;
/// Over how long the first probes of the other servers are spread, in milliseconds: the result of the
/// first one arrives before most of them.
const PROBE_JITTER_MS: f64 = 1_000.0;
/// How long a server relies on its own requests alone after one server contradicted another, in
/// milliseconds: a server that is at fault itself must not block the others again and again.
const PEER_DISTRUST_MS: i64 = 600_000;
/// The least extension of a throttle that is published, in milliseconds: every message in flight may
/// bring a later end.
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

/// The latest record of the breaker, and what this server makes of it.
#[derive(Debug)]
struct ReplicaState {
    /// Number of the latest record.
    known: i64,
    status: ProviderStatus,
    /// The server that reported the provider unavailable, while that is so.
    reported_by: Option<InstanceId>,
    /// The breaker changed since its status was last published.
    is_dirty: bool,
    /// Until when reports of other servers are ignored.
    ignore_peers_until: Timestamp,
}

/// A status to publish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PendingUpdate {
    pub(crate) status: ProviderStatus,
    /// Number of the latest record that this server knows; 0 when it knows none.
    pub(crate) known: i64,
}

/// The effect of a record on the lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UpdateEffect {
    /// None: the record is known, or does not change the breaker.
    Ignored,
    /// The breaker changed.
    Applied,
    /// The lane has to stop: the guard of the store tripped.
    Trip,
    /// The lane has to resume: an administrator released it.
    Release,
}

/// The server that applies a record, and the instant.
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
            known: 0,
            status: ProviderStatus::Available,
            reported_by: None,
            is_dirty: false,
            ignore_peers_until: Timestamp(i64::MIN),
        };
        Self { outbox, replica: Mutex::new(replica) }
    }

    /// Has the status of the breaker published.
    pub(super) fn mark_dirty(&self) {
        self.lock().is_dirty = true;
        self.outbox.mark();
    }

    fn lock(&self) -> MutexGuard<'_, ReplicaState> {
        self.replica.lock().expect("no holder of the replica panics")
    }

    /// The status to publish, if the breaker changed and the others do not know it.
    pub(super) fn take_update(
        &self,
        state: &BreakerState,
        now: Timestamp,
    ) -> Option<PendingUpdate> {
        let mut replica = self.lock();
        if !std::mem::take(&mut replica.is_dirty) {
            return None;
        }
        let status = replicated(state, now)?;
        let is_new = match (&status, at(&replica.status, now)) {
            (ProviderStatus::Throttled { until }, ProviderStatus::Throttled { until: before }) => {
                until.ms_since(before) >= THROTTLE_EXTENSION_MIN_MS
            }
            (status, before) => *status != before,
        };
        is_new.then_some(PendingUpdate { status, known: replica.known })
    }

    /// Applies the latest record to the breaker in that state.
    pub(super) fn apply(
        &self,
        state: &mut BreakerState,
        record: &BreakerRecord,
        context: ApplyContext,
    ) -> UpdateEffect {
        let mut replica = self.lock();
        if record.no <= replica.known {
            return UpdateEffect::Ignored;
        }
        let before = replica.replace(record, context.now);
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
        match (&record.status, &*state) {
            (ProviderStatus::Tripped, _) => return UpdateEffect::Trip,
            (ProviderStatus::Available, BreakerState::Tripped) => {
                return match before {
                    ProviderStatus::Tripped => UpdateEffect::Release,
                    ProviderStatus::Available
                    | ProviderStatus::Throttled { .. }
                    | ProviderStatus::Unreachable { .. }
                    | ProviderStatus::AuthRejected { .. } => UpdateEffect::Ignored,
                };
            }
            _ => {}
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
    /// Takes over a record, and returns the status before it.
    fn replace(&mut self, record: &BreakerRecord, now: Timestamp) -> ProviderStatus {
        self.known = record.no;
        if !needs_probe(&record.status) {
            let reported_by = self.reported_by.take();
            let is_contradicted =
                reported_by.is_some_and(|reporter| record.by.is_some_and(|by| by != reporter));
            if record.status == ProviderStatus::Available && is_contradicted {
                self.ignore_peers_until = now.plus_ms(PEER_DISTRUST_MS);
            }
        }
        std::mem::replace(&mut self.status, record.status.clone())
    }
}

/// The state that another server's record leads to; `None` leaves it as it is. The table above has a
/// row for each status.
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

/// The status to publish; `None` for a state that only this server can act on.
fn replicated(state: &BreakerState, now: Timestamp) -> Option<ProviderStatus> {
    match state {
        BreakerState::Closed
        | BreakerState::Throttled { .. }
        | BreakerState::AuthRejected { .. }
        | BreakerState::Unreachable { .. } => Some(state.status(now)),
        // The store publishes a trip itself, in the transaction in which its guard decides.
        BreakerState::Suspect | BreakerState::HalfOpen { .. } | BreakerState::Tripped => None,
    }
}

/// The meaning of a published status at that instant: an expired throttle is none.
fn at(status: &ProviderStatus, now: Timestamp) -> ProviderStatus {
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

fn delay_probe(state: &mut BreakerState) {
    if let BreakerState::AuthRejected { probe_at, .. } | BreakerState::Unreachable { probe_at } =
        state
    {
        *probe_at = probe_at.plus_ms(REPORTER_PROBE_DELAY_MS);
    }
}

/// The outbox: lanes with a breaker to publish, and whether other servers may have published.
#[derive(Debug, Default)]
pub(crate) struct DirtyLanes {
    lanes: Mutex<BTreeSet<(AppNo, Platform)>>,
    pull_requested: AtomicBool,
    notify: Notify,
}

impl DirtyLanes {
    /// Other servers may have published.
    pub(crate) fn request_pull(&self) {
        self.pull_requested.store(true, Ordering::Release);
        self.notify.notify_one();
    }

    fn pop(&self) -> Option<(AppNo, Platform)> {
        self.lanes.lock().expect("no holder of the dirty lanes panics").pop_first()
    }
}

/// The outbox, for the breakers of one lane.
#[derive(Debug, Clone)]
pub(crate) struct LaneOutbox {
    pub(crate) dirty: Arc<DirtyLanes>,
    pub(crate) app: AppNo,
    pub(crate) platform: Platform,
}

impl LaneOutbox {
    /// A breaker of the lane changed.
    fn mark(&self) {
        let mut lanes = self.dirty.lanes.lock().expect("no holder of the dirty lanes panics");
        lanes.insert((self.app, self.platform));
        drop(lanes);
        self.dirty.notify.notify_one();
    }
}

/// Publishes and reads records until the engine ends.
pub(super) async fn run(context: Arc<EngineContext>) {
    // Records are numbered in the order of their commits.
    let mut known = 0;
    while !context.ended.is_cancelled() {
        if let Err(error) = push(&context).await {
            context.backoff_after_storage_error(&error).await;
            continue;
        }
        if context.dirty_lanes.pull_requested.swap(false, Ordering::AcqRel)
            && let Err(error) = pull(&context, &mut known).await
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

async fn push(context: &EngineContext) -> Result<(), StoreError> {
    while let Some((app, platform)) = context.dirty_lanes.pop() {
        if let Some(lane) = context.lane_of(app, platform) {
            lane.publish_breakers().await?;
        }
    }
    Ok(())
}

async fn pull(context: &EngineContext, known: &mut i64) -> Result<(), StoreError> {
    loop {
        let records = context.store.breakers_since(None, *known, RECORDS_PER_READ).await?;
        let is_all = records.len() < RECORDS_PER_READ as usize;
        for record in records {
            *known = record.no;
            if let Some(lane) = context.lane_of(record.key.app, record.key.platform) {
                lane.apply_record(&record);
            }
        }
        if is_all {
            return Ok(());
        }
    }
}

impl Lane {
    /// Publishes the breakers of the lane that changed: the provider's, and those of its upstreams.
    async fn publish_breakers(&self) -> Result<(), StoreError> {
        self.publish(&self.breaker, "").await?;
        for (name, service) in self.upstreams.named() {
            self.publish(&service.breaker, &name).await?;
        }
        Ok(())
    }

    async fn publish(&self, breaker: &CircuitBreaker, service: &str) -> Result<(), StoreError> {
        let now = self.context.clock.now();
        let Some(PendingUpdate { status, known }) = breaker.take_update(now) else {
            return Ok(());
        };
        let key = BreakerKey { app: self.app, platform: self.platform, service: service.into() };
        let update =
            BreakerUpdate { key, status, by: self.context.instance, known_no: known, at: now };
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

    /// Applies the records from before the lane started.
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
                // An upstream beyond the limit has no breaker of its own.
                if let Some(service) = self.upstreams.get(name) {
                    self.apply(&service.breaker, record);
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
                // Pages that deferred devices of an upstream wait at the lane's breaker.
                self.breaker.wake_waiters();
                tracing::info!(
                    app.id = %self.app_name(),
                    platform = %self.platform,
                    service = &*record.key.service,
                    status = ?record.status,
                    "another server published a new status of the provider"
                );
            }
            UpdateEffect::Trip => self.trip_guard(),
            UpdateEffect::Release => self.provider_changed(),
        }
    }
}
