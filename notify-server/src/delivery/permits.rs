//! A semaphore whose limit can change. It limits the streams of a lane and the unacknowledged
//! deliveries of the engine. Requests are granted in the order in which they queued, so that
//! dispatches take turns: a page that releases a permit cannot take it again before a page that waits
//! for a permit.

use std::sync::{Arc, Mutex};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::Semaphore;

/// A fair semaphore whose limit can change while permits are in use.
#[derive(Debug)]
pub(crate) struct ResizableSemaphore {
    available: Arc<Semaphore>,
    limit: Mutex<Limit>,
}

#[derive(Debug)]
struct Limit {
    current: usize,
    /// How many permits in use exceed the limit, because it was lowered. This many permits are
    /// destroyed when they are released.
    deficit: usize,
}

impl ResizableSemaphore {
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        let available = Arc::new(Semaphore::new(limit));
        Arc::new(Self { available, limit: Mutex::new(Limit { current: limit, deficit: 0 }) })
    }

    /// Changes the limit. A lower limit takes effect as permits are released.
    pub(crate) fn set_limit(&self, limit: usize) {
        let mut state = self.limit.lock().expect("no holder of the limit panics");
        if limit > state.current {
            let added = limit - state.current;
            let absorbed = added.min(state.deficit);
            state.deficit -= absorbed;
            self.available.add_permits(added - absorbed);
        } else if limit < state.current {
            let removed = state.current - limit;
            // This removes the permits that are not in use. The rest are in use and become the deficit.
            let removed_at_once = self.available.forget_permits(removed);
            state.deficit += removed - removed_at_once;
        }
        state.current = limit;
    }

    /// Number of permits that are not in use.
    #[cfg(test)]
    pub(crate) fn available_permits(&self) -> usize {
        self.available.available_permits()
    }

    /// Returns permits. Permits that the deficit does not absorb go to the first requests in the queue.
    fn release(&self, permits: usize) {
        if permits == 0 {
            return;
        }
        let mut limit = self.limit.lock().expect("no holder of the limit panics");
        let absorbed = permits.min(limit.deficit);
        limit.deficit -= absorbed;
        self.available.add_permits(permits - absorbed);
    }
}

/// One or more permits in use. Dropping the value releases them.
#[derive(Debug)]
pub(crate) struct Permit {
    semaphore: Arc<ResizableSemaphore>,
    count: usize,
}

impl Permit {
    /// Adds this permit to `total`, so that all are released together.
    pub(crate) fn merge_into(mut self, total: &mut Option<Self>) {
        match total {
            Some(others) => {
                debug_assert!(Arc::ptr_eq(&others.semaphore, &self.semaphore));
                // `self` is dropped with a count of 0, which releases nothing.
                others.count += std::mem::take(&mut self.count);
            }
            None => *total = Some(self),
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.semaphore.release(self.count);
    }
}

/// One task's request for a permit. It is granted at once if a permit is available and no other request
/// is queued; otherwise it is queued.
pub(crate) struct PermitRequest {
    semaphore: Arc<ResizableSemaphore>,
    queued: Option<BoxFuture<'static, ()>>,
    granted: Option<Permit>,
}

impl PermitRequest {
    pub(crate) fn new(semaphore: &Arc<ResizableSemaphore>) -> Self {
        Self { semaphore: semaphore.clone(), queued: None, granted: None }
    }

    /// Takes a permit if one is available, otherwise queues the request. Returns whether the request
    /// holds a permit now.
    pub(crate) fn try_acquire_or_queue(&mut self) -> bool {
        if self.granted.is_some() {
            return true;
        }
        if self.queued.is_none() {
            if let Ok(permit) = self.semaphore.available.try_acquire() {
                permit.forget();
                self.granted = Some(self.new_permit());
                return true;
            }
            let available = self.semaphore.available.clone();
            self.queued = Some(
                async move { available.acquire_owned().await.expect("never closed").forget() }
                    .boxed(),
            );
        }
        false
    }

    /// Waits until a queued request is granted. Never returns if the request is not queued.
    pub(crate) async fn wait(&mut self) {
        match &mut self.queued {
            Some(queued) => queued.await,
            None => return std::future::pending().await,
        }
        self.queued = None;
        self.granted = Some(self.new_permit());
    }

    /// Takes the granted permit. The next one has to be requested again.
    pub(crate) fn take(&mut self) -> Permit {
        self.granted.take().expect("the caller checked that the permit is granted")
    }

    /// Leaves the queue, and releases the permit if it was granted and not taken.
    pub(crate) fn release(&mut self) {
        self.queued = None;
        self.granted = None;
    }

    fn new_permit(&self) -> Permit {
        Permit { semaphore: self.semaphore.clone(), count: 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acquire(semaphore: &Arc<ResizableSemaphore>) -> Option<Permit> {
        let mut request = PermitRequest::new(semaphore);
        request.try_acquire_or_queue().then(|| request.take())
    }

    #[test]
    fn a_changed_limit_takes_effect_as_permits_are_released() {
        let semaphore = ResizableSemaphore::new(2);
        let (first, second) = (acquire(&semaphore).unwrap(), acquire(&semaphore).unwrap());
        assert!(acquire(&semaphore).is_none());
        semaphore.set_limit(1);
        drop(first);
        assert!(acquire(&semaphore).is_none(), "one permit is in use, and the limit is one");
        drop(second);
        let mut held = vec![acquire(&semaphore).unwrap()];
        semaphore.set_limit(3);
        held.extend([acquire(&semaphore).unwrap(), acquire(&semaphore).unwrap()]);
        assert!(acquire(&semaphore).is_none());
        semaphore.set_limit(0);
        semaphore.set_limit(3);
        drop(held);
        let held = [(); 3].map(|()| acquire(&semaphore).unwrap());
        assert!(acquire(&semaphore).is_none());
        drop(held);
        assert_eq!(semaphore.available_permits(), 3);
    }

    #[test]
    fn merged_permits_are_released_together() {
        let semaphore = ResizableSemaphore::new(3);
        let mut held = None;
        for _ in 0..3 {
            acquire(&semaphore).unwrap().merge_into(&mut held);
        }
        assert!(acquire(&semaphore).is_none());
        drop(held);
        assert_eq!(semaphore.available_permits(), 3);
    }

    #[tokio::test]
    async fn a_released_permit_goes_to_the_first_request_in_the_queue() {
        let semaphore = ResizableSemaphore::new(1);
        let permit = acquire(&semaphore).unwrap();
        let (mut first, mut second) =
            (PermitRequest::new(&semaphore), PermitRequest::new(&semaphore));
        assert!(!first.try_acquire_or_queue() && !second.try_acquire_or_queue());
        assert!(first.wait().now_or_never().is_none());
        assert!(second.wait().now_or_never().is_none());
        drop(permit);
        assert!(acquire(&semaphore).is_none(), "no request passes the queue");
        assert!(second.wait().now_or_never().is_none());
        assert!(first.wait().now_or_never().is_some() && first.try_acquire_or_queue());
        drop(first);
        assert!(
            second.wait().now_or_never().is_some(),
            "an unused permit goes to the next request"
        );
    }

    #[tokio::test]
    async fn a_dropped_request_keeps_no_permit() {
        let semaphore = ResizableSemaphore::new(1);
        let permit = acquire(&semaphore).unwrap();
        let mut dropped = PermitRequest::new(&semaphore);
        assert!(!dropped.try_acquire_or_queue());
        assert!(dropped.wait().now_or_never().is_none());
        drop(permit);
        drop(dropped);
        assert!(acquire(&semaphore).is_some());
    }
}
