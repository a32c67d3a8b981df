//! The engine's clock on top of the runtime's paused time: the two cannot drift apart, and only the
//! simulation advances them.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use notify_core::Timestamp;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::clock::Clock;

/// The clock of one simulated process.
pub(super) struct SimulatedClock {
    wall_at_start: Timestamp,
    started: Instant,
    jumped_ms: AtomicI64,
    jumped: Notify,
}

impl SimulatedClock {
    /// Anchors the clock at a wall-clock time, as a process does when it starts.
    pub(super) fn start(wall: Timestamp) -> Arc<Self> {
        Arc::new(Self {
            wall_at_start: wall,
            started: Instant::now(),
            jumped_ms: AtomicI64::new(0),
            jumped: Notify::new(),
        })
    }

    /// Jumps ahead without the timers, as if the machine had slept.
    pub(super) fn jump(&self, by: Duration) {
        let by_ms = i64::try_from(by.as_millis()).expect("a jump of some hours");
        self.jumped_ms.fetch_add(by_ms, Ordering::SeqCst);
        self.jumped.notify_waiters();
    }
}

#[async_trait::async_trait]
impl Clock for SimulatedClock {
    fn now(&self) -> Timestamp {
        let elapsed_ms = i64::try_from(self.started.elapsed().as_millis()).expect("some hours");
        self.wall_at_start.plus_ms(elapsed_ms + self.jumped_ms.load(Ordering::SeqCst))
    }

    async fn sleep_until(&self, until: Timestamp) {
        loop {
            let jumped = self.jumped.notified();
            tokio::pin!(jumped);
            jumped.as_mut().enable();
            let Ok(wait_ms) = u64::try_from(until.ms_since(self.now())) else { return };
            if wait_ms == 0 {
                return;
            }
            tokio::select! {
                biased;
                () = tokio::time::sleep(Duration::from_millis(wait_ms)) => {}
                () = jumped => {}
            }
        }
    }
}
