//! Making dispatches of what is due: one for each platform of the target.

use std::collections::BTreeSet;

use notify_core::{Platform, Timestamp};

use super::super::device::{Named, key_by_id};
use super::super::error::inserted;
use super::super::row::platforms_of;
use super::super::writer::WriteTx;
use super::settle::{self, Moved};
use super::zones;
use crate::store::sql::{Connection, OptionalExtension, count_of, params};
use crate::store::{AppNo, DeviceKey, DispatchNo, NotificationNo, StoreError, Zone, platform_code};

/// A notification that is due.
pub(super) struct Due {
    pub(super) no: NotificationNo,
    pub(super) app: AppNo,
    pub(super) platforms: i64,
    /// The request, when it names devices.
    pub(super) naming: Option<String>,
    /// The last device sequence of its audience.
    pub(super) audience: i64,
    pub(super) due_at: Timestamp,
}

/// What of an audience one dispatch sends to.
pub(super) struct Part {
    pub(super) platform: Platform,
    /// The devices that the platform's list names, sorted; `None` when the platform is scanned.
    pub(super) named: Option<Vec<DeviceKey>>,
    /// Ids of the list that name no device.
    pub(super) unknown: i64,
}

impl Part {
    pub(super) fn scanned(platform: Platform) -> Self {
        Self { platform, named: None, unknown: 0 }
    }

    pub(super) fn named(platform: Platform) -> Self {
        Self { platform, named: Some(Vec::new()), unknown: 0 }
    }
}

/// Starts what is due, oldest first, and of one instant what was accepted first; the dispatches made and
/// whether more is due.
pub(super) fn due(
    tx: &mut WriteTx<'_>,
    now: Timestamp,
    limit: u32,
) -> Result<(Vec<DispatchNo>, bool), StoreError> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut due = tx
        .prepare_cached(concat!(
            "select n.no, n.app_no, n.platforms, case when n.names_devices = 1 then n.request end,
             coalesce(n.audience_until, a.device_sequence), n.due_at
             from notifications n indexed by notifications_due cross join apps a
             where n.status in ('scheduled', 'queued') and n.due_at <= ?1
             and a.no = n.app_no and a.status <> 'erasing' order by n.due_at, ",
            count_of!("n.no"),
            " limit ?2"
        ))?
        .query_map(
            params![now.as_ms(), i64::try_from(limit).unwrap_or(i64::MAX).saturating_add(1)],
            |row| {
                Ok(Due {
                    no: NotificationNo(row.get(0)?),
                    app: AppNo(row.get(1)?),
                    platforms: row.get(2)?,
                    naming: row.get(3)?,
                    audience: row.get(4)?,
                    due_at: Timestamp(row.get(5)?),
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
    let more_zones = zones::due(tx, now, limit, &mut dispatches)?;
    Ok((dispatches, more || more_zones))
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
    let zone = zones::next_due(connection)?;
    Ok(due.into_iter().chain(zone).min())
}

fn start(
    tx: &mut WriteTx<'_>,
    due: &Due,
    now: Timestamp,
    dispatches: &mut Vec<DispatchNo>,
) -> Result<(), StoreError> {
    let parts: Vec<Part> = match &due.naming {
        None => platforms_of(due.platforms).into_iter().map(Part::scanned).collect(),
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
    for part in &parts {
        let no = insert(tx, due, part, (Zone::Everybody, due.due_at))?;
        if part.named.as_ref().is_some_and(Vec::is_empty) {
            settle::moved(tx, no, Moved { scan_done: true, ..Moved::default() }, now)?;
        } else {
            dispatches.push(no);
        }
    }
    Ok(())
}

/// Looks the named ids up, platform by platform. Lists that an erase emptied are left out.
pub(super) fn resolve(tx: &Connection, due: &Due, request: &str) -> Result<Vec<Part>, StoreError> {
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
        let (mut keys, mut unknown) = (Vec::new(), 0);
        for id in &ids {
            let key = key_by_id(tx, due.app, id)?
                .filter(|key| key.platform() == platform && key.sequence() <= due.audience);
            match key {
                Some(key) => keys.push(key),
                None => unknown += 1,
            }
        }
        keys.sort_unstable();
        parts.push(Part { platform, named: Some(keys), unknown });
    }
    Ok(parts)
}

/// Writes a dispatch.
pub(super) fn insert(
    tx: &Connection,
    due: &Due,
    part: &Part,
    (zone, due_at): (Zone, Timestamp),
) -> Result<DispatchNo, StoreError> {
    let keys = part.named.as_ref();
    let keys =
        keys.map(|keys| keys.iter().flat_map(|key| key.0.to_be_bytes()).collect::<Vec<u8>>());
    let no = tx
        .prepare_insert(
            "insert into dispatches (no, notification_no, platform, named, cursor, until, unknown,
             zone, due_at) values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        )?
        .row(
            due.app,
            params![
                due.no.0,
                platform_code(part.platform),
                keys,
                DeviceKey::before_first(due.app, part.platform).0,
                DeviceKey::new(due.app, part.platform, due.audience).0,
                part.unknown,
                zone.code(),
                due_at.as_ms(),
            ],
        )?;
    Ok(DispatchNo(inserted(no)?))
}

/// Keys as [`insert`] writes them.
pub(super) fn keys_of(bytes: &[u8]) -> Vec<DeviceKey> {
    let (keys, _) = bytes.as_chunks::<8>();
    keys.iter().map(|key| DeviceKey(i64::from_be_bytes(*key))).collect()
}
