//! What open pages must know of changes elsewhere in the process (trap 8): which of them hold
//! addresses that are not true any more, and how far each has come.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

use crate::store::{DeviceKey, DispatchNo};

/// The mark of one open page.
#[derive(Debug)]
pub(crate) struct Mark {
    dispatch: DispatchNo,
    from: DeviceKey,
    to: DeviceKey,
    started_up_to: AtomicI64,
    stale: AtomicBool,
}

impl Mark {
    /// Takes note that devices up to this key have been started.
    pub(crate) fn started(&self, key: DeviceKey) {
        self.started_up_to.fetch_max(key.0, Ordering::AcqRel);
    }

    /// Takes back a start: the device waits again.
    pub(crate) fn waits_again(&self, key: DeviceKey) {
        self.started_up_to.fetch_min(key.0 - 1, Ordering::AcqRel);
    }

    /// Whether a device of the page changed since this was last asked.
    pub(crate) fn take_stale(&self) -> bool {
        self.stale.load(Ordering::Acquire) && self.stale.swap(false, Ordering::AcqRel)
    }
}

/// The marks of every open page of the process.
#[derive(Debug, Default)]
pub(crate) struct Marks(Mutex<Vec<Arc<Mark>>>);

impl Marks {
    /// Opens a mark for the keys in `(from, to]` of a dispatch.
    pub(crate) fn open(&self, dispatch: DispatchNo, from: DeviceKey, to: DeviceKey) -> Arc<Mark> {
        let mark = Arc::new(Mark {
            dispatch,
            from,
            to,
            started_up_to: AtomicI64::new(from.0),
            stale: AtomicBool::new(false),
        });
        self.0.lock().expect("no holder of the marks panics").push(mark.clone());
        mark
    }

    /// Forgets a mark.
    pub(crate) fn close(&self, mark: &Arc<Mark>) {
        self.0.lock().expect("no holder of the marks panics").retain(|one| !Arc::ptr_eq(one, mark));
    }

    /// A device changed: pages that hold it read again before they use its address.
    pub(crate) fn device_changed(&self, key: DeviceKey) {
        for mark in self.0.lock().expect("no holder of the marks panics").iter() {
            if mark.from < key && key <= mark.to {
                mark.stale.store(true, Ordering::Release);
            }
        }
    }

    /// Whether an open page of the dispatch has started that device.
    pub(crate) fn has_started(&self, dispatch: DispatchNo, key: DeviceKey) -> bool {
        self.0.lock().expect("no holder of the marks panics").iter().any(|mark| {
            mark.dispatch == dispatch
                && mark.from < key
                && key <= mark.to
                && key.0 <= mark.started_up_to.load(Ordering::Acquire)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_marks_the_pages_that_hold_the_device_and_no_others() {
        let marks = Marks::default();
        let first = marks.open(DispatchNo(1), DeviceKey(0), DeviceKey(10));
        let second = marks.open(DispatchNo(1), DeviceKey(10), DeviceKey(20));
        marks.device_changed(DeviceKey(10));
        assert!(first.take_stale() && !second.take_stale());
        assert!(!first.take_stale(), "asked once");
        marks.close(&first);
        marks.device_changed(DeviceKey(5));
        assert!(!first.take_stale());
    }

    #[test]
    fn a_device_that_waits_again_is_not_started() {
        let marks = Marks::default();
        let mark = marks.open(DispatchNo(1), DeviceKey(0), DeviceKey(10));
        mark.started(DeviceKey(4));
        assert!(marks.has_started(DispatchNo(1), DeviceKey(3)));
        assert!(!marks.has_started(DispatchNo(2), DeviceKey(3)));
        mark.waits_again(DeviceKey(3));
        assert!(!marks.has_started(DispatchNo(1), DeviceKey(3)));
    }
}
