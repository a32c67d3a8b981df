//! Device statistics. A counter exists for each hour of creation, platform and state. The
//! transaction that changes a device also updates the counters. To count the devices of a period,
//! whole hours are read from the counters, and only the first and the last hour are scanned.

use std::collections::{BTreeMap, VecDeque};
use std::ops::{ControlFlow, Range, RangeInclusive};

use notify_core::{Platform, PlatformCount, Timestamp};

use crate::store::device::row::{DeviceRow, DeviceUpsert};
use crate::store::sql::row::{count_at, require_app};
use crate::store::sql::{Connection, OptionalExtension, params};
use crate::store::{AppNo, DeviceKey, StoreError, platform_code, platform_of};

/// The period of one counter, in milliseconds.
const HOUR_MS: i64 = 3_600_000;
/// The number of devices that one slice of a count scans. Those created in the same millisecond as the last
/// one are scanned too.
const DEVICES_PER_SLICE: i64 = 10_000;

/// The state of a device that decides which counters include it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct State {
    pub(super) key: DeviceKey,
    pub(super) enabled: bool,
    pub(super) created_at: Timestamp,
    /// Offset from UTC, in minutes.
    pub(super) zone: i32,
}

impl State {
    pub(super) fn of_row(row: &DeviceRow) -> Self {
        Self {
            key: row.key,
            enabled: row.enabled(),
            created_at: row.created_at,
            zone: row.fields.utc_offset_minutes,
        }
    }

    pub(super) fn of_wanted(key: DeviceKey, wanted: &DeviceUpsert, created_at: Timestamp) -> Self {
        let enabled = !wanted.fields.push_disabled;
        Self { key, enabled, created_at, zone: wanted.fields.utc_offset_minutes }
    }
}

/// Updates the counters after a device changed from one state to another. `None` means that the
/// device does not exist before or after the change.
pub(super) fn apply_change(
    tx: &Connection,
    before: Option<State>,
    after: Option<State>,
) -> Result<(), StoreError> {
    let platform_and_zone = |state: State| (state.key.platform(), state.zone);
    if before.map(platform_and_zone) != after.map(platform_and_zone) {
        if let Some(before) = before {
            add_zone(tx, before, -1)?;
        }
        if let Some(after) = after {
            add_zone(tx, after, 1)?;
        }
    }
    let have_same_counter = |a: State, b: State| {
        (a.key.platform(), a.enabled, a.created_at) == (b.key.platform(), b.enabled, b.created_at)
    };
    if let (Some(before), Some(after)) = (before, after)
        && have_same_counter(before, after)
    {
        return Ok(());
    }
    if let Some(before) = before {
        add(tx, before, -1)?;
    }
    if let Some(after) = after {
        add(tx, after, 1)?;
    }
    Ok(())
}

/// Updates the counters after the offset from UTC of devices changed.
pub(crate) fn move_zones(
    tx: &Connection,
    keys: &[DeviceKey],
    from: i32,
    to: i32,
) -> Result<(), StoreError> {
    let mut devices = BTreeMap::<(AppNo, i64), i64>::new();
    for key in keys {
        *devices.entry((key.app(), platform_code(key.platform()))).or_default() += 1;
    }
    for ((app, platform), count) in devices {
        add_to_zone(tx, app, platform, from, -count)?;
        add_to_zone(tx, app, platform, to, count)?;
    }
    Ok(())
}

/// The hour of a time, in hours since the epoch.
pub(crate) fn hour_of(created_at: Timestamp) -> i64 {
    created_at.as_ms().div_euclid(HOUR_MS)
}

/// Updates the counters after `by` devices were disabled as unregistered. `key` and `created_at`
/// are those of one of the devices; all of them have the same platform and the same hour of
/// creation.
pub(crate) fn count_dead(
    tx: &Connection,
    key: DeviceKey,
    created_at: Timestamp,
    by: i64,
) -> Result<(), StoreError> {
    let before = State { key, enabled: true, created_at, zone: 0 };
    add(tx, before, -by)?;
    add(tx, State { enabled: false, ..before }, by)
}

/// Updates the counters after a device was enabled again.
pub(crate) fn count_revived(
    tx: &Connection,
    key: DeviceKey,
    created_at: Timestamp,
) -> Result<(), StoreError> {
    let before = State { key, enabled: false, created_at, zone: 0 };
    apply_change(tx, Some(before), Some(State { enabled: true, ..before }))
}

