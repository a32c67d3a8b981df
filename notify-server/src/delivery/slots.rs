//! Counted places with a limit that may move: the streams of a lane, and the credit of the engine
//! (trap 4). Waiters are served in the order they came, so that places go round among dispatches.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// Places in use.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    in_use: AtomicUsize,
    waiting: AtomicUsize,
    freed: Notify,
}

impl Slots {
    /// Takes a place when fewer than `limit` are in use.
    pub(crate) fn try_take(&self, limit: usize) -> bool {
        self.in_use
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |used| {
                (used < limit).then_some(used + 1)
            })
            .is_ok()
    }

    /// Gives places back, and wakes as many waiters.
    pub(crate) fn give_back(&self, places: usize) {
        if places == 0 {
            return;
        }
        self.in_use.fetch_sub(places, Ordering::AcqRel);
        // At least one: a waiter that looked just before this is not counted yet.
        for _ in 0..places.min(self.waiting.load(Ordering::Acquire)).max(1) {
            self.freed.notify_one();
        }
    }

    /// Returns when a place may be free; whoever waits asks again then.
    pub(crate) async fn freed(&self) {
        let _waiting = Waiting::new(&self.waiting);
        self.freed.notified().await;
    }
}

/// Counts a waiter for as long as it waits, also when its wait is dropped.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::AcqRel);
        Self(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_that_falls_is_obeyed_for_new_places() {
        let slots = Slots::default();
        assert!(slots.try_take(2) && slots.try_take(2));
        assert!(!slots.try_take(2));
        assert!(!slots.try_take(1), "a stream limit that fell to 1");
        slots.give_back(1);
        assert!(!slots.try_take(1));
        slots.give_back(1);
        assert!(slots.try_take(1));
    }

    #[tokio::test]
    async fn waiters_are_woken_one_by_one_in_order() {
        let slots = Slots::default();
        assert!(slots.try_take(1));
        let (first, second) = (slots.freed(), slots.freed());
        tokio::pin!(first, second);
        assert!(futures_util::poll!(&mut first).is_pending());
        assert!(futures_util::poll!(&mut second).is_pending());
        slots.give_back(1);
        assert!(futures_util::poll!(&mut first).is_ready());
        assert!(futures_util::poll!(&mut second).is_pending());
    }
}
