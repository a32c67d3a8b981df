//! Tracks the devices of open pages and claimed retries: which of them changed since they were read,
//! and which are being sent to (hazard 8 of docs/delivery.md).

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use crate::store::{DeviceKey, DispatchNo};

/// Tracks the devices with keys in one range, until it is dropped.
#[derive(Debug)]
pub(crate) struct RangeTracker(Mutex<State>);

#[derive(Debug)]
struct State {
    /// Start of the range, exclusive.
    from: DeviceKey,
    /// End of the range, inclusive.
    to: DeviceKey,
    /// Devices that changed since they were read.
    changed: HashSet<DeviceKey>,
    /// Devices that are being sent to, or got the message already.
    in_flight: HashSet<(DispatchNo, DeviceKey)>,
}

impl RangeTracker {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no holder of a tracker panics")
    }

    /// Limits the range to the keys in `(from, to]`.
    pub(crate) fn shrink_to(&self, from: DeviceKey, to: DeviceKey) {
        let mut state = self.state();
        (state.from, state.to) = (from, to);
        state.changed.retain(|key| from < *key && *key <= to);
    }

    /// Records an attempt to a device.
    pub(crate) fn mark_in_flight(&self, dispatch: DispatchNo, key: DeviceKey) {
        self.state().in_flight.insert((dispatch, key));
    }

    /// Reverts [`Self::mark_in_flight`], because the device did not get the message.
    pub(crate) fn clear_in_flight(&self, dispatch: DispatchNo, key: DeviceKey) {
        self.state().in_flight.remove(&(dispatch, key));
    }

    /// Clears the set of changed devices. Returns whether any device changed since the last call.
    pub(crate) fn clear_changes(&self) -> bool {
        let changed = &mut self.state().changed;
        let any_changed = !changed.is_empty();
        changed.clear();
        any_changed
    }

    /// Whether a device changed since it was read.
    pub(crate) fn has_changed(&self, key: DeviceKey) -> bool {
        self.state().changed.contains(&key)
    }
}

/// The trackers of all open pages and retries of the process.
#[derive(Debug, Default)]
pub(crate) struct DeviceTracker(Mutex<Vec<Weak<RangeTracker>>>);

impl DeviceTracker {
    /// Opens a tracker for the keys in `(from, to]`. The caller opens the tracker before it reads the
    /// devices, so that no change is missed.
    pub(crate) fn open(&self, from: DeviceKey, to: DeviceKey) -> Arc<RangeTracker> {
        let state = State { from, to, changed: HashSet::new(), in_flight: HashSet::new() };
        let tracker = Arc::new(RangeTracker(Mutex::new(state)));
        let mut trackers = self.0.lock().expect("no holder of the trackers panics");
        trackers.retain(|tracker| tracker.strong_count() > 0);
        trackers.push(Arc::downgrade(&tracker));
        tracker
    }

    /// Opens a tracker for the keys in `(from, to]`, a part of the range of `tracker`. The new tracker
    /// starts with the changes that `tracker` has recorded in that part.
    pub(crate) fn split(
        &self,
        tracker: &RangeTracker,
        from: DeviceKey,
        to: DeviceKey,
    ) -> Arc<RangeTracker> {
        // The lock is held during the copy, so that no change is missed.
        let mut trackers = self.0.lock().expect("no holder of the trackers panics");
        let mut changed = tracker.state().changed.clone();
        changed.retain(|key| from < *key && *key <= to);
        let part = Arc::new(RangeTracker(Mutex::new(State {
            from,
            to,
            changed,
            in_flight: HashSet::new(),
        })));
        trackers.push(Arc::downgrade(&part));
        part
    }

    /// Records that a device changed. Every task that has read the device reads it again before it
    /// uses the address.
    pub(crate) fn record_change(&self, key: DeviceKey) {
        let trackers = self.0.lock().expect("no holder of the trackers panics");
        for tracker in trackers.iter().filter_map(Weak::upgrade) {
            let mut state = tracker.state();
            if state.from < key && key <= state.to {
                state.changed.insert(key);
            }
        }
    }

    /// Whether a device is being sent to, or got the message and the outcome is not committed yet.
    pub(crate) fn is_in_flight(&self, dispatch: DispatchNo, key: DeviceKey) -> bool {
        let trackers = self.0.lock().expect("no holder of the trackers panics");
        let delivery = (dispatch, key);
        trackers
            .iter()
            .filter_map(Weak::upgrade)
            .any(|tracker| tracker.state().in_flight.contains(&delivery))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_reaches_only_trackers_whose_range_contains_the_device() {
        let trackers = DeviceTracker::default();
        let first = trackers.open(DeviceKey(0), DeviceKey(10));
        let second = trackers.open(DeviceKey(10), DeviceKey(20));
        trackers.record_change(DeviceKey(10));
        assert!(first.has_changed(DeviceKey(10)) && !first.has_changed(DeviceKey(9)));
        assert!(first.clear_changes() && !second.clear_changes());
        assert!(!first.clear_changes(), "the first call cleared it");
    }

    /// A change may arrive between the read of a page and its claim, when the end of its range is
    /// not known yet.
    #[test]
    fn a_tracker_whose_range_shrinks_keeps_only_the_changes_in_it() {
        let trackers = DeviceTracker::default();
        let tracker = trackers.open(DeviceKey(0), DeviceKey(100));
        trackers.record_change(DeviceKey(50));
        tracker.shrink_to(DeviceKey(0), DeviceKey(49));
        assert!(!tracker.clear_changes());
        trackers.record_change(DeviceKey(50));
        assert!(!tracker.clear_changes());
        trackers.record_change(DeviceKey(49));
        tracker.shrink_to(DeviceKey(0), DeviceKey(49));
        assert!(tracker.clear_changes());
    }

    #[test]
    fn a_split_tracker_has_earlier_and_later_changes_in_its_range() {
        let trackers = DeviceTracker::default();
        let tracker = trackers.open(DeviceKey(0), DeviceKey(100));
        trackers.record_change(DeviceKey(5));
        trackers.record_change(DeviceKey(50));
        let part = trackers.split(&tracker, DeviceKey(10), DeviceKey(60));
        drop(tracker);
        trackers.record_change(DeviceKey(60));
        trackers.record_change(DeviceKey(61));
        let changed = [5, 50, 60, 61].map(|key| part.has_changed(DeviceKey(key)));
        assert_eq!(changed, [false, true, true, false]);
    }

    #[test]
    fn a_device_is_in_flight_until_it_is_cleared_or_its_tracker_is_dropped() {
        let trackers = DeviceTracker::default();
        let tracker = trackers.open(DeviceKey(0), DeviceKey(10));
        let is_started = |key| trackers.is_in_flight(DispatchNo(1), DeviceKey(key));
        tracker.mark_in_flight(DispatchNo(1), DeviceKey(4));
        tracker.mark_in_flight(DispatchNo(1), DeviceKey(5));
        assert!(is_started(4) && is_started(5) && !is_started(3), "it was not sent to");
        assert!(!trackers.is_in_flight(DispatchNo(2), DeviceKey(4)));
        tracker.clear_in_flight(DispatchNo(1), DeviceKey(4));
        assert!(!is_started(4) && is_started(5));
        drop(tracker);
        assert!(!is_started(5));
    }
}
