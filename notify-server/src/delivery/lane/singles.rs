//! Notifications to one device each, as their lane sees them.

use std::sync::atomic::Ordering;

use notify_core::Timestamp;

use super::{Lane, LaneProvider};
use crate::delivery::gate::Admission;
use crate::delivery::singles::{LANE_SINGLES_MAX, Singles};

impl Lane {
    /// Gives the lane notifications to one device each whose pages are open.
    pub(crate) fn add_singles(&self, singles: Singles) {
        self.singles.fetch_add(singles.singles.len(), Ordering::AcqRel);
        self.tell(|inbox| inbox.singles.push(singles));
    }

    /// They are done, or go on as ordinary pages.
    pub(crate) fn singles_fewer(&self, singles: usize) {
        self.singles.fetch_sub(singles, Ordering::AcqRel);
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
