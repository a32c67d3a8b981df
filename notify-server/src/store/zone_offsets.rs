//! Offsets of devices in named time zones. A registration stores the offset that the zone has then. After
//! the offset of any zone has changed, a correction reads all devices in slices and writes the new offsets.
//! Until it has ended, no zone of a notification at a local time is started ([`are_stale`]), so that every
//! device is in the zone in which it is at its local time.

use std::collections::BTreeMap;

use notify_core::{Timestamp, ZoneOffsets, offset_of_zone};
use serde::{Deserialize, Serialize};

use crate::store::device::move_zones;
use crate::store::sql::writer::WriteTx;
use crate::store::sql::{
    self, Connection, NUMBERS, OptionalExtension, WriteScope, list_of, params,
};
use crate::store::{AppNo, DeliveryChange, DeviceKey, Operation, Store, StoreError};

/// The most devices that one slice of a correction reads.
pub(super) const DEVICES_PER_SLICE: u32 = 2_000;
/// The time after a change of offsets before which no correction begins, in milliseconds. Registrations that
/// were checked before the change are written by then.
const SETTLE_MS: i64 = 5_000;
/// How often a correction stores how far it is, in milliseconds.
const RECORDED_EVERY_MS: i64 = 10_000;
/// A server that has not stored its progress for this time no longer corrects, in milliseconds.
const ABANDONED_AFTER_MS: i64 = 60_000;
/// How long after a change of offsets zones wait for a correction that does not begin, in milliseconds.
const WAIT_MAX_MS: i64 = 15 * 60_000;

/// Which offsets devices have. The table `installation` stores it as JSON.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
struct State {
    /// The fingerprint of the offsets that all devices have; `None` before the first correction.
    of: Option<i64>,
    /// The correction that has not ended.
    run: Option<Run>,
}

/// How far a correction is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Run {
    /// The fingerprint of the new offsets.
    of: i64,
    /// The last device that was read.
    after: i64,
    /// When this was stored.
    at: Timestamp,
}

/// A correction of the offsets of devices, which its server continues slice by slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OffsetCorrection(Run);

/// Devices of one zone whose offset has to change.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Change {
    app: AppNo,
    zone: String,
    from: i32,
    to: i32,
}

/// What a slice of a correction found.
struct Slice {
    changes: BTreeMap<Change, Vec<i64>>,
    /// The last device; `None` if there was none.
    last: Option<i64>,
}

impl Store {
    /// Begins to correct the offsets of devices, or continues a correction that another server has abandoned.
    /// Returns `None` if all devices have their offsets, or another server corrects them.
    pub async fn begin_offset_correction(
        &self,
        now: Timestamp,
    ) -> Result<Option<OffsetCorrection>, StoreError> {
        let is_due = self.read(move |connection| Ok(is_due(&read_state(connection)?, now))).await?;
        if !is_due {
            return Ok(None);
        }
        self.write(Operation::CorrectOffsets, move |tx| begin(tx, now)).await
    }

    /// Corrects the offsets of the next devices, at most `DEVICES_PER_SLICE`. Returns the correction if it
    /// has not ended.
    pub async fn correct_offsets(
        &self,
        correction: OffsetCorrection,
        now: Timestamp,
    ) -> Result<Option<OffsetCorrection>, StoreError> {
        let OffsetCorrection(mut run) = correction;
        if run.of != ZoneOffsets::at(now).fingerprint {
            // Offsets have changed again, so another correction begins.
            return Ok(None);
        }
        let after = run.after;
        let slice = self.read_long(move |connection| read_slice(connection, after, now)).await?;
        let mut by_app = BTreeMap::<AppNo, Vec<(Change, Vec<i64>)>>::new();
        for (change, keys) in slice.changes {
            by_app.entry(change.app).or_default().push((change, keys));
        }
        for (app, changes) in by_app {
            let apply = move |tx: &mut WriteTx<'_>| {
                changes.iter().try_for_each(|(change, keys)| apply(tx, change, keys, now))
            };
            self.write_to(WriteScope::app(app), Operation::CorrectOffsets, apply).await?;
        }
        let Some(last) = slice.last else {
            self.write(Operation::CorrectOffsets, move |tx| end(tx, run.of)).await?;
            return Ok(None);
        };
        run.after = last;
        if now.ms_since(run.at) >= RECORDED_EVERY_MS {
            run.at = now;
            self.write(Operation::CorrectOffsets, move |tx| record(tx, run)).await?;
        }
        Ok(Some(OffsetCorrection(run)))
    }
}

/// Whether devices may have offsets of before a change, so that zones wait. They do not wait for a correction
/// that does not begin.
pub(super) fn are_stale(connection: &Connection, now: Timestamp) -> Result<bool, StoreError> {
    let offsets = ZoneOffsets::at(now);
    let state = read_state(connection)?;
    if state.of.is_none_or(|of| of == offsets.fingerprint) {
        return Ok(false);
    }
    let is_recent = offsets.since.is_some_and(|since| now.ms_since(since) < WAIT_MAX_MS);
    Ok(is_recent || state.run.is_some_and(|run| run.is_continued(offsets.fingerprint, now)))
}

