//! Notifications at the local time of each device (`send_at_local`). A zone is all devices with the
//! same offset from UTC. The dispatch of a zone is created when the zone is due. At the end, a
//! catch-up dispatch reaches the devices whose offset changed and that got the notification in no
//! zone.

use std::collections::BTreeMap;

use notify_core::{Platform, Timestamp};

use crate::store::delivery::settle;
use crate::store::delivery::start::{self, DueNotification, PlatformAudience};
use crate::store::sql::row::platforms_of;
use crate::store::sql::writer::WriteTx;
use crate::store::sql::{Connection, OptionalExtension, params, seq_of};
use crate::store::{
    AppNo, DeviceKey, DispatchNo, NotificationNo, Portion, StoreError, UserNo, platform_of,
    zone_offsets,
};

/// How often a notification is checked while some of its zones are not due, in milliseconds.
/// Devices may register or change their offset meanwhile. Offsets are multiples of 15 minutes.
const CHECK_EVERY_MS: i64 = 15 * 60_000;
/// How soon due zones are checked again if devices may not have their offsets yet, in milliseconds.
const STALE_CHECK_MS: i64 = 5_000;

/// A notification at a local time that has not ended.
struct LocalTimeNotification {
    due: DueNotification,
    has_started: bool,
    /// The local time, stored as if it were a time in UTC.
    time: Timestamp,
    accepted_at: Timestamp,
    open_dispatches: i64,
}

impl LocalTimeNotification {
    /// When the zone with an offset in minutes is due. A zone whose time had passed when the
    /// notification was accepted is due at once.
    fn due_at(&self, offset: i64) -> Timestamp {
        self.time.plus_ms(-offset * 60_000).max(self.accepted_at)
    }
}

/// Starts the due zones of at most `limit` notifications. Returns the new dispatches.
pub(super) fn due(
    tx: &mut WriteTx<'_>,
    now: Timestamp,
    limit: u32,
) -> Result<Vec<DispatchNo>, StoreError> {
    let notifications = tx
        .prepare_cached(concat!(
            "select n.no, n.app_no, n.platforms, case when n.names_devices = 1 then n.request end,
             a.device_sequence, n.status = 'sending', n.local_time, n.created_at,
             n.open_dispatches, n.paused_at is not null,
             exists (select 1 from erased_ids e where e.app_no = n.app_no)
             from notifications n indexed by notifications_zones cross join apps a
             where n.next_zone_at <= ?1 and a.no = n.app_no and a.status <> 'erasing'
             order by n.next_zone_at, ",
            seq_of!("n.no"),
            " limit ?2"
        ))?
        .query_map([now.as_ms(), i64::from(limit)], |row| {
            let local = LocalTimeNotification {
                due: DueNotification {
                    no: NotificationNo(row.get(0)?),
                    app: AppNo(row.get(1)?),
                    platforms: row.get(2)?,
                    naming_request: row.get(3)?,
                    audience: row.get(4)?,
                    due_at: now,
                    is_paused: row.get(9)?,
                    canary: None,
                },
                has_started: row.get(5)?,
                time: Timestamp(row.get(6)?),
                accepted_at: Timestamp(row.get(7)?),
                open_dispatches: row.get(8)?,
            };
            Ok((local, row.get::<bool>(10)?))
        })?
        .collect::<Result<Vec<_>, _>>()?;
    if !notifications.is_empty() && zone_offsets::are_stale(tx, now)? {
        tx.prepare_cached("update notifications set next_zone_at = ?2 where next_zone_at <= ?1")?
            .execute([now.as_ms(), now.plus_ms(STALE_CHECK_MS).as_ms()])?;
        return Ok(Vec::new());
    }
    let mut dispatches = Vec::new();
    for (mut local, has_erasures) in notifications {
        if has_erasures {
            local.due = local.due.without_erased(tx)?;
        }
        dispatches.extend(start_due_zones(tx, &local, now)?);
    }
    Ok(dispatches)
}

/// When zones have to be checked next.
pub(super) fn next_due(connection: &Connection) -> Result<Option<Timestamp>, StoreError> {
    let next = connection
        .prepare_cached(
            "select n.next_zone_at from notifications n indexed by notifications_zones
             cross join apps a where n.next_zone_at is not null
             and a.no = n.app_no and a.status <> 'erasing' order by n.next_zone_at limit 1",
        )?
        .query_row([], |row| row.get(0).map(Timestamp))
        .optional()?;
    Ok(next)
}

