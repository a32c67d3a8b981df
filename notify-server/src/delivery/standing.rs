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

use super::shared::Shared;
use crate::signal::{Signal, Waiter};
use crate::store::{ClusterStatus, Heartbeat};

/// How this server stands among the others.
pub(crate) struct Standing {
    /// Until when it counts as alive, in unix milliseconds.
    alive_until: AtomicI64,
    /// How often it counted as dead: what it held before may be others' since.
    tenure: AtomicU64,
    /// Servers alive, this one included.
    servers: AtomicU32,
    /// Others may have made dispatches, or canceled what is in hand here.
    catch_up_asked: AtomicBool,
    renewed: Signal,
}

impl Standing {
    /// Alone it always counts as alive; among others once it was heard.
    pub(crate) fn new(among_others: bool) -> Self {
        Self {
            alive_until: AtomicI64::new(if among_others { i64::MIN } else { i64::MAX }),
            tenure: AtomicU64::new(0),
            servers: AtomicU32::new(1),
            catch_up_asked: AtomicBool::new(false),
            renewed: Signal::default(),
        }
    }

    /// Whether something may be sent.
    pub(crate) fn holds(&self, now: Timestamp) -> bool {
        now.as_ms() < self.alive_until.load(Ordering::Acquire)
    }

    /// How often it counted as dead until now. What was surely this server's at one number is so as
    /// long as that stands and [`Self::holds`]; alone it stays 0.
    pub(crate) fn tenure(&self) -> u64 {
        self.tenure.load(Ordering::Acquire)
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
    pub(crate) fn take_catch_up_asked(&self) -> bool {
        self.catch_up_asked.swap(false, Ordering::AcqRel)
    }

    /// Has it looked up.
    pub(crate) fn ask_to_catch_up(&self) {
        self.catch_up_asked.store(true, Ordering::Release);
    }

    /// A heartbeat came through; it is `now` at the latest.
    fn renew(&self, until: Timestamp, others: ClusterStatus, now: Timestamp) {
        // Ahead of the new lease: who sees that sees this too.
        if !self.holds(now) {
            self.tenure.fetch_add(1, Ordering::AcqRel);
        }
        self.servers.store(others.servers.max(1), Ordering::Release);
        self.alive_until.store(until.as_ms(), Ordering::Release);
        self.ask_to_catch_up();
        self.renewed.notify();
    }
}

/// Says that this server lives until the engine stops, and takes over what dead ones left.
pub(super) async fn keep(shared: Arc<Shared>) {
    let (lease_ms, every_ms) = (shared.config.lease_ms, shared.config.heartbeat_ms);
    while !shared.ended.is_cancelled() {
        let now = shared.clock.now();
        let beat = Heartbeat { instance: shared.instance, now, lease_until: now.plus_ms(lease_ms) };
        match shared.store.heartbeat(beat).await {
            Ok(others) => {
                let servers_before = shared.standing.servers();
                shared.standing.renew(beat.lease_until, others, shared.clock.now());
                shared.committed();
                shared.dirty_lanes.request_pull();
                let servers = shared.standing.servers();
                if servers_before != servers {
                    tracing::info!(servers, before = servers_before, "servers alive");
                    shared.paces_changed();
                }
                if others.has_orphans {
                    tracing::warn!("a server died: what it left is taken over");
                    shared.ask_for_adoption();
                }
                shared.wake.notify_one();
            }
            Err(error) => {
                shared.storage_failed(&error).await;
                continue;
            }
        }
        tokio::select! {
            () = shared.clock.sleep_until(now.plus_ms(every_ms)) => {}
            () = shared.ended.cancelled() => return,
        }
    }
}