/// Adds `by` to the counter of the device's hour of creation, platform and state.
fn add(tx: &Connection, state: State, by: i64) -> Result<(), StoreError> {
    let (app, platform) = (state.key.app(), state.key.platform());
    let hour = hour_of(state.created_at);
    let row = [app.0, hour, platform_code(platform), i64::from(state.enabled), by];
    // `max` inserts a missing counter with 0 instead of a negative number, which the CHECK would
    // refuse. An existing counter that would become negative is a bug, and the CHECK refuses the
    // update.
    tx.prepare_cached(
        "insert into device_counts (app_no, hour, platform, enabled, count)
         values (?1, ?2, ?3, ?4, max(?5, 0))
         on conflict (app_no, hour, platform, enabled) do update
         set count = device_counts.count + ?5",
    )?
    .execute(row)?;
    Ok(())
}

/// Adds `by` to the counter of the device's platform and offset from UTC.
fn add_zone(tx: &Connection, state: State, by: i64) -> Result<(), StoreError> {
    add_to_zone(tx, state.key.app(), platform_code(state.key.platform()), state.zone, by)
}

fn add_to_zone(
    tx: &Connection,
    app: AppNo,
    platform: i64,
    zone: i32,
    by: i64,
) -> Result<(), StoreError> {
    tx.prepare_cached(
        "insert into device_zones (app_no, platform, utc_offset_minutes, devices)
         values (?1, ?2, ?3, max(?4, 0))
         on conflict (app_no, platform, utc_offset_minutes) do update
         set devices = device_zones.devices + ?4",
    )?
    .execute(params![app.0, platform, zone, by])?;
    Ok(())
}

/// A count of the devices created within a period by their current state, in slices. Devices that change
/// between two slices count as they were or as they are.
pub(super) struct Counting {
    app: AppNo,
    tally: Tally,
    /// What is still to scan.
    scans: VecDeque<Scan>,
}

/// A part of an hour whose devices are scanned.
struct Scan {
    first_ms: i64,
    last_ms: i64,
    /// Whether its devices are subtracted, because the counter of the whole hour was added.
    is_subtracted: bool,
}

impl Counting {
    /// Adds the whole hours, from the counters.
    pub(super) fn begin(
        connection: &Connection,
        app: AppNo,
        from: Option<Timestamp>,
        to: Timestamp,
        now: Timestamp,
    ) -> Result<Self, StoreError> {
        require_app(connection, app)?;
        let mut counting = Self { app, tally: Tally::default(), scans: VecDeque::new() };
        // No device is created after now or before the epoch. A period that reaches that far has no
        // partial hour at that end.
        let last_ms = if to >= now { i64::MAX } else { to.as_ms() };
        let first_ms = from.map_or(0, Timestamp::as_ms);
        let first_hour =
            first_ms.div_euclid(HOUR_MS) + i64::from(first_ms.rem_euclid(HOUR_MS) != 0);
        let end_hour = last_ms.saturating_add(1).div_euclid(HOUR_MS);
        if first_hour >= end_hour {
            counting.scans.push_back(Scan { first_ms, last_ms, is_subtracted: false });
            return Ok(counting);
        }
        counting.tally.sum(connection, app, first_hour..end_hour)?;
        if first_ms < first_hour * HOUR_MS {
            counting.add_part_of_hour(connection, first_ms..=first_hour * HOUR_MS - 1)?;
        }
        if last_ms != i64::MAX && end_hour * HOUR_MS <= last_ms {
            counting.add_part_of_hour(connection, end_hour * HOUR_MS..=last_ms)?;
        }
        Ok(counting)
    }

    /// Adds the devices of the beginning or the end of an hour. If this part is longer than half an
    /// hour, the other part is scanned instead, and its devices are subtracted from the counter of
    /// the hour.
    fn add_part_of_hour(
        &mut self,
        connection: &Connection,
        ms: RangeInclusive<i64>,
    ) -> Result<(), StoreError> {
        let (first_ms, last_ms) = (*ms.start(), *ms.end());
        if last_ms - first_ms < HOUR_MS / 2 {
            self.scans.push_back(Scan { first_ms, last_ms, is_subtracted: false });
            return Ok(());
        }
        let hour = first_ms.div_euclid(HOUR_MS);
        let is_begin_of_hour = first_ms == hour * HOUR_MS;
        let (first_ms, last_ms) = if is_begin_of_hour {
            (last_ms + 1, (hour + 1) * HOUR_MS - 1)
        } else {
            (hour * HOUR_MS, first_ms - 1)
        };
        self.tally.sum(connection, self.app, hour..hour + 1)?;
        self.scans.push_back(Scan { first_ms, last_ms, is_subtracted: true });
        Ok(())
    }

