//! This server's membership in the cluster of servers that share one database. Each server renews its
//! lease with heartbeats. When its lease expires, a server counts as dead, and the others take over
//! its pages and retries. After a pause of the process, or a loss of the database, a server does not
//! know whether that has happened. It therefore sends only while its lease is valid (hazard 5 of
//! docs/delivery.md).
//!
//! ```text
//! heartbeat ──▶ lease valid ──▶ heartbeat …       other servers: page of a dead server ──▶ reclaim
//!                   └─ no heartbeat in time: no new attempts until one succeeds
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};

use notify_core::Timestamp;

use super::context::EngineContext;
use crate::signal::{Signal, Waiter};
use crate::store::{ClusterStatus, Heartbeat};

/// How long after a pause, in milliseconds, another server may still start deliveries, because it did not
/// get the announcement of the pause. It reads what changed with every heartbeat.
const INTERVENTIONS_UNKNOWN_MS_MAX: i64 = 5_000;

/// This server's membership in the cluster.
pub(crate) struct Membership {
    /// End of the lease, in unix milliseconds.
    lease_until_ms: AtomicI64,
    /// How often the lease has expired. Work that was claimed under an earlier generation may belong to
    /// another server by now.
    lease_generation: AtomicU64,
    /// Number of servers alive, this one included.
    servers: AtomicU32,
    /// Whether other servers may have created dispatches, or canceled active ones.
    resync_requested: AtomicBool,
    /// When this server last began to read what requests changed at notifications, in unix milliseconds.
    interventions_read_ms: AtomicI64,
    renewed: Signal,
}

impl Membership {
    /// A single server always has a valid lease. A server of a cluster has none before its first
    /// heartbeat.
    pub(crate) fn new(clustered: bool) -> Self {
        Self {
            lease_until_ms: AtomicI64::new(if clustered { i64::MIN } else { i64::MAX }),
            lease_generation: AtomicU64::new(0),
            servers: AtomicU32::new(1),
            resync_requested: AtomicBool::new(false),
            interventions_read_ms: AtomicI64::new(if clustered { i64::MIN } else { i64::MAX }),
            renewed: Signal::default(),
        }
    }

    /// Whether the lease is valid, so that this server may send.
    pub(crate) fn is_valid(&self, now: Timestamp) -> bool {
        now.as_ms() < self.lease_until_ms.load(Ordering::Acquire)
    }

    /// Whether this server knows which notifications were paused and canceled
    /// [`INTERVENTIONS_UNKNOWN_MS_MAX`] ago. A single server always does: its own commits tell it.
    pub(crate) fn knows_interventions(&self, now: Timestamp) -> bool {
        let read_at = self.interventions_read_ms.load(Ordering::Acquire);
        now.as_ms() < read_at.saturating_add(INTERVENTIONS_UNKNOWN_MS_MAX)
    }

    /// Records that this server read, from `at` on, what requests changed at notifications.
    pub(crate) fn record_interventions_read(&self, at: Timestamp) {
        self.interventions_read_ms.fetch_max(at.as_ms(), Ordering::AcqRel);
    }

    /// How often the lease has expired; always 0 for a single server. Work that belonged to this server
    /// under one generation still belongs to it if the generation is the same and the lease is valid.
    pub(crate) fn lease_generation(&self) -> u64 {
        self.lease_generation.load(Ordering::Acquire)
    }

    /// A waiter that is notified of every successful heartbeat.
    pub(crate) fn subscribe(&self) -> Waiter {
        self.renewed.subscribe()
    }

    /// Number of servers alive, this one included.
    pub(crate) fn servers(&self) -> u32 {
        self.servers.load(Ordering::Acquire)
    }

    /// Clears the request to read what other servers did. Returns whether there was one.
    pub(crate) fn take_resync_request(&self) -> bool {
        self.resync_requested.swap(false, Ordering::AcqRel)
    }

    /// Requests a read of what other servers did.
    pub(crate) fn request_resync(&self) {
        self.resync_requested.store(true, Ordering::Release);
    }

    /// Renews the lease until `until` after a successful heartbeat.
    fn renew(&self, until: Timestamp, cluster: ClusterStatus, now: Timestamp) {
        // The generation changes before the lease, so that a task that sees the new lease also sees
        // the new generation.
        if !self.is_valid(now) {
            self.lease_generation.fetch_add(1, Ordering::AcqRel);
        }
        self.servers.store(cluster.servers.max(1), Ordering::Release);
        self.lease_until_ms.store(until.as_ms(), Ordering::Release);
        self.request_resync();
        self.renewed.notify();
    }
}

/// Sends heartbeats until the engine ends, and requests recovery when another server left work behind.
pub(super) async fn run_heartbeat(context: Arc<EngineContext>) {
    let (lease_ms, every_ms) = (context.config.lease_ms, context.config.heartbeat_ms);
    while !context.ended.is_cancelled() {
        let now = context.clock.now();
        let heartbeat =
            Heartbeat { instance: context.instance, now, lease_until: now.plus_ms(lease_ms) };
        match context.store.heartbeat(heartbeat).await {
            Ok(cluster) => {
                let servers_before = context.membership.servers();
                context.membership.renew(heartbeat.lease_until, cluster, context.clock.now());
                context.record_commit();
                context.dirty_lanes.request_pull();
                let servers = context.membership.servers();
                if servers_before != servers {
                    tracing::info!(servers, before = servers_before, "servers alive");
                    context.on_membership_change();
                }
                if cluster.has_orphans {
                    tracing::info!("another server stopped or died: taking over its work");
                    context.request_recovery();
                }
                context.wake.notify_one();
            }
            Err(error) => {
                context.backoff_after_storage_error(&error).await;
                continue;
            }
        }
        tokio::select! {
            () = context.clock.sleep_until(now.plus_ms(every_ms)) => {}
            () = context.ended.cancelled() => return,
        }
    }
}
