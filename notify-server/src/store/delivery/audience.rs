//! Reading the devices of an audience. Every read bounds the rows that it scans, not those that match:
//! a tag of five devices is found among ten million without scanning all of them.

use notify_core::Timestamp;

use crate::store::sql::row::{env_of, unexpected_value};
use crate::store::sql::{self, Connection, NUMBERS, OptionalExtension, Row, Type, list_of, params};
use crate::store::{
    AddressTrust, AppNo, AudienceDevice, AudienceSource, DeviceBatch, DeviceKey, Dispatch,
    StoreError, WebKeys, Zone,
};

/// Columns as [`device_of`] reads them.
const AUDIENCE: &str = "d.key, d.address, d.ios_env, d.push_disabled = 0 and d.dead_at is null, \
    d.moved_from, d.moved_at, d.p256dh, d.auth, d.last_inbound_at, d.utc_offset_minutes, \
    d.zone_changed_at, \
    case when d.p256dh is null then false \
    else exists (select 1 from unverified_addresses u where u.device_key = d.key) end, \
    case when d.p256dh is null then false \
    else exists (select 1 from device_secrets s where s.device_key = d.key) end";
/// How many columns these are.
const AUDIENCE_COLUMNS: usize = 13;

/// Selects the devices of a dispatch.
pub(crate) struct AudienceQuery {
    app: AppNo,
    until: DeviceKey,
    source: AudienceSource,
    zone: Zone,
    /// When the first zone was due.
    started_at: Timestamp,
}

impl AudienceQuery {
    pub(crate) fn of(dispatch: &Dispatch) -> Self {
        Self {
            app: dispatch.app,
            until: dispatch.until,
            source: dispatch.source.clone(),
            zone: dispatch.zone,
            started_at: dispatch.started_at,
        }
    }

    /// Whether a device belongs to the zone. Named devices always do.
    fn takes(&self, read: &QueriedDevice) -> bool {
        match (&self.source, self.zone) {
            (AudienceSource::Named { .. }, _) | (_, Zone::All) => true,
            (_, Zone::Offset(minutes)) => read.offset == minutes,
            (_, Zone::CatchUp) => read.device.zone_changed,
        }
    }

    fn device_of(&self, row: &Row<'_>) -> sql::Result<QueriedDevice> {
        let mut device = device_of(row)?;
        let changed_at = row.get::<Option<i64>>(10)?.map(Timestamp);
        device.zone_changed = self.zone != Zone::All
            && changed_at.is_some_and(|changed_at| changed_at >= self.started_at);
        Ok(QueriedDevice { device, offset: row.get(9)? })
    }
}

/// A range of device keys.
#[derive(Clone, Copy)]
pub(crate) struct KeyRange {
    /// Not part of the range.
    pub(crate) after: DeviceKey,
    /// The last key.
    pub(crate) to: DeviceKey,
}

/// A device that was read, of any zone.
struct QueriedDevice {
    device: AudienceDevice,
    /// Offset from UTC, in minutes.
    offset: i64,
}

/// Reads the next devices after `after`, from at most `rows_max` rows.
pub(super) fn next(
    connection: &Connection,
    query: &AudienceQuery,
    after: DeviceKey,
    rows_max: u32,
) -> Result<DeviceBatch, StoreError> {
    if let AudienceSource::Named { keys, .. } = &query.source {
        // Reads keys of the list; the devices of some may be gone.
        let rest = keys.get(keys.partition_point(|key| *key <= after)..).unwrap_or_default();
        let rows_max = usize::try_from(rows_max).unwrap_or(usize::MAX);
        let end = rest.len() <= rows_max;
        let last = rest.get(..rows_max).unwrap_or(rest).last().copied().unwrap_or(after);
        let to = if end { query.until } else { last };
        let devices = devices_in_range(connection, query, KeyRange { after, to }, None)?;
        return Ok(DeviceBatch { devices, to, end });
    }
    let read = rows(connection, query, KeyRange { after, to: query.until }, Some(rows_max))?;
    let full = read.len() >= usize::try_from(rows_max).unwrap_or(usize::MAX);
    let to = match read.last() {
        Some(last) if full => last.device.key,
        Some(_) | None => query.until,
    };
    Ok(DeviceBatch { devices: filter_zone(query, read), to, end: to >= query.until })
}

/// Reads the devices of a range of keys.
pub(crate) fn devices_in_range(
    connection: &Connection,
    query: &AudienceQuery,
    keys: KeyRange,
    rows_max: Option<u32>,
) -> Result<Vec<AudienceDevice>, StoreError> {
    Ok(filter_zone(query, rows(connection, query, keys, rows_max)?))
}

fn filter_zone(query: &AudienceQuery, read: Vec<QueriedDevice>) -> Vec<AudienceDevice> {
    read.into_iter().filter(|read| query.takes(read)).map(|read| read.device).collect()
}

