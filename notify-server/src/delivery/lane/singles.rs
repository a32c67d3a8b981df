//! Notifications to one device each, as their lane sees them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use notify_core::Timestamp;

use super::{Lane, LaneProvider};
use crate::delivery::gate::Admission;
use crate::delivery::shared::Shared;
use crate::delivery::singles::{LANE_SINGLES_MAX, Singles};
use crate::store::PageNo;

impl Lane {
    /// Counts the page of a notification to one device as open and in hand.
    pub(crate) fn open_single(&self, page: PageNo) -> OpenSingle {
        self.singles.fetch_add(1, Ordering::AcqRel);
        self.shared.page_opened(page);
        let (shared, singles) = (Arc::downgrade(&self.shared), self.singles.clone());
        OpenSingle { shared, singles, page: Some(page) }
    }

    /// Gives the lane notifications to one device each.
    pub(crate) fn add_singles(&self, singles: Singles) {
        self.tell(|inbox| inbox.singles.push(singles));
    }

    /// Notes whether the lane has other work than notifications to one device.
    pub(crate) fn has_others(&self, has_others: bool) {
        self.has_others.store(has_others, Ordering::Release);
    }

    /// Whether notifications to one device may be started with their pages open: all would go out
    /// at once, and pass nobody who waits.
    pub(crate) fn takes_singles(&self, now: Timestamp) -> bool {
        let is_ready = || matches!(self.known().provider, LaneProvider::Ready(_));
        !self.has_others.load(Ordering::Acquire)
            && self.singles.load(Ordering::Acquire) < LANE_SINGLES_MAX
            && !self.has_retries_in_plenty()
            && matches!(self.gate.peek(now), Admission::Go)
            && is_ready()
    }
}

/// The open page of a notification to one device, in hand until it is dropped, also by a panic.
pub(crate) struct OpenSingle {
    /// Weak, since it waits in queues that the engine itself holds.
    shared: Weak<Shared>,
    singles: Arc<AtomicUsize>,
    /// `None` once the page is another task's.
    page: Option<PageNo>,
}

impl OpenSingle {
    /// The page is another task's of this process from here on.
    pub(crate) fn give(mut self) {
        self.page = None;
    }
}

impl Drop for OpenSingle {
    fn drop(&mut self) {
        self.singles.fetch_sub(1, Ordering::AcqRel);
        if let (Some(page), Some(shared)) = (self.page, self.shared.upgrade()) {
            shared.page_closed(page);
        }
    }
}
