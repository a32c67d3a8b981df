//! Reading devices back (B23).

use std::collections::HashMap;

use notify_core::{Device, DeviceId, DisabledReason, Platform, Tag, TagType, WebSubscription};

use super::super::cursor::{Filling, Listing};
use super::super::error::broken;
use super::super::row::live_app;
use super::row::{DEVICE, DEVICES, DeviceRow, by_id};
use super::seen::Seen;
use crate::store::sql::{Connection, NUMBERS, Params, list_of, params};
use crate::store::{AppNo, DeviceFilter, DeviceKey, Page, PageRequest, SEQUENCE_MAX, StoreError};

/// Most devices that are read at first for a page: their fields may be 100 KB each. Where they turn out
/// small, one more statement reads the rest.
const DEVICES_AT_FIRST: i64 = 64;
/// From so many bytes of rows on no more are taken from one statement.
const READ_BYTES_MAX: usize = 4 * 1_048_576;
/// Most bytes of a row beside its texts, on the wire or in memory.
const ROW_BYTES_MAX: usize = 256;

/// Reads one device.
pub(super) fn device(
    connection: &Connection,
    seen: &Seen,
    app: AppNo,
    id: &DeviceId,
) -> Result<Device, StoreError> {
    live_app(connection, app)?;
    let row = by_id(connection, app, id)?.ok_or(StoreError::NotFound)?;
    let tags = tags(connection, &[row.key.0])?.remove(&row.key.0).unwrap_or_default();
    view(seen, row, tags)
}

/// Lists devices in the order of their keys.
pub(super) fn list(
    connection: &Connection,
    seen: &Seen,
    app: AppNo,
    filter: &DeviceFilter,
    page: &PageRequest,
) -> Result<Page<Device>, StoreError> {
    live_app(connection, app)?;
    let listing = Listing { name: "devices", of: app.0 };
    let (first, last) = match filter.platform {
        Some(platform) => (platform, platform),
        None => (Platform::Android, Platform::ChatApp),
    };
    let begin = DeviceKey::before_first(app, first).0;
    let after = listing.number(page)?.map_or(begin, |place| place.max(begin));
    let last = DeviceKey::new(app, last, SEQUENCE_MAX).0;
    let mut place = after;
    let mut filling = Filling::new(page);
    // A page that is full by its bytes is known before the rest is read.
    let mut at_once = DEVICES_AT_FIRST;
    loop {
        let wanted = filling.wanted().min(at_once);
        let Rows { rows, is_cut } =
            rows(connection, app, filter.tag.as_deref(), [place, last, wanted])?;
        let is_last = !is_cut && i64::try_from(rows.len()).unwrap_or(i64::MAX) < wanted;
        let keys: Vec<i64> = rows.iter().map(|row| row.key.0).collect();
        let mut tags = tags(connection, &keys)?;
        for row in rows {
            place = row.key.0;
            let tags = tags.remove(&place).unwrap_or_default();
            filling.add(place, view(seen, row, tags)?)?;
            if filling.wanted() <= 0 {
                return Ok(filling.page(listing));
            }
        }
        if is_last {
            return Ok(filling.page(listing));
        }
        at_once = if filling.has_room_for_all() { i64::MAX } else { DEVICES_AT_FIRST };
    }
}

/// Devices as they were read.
struct Rows {
    rows: Vec<DeviceRow>,
    /// Whether there may be more of those asked for, left out by their bytes.
    is_cut: bool,
}

/// The devices of a range of keys, the first so many.
fn rows(
    connection: &Connection,
    app: AppNo,
    tag: Option<&str>,
    [after, last, wanted]: [i64; 3],
) -> Result<Rows, StoreError> {
    match tag {
        None => {
            let sql = format!(
                "select {DEVICE} from {DEVICES}
                 where d.key > ?1 and d.key <= ?2 order by d.key limit ?3"
            );
            taken(connection, &sql, [after, last, wanted])
        }
        Some(tag) => {
            let sql = format!(
                "select {DEVICE} from tags t cross join device_tags dt cross join {DEVICES}
                 where t.app_no = ?4 and t.name = ?5 and dt.tag_no = t.no and dt.value = 1
                 and dt.device_key > ?1 and dt.device_key <= ?2
                 and d.key = dt.device_key order by dt.device_key limit ?3"
            );
            taken(connection, &sql, params![after, last, wanted, app.0, tag])
        }
    }
}

fn taken(connection: &Connection, sql: &str, params: impl Params) -> Result<Rows, StoreError> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut found = statement.query_within(params, READ_BYTES_MAX)?;
    let (mut rows, mut bytes) = (Vec::new(), 0);
    while bytes < READ_BYTES_MAX
        && let Some(row) = found.next()?
    {
        let row = DeviceRow::read(&row)?;
        // Never less than the database counted.
        bytes += row.text_bytes() + ROW_BYTES_MAX;
        rows.push(row);
    }
    Ok(Rows { rows, is_cut: bytes >= READ_BYTES_MAX })
}

fn view(seen: &Seen, row: DeviceRow, tags: Vec<Tag>) -> Result<Device, StoreError> {
    let platform = row.key.platform();
    let disabled_reason = if row.fields.push_disabled {
        Some(DisabledReason::PushDisabled)
    } else if row.dead {
        Some(DisabledReason::Unregistered)
    } else {
        None
    };
    let mut device = Device {
        device_id: DeviceId::new(row.device_id).map_err(broken)?,
        platform,
        sdk_type: None,
        push_token: None,
        push_disabled: row.fields.push_disabled,
        ios_env: row.fields.ios_env,
        subscription: None,
        recipient_id: None,
        details: serde_json::from_str(&row.fields.details)?,
        tags,
        enabled: disabled_reason.is_none(),
        disabled_reason,
        created_at: row.created_at,
        updated_at: seen.at(row.key).map_or(row.registered_at, |at| at.max(row.registered_at)),
    };
    let address = row.fields.address;
    match platform {
        Platform::Android => {
            device.sdk_type = Some("android_push".to_owned());
            device.push_token = address;
        }
        Platform::Ios => {
            device.sdk_type = Some("ios_push".to_owned());
            device.push_token = address;
        }
        Platform::Web => {
            device.subscription = match (address, row.fields.p256dh, row.fields.auth) {
                (Some(endpoint), Some(p256dh), Some(auth)) => {
                    Some(WebSubscription { endpoint, p256dh, auth })
                }
                _ => None,
            };
        }
        Platform::FbMessenger | Platform::ChatApp => device.recipient_id = address,
    }
    Ok(device)
}

/// The tags of devices, by key; of each in the order of their names.
fn tags(connection: &Connection, keys: &[i64]) -> Result<HashMap<i64, Vec<Tag>>, StoreError> {
    let mut tags = HashMap::<i64, Vec<Tag>>::new();
    if keys.is_empty() {
        return Ok(tags);
    }
    let mut statement = connection.prepare_cached(&format!(
        "select dt.device_key, t.name, dt.value from device_tags dt join tags t on t.no = dt.tag_no
         where dt.device_key in {NUMBERS} order by dt.device_key, t.name"
    ))?;
    for row in statement.query_map([list_of(keys)], |row| {
        Ok((row.get(0)?, Tag { name: row.get(1)?, kind: TagType::Bool, value: row.get(2)? }))
    })? {
        let (key, tag) = row?;
        tags.entry(key).or_default().push(tag);
    }
    Ok(tags)
}
