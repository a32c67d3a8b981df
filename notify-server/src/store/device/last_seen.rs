//! A write-behind buffer for the times of registrations that changed nothing, so that these
//! registrations cost no commit. A crash loses the times of at most an hour. The last registration
//! of a device is the newer of the buffered and the written time.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use notify_core::Timestamp;

use crate::store::device::row::{DEVICES, REGISTERED};
use crate::store::sql::{Connection, OptionalExtension};
use crate::store::{DeviceKey, StoreError};

/// The number of buffered registrations above which batches are written. A large buffer makes the
/// devices of a batch lie close together: with a million devices, the 4,096 rows of a batch are on
/// 250 database pages and not on 2,600.
const BUFFERED_MAX: usize = 65_536;
/// The most registrations of one batch.
const BATCH_MAX: usize = 4_096;
/// The number of buffered registrations above which every caller writes a batch, since one batch at
/// a time does not keep up.
const OVERFLOW: usize = 2 * BUFFERED_MAX;

/// The registration times that are newer than the written ones.
#[derive(Default)]
pub(crate) struct LastSeenBuffer(Mutex<Buffer>);

#[derive(Default)]
struct Buffer {
    times: BTreeMap<DeviceKey, Timestamp>,
    /// The last device of the last batch.
    cursor: Option<DeviceKey>,
    is_writing: bool,
}

/// A batch that the caller writes.
pub(super) struct Batch<'s> {
    seen: &'s LastSeenBuffer,
    pub(super) rows: Vec<(DeviceKey, Timestamp)>,
}

impl Drop for Batch<'_> {
    /// Allows the next batch, even if this batch was not written.
    fn drop(&mut self) {
        self.seen.lock().is_writing = false;
    }
}

impl LastSeenBuffer {
    fn lock(&self) -> MutexGuard<'_, Buffer> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Buffers the time of a registration.
    pub(in crate::store) fn record(&self, key: DeviceKey, at: Timestamp) {
        let mut buffer = self.lock();
        let newest = buffer.times.entry(key).or_insert(at);
        *newest = at.max(*newest);
    }

    /// The buffered registration time of a device.
    pub(crate) fn at(&self, key: DeviceKey) -> Option<Timestamp> {
        self.lock().times.get(&key).copied()
    }

    /// The next batch to write, if the buffer has [`BUFFERED_MAX`] registrations. While another
    /// caller writes a batch, the limit is [`OVERFLOW`]: usually one caller at a time is enough.
    pub(super) fn batch_if_full(&self) -> Option<Batch<'_>> {
        let mut buffer = self.lock();
        let limit = if buffer.is_writing { OVERFLOW } else { BUFFERED_MAX };
        let is_full = buffer.times.len() >= limit;
        is_full.then(|| self.batch(&mut buffer))
    }

    /// The next batch, even if the buffer is not full; `None` if the buffer is empty. The batch
    /// stays in the buffer until [`LastSeenBuffer::remove_written`].
    pub(super) fn next_batch(&self) -> Option<Batch<'_>> {
        let mut buffer = self.lock();
        (!buffer.times.is_empty()).then(|| self.batch(&mut buffer))
    }

    /// A batch of the devices after the last batch. After the last device, it begins again with the
    /// first.
    fn batch<'s>(&'s self, buffer: &mut Buffer) -> Batch<'s> {
        let after = buffer.cursor.map_or(Bound::Unbounded, Bound::Excluded);
        let rows_from = |bound| -> Vec<_> {
            let times = buffer.times.range((bound, Bound::Unbounded)).take(BATCH_MAX);
            times.map(|(key, at)| (*key, *at)).collect()
        };
        let mut rows = rows_from(after);
        if rows.is_empty() {
            rows = rows_from(Bound::Unbounded);
        }
        buffer.cursor = rows.last().map(|(key, _)| *key);
        buffer.is_writing = true;
        Batch { seen: self, rows }
    }

    /// Removes times that were written, unless a newer time was buffered since.
    pub(super) fn remove_written(&self, written: &[(DeviceKey, Timestamp)]) {
        let mut buffer = self.lock();
        for (key, at) in written {
            if buffer.times.get(key).is_some_and(|newest| newest <= at) {
                buffer.times.remove(key);
            }
        }
    }

    /// Removes an erased device.
    pub(in crate::store) fn forget(&self, key: DeviceKey) {
        self.lock().times.remove(&key);
    }
}