    /// Scans the devices of the next slice.
    pub(super) fn next(
        mut self,
        connection: &Connection,
    ) -> Result<ControlFlow<Vec<PlatformCount>, Self>, StoreError> {
        if let Some(mut scan) = self.scans.pop_front() {
            let end = connection
                .prepare_cached(
                    "select created_at from devices
                     where app_no = ?1 and created_at >= ?2 and created_at <= ?3
                     order by created_at limit 1 offset ?4",
                )?
                .query_row(
                    [self.app.0, scan.first_ms, scan.last_ms, DEVICES_PER_SLICE - 1],
                    |row| row.get::<i64>(0),
                )
                .optional()?
                .unwrap_or(scan.last_ms);
            let slice = Scan { last_ms: end, ..scan };
            self.tally.scan(connection, self.app, &slice)?;
            if end < scan.last_ms {
                scan.first_ms = end + 1;
                self.scans.push_front(scan);
            }
        }
        if self.scans.is_empty() {
            return Ok(ControlFlow::Break(self.tally.counts()));
        }
        Ok(ControlFlow::Continue(self))
    }
}

/// The number of enabled devices of a platform now, including devices without an address.
pub(crate) fn count_enabled(
    connection: &Connection,
    app: AppNo,
    platform: Platform,
) -> Result<u64, StoreError> {
    let enabled = connection
        .prepare_cached(
            "select coalesce(sum(count), 0) from device_counts
             where app_no = ?1 and platform = ?2 and enabled = 1",
        )?
        .query_row([app.0, platform_code(platform)], |row| count_at(row, 0))?;
    Ok(enabled)
}

/// The number of devices of a platform now.
pub(crate) fn count_all(
    connection: &Connection,
    app: AppNo,
    platform: Platform,
) -> Result<u64, StoreError> {
    let all = connection
        .prepare_cached(
            "select coalesce(sum(count), 0) from device_counts
             where app_no = ?1 and platform = ?2",
        )?
        .query_row([app.0, platform_code(platform)], |row| count_at(row, 0))?;
    Ok(all)
}

/// The numbers of enabled and disabled devices, by platform code.
#[derive(Default)]
struct Tally([(u64, u64); Platform::ALL.len()]);

impl Tally {
    fn count_of(&mut self, platform: Platform, is_enabled: bool) -> &mut u64 {
        let index = usize::try_from(platform_code(platform)).expect("platform codes are small");
        let (enabled, disabled) = &mut self.0[index];
        if is_enabled { enabled } else { disabled }
    }

    /// Adds the devices of whole hours, from the counters.
    fn sum(
        &mut self,
        connection: &Connection,
        app: AppNo,
        hours: Range<i64>,
    ) -> Result<(), StoreError> {
        let mut sums = connection.prepare_cached(
            "select platform, enabled, sum(count) from device_counts
             where app_no = ?1 and hour >= ?2 and hour < ?3 group by platform, enabled",
        )?;
        let mut rows = sums.query([app.0, hours.start, hours.end])?;
        while let Some(row) = rows.next()? {
            *self.count_of(platform_of(row.get(0)?), row.get(1)?) += count_at(&row, 2)?;
        }
        Ok(())
    }

    /// Adds or subtracts the devices of a period by scanning them.
    fn scan(&mut self, connection: &Connection, app: AppNo, of: &Scan) -> Result<(), StoreError> {
        let mut devices = connection.prepare_cached(
            "select key, push_disabled = 0 and dead_at is null from devices
             where app_no = ?1 and created_at >= ?2 and created_at <= ?3",
        )?;
        let mut rows = devices.query([app.0, of.first_ms, of.last_ms])?;
        while let Some(row) = rows.next()? {
            let count = self.count_of(DeviceKey(row.get(0)?).platform(), row.get(1)?);
            *count = if of.is_subtracted { count.saturating_sub(1) } else { *count + 1 };
        }
        Ok(())
    }

    /// The counts of the platforms that have devices.
    fn counts(&self) -> Vec<PlatformCount> {
        let count_of = |platform| {
            let index = usize::try_from(platform_code(platform)).ok()?;
            let (enabled, disabled) = *self.0.get(index)?;
            (enabled + disabled > 0).then_some(PlatformCount { platform, enabled, disabled })
        };
        Platform::ALL.into_iter().filter_map(count_of).collect()
    }
}
