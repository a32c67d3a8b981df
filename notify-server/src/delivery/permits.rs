//! Counted places with a limit that may move: the streams of a lane, and the credit of the engine
//! (trap 4). Who waits is served first in the order it came, so that places go round among
//! dispatches (trap 18): a page that gives a place back cannot take it again past a waiting one.

use std::sync::{Arc, Mutex};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::Semaphore;

/// Places to take and give back.
#[derive(Debug)]
pub(crate) struct Slots {
    free: Arc<Semaphore>,
    limit: Mutex<Limit>,
}

#[derive(Debug)]
struct Limit {
    now: usize,
    /// Places in use beyond the limit since it fell: given back, they vanish.
    owed: usize,
}

impl Slots {
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        let free = Arc::new(Semaphore::new(limit));
        Arc::new(Self { free, limit: Mutex::new(Limit { now: limit, owed: 0 }) })
    }

    /// Moves the limit; one that falls is obeyed as places are given back.
    pub(crate) fn set_limit(&self, limit: usize) {
        let mut known = self.limit.lock().expect("no holder of the limit panics");
        if limit > known.now {
            let more = limit - known.now;
            let paid = more.min(known.owed);
            known.owed -= paid;
            self.free.add_permits(more - paid);
        } else if limit < known.now {
            let fewer = known.now - limit;
            known.owed += fewer - self.free.forget_permits(fewer);
        }
        known.now = limit;
    }

    /// How many places nobody holds.
    #[cfg(test)]
    pub(crate) fn free(&self) -> usize {
        self.free.available_permits()
    }

    /// Gives places back: to whoever waits first.
    pub(crate) fn give_back(&self, places: usize) {
        if places == 0 {
            return;
        }
        let mut limit = self.limit.lock().expect("no holder of the limit panics");
        let vanish = places.min(limit.owed);
        limit.owed -= vanish;
        self.free.add_permits(places - vanish);
    }
}

/// One worker's way to a place: at once where one is free and nobody waits, else in line.
pub(crate) struct Claim {
    slots: Arc<Slots>,
    line: Option<BoxFuture<'static, ()>>,
    granted: bool,
}

impl Claim {
    pub(crate) fn new(slots: &Arc<Slots>) -> Self {
        Self { slots: slots.clone(), line: None, granted: false }
    }

    /// Whether this worker holds a place now; if not, it stands in line from here on.
    pub(crate) fn has_place(&mut self) -> bool {
        if self.granted {
            return true;
        }
        if self.line.is_none() {
            if let Ok(permit) = self.slots.free.try_acquire() {
                permit.forget();
                self.granted = true;
                return true;
            }
            let free = self.slots.free.clone();
            self.line = Some(
                async move { free.acquire_owned().await.expect("never closed").forget() }.boxed(),
            );
        }
        false
    }

    /// Returns when the worker's turn has come; never without standing in line.
    pub(crate) async fn turn(&mut self) {
        match &mut self.line {
            Some(line) => line.await,
            None => return std::future::pending().await,
        }
        self.line = None;
        self.granted = true;
    }

    /// The place goes to a stream, whose end gives it back.
    pub(crate) fn hand_over(&mut self) {
        debug_assert!(self.granted, "a place is handed over by who holds it");
        self.granted = false;
    }

    /// Leaves the line, and gives a place back that was not used.
    pub(crate) fn let_go(&mut self) {
        self.line = None;
        if std::mem::take(&mut self.granted) {
            self.slots.give_back(1);
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.let_go();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(slots: &Arc<Slots>) -> bool {
        let mut claim = Claim::new(slots);
        let has_place = claim.has_place();
        if has_place {
            claim.hand_over();
        }
        has_place
    }

    #[test]
    fn a_limit_that_moves_is_obeyed() {
        let slots = Slots::new(2);
        assert!(taken(&slots) && taken(&slots));
        assert!(!taken(&slots));
        slots.set_limit(1);
        slots.give_back(1);
        assert!(!taken(&slots), "one place is in use, and one is allowed");
        slots.give_back(1);
        assert!(taken(&slots));
        slots.set_limit(3);
        assert!(taken(&slots) && taken(&slots) && !taken(&slots));
        slots.set_limit(0);
        slots.set_limit(3);
        slots.give_back(3);
        assert!(taken(&slots) && taken(&slots) && taken(&slots) && !taken(&slots));
    }

    #[tokio::test]
    async fn a_place_goes_to_who_waits_first() {
        let slots = Slots::new(1);
        assert!(taken(&slots));
        let (mut first, mut second) = (Claim::new(&slots), Claim::new(&slots));
        assert!(!first.has_place() && !second.has_place());
        assert!(first.turn().now_or_never().is_none() && second.turn().now_or_never().is_none());
        slots.give_back(1);
        assert!(!taken(&slots), "nobody passes the line");
        assert!(second.turn().now_or_never().is_none());
        assert!(first.turn().now_or_never().is_some() && first.has_place());
        drop(first);
        assert!(second.turn().now_or_never().is_some(), "an unused place goes on");
    }

    #[tokio::test]
    async fn who_leaves_the_line_keeps_no_place() {
        let slots = Slots::new(1);
        assert!(taken(&slots));
        let mut gone = Claim::new(&slots);
        assert!(!gone.has_place());
        assert!(gone.turn().now_or_never().is_none());
        slots.give_back(1);
        drop(gone);
        assert!(taken(&slots));
    }
}
