//! Registrations that changed nothing, held back so that they cost no commit. Lost in a
//! crash they are at most an hour old; the newest of this and the table is the truth.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use notify_core::Timestamp;

use crate::store::device::row::{DEVICES, REGISTERED};
use crate::store::sql::{Connection, OptionalExtension};
use crate::store::{DeviceKey, StoreError};

/// Registrations held back, from which on they are written part by part. So many that the devices
/// of a part lie close together: a million then cost 4,096 rows on 250 pages a write, not on 2,600.
const HELD_MAX: usize = 65_536;
/// Most registrations of one part.
const PART_MAX: usize = 4_096;
/// Registrations held back, from which on everybody writes: the writer does not keep up.
const OVERFLOW: usize = 2 * HELD_MAX;

/// Registrations newer than the written ones.
#[derive(Default)]
pub(crate) struct Seen(Mutex<Held>);

#[derive(Default)]
struct Held {
    at: BTreeMap<DeviceKey, Timestamp>,
    /// Where the last part ended.
    cursor: Option<DeviceKey>,
    is_writing: bool,
}

/// A part of what is held back, to be written by whoever has this.
pub(super) struct Part<'s> {
    seen: &'s Seen,
    pub(super) rows: Vec<(DeviceKey, Timestamp)>,
}

impl Drop for Part<'_> {
    /// The next part may be written, also when this one was given up.
    fn drop(&mut self) {
        self.seen.lock().is_writing = false;
    }
}

impl Seen {
    fn lock(&self) -> MutexGuard<'_, Held> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a registration.
    pub(super) fn note(&self, key: DeviceKey, at: Timestamp) {
        let mut held = self.lock();
        let newest = held.at.entry(key).or_insert(at);
        *newest = at.max(*newest);
    }

    /// The registration held back for a device.
    pub(crate) fn at(&self, key: DeviceKey) -> Option<Timestamp> {
        self.lock().at.get(&key).copied()
    }

    /// What is to be written now, if it is many and nobody else is at it: without that, everybody
    /// who registers meanwhile would write the same again.
    pub(super) fn part_when_many(&self) -> Option<Part<'_>> {
        let mut held = self.lock();
        let is_due = held.at.len() >= if held.is_writing { OVERFLOW } else { HELD_MAX };
        is_due.then(|| self.part(&mut held))
    }

    /// What is to be written, however little it is. It stays until it is [`Seen::written`].
    pub(super) fn next_part(&self) -> Option<Part<'_>> {
        let mut held = self.lock();
        (!held.at.is_empty()).then(|| self.part(&mut held))
    }

    /// The devices behind the last part, from the beginning again after the last device.
    fn part<'s>(&'s self, held: &mut Held) -> Part<'s> {
        let behind = held.cursor.map_or(Bound::Unbounded, Bound::Excluded);
        let from = |bound| held.at.range((bound, Bound::Unbounded)).take(PART_MAX);
        let mut rows: Vec<_> = from(behind).map(|(key, at)| (*key, *at)).collect();
        if rows.is_empty() {
            rows = from(Bound::Unbounded).map(|(key, at)| (*key, *at)).collect();
        }
        held.cursor = rows.last().map(|(key, _)| *key);
        held.is_writing = true;
        Part { seen: self, rows }
    }

    /// Lets go of what is written, unless it became newer meanwhile.
    pub(super) fn written(&self, written: &[(DeviceKey, Timestamp)]) {
        let mut held = self.lock();
        for (key, at) in written {
            if held.at.get(key).is_some_and(|newest| newest <= at) {
                held.at.remove(key);
            }
        }
    }

    /// Lets go of an erased device.
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

// What registrations came to lately: most of a nightly synchronisation change nothing, most of a
// new release of the app do. A look ahead of the write is worth its cost only for the former.

/// What one registration that changes nothing counts against those that change something: a look
/// costs about a quarter of a write, so it pays from one in four on.
const UNCHANGED_WEIGHT: i32 = 3;
/// Registrations that change something, in a row, after which nobody looks any more.
const MEMORY: i32 = 96;

/// A score of the latest registrations.
pub(crate) struct Lately(AtomicI32);

impl Default for Lately {
    fn default() -> Self {
        Self(AtomicI32::new(MEMORY))
    }
}

impl Lately {
    /// Whether it is worth looking first.
    pub(super) fn looks_unchanged(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }

    /// Takes note of a registration.
    pub(super) fn note(&self, changed: bool) {
        let by = if changed { -1 } else { UNCHANGED_WEIGHT };
        // A note that another one overtakes is lost: it is an estimate.
        let score = self.0.load(Ordering::Relaxed) + by;
        self.0.store(score.clamp(0, MEMORY), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noted(count: usize) -> Seen {
        let seen = Seen::default();
        for key in 1..=count {
            seen.note(DeviceKey(i64::try_from(key).unwrap()), Timestamp(7));
        }
        seen
    }

    fn write(seen: &Seen, part: &Part<'_>) -> Vec<i64> {
        seen.written(&part.rows);
        part.rows.iter().map(|(key, _)| key.0).collect()
    }

    #[test]
    fn only_one_writes_at_a_time_and_only_when_it_is_many() {
        assert!(noted(HELD_MAX - 1).part_when_many().is_none());
        let seen = noted(HELD_MAX);
        let part = seen.part_when_many().unwrap();
        assert!(seen.part_when_many().is_none(), "another one is at it");
        drop(part);
        assert!(seen.part_when_many().is_some(), "that one gave up");
        assert!(noted(OVERFLOW).part_when_many().is_some());
    }

    #[test]
    fn parts_go_round_in_the_order_of_the_keys() {
        let seen = noted(2 * PART_MAX + 1);
        let mut written = Vec::new();
        while let Some(part) = seen.next_part() {
            written.push(write(&seen, &part));
        }
        let lengths: Vec<_> = written.iter().map(Vec::len).collect();
        assert_eq!(lengths, [PART_MAX, PART_MAX, 1]);
        assert!(written.concat().is_sorted());

        seen.note(DeviceKey(1), Timestamp(8));
        let part = seen.next_part().unwrap();
        assert_eq!(write(&seen, &part), [1], "behind the last one comes the first");
    }

    #[test]
    fn a_registration_that_came_meanwhile_stays() {
        let seen = noted(1);
        let part = seen.next_part().unwrap();
        seen.note(DeviceKey(1), Timestamp(9));
        write(&seen, &part);
        assert_eq!(seen.at(DeviceKey(1)), Some(Timestamp(9)));
    }
}

#[cfg(test)]
mod lately_tests {
    use super::*;

    #[test]
    fn it_looks_while_at_least_a_quarter_changes_nothing() {
        let lately = Lately::default();
        (0..MEMORY).for_each(|_| lately.note(true));
        assert!(!lately.looks_unchanged(), "all of them changed something");
        lately.note(false);
        assert!(lately.looks_unchanged(), "the first that did not is seen by the writer");
        for nth in 0..1_000 {
            lately.note(nth % 4 != 0);
        }
        assert!(lately.looks_unchanged(), "one in four");
        for nth in 0..1_000 {
            lately.note(nth % 8 != 0);
        }
        assert!(lately.0.load(Ordering::Relaxed) <= UNCHANGED_WEIGHT, "one in eight");
    }
}