fn rows(
    connection: &Connection,
    query: &AudienceQuery,
    KeyRange { after, to }: KeyRange,
    rows_max: Option<u32>,
) -> Result<Vec<QueriedDevice>, StoreError> {
    let rows_max = rows_max.map_or(i64::MAX, i64::from);
    match &query.source {
        AudienceSource::Platform => {
            let sql = format!(
                "select {AUDIENCE} from devices d where d.key > ?1 and d.key <= ?2
                 order by d.key limit ?3"
            );
            let devices = connection
                .prepare_cached(&sql)?
                .query_map([after.0, to.0, rows_max], |row| query.device_of(row))?
                .collect::<Result<Vec<_>, _>>()?;
            Ok(devices)
        }
        AudienceSource::Tag(tag) => {
            let sql = format!(
                "select {AUDIENCE}, dt.value from tags t cross join device_tags dt
                 cross join devices d
                 where t.app_no = ?4 and t.name = ?5 and dt.tag_no = t.no
                 and dt.device_key > ?1 and dt.device_key <= ?2 and d.key = dt.device_key
                 order by dt.device_key limit ?3"
            );
            let devices = connection
                .prepare_cached(&sql)?
                .query_map(params![after.0, to.0, rows_max, query.app.0, tag], |row| {
                    let mut read = query.device_of(row)?;
                    read.device.eligible &= row.get::<bool>(AUDIENCE_COLUMNS)?;
                    Ok(read)
                })?
                .collect::<Result<Vec<_>, _>>()?;
            Ok(devices)
        }
        AudienceSource::Named { keys, tag } => {
            let first = keys.partition_point(|key| *key <= after);
            let end = keys.partition_point(|key| *key <= to);
            let keys = keys.get(first..end).unwrap_or_default();
            let devices = named(connection, query.app, keys, tag.as_deref())?;
            Ok(devices.into_iter().map(|device| QueriedDevice { device, offset: 0 }).collect())
        }
    }
}

/// Reads devices by key, in key order. With a tag, devices without it are not eligible.
pub(crate) fn named(
    connection: &Connection,
    app: AppNo,
    keys: &[DeviceKey],
    tag: Option<&str>,
) -> Result<Vec<AudienceDevice>, StoreError> {
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    let keys = list_of(&keys.iter().map(|key| key.0).collect::<Vec<_>>());
    let devices = match tag {
        None => connection
            .prepare_cached(&format!(
                "select {AUDIENCE} from devices d where d.key in {NUMBERS} order by d.key"
            ))?
            .query_map([keys], device_of)?
            .collect::<Result<Vec<_>, _>>()?,
        Some(tag) => connection
            .prepare_cached(&format!(
                "select {AUDIENCE}, exists (select 1 from tags t cross join device_tags dt
                  where t.app_no = ?2 and t.name = ?3
                  and dt.tag_no = t.no and dt.device_key = d.key and dt.value = 1)
                 from devices d where d.key in {NUMBERS} order by d.key"
            ))?
            .query_map(params![keys, app.0, tag], |row| {
                let mut device = device_of(row)?;
                device.eligible &= row.get::<bool>(AUDIENCE_COLUMNS)?;
                Ok(device)
            })?
            .collect::<Result<Vec<_>, _>>()?,
    };
    Ok(devices)
}

/// Reads one device. With a tag, a device without it is not eligible.
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

fn device_of(row: &Row<'_>) -> sql::Result<AudienceDevice> {
    let ios_env = match row.get::<Option<i64>>(2)? {
        Some(code) => env_of(code).ok_or_else(|| unexpected_value(2, Type::Integer))?,
        None => notify_core::IosEnv::default(),
    };
    let moved_from = row.get::<Option<i64>>(4)?.map(DeviceKey);
    let moved_at = row.get::<Option<i64>>(5)?.map(Timestamp);
    Ok(AudienceDevice {
        key: DeviceKey(row.get(0)?),
        address: row.get::<Option<String>>(1)?.map(String::into_boxed_str),
        ios_env,
        eligible: row.get(3)?,
        previous_owner: moved_from.zip(moved_at),
        web_keys: web_keys(row)?,
        zone_changed: false,
        last_inbound_at: row.get::<Option<i64>>(8)?.map(Timestamp),
        trust: match (row.get(11)?, row.get(12)?) {
            (true, _) => AddressTrust::Unverified,
            (false, true) => AddressTrust::Anonymous,
            (false, false) => AddressTrust::Verified,
        },
    })
}

fn web_keys(row: &Row<'_>) -> sql::Result<Option<Box<WebKeys>>> {
    let p256dh: Option<String> = row.get(6)?;
    let auth: Option<String> = row.get(7)?;
    Ok(p256dh.zip(auth).map(|(p256dh, auth)| {
        Box::new(WebKeys { p256dh: p256dh.into_boxed_str(), auth: auth.into_boxed_str() })
    }))
}
