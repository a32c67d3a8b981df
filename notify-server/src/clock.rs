//! Time, as the one seam through which it comes in; tests turn a [`ManualClock`] instead of waiting.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use notify_core::Timestamp;
use tokio::sync::watch;

/// Tells the time and wakes at a time. Shared by every part of the server.
#[async_trait::async_trait]
pub trait Clock: Send + Sync + 'static {
    /// The instant now. Never goes back: the wall clock at start plus what a monotonic clock
    /// counted since.
    fn now(&self) -> Timestamp;

    /// Returns once `now()` is at or past `until`.
    async fn sleep_until(&self, until: Timestamp);
}

/// The clock, as everything holds it.
pub type SharedClock = Arc<dyn Clock>;

/// The machine's clock.
#[derive(Debug)]
pub struct SystemClock {
    wall_at_start_ms: i64,
    started: Instant,
}

impl SystemClock {
    /// Anchors the server's time at the wall clock of this moment.
    #[must_use]
    pub fn start() -> Self {
        #[expect(clippy::disallowed_methods, reason = "the one place that reads the wall clock")]
        let wall = std::time::SystemTime::now();
        let since_epoch = wall.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Self {
            wall_at_start_ms: i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX),
            started: Instant::now(),
        }
    }
}

#[async_trait::async_trait]
impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let elapsed_ms = i64::try_from(self.started.elapsed().as_millis()).unwrap_or(i64::MAX);
        Timestamp(self.wall_at_start_ms.saturating_add(elapsed_ms))
    }

    async fn sleep_until(&self, until: Timestamp) {
        let wait_ms = u64::try_from(until.ms_since(self.now())).unwrap_or(0);
        tokio::time::sleep(Duration::from_millis(wait_ms)).await;
    }
}

/// A clock that stands still until it is turned.
#[derive(Debug)]
pub struct ManualClock {
    now_ms: AtomicI64,
    turned: watch::Sender<i64>,
}

impl ManualClock {
    /// A clock that stands at `now`.
    #[must_use]
    pub fn at(now: Timestamp) -> Arc<Self> {
        Arc::new(Self { now_ms: AtomicI64::new(now.0), turned: watch::Sender::new(now.0) })
    }

    /// Turns the clock forward and wakes whoever waited for that.
    pub fn advance(&self, by: Duration) {
        let by_ms = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
        let now = self.now_ms.fetch_add(by_ms, Ordering::SeqCst) + by_ms;
        self.turned.send_replace(now);
    }
}

#[async_trait::async_trait]
impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.now_ms.load(Ordering::SeqCst))
    }

    async fn sleep_until(&self, until: Timestamp) {
        let mut turned = self.turned.subscribe();
        // The clock owns the sender, so waiting cannot fail while `self` lives.
        let _ = turned.wait_for(|now| *now >= until.0).await;
    }
}
