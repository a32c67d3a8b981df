//! The engine as others see it: whether it runs, and what waits.

use std::sync::Arc;

use notify_core::ProviderKind;

use super::shared::Shared;
use crate::telemetry::Pause;

/// The engine as others see it; outlives it.
#[derive(Clone)]
pub struct EngineView {
    shared: Arc<Shared>,
}

impl EngineView {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Whether its thread works.
    #[must_use]
    pub fn is_running(&self) -> bool {
        !self.shared.ended.is_cancelled()
    }

    /// Returns once its thread has come to its end, asked for or not.
    pub async fn ended(&self) {
        self.shared.ended.cancelled().await;
    }

    /// Servers alive on the same storage, this one included, as of the last heartbeat.
    pub(crate) fn servers(&self) -> u32 {
        self.shared.standing.servers()
    }

    /// The lanes whose deliveries wait now, all or those behind one service, a lane each.
    pub(crate) fn pauses(&self) -> Vec<(ProviderKind, Pause)> {
        let now = self.shared.clock.now();
        let lanes = self.shared.lanes.lock().expect("no holder of the lanes panics");
        let closed = lanes.values().filter_map(|lane| {
            let pause = lane.gate.closed(now).or_else(|| lane.services.closed(now));
            pause.map(|pause| (lane.platform.provider(), pause))
        });
        closed.collect()
    }
}
