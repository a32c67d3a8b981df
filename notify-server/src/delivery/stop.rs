//! The sign that a process is to stop: nothing new begins, what is in flight ends.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// Given once, seen by everybody.
#[derive(Debug, Default)]
pub(crate) struct StopSign {
    asked: AtomicBool,
    told: Notify,
}

impl StopSign {
    pub(crate) fn ask(&self) {
        self.asked.store(true, Ordering::Release);
        self.told.notify_waiters();
    }

    pub(crate) fn asked(&self) -> bool {
        self.asked.load(Ordering::Acquire)
    }

    /// Returns once stopping was asked for.
    pub(crate) async fn told(&self) {
        let told = self.told.notified();
        tokio::pin!(told);
        // Enabled before the flag is read, so that a sign given in between is not missed.
        told.as_mut().enable();
        if !self.asked() {
            told.await;
        }
    }
}
