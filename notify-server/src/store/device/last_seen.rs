//! Write-behind buffer of registrations that changed nothing, so that they cost no commit. A crash
//! loses at most an hour. The newer of this and the table is valid.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use notify_core::Timestamp;

use crate::store::device::row::{DEVICES, REGISTERED};
use crate::store::sql::{Connection, OptionalExtension};
use crate::store::{DeviceKey, StoreError};

/// Buffered registrations from which on batches are written. Large enough that the devices of a batch
/// are close together: of a million, 4,096 rows are then on 250 pages and not on 2,600.
const HELD_MAX: usize = 65_536;
/// Most registrations of one batch.
const PART_MAX: usize = 4_096;
/// Buffered registrations from which on every caller writes, because the writer does not keep up.
const OVERFLOW: usize = 2 * HELD_MAX;

/// Registrations newer than the written ones.
#[derive(Default)]
pub(crate) struct LastSeenBuffer(Mutex<Held>);

#[derive(Default)]
struct Held {
    at: BTreeMap<DeviceKey, Timestamp>,
    /// Where the last batch ended.
    cursor: Option<DeviceKey>,
    is_writing: bool,
}

/// A batch to write. Its owner writes it.
pub(super) struct Batch<'s> {
    seen: &'s LastSeenBuffer,
    pub(super) rows: Vec<(DeviceKey, Timestamp)>,
}

impl Drop for Batch<'_> {
    /// Allows the next batch, also if this one was not written.
    fn drop(&mut self) {
        self.seen.lock().is_writing = false;
    }
}

impl LastSeenBuffer {
    fn lock(&self) -> MutexGuard<'_, Held> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Buffers a registration.
    pub(super) fn record(&self, key: DeviceKey, at: Timestamp) {
        let mut held = self.lock();
        let newest = held.at.entry(key).or_insert(at);
        *newest = at.max(*newest);
    }

    /// The buffered registration of a device.
    pub(crate) fn at(&self, key: DeviceKey) -> Option<Timestamp> {
        self.lock().at.get(&key).copied()
    }

    /// The batch to write if there are many and no other is being written; otherwise every caller
    /// would write the same batch.
    pub(super) fn batch_when_many(&self) -> Option<Batch<'_>> {
        let mut held = self.lock();
        let is_due = held.at.len() >= if held.is_writing { OVERFLOW } else { HELD_MAX };
        is_due.then(|| self.batch(&mut held))
    }

    /// The next batch of any size. It stays in the buffer until [`LastSeenBuffer::written`].
    pub(super) fn next_batch(&self) -> Option<Batch<'_>> {
        let mut held = self.lock();
        (!held.at.is_empty()).then(|| self.batch(&mut held))
    }

    /// The devices after the last batch, beginning again after the last device.
    fn batch<'s>(&'s self, held: &mut Held) -> Batch<'s> {
        let behind = held.cursor.map_or(Bound::Unbounded, Bound::Excluded);
        let from = |bound| held.at.range((bound, Bound::Unbounded)).take(PART_MAX);
        let mut rows: Vec<_> = from(behind).map(|(key, at)| (*key, *at)).collect();
        if rows.is_empty() {
            rows = from(Bound::Unbounded).map(|(key, at)| (*key, *at)).collect();
        }
        held.cursor = rows.last().map(|(key, _)| *key);
        held.is_writing = true;
        Batch { seen: self, rows }
    }

    /// Removes what was written, unless it became newer.
    pub(super) fn written(&self, written: &[(DeviceKey, Timestamp)]) {
        let mut held = self.lock();
        for (key, at) in written {
            if held.at.get(key).is_some_and(|newest| newest <= at) {
                held.at.remove(key);
            }
        }
    }

    /// Removes an erased device.
    pub(super) fn forget(&self, key: DeviceKey) {
        self.lock().at.remove(&key);
    }
}

/// The written registration of a device.
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

// How many recent registrations changed nothing: in a nightly synchronisation most of them, after a new
// release of the app few. Reading before the write pays off only for the former.

/// Weight of an unchanged registration: a read costs about a quarter of a write, so it pays off from
/// one in four on.
const UNCHANGED_WEIGHT: i32 = 3;
/// Changed registrations in a row after which reads stop.
const MEMORY: i32 = 96;

/// A score of the latest registrations.
pub(crate) struct UnchangedHeuristic(AtomicI32);

impl Default for UnchangedHeuristic {
    fn default() -> Self {
        Self(AtomicI32::new(MEMORY))
    }
}

impl UnchangedHeuristic {
    /// Whether reading first is worth it.
    pub(super) fn looks_unchanged(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }

    /// Records a registration.
    pub(super) fn record(&self, changed: bool) {
        let by = if changed { -1 } else { UNCHANGED_WEIGHT };
        // A concurrent update may be lost, since this is an estimate.
        let score = self.0.load(Ordering::Relaxed) + by;
        self.0.store(score.clamp(0, MEMORY), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noted(count: usize) -> LastSeenBuffer {
        let seen = LastSeenBuffer::default();
        for key in 1..=count {
            seen.record(DeviceKey(i64::try_from(key).unwrap()), Timestamp(7));
        }
        seen
    }

    fn write(seen: &LastSeenBuffer, batch: &Batch<'_>) -> Vec<i64> {
        seen.written(&batch.rows);
        batch.rows.iter().map(|(key, _)| key.0).collect()
    }

    #[test]
    fn only_one_writes_at_a_time_and_only_when_it_is_many() {
        assert!(noted(HELD_MAX - 1).batch_when_many().is_none());
        let seen = noted(HELD_MAX);
        let batch = seen.batch_when_many().unwrap();
        assert!(seen.batch_when_many().is_none(), "another one is at it");
        drop(batch);
        assert!(seen.batch_when_many().is_some(), "that one gave up");
        assert!(noted(OVERFLOW).batch_when_many().is_some());
    }

    #[test]
    fn parts_go_round_in_the_order_of_the_keys() {
        let seen = noted(2 * PART_MAX + 1);
        let mut written = Vec::new();
        while let Some(batch) = seen.next_batch() {
            written.push(write(&seen, &batch));
        }
        let lengths: Vec<_> = written.iter().map(Vec::len).collect();
        assert_eq!(lengths, [PART_MAX, PART_MAX, 1]);
        assert!(written.concat().is_sorted());

        seen.record(DeviceKey(1), Timestamp(8));
        let batch = seen.next_batch().unwrap();
        assert_eq!(write(&seen, &batch), [1], "behind the last one comes the first");
    }

    #[test]
    fn a_registration_during_a_write_stays() {
        let seen = noted(1);
        let batch = seen.next_batch().unwrap();
        seen.record(DeviceKey(1), Timestamp(9));
        write(&seen, &batch);
        assert_eq!(seen.at(DeviceKey(1)), Some(Timestamp(9)));
    }
}

#[cfg(test)]
mod lately_tests {
    use super::*;

    #[test]
    fn it_looks_while_at_least_a_quarter_changes_nothing() {
        let lately = UnchangedHeuristic::default();
        (0..MEMORY).for_each(|_| lately.record(true));
        assert!(!lately.looks_unchanged(), "all of them changed something");
        lately.record(false);
        assert!(lately.looks_unchanged(), "the first that did not is seen by the writer");
        for nth in 0..1_000 {
            lately.record(nth % 4 != 0);
        }
        assert!(lately.looks_unchanged(), "one in four");
        for nth in 0..1_000 {
            lately.record(nth % 8 != 0);
        }
        assert!(lately.0.load(Ordering::Relaxed) <= UNCHANGED_WEIGHT, "one in eight");
    }
}
