//! The machine's clock.

use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use notify_core::Timestamp;

use super::Clock;
use super::slewed::{ClockEvent, SlewedClock};

/// Longest sleep without reading the clock, in milliseconds: the machine may have been suspended,
/// or its wall clock been set.
const LOOK_AGAIN_MS: i64 = 10_000;

/// The machine's clock.
#[derive(Debug)]
pub struct SystemClock {
    started: Instant,
    anchor: Mutex<SlewedClock>,
    /// How far the clock that all servers share is ahead of this machine's, in milliseconds.
    ahead_ms: AtomicI64,
}

impl SystemClock {
    /// Starts the server's time at the current wall clock.
    #[must_use]
    pub fn start() -> Self {
        Self::start_ahead(0)
    }

    /// Starts it at a clock that is this many milliseconds ahead of this machine's: that of the
    /// database, if several servers share it.
    #[must_use]
    pub fn start_ahead(ahead_ms: i64) -> Self {
        let anchor = Mutex::new(SlewedClock::at(wall_ms() + ahead_ms));
        Self { started: Instant::now(), anchor, ahead_ms: AtomicI64::new(ahead_ms) }
    }

    /// Sets how far that clock is ahead. It is followed like a wall clock: slowly, and never backwards.
    pub fn set_ahead(&self, ahead_ms: i64) {
        self.ahead_ms.store(ahead_ms, Ordering::Relaxed);
    }
}

#[expect(clippy::disallowed_methods, reason = "the one place that reads the wall clock")]
fn wall_ms() -> i64 {
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX / 2)
}

#[async_trait::async_trait]
impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let mut anchor = self.anchor.lock().expect("nothing panics under this lock");
        // Read under the lock, so that readings are in order.
        let elapsed_ms = self.elapsed_ms();
        let (now_ms, event) =
            anchor.read(elapsed_ms, wall_ms() + self.ahead_ms.load(Ordering::Relaxed));
        drop(anchor);
        match event {
            Some(ClockEvent::Jumped(ms)) if ms < 0 => tracing::warn!(
                jump_ms = ms,
                "the wall clock is behind the server's time, which does not go back: it passes more \
                 slowly until they agree. Restart the server to have it follow at once"
            ),
            Some(ClockEvent::Jumped(ms)) => tracing::warn!(
                jump_ms = ms,
                "the wall clock jumped; it is followed once it has been steady for a minute"
            ),
            Some(ClockEvent::Followed(ms)) => {
                tracing::warn!(jump_ms = ms, "the wall clock is followed")
            }
            None => {}
        }
        Timestamp(now_ms)
    }

    fn wall(&self) -> Timestamp {
        Timestamp(wall_ms())
    }

    fn elapsed_ms(&self) -> i64 {
        i64::try_from(self.started.elapsed().as_millis()).unwrap_or(i64::MAX / 4)
    }

    async fn sleep_until(&self, until: Timestamp) {
        loop {
            let wait_ms = until.ms_since(self.now()).min(LOOK_AGAIN_MS);
            match u64::try_from(wait_ms) {
                Ok(wait_ms) if wait_ms > 0 => {
                    tokio::time::sleep(Duration::from_millis(wait_ms)).await;
                }
                Ok(_) | Err(_) => return,
            }
        }
    }
}
