//! The machine's clock plus an offset that a test increases. For tests of programs that also use real time.

use std::sync::Arc;
use std::time::Duration;

use notify_core::Timestamp;
use tokio::sync::watch;

use super::{Clock, SLEEP_MAX_MS, SystemClock};

/// A clock that runs, and that a test can advance.
#[derive(Debug)]
pub struct ShiftedClock {
    machine: SystemClock,
    /// How far this clock is ahead of the machine's clock, in milliseconds.
    shift_ms: watch::Sender<i64>,
}

impl ShiftedClock {
    /// Starts at the machine's time.
    #[must_use]
    pub fn start() -> Arc<Self> {
        Arc::new(Self { machine: SystemClock::start(), shift_ms: watch::Sender::new(0) })
    }

    /// Advances the clock and wakes tasks that waited for that time.
    pub fn advance(&self, by: Duration) {
        let by_ms = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
        self.shift_ms.send_modify(|shift_ms| *shift_ms = shift_ms.saturating_add(by_ms));
    }

    fn shift_ms(&self) -> i64 {
        *self.shift_ms.borrow()
    }
}

#[async_trait::async_trait]
impl Clock for ShiftedClock {
    fn now(&self) -> Timestamp {
        self.machine.now().plus_ms(self.shift_ms())
    }

    fn wall(&self) -> Timestamp {
        self.machine.wall().plus_ms(self.shift_ms())
    }

    fn elapsed_ms(&self) -> i64 {
        self.machine.elapsed_ms().saturating_add(self.shift_ms())
    }

    async fn sleep_until(&self, until: Timestamp) {
        let mut shift_ms = self.shift_ms.subscribe();
        loop {
            shift_ms.mark_unchanged();
            let wait_ms = until.ms_since(self.now()).min(SLEEP_MAX_MS);
            let Some(wait_ms) = u64::try_from(wait_ms).ok().filter(|wait_ms| *wait_ms > 0) else {
                return;
            };
            // The clock owns the sender, so waiting for a change cannot fail while `self` lives.
            let _ = tokio::time::timeout(Duration::from_millis(wait_ms), shift_ms.changed()).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn time_passes_and_can_be_advanced() {
        let clock = ShiftedClock::start();
        let before = clock.now();
        clock.sleep_until(before.plus_ms(20)).await;
        assert!(clock.now() >= before.plus_ms(20), "it runs");
        let until = before.plus_ms(3_600_000);
        let sleeping = tokio::spawn({
            let clock = clock.clone();
            async move { clock.sleep_until(until).await }
        });
        tokio::task::yield_now().await;
        let elapsed_ms = clock.elapsed_ms();
        clock.advance(Duration::from_secs(3_600));
        sleeping.await.unwrap();
        assert!(clock.now() >= until && clock.wall() >= until);
        assert!(clock.elapsed_ms() - elapsed_ms >= 3_600_000);
    }
}
