//! Word of changes, to everybody who waits for one: in the order in which they began to wait, so
//! that the same run is the same again. (Tokio's `watch` wakes them in a random order.)

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

/// Tells of changes.
#[derive(Debug, Default)]
pub(crate) struct Changes(Arc<State>);

#[derive(Debug, Default)]
struct State {
    count: AtomicU64,
    told: Notify,
}

impl Changes {
    /// Something changed.
    pub(crate) fn tell(&self) {
        self.0.count.fetch_add(1, Ordering::AcqRel);
        self.0.told.notify_waiters();
    }

    /// Hears of every change from now on.
    pub(crate) fn subscribe(&self) -> Heard {
        Heard { seen: self.0.count.load(Ordering::Acquire), state: self.0.clone() }
    }
}

/// One listener's place among the changes.
#[derive(Debug)]
pub(crate) struct Heard {
    state: Arc<State>,
    seen: u64,
}

impl Heard {
    /// What changed until now is known.
    pub(crate) fn mark_unchanged(&mut self) {
        self.seen = self.state.count.load(Ordering::Acquire);
    }

    /// Returns when something changed that was not known; at once when it did already.
    pub(crate) async fn changed(&mut self) {
        loop {
            let told = self.state.told.notified();
            tokio::pin!(told);
            // In line before the count is read, so that a change in between is not missed.
            told.as_mut().enable();
            let count = self.state.count.load(Ordering::Acquire);
            if count != self.seen {
                self.seen = count;
                return;
            }
            told.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn a_change_is_heard_once_by_everybody_who_did_not_know_of_it() {
        let changes = Changes::default();
        let (mut first, mut second) = (changes.subscribe(), changes.subscribe());
        assert!(first.changed().now_or_never().is_none());
        changes.tell();
        changes.tell();
        second.mark_unchanged();
        assert!(first.changed().now_or_never().is_some(), "told before it began to wait");
        assert!(
            first.changed().now_or_never().is_none() && second.changed().now_or_never().is_none()
        );
        let waiting = tokio::spawn(async move { second.changed().await });
        tokio::task::yield_now().await;
        changes.tell();
        waiting.await.unwrap();
    }
}
