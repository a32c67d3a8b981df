//! Making dispatches of what is due: one for each platform of the target.

use std::collections::BTreeSet;

use notify_core::{Platform, Timestamp};
use rusqlite::{Connection, OptionalExtension, params};

use super::super::device::{Named, key_by_id};
use super::super::row::platforms_of;
use super::settle::{self, Moved};
use crate::store::{AppNo, DeviceKey, DispatchNo, NotificationNo, StoreError, platform_code};

/// A notification that is due.
struct Due {
    no: NotificationNo,
    app: AppNo,
    platforms: i64,
    /// The request, when it names devices.
    naming: Option<String>,
    /// The last device sequence of its audience.
    audience: i64,
}

/// The devices that one platform's list names.
struct Resolved {
    keys: Vec<DeviceKey>,
    unknown: i64,
}

/// Starts what is due, oldest first; the dispatches made and whether more is due.
pub(super) fn due(
    tx: &Connection,
    now: Timestamp,
    limit: u32,
) -> Result<(Vec<DispatchNo>, bool), StoreError> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut due = tx
        .prepare_cached(
            "select n.no, n.app_no, n.platforms, iif(n.names_devices, n.request, null),
             coalesce(n.audience_until, a.device_sequence)
             from notifications n indexed by notifications_due cross join apps a
             where n.status in ('scheduled', 'queued') and n.due_at <= ?1
             and a.no = n.app_no and a.status <> 'erasing' order by n.due_at limit ?2",
        )?
        .query_map(
            params![now.as_ms(), i64::try_from(limit).unwrap_or(i64::MAX).saturating_add(1)],
            |row| {
                Ok(Due {
                    no: NotificationNo(row.get(0)?),
                    app: AppNo(row.get(1)?),
                    platforms: row.get(2)?,
                    naming: row.get(3)?,
                    audience: row.get(4)?,
                })
            },
        )?
        .collect::<Result<Vec<_>, _>>()?;
    let more = due.len() > limit;
    due.truncate(limit);
    let mut dispatches = Vec::new();
    for notification in &due {
        start(tx, notification, now, &mut dispatches)?;
    }
    Ok((dispatches, more))
}

/// When the next notification is due. One of an application that is being erased never starts, and
/// must not stand before those that do.
pub(super) fn next_due(connection: &Connection) -> Result<Option<Timestamp>, StoreError> {
    let due = connection
        .prepare_cached(
            "select n.due_at from notifications n indexed by notifications_due cross join apps a
             where n.status in ('scheduled', 'queued') and n.due_at is not null
             and a.no = n.app_no and a.status <> 'erasing' order by n.due_at limit 1",
        )?
        .query_row([], |row| row.get(0).map(Timestamp))
        .optional()?;
    Ok(due)
}

fn start(
    tx: &Connection,
    due: &Due,
    now: Timestamp,
    dispatches: &mut Vec<DispatchNo>,
) -> Result<(), StoreError> {
    let parts: Vec<(Platform, Option<Resolved>)> = match &due.naming {
        None => platforms_of(due.platforms).into_iter().map(|platform| (platform, None)).collect(),
        Some(request) => resolve(tx, due, request)?,
    };
    tx.prepare_cached(
        "update notifications set status = 'sending', started_at = ?2, audience_until = ?3,
         open_dispatches = ?4 where no = ?1",
    )?
    .execute(params![
        due.no.0,
        now.as_ms(),
        due.audience,
        i64::try_from(parts.len()).unwrap_or(i64::MAX)
    ])?;
    if parts.is_empty() {
        return settle::end(tx, due.no, false, now);
    }
    for (platform, named) in &parts {
        let no = insert(tx, due, *platform, named.as_ref())?;
        if named.as_ref().is_some_and(|named| named.keys.is_empty()) {
            settle::moved(tx, no, Moved { scan_done: true, ..Moved::default() }, now)?;
        } else {
            dispatches.push(no);
        }
    }
    Ok(())
}

/// Looks the named ids up, platform by platform. Lists that an erase emptied are left out.
fn resolve(
    tx: &Connection,
    due: &Due,
    request: &str,
) -> Result<Vec<(Platform, Option<Resolved>)>, StoreError> {
    let named: Named = serde_json::from_str(request)?;
    let lists = [
        (Platform::Android, named.android_device_ids.unwrap_or_default()),
        (Platform::Ios, named.ios_device_ids.unwrap_or_default()),
    ];
    let mut parts = Vec::new();
    for (platform, ids) in lists {
        let ids: BTreeSet<String> = ids.into_iter().collect();
        if ids.is_empty() {
            continue;
        }
        let mut resolved = Resolved { keys: Vec::new(), unknown: 0 };
        for id in &ids {
            let key = key_by_id(tx, due.app, id)?
                .filter(|key| key.platform() == platform && key.sequence() <= due.audience);
            match key {
                Some(key) => resolved.keys.push(key),
                None => resolved.unknown += 1,
            }
        }
        resolved.keys.sort_unstable();
        parts.push((platform, Some(resolved)));
    }
    Ok(parts)
}

fn insert(
    tx: &Connection,
    due: &Due,
    platform: Platform,
    named: Option<&Resolved>,
) -> Result<DispatchNo, StoreError> {
    let keys = named
        .map(|named| named.keys.iter().flat_map(|key| key.0.to_be_bytes()).collect::<Vec<u8>>());
    tx.prepare_cached(
        "insert into dispatches (notification_no, platform, named, cursor, until, unknown)
         values (?1, ?2, ?3, ?4, ?5, ?6)",
    )?
    .execute(params![
        due.no.0,
        platform_code(platform),
        keys,
        DeviceKey::before_first(due.app, platform).0,
        DeviceKey::new(due.app, platform, due.audience).0,
        named.map_or(0, |named| named.unknown),
    ])?;
    Ok(DispatchNo(tx.last_insert_rowid()))
}
