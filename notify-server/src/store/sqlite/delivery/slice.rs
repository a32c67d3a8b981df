//! Reading the devices of an audience. Every read bounds the rows it looks at, not those that
//! match: a tag of five devices is found among ten million without reading them all.

use notify_core::Timestamp;
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::super::row::{env_of, unknown_value};
use crate::store::{
    AppNo, AudienceDevice, DeviceKey, Dispatch, Slice, Source, StoreError, WebKeys,
};

/// Columns as [`device_of`] reads them.
const AUDIENCE: &str = "d.key, d.address, d.ios_env, d.push_disabled = 0 and d.dead_at is null, \
    d.moved_from, d.moved_at, d.p256dh, d.auth, d.last_inbound_at";
/// How many columns these are.
const AUDIENCE_COLUMNS: usize = 9;

/// What the devices of a dispatch are drawn from, and how far.
pub(crate) struct Draw {
    app: AppNo,
    until: DeviceKey,
    source: Source,
}

impl Draw {
    pub(crate) fn of(dispatch: &Dispatch) -> Self {
        Self { app: dispatch.app, until: dispatch.until, source: dispatch.source.clone() }
    }
}

/// Reads the devices after `after`, at most that many rows.
pub(super) fn next(
    connection: &Connection,
    draw: &Draw,
    after: DeviceKey,
    rows_max: u32,
) -> Result<Slice, StoreError> {
    if let Source::Named { keys, .. } = &draw.source {
        // What is read are the keys of the list; some of them may have no device any more.
        let rest = keys.get(keys.partition_point(|key| *key <= after)..).unwrap_or_default();
        let rows_max = usize::try_from(rows_max).unwrap_or(usize::MAX);
        let end = rest.len() <= rows_max;
        let last = rest.get(..rows_max).unwrap_or(rest).last().copied().unwrap_or(after);
        let to = if end { draw.until } else { last };
        let devices = range(connection, draw, (after, to), None)?;
        return Ok(Slice { devices, to, end });
    }
    let devices = range(connection, draw, (after, draw.until), Some(rows_max))?;
    let full = devices.len() >= usize::try_from(rows_max).unwrap_or(usize::MAX);
    let to = match devices.last() {
        Some(last) if full => last.key,
        Some(_) | None => draw.until,
    };
    Ok(Slice { devices, to, end: to >= draw.until })
}

/// Reads the devices of a range of keys.
pub(crate) fn range(
    connection: &Connection,
    draw: &Draw,
    (from, to): (DeviceKey, DeviceKey),
    rows_max: Option<u32>,
) -> Result<Vec<AudienceDevice>, StoreError> {
    let rows_max = rows_max.map_or(-1, i64::from);
    match &draw.source {
        Source::Platform => {
            let sql = format!(
                "select {AUDIENCE} from devices d where d.key > ?1 and d.key <= ?2
                 order by d.key limit ?3"
            );
            let devices = connection
                .prepare_cached(&sql)?
                .query_map([from.0, to.0, rows_max], device_of)?
                .collect::<Result<Vec<_>, _>>()?;
            Ok(devices)
        }
        Source::Tag(tag) => {
            let sql = format!(
                "select {AUDIENCE}, dt.value from tags t cross join device_tags dt
                 cross join devices d
                 where t.app_no = ?4 and t.name = ?5 and dt.tag_no = t.no
                 and dt.device_key > ?1 and dt.device_key <= ?2 and d.key = dt.device_key
                 order by dt.device_key limit ?3"
            );
            let devices = connection
                .prepare_cached(&sql)?
                .query_map(params![from.0, to.0, rows_max, draw.app.0, tag], |row| {
                    let mut device = device_of(row)?;
                    device.eligible &= row.get::<_, bool>(AUDIENCE_COLUMNS)?;
                    Ok(device)
                })?
                .collect::<Result<Vec<_>, _>>()?;
            Ok(devices)
        }
        Source::Named { keys, tag } => {
            let first = keys.partition_point(|key| *key <= from);
            let end = keys.partition_point(|key| *key <= to);
            let keys = keys.get(first..end).unwrap_or_default();
            let mut devices = Vec::with_capacity(keys.len());
            for key in keys {
                devices.extend(device(connection, *key, tag.as_deref())?);
            }
            Ok(devices)
        }
    }
}

/// Reads one device; where a tag is named, one without it is not eligible.
pub(crate) fn device(
    connection: &Connection,
    key: DeviceKey,
    tag: Option<&str>,
) -> Result<Option<AudienceDevice>, StoreError> {
    let device = connection
        .prepare_cached(&format!("select {AUDIENCE} from devices d where d.key = ?1"))?
        .query_row([key.0], device_of)
        .optional()?;
    let (Some(mut device), Some(tag)) = (device.clone(), tag) else { return Ok(device) };
    device.eligible &= connection
        .prepare_cached(
            "select 1 from tags t cross join device_tags dt
             where t.app_no = ?1 and t.name = ?2
             and dt.tag_no = t.no and dt.device_key = ?3 and dt.value = 1",
        )?
        .exists(params![key.app().0, tag, key.0])?;
    Ok(Some(device))
}

fn device_of(row: &Row<'_>) -> rusqlite::Result<AudienceDevice> {
    let ios_env = match row.get::<_, Option<i64>>(2)? {
        Some(code) => env_of(code).ok_or_else(|| unknown_value(2, Type::Integer))?,
        None => notify_core::IosEnv::default(),
    };
    let moved_from = row.get::<_, Option<i64>>(4)?.map(DeviceKey);
    let moved_at = row.get::<_, Option<i64>>(5)?.map(Timestamp);
    Ok(AudienceDevice {
        key: DeviceKey(row.get(0)?),
        address: row.get::<_, Option<String>>(1)?.map(String::into_boxed_str),
        ios_env,
        eligible: row.get(3)?,
        taken_from: moved_from.zip(moved_at),
        web_keys: web_keys(row)?,
        last_inbound_at: row.get::<_, Option<i64>>(8)?.map(Timestamp),
    })
}

fn web_keys(row: &Row<'_>) -> rusqlite::Result<Option<Box<WebKeys>>> {
    let p256dh: Option<String> = row.get(6)?;
    let auth: Option<String> = row.get(7)?;
    Ok(p256dh.zip(auth).map(|(p256dh, auth)| {
        Box::new(WebKeys { p256dh: p256dh.into_boxed_str(), auth: auth.into_boxed_str() })
    }))
}