/// The written registration time of a device.
pub(crate) fn last_registration(
    tx: &Connection,
    key: DeviceKey,
) -> Result<Option<Timestamp>, StoreError> {
    let at = tx
        .prepare_cached(&format!("select {REGISTERED} from {DEVICES} where d.key = ?1"))?
        .query_row([key.0], |row| row.get(0).map(Timestamp))
        .optional()?;
    Ok(at)
}

// The share of recent registrations that changed nothing. It is high in a nightly synchronisation
// and low after a new release of the app. Reading before the write pays off only if it is high.

/// The weight of an unchanged registration. A read costs about a quarter of a write, so reading
/// first pays off if at least one in four registrations changes nothing.
const UNCHANGED_WEIGHT: i32 = 3;
/// The number of changed registrations in a row after which reads stop.
const SCORE_MAX: i32 = 96;

/// A score of the latest registrations.
pub(crate) struct UnchangedHeuristic(AtomicI32);

impl Default for UnchangedHeuristic {
    fn default() -> Self {
        Self(AtomicI32::new(SCORE_MAX))
    }
}

impl UnchangedHeuristic {
    /// Whether the next registration probably changes nothing, so that reading first pays off.
    pub(in crate::store) fn looks_unchanged(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }

    /// Records whether a registration changed something.
    pub(in crate::store) fn record(&self, changed: bool) {
        let by = if changed { -1 } else { UNCHANGED_WEIGHT };
        // Concurrent calls may lose an update. The score is only an estimate.
        let score = self.0.load(Ordering::Relaxed) + by;
        self.0.store(score.clamp(0, SCORE_MAX), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buffer_of(count: usize) -> LastSeenBuffer {
        let seen = LastSeenBuffer::default();
        for key in 1..=count {
            seen.record(DeviceKey(i64::try_from(key).unwrap()), Timestamp(7));
        }
        seen
    }

    fn write(seen: &LastSeenBuffer, batch: &Batch<'_>) -> Vec<i64> {
        seen.remove_written(&batch.rows);
        batch.rows.iter().map(|(key, _)| key.0).collect()
    }

    #[test]
    fn one_batch_is_written_at_a_time_and_only_when_the_buffer_is_full() {
        assert!(buffer_of(BUFFERED_MAX - 1).batch_if_full().is_none());
        let seen = buffer_of(BUFFERED_MAX);
        let batch = seen.batch_if_full().unwrap();
        assert!(seen.batch_if_full().is_none(), "another caller is writing");
        drop(batch);
        assert!(seen.batch_if_full().is_some(), "the other caller gave up");
        assert!(buffer_of(OVERFLOW).batch_if_full().is_some());
    }

    #[test]
    fn batches_follow_the_order_of_the_keys_and_begin_again() {
        let seen = buffer_of(2 * BATCH_MAX + 1);
        let mut written = Vec::new();
        while let Some(batch) = seen.next_batch() {
            written.push(write(&seen, &batch));
        }
        let lengths: Vec<_> = written.iter().map(Vec::len).collect();
        assert_eq!(lengths, [BATCH_MAX, BATCH_MAX, 1]);
        assert!(written.concat().is_sorted());

        seen.record(DeviceKey(1), Timestamp(8));
        let batch = seen.next_batch().unwrap();
        assert_eq!(write(&seen, &batch), [1], "the first device follows the last");
    }

    #[test]
    fn a_registration_during_a_write_stays() {
        let seen = buffer_of(1);
        let batch = seen.next_batch().unwrap();
        seen.record(DeviceKey(1), Timestamp(9));
        write(&seen, &batch);
        assert_eq!(seen.at(DeviceKey(1)), Some(Timestamp(9)));
    }
}

#[cfg(test)]
mod heuristic_tests {
    use super::*;

    #[test]
    fn registrations_look_unchanged_while_at_least_a_quarter_changes_nothing() {
        let heuristic = UnchangedHeuristic::default();
        (0..SCORE_MAX).for_each(|_| heuristic.record(true));
        assert!(!heuristic.looks_unchanged(), "every registration changed something");
        heuristic.record(false);
        assert!(heuristic.looks_unchanged(), "one registration changed nothing");
        for nth in 0..1_000 {
            heuristic.record(nth % 4 != 0);
        }
        assert!(heuristic.looks_unchanged(), "one in four");
        for nth in 0..1_000 {
            heuristic.record(nth % 8 != 0);
        }
        assert!(heuristic.0.load(Ordering::Relaxed) <= UNCHANGED_WEIGHT, "one in eight");
    }
}
