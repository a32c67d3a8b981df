//! This server among the others of one storage. Each says now and then that it lives; one that has
//! not for the length of a lease counts as dead, and its pages and retries go to the others. So one
//! sends only while it counts as alive: stopped for a while, or cut off from storage, it may have
//! been relieved without knowing (trap 5).
//!
//! ```text
//! heartbeat ──▶ alive for a lease ──▶ heartbeat …         the others: page of a dead one ──▶ adopt
//!                      └─ none came in time: no new streams until one does
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};

use notify_core::Timestamp;

use super::context::EngineContext;
use crate::signal::{Signal, Waiter};
use crate::store::{ClusterStatus, Heartbeat};

/// How this server stands among the others.
pub(crate) struct Membership {
    /// Until when it counts as alive, in unix milliseconds.
    lease_until_ms: AtomicI64,
    /// How often it counted as dead: what it held before may be others' since.
    lease_generation: AtomicU64,
    /// Servers alive, this one included.
    servers: AtomicU32,
    /// Others may have made dispatches, or canceled what is in hand here.
    resync_requested: AtomicBool,
    renewed: Signal,
}

impl Membership {
    /// Alone it always counts as alive; among others once it was heard.
    pub(crate) fn new(among_others: bool) -> Self {
        Self {
            lease_until_ms: AtomicI64::new(if among_others { i64::MIN } else { i64::MAX }),
            lease_generation: AtomicU64::new(0),
            servers: AtomicU32::new(1),
            resync_requested: AtomicBool::new(false),
            renewed: Signal::default(),
        }
    }

    /// Whether something may be sent.
    pub(crate) fn is_valid(&self, now: Timestamp) -> bool {
        now.as_ms() < self.lease_until_ms.load(Ordering::Acquire)
    }

    /// How often it counted as dead until now. What was surely this server's at one number is so as
    /// long as that stands and [`Self::holds`]; alone it stays 0.
    pub(crate) fn lease_generation(&self) -> u64 {
        self.lease_generation.load(Ordering::Acquire)
    }

    /// Hears of every heartbeat that came through.
    pub(crate) fn subscribe(&self) -> Waiter {
        self.renewed.subscribe()
    }

    /// Servers alive, this one included.
    pub(crate) fn servers(&self) -> u32 {
        self.servers.load(Ordering::Acquire)
    }

    /// Whether what others did is to be looked up; asked once.
    pub(crate) fn take_resync_request(&self) -> bool {
        self.resync_requested.swap(false, Ordering::AcqRel)
    }

    /// Has it looked up.
    pub(crate) fn request_resync(&self) {
        self.resync_requested.store(true, Ordering::Release);
    }

    /// A heartbeat came through; it is `now` at the latest.
    fn renew(&self, until: Timestamp, others: ClusterStatus, now: Timestamp) {
        // Ahead of the new lease: who sees that sees this too.
        if !self.is_valid(now) {
            self.lease_generation.fetch_add(1, Ordering::AcqRel);
        }
        self.servers.store(others.servers.max(1), Ordering::Release);
        self.lease_until_ms.store(until.as_ms(), Ordering::Release);
        self.request_resync();
        self.renewed.notify();
    }
}

/// Says that this server lives until the engine stops, and takes over what dead ones left.
pub(super) async fn run_heartbeat(context: Arc<EngineContext>) {
    let (lease_ms, every_ms) = (context.config.lease_ms, context.config.heartbeat_ms);
    while !context.ended.is_cancelled() {
        let now = context.clock.now();
        let beat =
            Heartbeat { instance: context.instance, now, lease_until: now.plus_ms(lease_ms) };
        match context.store.heartbeat(beat).await {
            Ok(others) => {
                let servers_before = context.membership.servers();
                context.membership.renew(beat.lease_until, others, context.clock.now());
                context.committed();
                context.dirty_lanes.request_pull();
                let servers = context.membership.servers();
                if servers_before != servers {
                    tracing::info!(servers, before = servers_before, "servers alive");
                    context.on_membership_change();
                }
                if others.has_orphans {
                    tracing::warn!("a server died: what it left is taken over");
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
