//! Tags of devices. A tag has a row with counters while at least one device has the tag.

use notify_core::{DeviceId, TAGS_PER_DEVICE_MAX, Tag, TagSummary, TagType};

use crate::store::device::row::key_by_id;
use crate::store::page::{CursorCodec, rows_wanted};
use crate::store::sql::error::inserted;
use crate::store::sql::row::{count_at, require_app};
use crate::store::sql::writer::WriteTx;
use crate::store::sql::{Connection, OptionalExtension, params};
use crate::store::{AppNo, DeliveryChange, DeviceKey, Page, PageRequest, StoreError};

/// Sets tags of a device and keeps its other tags.
pub(super) fn set(
    tx: &mut WriteTx<'_>,
    app: AppNo,
    id: &DeviceId,
    tags: &[Tag],
) -> Result<(), StoreError> {
    require_app(tx, app)?;
    let key = key_by_id(tx, app, id.as_str())?.ok_or(StoreError::NotFound)?;
    let mut has_new = false;
    for tag in tags {
        has_new |= set_one(tx, app, key, tag)?;
    }
    // The transaction counts the tags, so that concurrent requests cannot exceed the limit
    // together.
    if has_new && count(tx, key)? > TAGS_PER_DEVICE_MAX {
        let what = format!("must leave the device at most {TAGS_PER_DEVICE_MAX} tags");
        return Err(StoreError::refused("tags", &what));
    }
    tx.changed(DeliveryChange::Device(key));
    Ok(())
}

fn count(tx: &Connection, key: DeviceKey) -> Result<u64, StoreError> {
    let count = tx
        .prepare_cached("select count(*) from device_tags where device_key = ?1")?
        .query_row([key.0], |row| count_at(row, 0))?;
    Ok(count)
}

/// Sets a tag; returns whether the tag is new to the device.
fn set_one(tx: &Connection, app: AppNo, key: DeviceKey, tag: &Tag) -> Result<bool, StoreError> {
    let no = match tag_no(tx, app, &tag.name)? {
        Some(no) => no,
        None => inserted(
            tx.prepare_insert("insert into tags (no, app_no, name) values (?1, ?2, ?3)")?
                .insert(app, params![app.0, tag.name])?,
        )?,
    };
    let before = value(tx, no, key)?;
    if before == Some(tag.value) {
        return Ok(false);
    }
    tx.prepare_cached(
        "insert into device_tags (tag_no, device_key, value) values (?1, ?2, ?3)
         on conflict (tag_no, device_key) do update set value = excluded.value",
    )?
    .execute(params![no, key.0, tag.value])?;
    let holders = i64::from(before.is_none());
    let devices = i64::from(tag.value) - i64::from(before == Some(true));
    tx.prepare_cached(
        "update tags set holders = holders + ?2, devices = devices + ?3 where no = ?1",
    )?
    .execute([no, holders, devices])?;
    Ok(before.is_none())
}

/// Removes a tag of a device.
pub(super) fn remove(
    tx: &mut WriteTx<'_>,
    app: AppNo,
    id: &DeviceId,
    name: &str,
) -> Result<(), StoreError> {
    require_app(tx, app)?;
    let key = key_by_id(tx, app, id.as_str())?.ok_or(StoreError::NotFound)?;
    let no = tag_no(tx, app, name)?.ok_or(StoreError::NotFound)?;
    let before = value(tx, no, key)?.ok_or(StoreError::NotFound)?;
    drop_one(tx, no, key, before)?;
    tx.changed(DeliveryChange::Device(key));
    Ok(())
}

/// Removes all tags of a device that is being erased.
pub(super) fn remove_all(tx: &Connection, key: DeviceKey) -> Result<(), StoreError> {
    let tags = tx
        .prepare_cached("select tag_no, value from device_tags where device_key = ?1")?
        .query_map([key.0], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<Vec<(i64, bool)>, _>>()?;
    tags.into_iter().try_for_each(|(no, value)| drop_one(tx, no, key, value))
}

fn drop_one(tx: &Connection, no: i64, key: DeviceKey, value: bool) -> Result<(), StoreError> {
    tx.prepare_cached("delete from device_tags where tag_no = ?1 and device_key = ?2")?
        .execute([no, key.0])?;
    let holders: i64 = tx
        .prepare_cached(
            "update tags set holders = holders - 1, devices = devices - ?2 where no = ?1
             returning holders",
        )?
        .query_row(params![no, value], |row| row.get(0))?;
    if holders == 0 {
        tx.prepare_cached("delete from tags where no = ?1")?.execute([no])?;
    }
    Ok(())
}

/// Lists tags by name.
pub(super) fn list(
    connection: &Connection,
    app: AppNo,
    page: &PageRequest,
) -> Result<Page<TagSummary>, StoreError> {
    require_app(connection, app)?;
    let cursors = CursorCodec { list: "tags", owner: app.0 };
    let after = cursors.decode_text(page)?.unwrap_or_default();
    let rows = connection
        .prepare_cached(
            "select name, devices from tags where app_no = ?1 and name > ?2 order by name limit ?3",
        )?
        .query_map(params![app.0, after, rows_wanted(page)], |row| {
            let name: String = row.get(0)?;
            let tag =
                TagSummary { name: name.clone(), kind: TagType::Bool, devices: count_at(row, 1)? };
            Ok((name, tag))
        })?
        .collect::<Result<Vec<_>, _>>()?;
    Ok(cursors.page_by_text(rows, page))
}

/// Reads the number of a tag by its name.
pub(super) fn tag_no(
    connection: &Connection,
    app: AppNo,
    name: &str,
) -> Result<Option<i64>, StoreError> {
    let no = connection
        .prepare_cached("select no from tags where app_no = ?1 and name = ?2")?
        .query_row(params![app.0, name], |row| row.get(0))
        .optional()?;
    Ok(no)
}

fn value(tx: &Connection, tag: i64, key: DeviceKey) -> Result<Option<bool>, StoreError> {
    let value = tx
        .prepare_cached("select value from device_tags where tag_no = ?1 and device_key = ?2")?
        .query_row([tag, key.0], |row| row.get(0))
        .optional()?;
    Ok(value)
}