impl Run {
    /// Whether a server corrects to these offsets.
    fn is_continued(&self, of: i64, now: Timestamp) -> bool {
        self.of == of && now.ms_since(self.at) < ABANDONED_AFTER_MS
    }
}

fn read_state(connection: &Connection) -> Result<State, StoreError> {
    let stored: Option<Option<String>> = connection
        .prepare_cached("select zone_offsets from installation")?
        .query_row([], |row| row.get(0))
        .optional()?;
    let stored = stored.flatten();
    Ok(stored.map(|json| serde_json::from_str(&json)).transpose()?.unwrap_or_default())
}

fn write_state(tx: &Connection, state: State) -> Result<(), StoreError> {
    tx.prepare_cached(
        "insert into installation (no, zone_offsets) values (1, ?1)
         on conflict (no) do update set zone_offsets = excluded.zone_offsets",
    )?
    .execute(params![serde_json::to_string(&state)?])?;
    Ok(())
}

/// Whether a correction has to begin, or to be continued.
fn is_due(state: &State, now: Timestamp) -> bool {
    let offsets = ZoneOffsets::at(now);
    let is_settled = offsets.since.is_none_or(|since| now.ms_since(since) >= SETTLE_MS);
    let is_continued = state.run.is_some_and(|run| run.is_continued(offsets.fingerprint, now));
    state.of != Some(offsets.fingerprint) && is_settled && !is_continued
}

fn begin(tx: &Connection, now: Timestamp) -> Result<Option<OffsetCorrection>, StoreError> {
    let state = read_state(tx)?;
    if !is_due(&state, now) {
        return Ok(None);
    }
    let of = ZoneOffsets::at(now).fingerprint;
    if !tx.prepare_cached("select 1 from devices order by key limit 1")?.exists([])? {
        write_state(tx, State { of: Some(of), run: None })?;
        return Ok(None);
    }
    let after = state.run.filter(|run| run.of == of).map_or(0, |run| run.after);
    let run = Run { of, after, at: now };
    write_state(tx, State { run: Some(run), ..state })?;
    Ok(Some(OffsetCorrection(run)))
}

fn record(tx: &Connection, run: Run) -> Result<(), StoreError> {
    let state = read_state(tx)?;
    // Another correction may have begun meanwhile.
    if state.run.is_some_and(|stored| stored.of == run.of) {
        write_state(tx, State { run: Some(run), ..state })?;
    }
    Ok(())
}

fn end(tx: &Connection, of: i64) -> Result<(), StoreError> {
    if read_state(tx)?.run.is_some_and(|run| run.of == of) {
        write_state(tx, State { of: Some(of), run: None })?;
    }
    Ok(())
}

/// Reads the next devices, and finds those whose zone has another offset now.
fn read_slice(connection: &Connection, after: i64, now: Timestamp) -> Result<Slice, StoreError> {
    let mut slice = Slice { changes: BTreeMap::new(), last: None };
    let mut statement = connection.prepare_cached(
        "select key, utc_offset_minutes, json(details) ->> 'timezone' from devices
         where key > ?1 order by key limit ?2",
    )?;
    let mut rows = statement.query([after, i64::from(DEVICES_PER_SLICE)])?;
    while let Some(row) = rows.next()? {
        let key: i64 = row.get(0)?;
        slice.last = Some(key);
        let Some(zone) = row.get::<Option<String>>(2)? else { continue };
        let from: i32 = row.get(1)?;
        if let Some(to) = offset_of_zone(&zone, now).filter(|to| *to != from) {
            let change = Change { app: AppNo::from_key(key), zone, from, to };
            slice.changes.entry(change).or_default().push(key);
        }
    }
    Ok(slice)
}

/// Gives devices the new offset of their zone, unless a registration has changed them meanwhile.
fn apply(
    tx: &mut WriteTx<'_>,
    change: &Change,
    keys: &[i64],
    now: Timestamp,
) -> Result<(), StoreError> {
    let Change { app: _, zone, from, to } = change;
    let changed = tx
        .prepare_cached(&format!(
            "update devices set utc_offset_minutes = ?2, zone_changed_at = ?3
             where key in {NUMBERS} and utc_offset_minutes = ?4
             and json(details) ->> 'timezone' = ?5 returning key"
        ))?
        .query_map(params![list_of(keys), *to, now.as_ms(), *from, zone.as_str()], |row| {
            row.get(0)
        })?
        .collect::<sql::Result<Vec<i64>>>()?;
    tx.prepare_cached(&format!("update device_fields set timezone = ?2 where key in {NUMBERS}"))?
        .execute(params![list_of(&changed), *to])?;
    let changed: Vec<DeviceKey> = changed.into_iter().map(DeviceKey).collect();
    move_zones(tx, &changed, *from, *to)?;
    for key in changed {
        tx.changed(DeliveryChange::Device(key));
    }
    Ok(())
}
