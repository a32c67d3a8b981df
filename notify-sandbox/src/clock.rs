//! The clock of a sandbox.

use std::time::Duration;

use notify_core::Timestamp;
use tokio::sync::watch;

/// Tells the time: the system's unless a test sets it.
#[derive(Debug, Clone, Default)]
pub struct Clock(Option<watch::Receiver<i64>>);

impl Clock {
    /// A clock that shows the unix milliseconds in `now_ms`.
    #[must_use]
    pub fn manual(now_ms: watch::Receiver<i64>) -> Self {
        Self(Some(now_ms))
    }

    pub(crate) fn now(&self) -> Timestamp {
        let system_ms = || jiff::Timestamp::now().as_millisecond();
        Timestamp(self.0.as_ref().map_or_else(system_ms, |now_ms| *now_ms.borrow()))
    }

    pub(crate) async fn sleep_ms(&self, ms: u64) {
        let Some(mut now_ms) = self.0.clone() else {
            return tokio::time::sleep(Duration::from_millis(ms)).await;
        };
        let until_ms = self.now().plus_ms(i64::try_from(ms).unwrap_or(i64::MAX)).as_ms();
        if now_ms.wait_for(|now_ms| *now_ms >= until_ms).await.is_err() {
            // The test has dropped its clock, so this time never comes.
            std::future::pending::<()>().await;
        }
    }
}