/// Starts the due zones of one notification. Then ends the notification or schedules the next
/// check.
fn start_due_zones(
    tx: &mut WriteTx<'_>,
    local: &LocalTimeNotification,
    now: Timestamp,
) -> Result<Vec<DispatchNo>, StoreError> {
    let parts = match &local.due.naming_request {
        None => unstarted_zones(tx, local)?,
        Some(request) => {
            let mut resolved = start::resolve_ids(tx, &local.due, request)?;
            if local.has_started {
                keep_fixed_users(tx, local.due.no, &mut resolved)?;
            } else {
                let users = resolved.users.as_deref().map(start::bytes_of_users);
                tx.prepare_cached(
                    "update notifications set unknown = ?2, named_users = ?3 where no = ?1",
                )?
                .execute(params![local.due.no.0, resolved.unknown, users])?;
            }
            unstarted_named(tx, local, resolved.parts)?
        }
    };
    let (due_parts, later_parts): (Vec<_>, Vec<_>) =
        parts.into_iter().partition(|(offset, _)| local.due_at(*offset) <= now);
    let mut dispatches = Vec::new();
    if !due_parts.is_empty() {
        begin(tx, local, due_parts.len(), now)?;
    }
    for (offset, part) in &due_parts {
        dispatches.push(start::insert_dispatch(
            tx,
            &local.due,
            part,
            Portion::Zone(*offset),
            local.due_at(*offset),
        )?);
    }
    let next_zone_due_at = later_parts.iter().map(|(offset, _)| local.due_at(*offset)).min();
    let next_check_at = if let Some(due_at) = next_zone_due_at {
        Some(due_at.min(now.plus_ms(CHECK_EVERY_MS)))
    } else if !dispatches.is_empty() || local.open_dispatches > 0 {
        // The end of the last open dispatch schedules the next check.
        None
    } else if local.has_started {
        dispatches = start_catch_up(tx, local, now)?;
        if dispatches.is_empty() {
            settle::end(tx, local.due.no, false, now)?;
        }
        None
    } else if now < local.due_at(0) {
        // There are no devices yet. The notification waits for devices, at most until its time in
        // UTC.
        Some(local.due_at(0).min(now.plus_ms(CHECK_EVERY_MS)))
    } else {
        settle::end(tx, local.due.no, false, now)?;
        None
    };
    if local.due.is_paused && !dispatches.is_empty() {
        settle::hold(tx, local.due.no)?;
    }
    tx.prepare_cached("update notifications set next_zone_at = ?2 where no = ?1")?
        .execute(params![local.due.no.0, next_check_at.map(Timestamp::as_ms)])?;
    Ok(dispatches)
}

/// Removes the devices of users who did not exist when the first zone was due.
fn keep_fixed_users(
    tx: &Connection,
    no: NotificationNo,
    resolved: &mut start::Resolved,
) -> Result<(), StoreError> {
    if resolved.users.is_none() {
        return Ok(());
    }
    let fixed: Option<Vec<u8>> = tx
        .prepare_cached("select named_users from notifications where no = ?1")?
        .query_row([no.0], |row| row.get(0))?;
    let fixed = start::users_of(&fixed.unwrap_or_default());
    let is_fixed = |user: &UserNo| fixed.binary_search(user).is_ok();
    for part in &mut resolved.parts {
        if let Some(devices) = &mut part.named {
            devices.retain(|device| device.user.as_ref().is_none_or(is_fixed));
        }
    }
    resolved.parts.retain(|part| part.named.as_ref().is_none_or(|devices| !devices.is_empty()));
    Ok(())
}

/// Records that `dispatches` more dispatches of a notification were started.
fn begin(
    tx: &Connection,
    local: &LocalTimeNotification,
    dispatches: usize,
    at: Timestamp,
) -> Result<(), StoreError> {
    tx.prepare_cached(
        "update notifications set status = 'sending', started_at = coalesce(started_at, ?2),
         audience_until = ?3, open_dispatches = open_dispatches + ?4 where no = ?1",
    )?
    .execute(params![
        local.due.no.0,
        at.as_ms(),
        local.due.audience,
        i64::try_from(dispatches).unwrap_or(i64::MAX)
    ])?;
    Ok(())
}

