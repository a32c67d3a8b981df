//! Reading devices back (B23).

use notify_core::{Device, DeviceId, DisabledReason, Platform, Tag, TagType, WebSubscription};

use super::super::cursor::{Filling, Listing};
use super::super::error::broken;
use super::super::row::live_app;
use super::row::{DEVICE, DEVICES, DeviceRow, by_id};
use super::seen::Seen;
use crate::store::sql::{Connection, params};
use crate::store::{AppNo, DeviceFilter, DeviceKey, Page, PageRequest, SEQUENCE_MAX, StoreError};

/// Most devices that are read at once for a page, whose fields may be 100 KB each.
const DEVICES_AT_ONCE: i64 = 64;

/// Reads one device.
pub(super) fn device(
    connection: &Connection,
    seen: &Seen,
    app: AppNo,
    id: &DeviceId,
) -> Result<Device, StoreError> {
    live_app(connection, app)?;
    let row = by_id(connection, app, id)?.ok_or(StoreError::NotFound)?;
    view(connection, seen, row)
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
    // A few at a time: a page that is full by its bytes is known before the rest is read.
    loop {
        let wanted = filling.wanted().min(DEVICES_AT_ONCE);
        let rows = rows(connection, app, filter.tag.as_deref(), [place, last, wanted])?;
        let is_last = i64::try_from(rows.len()).unwrap_or(i64::MAX) < wanted;
        for row in rows {
            place = row.key.0;
            filling.add(place, view(connection, seen, row)?)?;
            if filling.wanted() <= 0 {
                return Ok(filling.page(listing));
            }
        }
        if is_last {
            return Ok(filling.page(listing));
        }
    }
}

/// The devices of a range of keys, the first so many.
fn rows(
    connection: &Connection,
    app: AppNo,
    tag: Option<&str>,
    [after, last, wanted]: [i64; 3],
) -> Result<Vec<DeviceRow>, StoreError> {
    let rows = match tag {
        None => {
            let sql = format!(
                "select {DEVICE} from {DEVICES}
                 where d.key > ?1 and d.key <= ?2 order by d.key limit ?3"
            );
            connection
                .prepare_cached(&sql)?
                .query_map([after, last, wanted], DeviceRow::read)?
                .collect::<Result<Vec<_>, _>>()?
        }
        Some(tag) => {
            let sql = format!(
                "select {DEVICE} from tags t cross join device_tags dt cross join {DEVICES}
                 where t.app_no = ?4 and t.name = ?5 and dt.tag_no = t.no and dt.value = 1
                 and dt.device_key > ?1 and dt.device_key <= ?2
                 and d.key = dt.device_key order by dt.device_key limit ?3"
            );
            connection
                .prepare_cached(&sql)?
                .query_map(params![after, last, wanted, app.0, tag], DeviceRow::read)?
                .collect::<Result<Vec<_>, _>>()?
        }
    };
    Ok(rows)
}

fn view(connection: &Connection, seen: &Seen, row: DeviceRow) -> Result<Device, StoreError> {
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
        tags: tags(connection, row.key)?,
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

/// The tags of a device, by name.
fn tags(connection: &Connection, key: DeviceKey) -> Result<Vec<Tag>, StoreError> {
    let tags = connection
        .prepare_cached(
            "select t.name, dt.value from device_tags dt join tags t on t.no = dt.tag_no
             where dt.device_key = ?1 order by t.name",
        )?
        .query_map([key.0], |row| {
            Ok(Tag { name: row.get(0)?, kind: TagType::Bool, value: row.get(1)? })
        })?
        .collect::<Result<Vec<_>, _>>()?;
    Ok(tags)
}
