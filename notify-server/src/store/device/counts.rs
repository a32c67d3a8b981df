//! Device statistics. A counter exists for each hour of creation, platform and state. The
//! transaction that changes a device also updates the counters. To count the devices of a period,
//! whole hours are read from the counters, and only the first and the last hour are scanned.

use std::ops::{Range, RangeInclusive};

use notify_core::{Platform, PlatformCount, Timestamp};

use crate::store::device::row::{DeviceRow, DeviceUpsert};
use crate::store::sql::row::{count_at, require_app};
use crate::store::sql::{Connection, params};
use crate::store::{AppNo, DeviceKey, StoreError, platform_code, platform_of};

/// The period of one counter, in milliseconds.
const HOUR_MS: i64 = 3_600_000;

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
    tx.prepare_cached(
        "insert into device_zones (app_no, platform, utc_offset_minutes, devices)
         values (?1, ?2, ?3, max(?4, 0))
         on conflict (app_no, platform, utc_offset_minutes) do update
         set devices = device_zones.devices + ?4",
    )?
    .execute(params![
        state.key.app().0,
        platform_code(state.key.platform()),
        state.zone,
        by
    ])?;
    Ok(())
}

/// Counts the devices created within a period by their current state.
pub(super) fn count(
    connection: &Connection,
    app: AppNo,
    from: Option<Timestamp>,
    to: Timestamp,
    now: Timestamp,
) -> Result<Vec<PlatformCount>, StoreError> {
    require_app(connection, app)?;
    let mut tally = Tally::default();
    // No device is created after now or before the epoch. A period that reaches that far has no
    // partial hour at that end.
    let last_ms = if to >= now { i64::MAX } else { to.as_ms() };
    let first_ms = from.map_or(0, Timestamp::as_ms);
    let first_hour = first_ms.div_euclid(HOUR_MS) + i64::from(first_ms.rem_euclid(HOUR_MS) != 0);
    let end_hour = last_ms.saturating_add(1).div_euclid(HOUR_MS);
    if first_hour >= end_hour {
        tally.scan(connection, app, first_ms..=last_ms)?;
    } else {
        tally.sum(connection, app, first_hour..end_hour)?;
        if first_ms < first_hour * HOUR_MS {
            tally.add_part_of_hour(connection, app, first_ms..=first_hour * HOUR_MS - 1)?;
        }
        if last_ms != i64::MAX && end_hour * HOUR_MS <= last_ms {
            tally.add_part_of_hour(connection, app, end_hour * HOUR_MS..=last_ms)?;
        }
    }
    Ok(tally.counts())
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
    fn add(&mut self, platform: Platform, is_enabled: bool, by: u64) {
        let index = usize::try_from(platform_code(platform)).expect("platform codes are small");
        let (enabled, disabled) = &mut self.0[index];
        if is_enabled {
            *enabled += by;
        } else {
            *disabled += by;
        }
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
            self.add(platform_of(row.get(0)?), row.get(1)?, count_at(&row, 2)?);
        }
        Ok(())
    }

    /// Adds the devices of the beginning or the end of an hour. If this part is longer than half an
    /// hour, the other part is scanned instead, and its devices are subtracted from the counter of
    /// the hour.
    fn add_part_of_hour(
        &mut self,
        connection: &Connection,
        app: AppNo,
        ms: RangeInclusive<i64>,
    ) -> Result<(), StoreError> {
        let (first_ms, last_ms) = (*ms.start(), *ms.end());
        if last_ms - first_ms < HOUR_MS / 2 {
            return self.scan(connection, app, ms);
        }
        let hour = first_ms.div_euclid(HOUR_MS);
        let is_begin_of_hour = first_ms == hour * HOUR_MS;
        let rest_ms = if is_begin_of_hour {
            last_ms + 1..=(hour + 1) * HOUR_MS - 1
        } else {
            hour * HOUR_MS..=first_ms - 1
        };
        let mut rest = Self::default();
        rest.scan(connection, app, rest_ms)?;
        self.sum(connection, app, hour..hour + 1)?;
        for ((enabled, disabled), (rest_enabled, rest_disabled)) in self.0.iter_mut().zip(rest.0) {
            *enabled -= rest_enabled;
            *disabled -= rest_disabled;
        }
        Ok(())
    }

    /// Adds the devices of a period by scanning them.
    fn scan(
        &mut self,
        connection: &Connection,
        app: AppNo,
        ms: RangeInclusive<i64>,
    ) -> Result<(), StoreError> {
        let mut devices = connection.prepare_cached(
            "select key, push_disabled = 0 and dead_at is null from devices
             where app_no = ?1 and created_at >= ?2 and created_at <= ?3",
        )?;
        let mut rows = devices.query([app.0, *ms.start(), *ms.end()])?;
        while let Some(row) = rows.next()? {
            self.add(DeviceKey(row.get(0)?).platform(), row.get(1)?, 1);
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
