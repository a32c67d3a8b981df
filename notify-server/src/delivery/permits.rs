//! A semaphore whose limit can change: for the streams of a lane, and for the unacknowledged
//! deliveries of the engine. It serves requests in the order in which they queued, so that
//! dispatches take turns: a page that releases a permit cannot take it again ahead of a page that
//! waits for one.

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
    /// Permits that were in use when the limit fell below them. As many are destroyed when they are
    /// released.
    deficit: usize,
}

impl ResizableSemaphore {
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        let available = Arc::new(Semaphore::new(limit));
        Arc::new(Self { available, limit: Mutex::new(Limit { current: limit, deficit: 0 }) })
    }

    /// Changes the limit. A lower limit takes effect as permits are released.
    pub(crate) fn set_limit(&self, limit: usize) {
        let mut known = self.limit.lock().expect("no holder of the limit panics");
        if limit > known.current {
            let added = limit - known.current;
            let from_deficit = added.min(known.deficit);
            known.deficit -= from_deficit;
            self.available.add_permits(added - from_deficit);
        } else if limit < known.current {
            let removed = known.current - limit;
            known.deficit += removed - self.available.forget_permits(removed);
        }
        known.current = limit;
    }

    /// Number of permits that are not in use.
    #[cfg(test)]
    pub(crate) fn available_permits(&self) -> usize {
        self.available.available_permits()
    }

    /// Returns permits; those that the deficit does not absorb go to the first requests in the queue.
    fn release(&self, permits: usize) {
        if permits == 0 {
            return;
        }
        let mut limit = self.limit.lock().expect("no holder of the limit panics");
        let destroyed = permits.min(limit.deficit);
        limit.deficit -= destroyed;
        self.available.add_permits(permits - destroyed);
    }
}

/// One or more permits in use. Dropping the value releases them.
#[derive(Debug)]
pub(crate) struct Permit {
    semaphore: Arc<ResizableSemaphore>,
    count: usize,
}

impl Permit {
    /// Adds this permit to `held`, to be released together.
    pub(crate) fn merge_into(mut self, held: &mut Option<Self>) {
        match held {
            Some(held) => {
                debug_assert!(Arc::ptr_eq(&held.semaphore, &self.semaphore));
                held.count += std::mem::take(&mut self.count);
            }
            None => *held = Some(self),
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.semaphore.release(self.count);
    }
}

/// One task's request for a permit: granted at once if one is available and no other request is queued,
/// otherwise queued.
pub(crate) struct PermitRequest {
    semaphore: Arc<ResizableSemaphore>,
    queued: Option<BoxFuture<'static, ()>>,
    granted: Option<Permit>,
}

impl PermitRequest {
    pub(crate) fn new(semaphore: &Arc<ResizableSemaphore>) -> Self {
        Self { semaphore: semaphore.clone(), queued: None, granted: None }
    }

    /// Whether the request holds a permit now. If it does not, it is queued from here on.
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

    /// Returns when a queued request is granted; never if it is not queued.
    pub(crate) async fn acquired(&mut self) {
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
        assert!(first.acquired().now_or_never().is_none());
        assert!(second.acquired().now_or_never().is_none());
        drop(permit);
        assert!(acquire(&semaphore).is_none(), "no request passes the queue");
        assert!(second.acquired().now_or_never().is_none());
        assert!(first.acquired().now_or_never().is_some() && first.try_acquire_or_queue());
        drop(first);
        assert!(
            second.acquired().now_or_never().is_some(),
            "an unused permit goes to the next request"
        );
    }

    #[tokio::test]
    async fn a_dropped_request_keeps_no_permit() {
        let semaphore = ResizableSemaphore::new(1);
        let permit = acquire(&semaphore).unwrap();
        let mut dropped = PermitRequest::new(&semaphore);
        assert!(!dropped.try_acquire_or_queue());
        assert!(dropped.acquired().now_or_never().is_none());
        drop(permit);
        drop(dropped);
        assert!(acquire(&semaphore).is_some());
    }
}