/// The zones that have devices on the target's platforms and have not been started, each with its
/// offset.
fn unstarted_zones(
    tx: &Connection,
    local: &LocalTimeNotification,
) -> Result<Vec<(i64, PlatformAudience)>, StoreError> {
    let platforms = platforms_of(local.due.platforms);
    let mut zones = tx.prepare_cached(
        "select z.platform, z.utc_offset_minutes from device_zones z
         where z.app_no = ?1 and z.devices > 0 and not exists
         (select 1 from dispatches d where d.notification_no = ?2 and d.platform = z.platform
          and d.portion = z.utc_offset_minutes)",
    )?;
    let zones = zones
        .query_map([local.due.app.0, local.due.no.0], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<Vec<(i64, i64)>, _>>()?;
    Ok(zones
        .into_iter()
        .map(|(platform, offset)| (offset, PlatformAudience::scanned(platform_of(platform))))
        .filter(|(_, part)| platforms.contains(&part.platform))
        .collect())
}

/// The named devices that are in no dispatch yet, grouped by platform and current offset.
fn unstarted_named(
    tx: &Connection,
    local: &LocalTimeNotification,
    named: Vec<PlatformAudience>,
) -> Result<Vec<(i64, PlatformAudience)>, StoreError> {
    let started = tx
        .prepare_cached("select platform, named from dispatches where notification_no = ?1")?
        .query_map([local.due.no.0], |row| {
            Ok((platform_of(row.get(0)?), start::keys_of(&row.get::<Vec<u8>>(1)?)))
        })?
        .collect::<Result<Vec<_>, _>>()?;
    let has_started = |platform: Platform| started.iter().any(|(other, _)| *other == platform);
    let mut parts = BTreeMap::<(i64, Platform), PlatformAudience>::new();
    for part in named {
        // The unknown ids of a platform are counted once, with its first dispatch.
        let mut unknown = if has_started(part.platform) { 0 } else { part.unknown };
        for device in part.named.into_iter().flatten() {
            if started.iter().any(|(_, keys)| keys.binary_search(&device.key).is_ok()) {
                continue;
            }
            let offset = offset_of(tx, device.key)?;
            let audience = parts
                .entry((offset, part.platform))
                .or_insert_with(|| PlatformAudience::named(part.platform));
            audience.unknown += std::mem::take(&mut unknown);
            audience.named.get_or_insert_default().push(device);
        }
        if unknown > 0 {
            // None of the named devices needs a dispatch, so a dispatch without devices stores the
            // count.
            let audience = parts
                .entry((0, part.platform))
                .or_insert_with(|| PlatformAudience::named(part.platform));
            audience.unknown += unknown;
        }
    }
    Ok(parts.into_iter().map(|((offset, _), part)| (offset, part)).collect())
}

/// Reads the offset of a device from UTC, in minutes.
fn offset_of(tx: &Connection, key: DeviceKey) -> Result<i64, StoreError> {
    let offset = tx
        .prepare_cached("select utc_offset_minutes from devices where key = ?1")?
        .query_row([key.0], |row| row.get(0))?;
    Ok(offset)
}

/// Creates the catch-up dispatches for devices whose offset changed after the first zone was due.
/// Returns no dispatch if they exist already, or if the notification names its devices.
fn start_catch_up(
    tx: &Connection,
    local: &LocalTimeNotification,
    now: Timestamp,
) -> Result<Vec<DispatchNo>, StoreError> {
    if local.due.naming_request.is_some() {
        return Ok(Vec::new());
    }
    let platforms = tx
        .prepare_cached(
            "select platform, max(until) from dispatches d where notification_no = ?1
             and not exists (select 1 from dispatches s
              where s.notification_no = ?1 and s.platform = d.platform and s.portion = ?2)
             group by platform",
        )?
        .query_map([local.due.no.0, Portion::CatchUp.code()], |row| {
            Ok((platform_of(row.get(0)?), DeviceKey(row.get(1)?)))
        })?
        .collect::<Result<Vec<_>, _>>()?;
    if platforms.is_empty() {
        return Ok(Vec::new());
    }
    begin(tx, local, platforms.len(), now)?;
    platforms
        .into_iter()
        .map(|(platform, until)| {
            let due =
                DueNotification { audience: until.sequence(), naming_request: None, ..local.due };
            start::insert_dispatch(
                tx,
                &due,
                &PlatformAudience::scanned(platform),
                Portion::CatchUp,
                now,
            )
        })
        .collect()
}
