//! How many retries of a lane are open: counted in the store now and then, and followed meanwhile.

use std::sync::{Mutex, MutexGuard};

use super::Lane;

/// How many retries of a lane are open, as far as this process knows: rather too many than too few,
/// since what is in flight must not pass the bound (trap 12).
#[derive(Debug, Default)]
pub(super) struct RetryCount(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    open: u64,
    /// Of those, what no commit has written yet: the store does not count it.
    unwritten: u64,
    /// Every one that was ever added.
    added: u64,
}

/// A count in the store that has begun.
#[derive(Debug, Clone, Copy)]
pub(super) struct Counting {
    unwritten: u64,
    added: u64,
}

impl RetryCount {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no holder of the count panics")
    }

    pub(super) fn open(&self) -> u64 {
        self.lock().open
    }

    /// Deliveries are to become retries: known from here on, not from their commit on.
    pub(super) fn more(&self, retries: u64) {
        let mut state = self.lock();
        state.open += retries;
        state.unwritten += retries;
        state.added += retries;
    }

    /// They were committed, or are given up.
    pub(super) fn written(&self, retries: u64) {
        let mut state = self.lock();
        state.unwritten = state.unwritten.saturating_sub(retries);
    }

    /// Retries ended.
    pub(super) fn fewer(&self, retries: u64) {
        let mut state = self.lock();
        state.open = state.open.saturating_sub(retries);
    }

    /// Ahead of a count in the store.
    pub(super) fn begin(&self) -> Counting {
        let state = self.lock();
        Counting { unwritten: state.unwritten, added: state.added }
    }

    /// The store counted so many. What was unwritten when the count began, and what came since, is
    /// added, whether or not the store saw it; what ended since is seen by the next count.
    pub(super) fn counted(&self, begun: Counting, retries: u64) {
        let mut state = self.lock();
        state.open = retries + begun.unwritten + (state.added - begun.added);
    }
}

impl Lane {
    /// Whether so many deliveries are to be tried again that they go first.
    pub(crate) fn has_retries_in_plenty(&self) -> bool {
        self.retries.open() >= self.shared.config.lane_retry_rows_max
    }

    /// Whether so many may be open that they have to be counted: some end without being tried.
    pub(crate) fn may_have_retries_in_plenty(&self) -> bool {
        self.retries.open() >= self.shared.config.lane_retry_rows_max / 2
    }

    /// How many retries are open, counted in the store.
    pub(super) fn retries_counted(&self, begun: Counting, retries: u64) {
        let before = self.retries.open();
        self.retries.counted(begun, retries);
        self.retries_went(before);
    }

    /// Retries ended.
    pub(crate) fn retries_fewer(&self, retries: u64) {
        let before = self.retries.open();
        self.retries.fewer(retries);
        self.retries_went(before);
    }

    /// Wakes pages that waited for retries to end.
    fn retries_went(&self, before: u64) {
        if before >= self.shared.config.lane_retry_rows_max && !self.has_retries_in_plenty() {
            self.gate.nudge();
        }
    }

    /// Deliveries are to become rows of their own.
    pub(crate) fn retries_more(&self, retries: u64) {
        self.retries.more(retries);
    }

    /// They are, or the page that had them broke off.
    pub(crate) fn retries_written(&self, retries: u64) {
        self.retries.written(retries);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_written_yet_is_in_no_count_of_the_store_but_in_this_one() {
        let count = RetryCount::default();
        count.more(3);
        let begun = count.begin();
        count.counted(begun, 0);
        assert_eq!(count.open(), 3);
        count.written(3);
        count.counted(count.begin(), 3);
        assert_eq!(count.open(), 3);
        count.fewer(1);
        assert_eq!(count.open(), 2);
    }

    #[test]
    fn what_comes_while_the_store_counts_is_added() {
        let count = RetryCount::default();
        count.more(2);
        count.written(2);
        let begun = count.begin();
        count.more(5);
        count.written(5);
        count.counted(begun, 2);
        assert_eq!(count.open(), 7);
        count.counted(count.begin(), 7);
        assert_eq!(count.open(), 7, "one that was counted twice is not for long");
    }
}
