//! Tags of devices. A tag has a row with counters while at least one device has the tag.

use std::collections::{BTreeMap, HashMap};

use notify_core::{DeviceId, TAGS_PER_DEVICE_MAX, Tag, TagSummary, TagType};

use crate::store::device::row::key_by_id;
use crate::store::page::{CursorCodec, rows_wanted};
use crate::store::sql::row::{count_at, require_app};
use crate::store::sql::writer::WriteTx;
use crate::store::sql::{Connection, NUMBERS, OptionalExtension, PAIRS, list_of, params};
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
    // The last of several values of a tag counts.
    let values: BTreeMap<&str, bool> =
        tags.iter().map(|tag| (tag.name.as_str(), tag.value)).collect();
    let has_new = set_all(tx, app, key, &values)?;
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

/// Sets tags; returns whether one of them is new to the device. The number of statements does not depend on
/// the number of tags.
fn set_all(
    tx: &Connection,
    app: AppNo,
    key: DeviceKey,
    values: &BTreeMap<&str, bool>,
) -> Result<bool, StoreError> {
    let names: Vec<&str> = values.keys().copied().collect();
    let mut numbers = numbers_of(tx, app, &names)?;
    let known: Vec<i64> = numbers.values().copied().collect();
    let before = values_of(tx, key, &known)?;
    let new: Vec<&str> = names.into_iter().filter(|name| !numbers.contains_key(*name)).collect();
    if !new.is_empty() {
        let rows: Vec<_> = tx.draw_keys("tags", app, new.len())?.into_iter().zip(new).collect();
        tx.prepare_cached(&format!(
            "insert into tags (no, app_no, name) select number, ?2, text from {PAIRS} pairs"
        ))?
        .execute(params![list_of(&rows), app.0])?;
        numbers.extend(rows.into_iter().map(|(no, name)| (name.to_owned(), no)));
    }
    let mut has_new = false;
    for (from, to) in [(None, true), (None, false), (Some(false), true), (Some(true), false)] {
        let changed: Vec<i64> = values
            .iter()
            .filter(|(_, value)| **value == to)
            .filter_map(|(name, _)| numbers.get(*name).copied())
            .filter(|no| before.get(no).copied() == from)
            .collect();
        if changed.is_empty() {
            continue;
        }
        has_new |= from.is_none();
        tx.prepare_cached(&format!(
            "insert into device_tags (tag_no, device_key, value)
             select no, ?2, ?3 from tags where no in {NUMBERS}
             on conflict (tag_no, device_key) do update set value = excluded.value"
        ))?
        .execute(params![list_of(&changed), key.0, to])?;
        let holders = i64::from(from.is_none());
        count_holders(tx, &changed, holders, i64::from(to) - i64::from(from == Some(true)))?;
    }
    Ok(has_new)
}

/// Adds to the counters of tags.
fn count_holders(
    tx: &Connection,
    tags: &[i64],
    holders: i64,
    devices: i64,
) -> Result<(), StoreError> {
    tx.prepare_cached(&format!(
        "update tags set holders = holders + ?2, devices = devices + ?3 where no in {NUMBERS}"
    ))?
    .execute(params![list_of(tags), holders, devices])?;
    Ok(())
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
    let values = values_of(tx, key, &[no])?;
    if values.is_empty() {
        return Err(StoreError::NotFound);
    }
    drop_all(tx, key, &values)?;
    tx.changed(DeliveryChange::Device(key));
    Ok(())
}

/// Removes all tags of a device that is being erased.
pub(super) fn remove_all(tx: &Connection, key: DeviceKey) -> Result<(), StoreError> {
    let values = tx
        .prepare_cached("select tag_no, value from device_tags where device_key = ?1")?
        .query_map([key.0], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<HashMap<_, _>, _>>()?;
    drop_all(tx, key, &values)
}

/// Removes tags of a device, with the values that it has. The number of statements does not depend on the
/// number of tags.
fn drop_all(
    tx: &Connection,
    key: DeviceKey,
    values: &HashMap<i64, bool>,
) -> Result<(), StoreError> {
    if values.is_empty() {
        return Ok(());
    }
    let all: Vec<i64> = values.keys().copied().collect();
    let all_listed = list_of(&all);
    tx.prepare_cached(&format!(
        "delete from device_tags where tag_no in {NUMBERS} and device_key = ?2"
    ))?
    .execute(params![all_listed, key.0])?;
    for value in [true, false] {
        let tags: Vec<i64> = all.iter().copied().filter(|no| values[no] == value).collect();
        if !tags.is_empty() {
            count_holders(tx, &tags, -1, -i64::from(value))?;
        }
    }
    tx.prepare_cached(&format!("delete from tags where no in {NUMBERS} and holders = 0"))?
        .execute(params![all_listed])?;
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

/// Reads the numbers of tags by their names. Names that no device has are left out.
pub(in crate::store) fn numbers_of(
    connection: &Connection,
    app: AppNo,
    names: &[&str],
) -> Result<HashMap<String, i64>, StoreError> {
    if names.is_empty() {
        return Ok(HashMap::new());
    }
    // A subquery for each name finds one row of the index. PostgreSQL would read all tags of the application
    // if it planned a search in a list while the application had only a few.
    let found = connection
        .prepare_cached(
            "select value, (select no from tags where app_no = ?2 and name = value)
             from json_each(json(?1))",
        )?
        .query_map(params![list_of(names), app.0], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<Vec<(String, Option<i64>)>, _>>()?;
    Ok(found.into_iter().filter_map(|(name, number)| Some((name, number?))).collect())
}

/// Returns those of the devices that have a tag set to true, sorted.
pub(super) fn devices_with(
    connection: &Connection,
    tag: i64,
    keys: &[i64],
) -> Result<Vec<i64>, StoreError> {
    let devices = connection
        .prepare_cached(&format!(
            "select device_key from device_tags where device_key in {NUMBERS}
             and tag_no = ?2 and value = 1 order by device_key"
        ))?
        .query_map(params![list_of(keys), tag], |row| row.get(0))?
        .collect::<Result<Vec<_>, _>>()?;
    Ok(devices)
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

/// Reads the values that a device has for tags, by the number of the tag.
fn values_of(
    connection: &Connection,
    key: DeviceKey,
    tags: &[i64],
) -> Result<HashMap<i64, bool>, StoreError> {
    if tags.is_empty() {
        return Ok(HashMap::new());
    }
    let values = connection
        .prepare_cached(&format!(
            "select tag_no, value from device_tags where tag_no in {NUMBERS} and device_key = ?2"
        ))?
        .query_map(params![list_of(tags), key.0], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<HashMap<_, _>, _>>()?;
    Ok(values)
}
