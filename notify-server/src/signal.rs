//! A signal that wakes its waiters after a change, in the order in which they began to wait.
//! Tokio's `watch` wakes waiters in a random order, which would make the simulation of the delivery
//! engine irreproducible.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

/// A signal of changes.
#[derive(Debug, Default)]
pub(crate) struct Signal(Arc<State>);

#[derive(Debug, Default)]
struct State {
    count: AtomicU64,
    notify: Notify,
}

impl Signal {
    /// Wakes all waiters.
    pub(crate) fn notify(&self) {
        self.0.count.fetch_add(1, Ordering::AcqRel);
        self.0.notify.notify_waiters();
    }

    /// Subscribes to all later changes.
    pub(crate) fn subscribe(&self) -> Waiter {
        Waiter { seen: self.0.count.load(Ordering::Acquire), state: self.0.clone() }
    }
}

/// A subscription to a [`Signal`].
#[derive(Debug)]
pub(crate) struct Waiter {
    state: Arc<State>,
    seen: u64,
}

impl Waiter {
    /// Marks all changes until now as seen.
    pub(crate) fn mark_unchanged(&mut self) {
        self.seen = self.state.count.load(Ordering::Acquire);
    }

    /// Waits for an unseen change; returns at once if there is one already.
    pub(crate) async fn changed(&mut self) {
        loop {
            let notify = self.state.notify.notified();
            tokio::pin!(notify);
            // The waiter registers before it reads the count, so that it does not miss a change in
            // between.
            notify.as_mut().enable();
            let count = self.state.count.load(Ordering::Acquire);
            if count != self.seen {
                self.seen = count;
                return;
            }
            notify.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn each_waiter_sees_a_change_once() {
        let changes = Signal::default();
        let (mut first, mut second) = (changes.subscribe(), changes.subscribe());
        assert!(first.changed().now_or_never().is_none());
        changes.notify();
        changes.notify();
        second.mark_unchanged();
        assert!(
            first.changed().now_or_never().is_some(),
            "the signal was notified before the waiter waited"
        );
        assert!(
            first.changed().now_or_never().is_none() && second.changed().now_or_never().is_none()
        );
        let waiting = tokio::spawn(async move { second.changed().await });
        tokio::task::yield_now().await;
        changes.notify();
        waiting.await.unwrap();
    }
}
