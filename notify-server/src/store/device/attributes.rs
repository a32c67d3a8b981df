//! Attributes of devices and users. `device_attributes` has the values that count for a device: its
//! own values, and copies of the values of its user, so that devices can be found by value without
//! reading users.

use std::collections::{BTreeMap, HashMap};

use notify_core::{ATTRIBUTES_MAX, AttributeChanges, AttributeValue, Attributes};

use crate::store::sql::error::internal;
use crate::store::sql::writer::WriteTx;
use crate::store::sql::{Connection, NUMBERS, OptionalExtension, list_of, params};
use crate::store::{AppNo, DeliveryChange, DeviceKey, SEQ_MAX, StoreError, UserNo};

/// The most names of attributes of an application. A name that no device and no user has any more is
/// removed when another one needs the room.
const ATTRIBUTE_NAMES_MAX: i64 = 10_000;
/// The most names without values that are removed at once.
const NAMES_REMOVED_MAX: i64 = 1_000;
/// The most values of a number at which the search for names without values looks. All applications use the
/// same numbers, so the values may be those of others. A number with more values counts as used.
const VALUES_SEEN_MAX: i64 = 100;

/// Changes a device's own attributes.
pub(super) fn change_of_device(
    tx: &mut WriteTx<'_>,
    key: DeviceKey,
    user: Option<UserNo>,
    changes: &AttributeChanges,
) -> Result<(), StoreError> {
    for (name, value) in &changes.0 {
        match value {
            Some(value) => {
                let attribute = number_or_insert(tx, key.app(), name)?;
                tx.prepare_cached(
                    "insert into device_attributes (device_key, attribute, value, own)
                     values (?1, ?2, ?3, 1) on conflict (device_key, attribute) do update
                     set value = excluded.value, own = 1",
                )?
                .execute(params![key.0, attribute, value.to_stored()])?;
            }
            None => {
                if let Some(attribute) = number_of(tx, key.app(), name)? {
                    tx.prepare_cached(
                        "delete from device_attributes
                         where device_key = ?1 and attribute = ?2 and own = 1",
                    )?
                    .execute([key.0, attribute])?;
                }
            }
        }
    }
    let own: i64 = tx
        .prepare_cached("select count(*) from device_attributes where device_key = ?1 and own = 1")?
        .query_row([key.0], |row| row.get(0))?;
    check_count(own, "device")?;
    if let Some(user) = user {
        copy_to_device(tx, user, key)?;
    }
    tx.changed(DeliveryChange::Device(key));
    Ok(())
}

/// Changes the attributes of a user, and their copies on the devices of the user.
pub(in crate::store) fn change_of_user(
    tx: &mut WriteTx<'_>,
    app: AppNo,
    user: UserNo,
    devices: &[DeviceKey],
    changes: &AttributeChanges,
) -> Result<(), StoreError> {
    for (name, value) in &changes.0 {
        match value {
            Some(value) => {
                let attribute = number_or_insert(tx, app, name)?;
                let value = value.to_stored();
                tx.prepare_cached(
                    "insert into user_attributes (user_no, attribute, value) values (?1, ?2, ?3)
                     on conflict (user_no, attribute) do update set value = excluded.value",
                )?
                .execute(params![user.0, attribute, value])?;
                for key in devices {
                    tx.prepare_cached(
                        "insert into device_attributes (device_key, attribute, value, own)
                         values (?1, ?2, ?3, 0) on conflict (device_key, attribute) do update
                         set value = excluded.value where device_attributes.own = 0",
                    )?
                    .execute(params![key.0, attribute, value])?;
                }
            }
            None => {
                let Some(attribute) = number_of(tx, app, name)? else { continue };
                tx.prepare_cached(
                    "delete from user_attributes where user_no = ?1 and attribute = ?2",
                )?
                .execute([user.0, attribute])?;
                for key in devices {
                    tx.prepare_cached(
                        "delete from device_attributes
                         where device_key = ?1 and attribute = ?2 and own = 0",
                    )?
                    .execute([key.0, attribute])?;
                }
            }
        }
    }
    let count: i64 = tx
        .prepare_cached("select count(*) from user_attributes where user_no = ?1")?
        .query_row([user.0], |row| row.get(0))?;
    check_count(count, "user")?;
    if !changes.0.is_empty() {
        devices.iter().for_each(|key| tx.changed(DeliveryChange::Device(*key)));
    }
    Ok(())
}

/// Copies the attributes of a user to a device, except those of which the device has its own value.
pub(in crate::store) fn copy_to_device(
    tx: &Connection,
    user: UserNo,
    key: DeviceKey,
) -> Result<(), StoreError> {
    tx.prepare_cached(
        "insert into device_attributes (device_key, attribute, value, own)
         select ?2, attribute, value, 0 from user_attributes where user_no = ?1
         on conflict (device_key, attribute) do nothing",
    )?
    .execute([user.0, key.0])?;
    Ok(())
}

/// Removes the values of the user from a device.
pub(in crate::store) fn remove_copies(tx: &Connection, key: DeviceKey) -> Result<(), StoreError> {
    tx.prepare_cached("delete from device_attributes where device_key = ?1 and own = 0")?
        .execute([key.0])?;
    Ok(())
}

/// Reads the own attributes of devices, by device key.
pub(super) fn own_of(
    connection: &Connection,
    keys: &[i64],
) -> Result<HashMap<i64, Attributes>, StoreError> {
    read(
        connection,
        &format!(
            "select da.device_key, a.name, da.value from device_attributes da
             cross join attributes a
             where da.device_key in {NUMBERS} and da.own = 1
             and a.app_no = (da.device_key >> 43) and a.number = da.attribute"
        ),
        keys,
    )
}

/// Reads the attributes of users, by user number.
pub(in crate::store) fn of_users(
    connection: &Connection,
    users: &[i64],
) -> Result<HashMap<i64, Attributes>, StoreError> {
    read(
        connection,
        &format!(
            "select ua.user_no, a.name, ua.value from user_attributes ua cross join attributes a
             where ua.user_no in {NUMBERS}
             and a.app_no = (ua.user_no >> 43) and a.number = ua.attribute"
        ),
        users,
    )
}

fn read(
    connection: &Connection,
    sql: &str,
    owners: &[i64],
) -> Result<HashMap<i64, Attributes>, StoreError> {
    let mut attributes = HashMap::<i64, Attributes>::new();
    if owners.is_empty() {
        return Ok(attributes);
    }
    let mut statement = connection.prepare_cached(sql)?;
    for row in statement.query_map([list_of(owners)], |row| {
        Ok((row.get::<i64>(0)?, row.get::<String>(1)?, row.get::<String>(2)?))
    })? {
        let (owner, name, stored) = row?;
        attributes.entry(owner).or_default().insert(name, value_of(&stored)?);
    }
    Ok(attributes)
}

/// Reads a value as it is stored.
pub(in crate::store) fn value_of(stored: &str) -> Result<AttributeValue, StoreError> {
    AttributeValue::from_stored(stored).ok_or_else(|| internal("an attribute has no type"))
}

/// Reads the numbers of attributes by their names. Names that no device and no user ever had are left
/// out.
pub(in crate::store) fn numbers_of(
    connection: &Connection,
    app: AppNo,
    names: &[String],
) -> Result<BTreeMap<String, i64>, StoreError> {
    let mut numbers = BTreeMap::new();
    for name in names {
        if let Some(number) = number_of(connection, app, name)? {
            numbers.insert(name.clone(), number);
        }
    }
    Ok(numbers)
}

fn number_of(connection: &Connection, app: AppNo, name: &str) -> Result<Option<i64>, StoreError> {
    let number = connection
        .prepare_cached("select number from attributes where app_no = ?1 and name = ?2")?
        .query_row(params![app.0, name], |row| row.get(0))
        .optional()?;
    Ok(number)
}

/// Returns the number of an attribute. A new attribute gets a free number of the application, whose lock the
/// caller holds.
fn number_or_insert(tx: &Connection, app: AppNo, name: &str) -> Result<i64, StoreError> {
    if let Some(number) = number_of(tx, app, name)? {
        return Ok(number);
    }
    let mut number = free_number(tx, app)?;
    if number > ATTRIBUTE_NAMES_MAX {
        remove_unused_names(tx, app)?;
        number = free_number(tx, app)?;
    }
    if number > ATTRIBUTE_NAMES_MAX {
        let what =
            format!("the application has {ATTRIBUTE_NAMES_MAX} different attributes already");
        return Err(StoreError::refused("attributes", &what));
    }
    tx.prepare_cached("insert into attributes (app_no, number, name) values (?1, ?2, ?3)")?
        .execute(params![app.0, number, name])?;
    Ok(number)
}

/// The number after the last one, or the lowest free one if the last one has been reached.
fn free_number(tx: &Connection, app: AppNo) -> Result<i64, StoreError> {
    let last: i64 = tx
        .prepare_cached("select coalesce(max(number), 0) from attributes where app_no = ?1")?
        .query_row([app.0], |row| row.get(0))?;
    if last < ATTRIBUTE_NAMES_MAX {
        return Ok(last + 1);
    }
    let free = tx
        .prepare_cached(
            "select number + 1 from (select 0 as number
               union all select number from attributes where app_no = ?1) used
             where not exists (select 1 from attributes a
               where a.app_no = ?1 and a.number = used.number + 1)
             order by number limit 1",
        )?
        .query_row([app.0], |row| row.get(0))?;
    Ok(free)
}

/// Removes names that no device and no user of the application has.
fn remove_unused_names(tx: &Connection, app: AppNo) -> Result<(), StoreError> {
    // Keys of devices and numbers of users begin with the application.
    let (first, last) = (app.key_prefix(), app.key_prefix() | SEQ_MAX);
    tx.prepare_cached(
        "delete from attributes where app_no = ?1 and number in (
           select a.number from attributes a where a.app_no = ?1
           and not exists (select 1 from (select d.device_key from device_attributes d
             where d.attribute = a.number limit ?5) seen where seen.device_key between ?2 and ?3)
           and not exists (select 1 from (select u.user_no from user_attributes u
             where u.attribute = a.number limit ?5) seen where seen.user_no between ?2 and ?3)
           and not exists (select 1 from device_attributes d where d.attribute = a.number
             limit 1 offset ?5)
           and not exists (select 1 from user_attributes u where u.attribute = a.number
             limit 1 offset ?5)
           limit ?4)",
    )?
    .execute([app.0, first, last, NAMES_REMOVED_MAX, VALUES_SEEN_MAX])?;
    Ok(())
}

fn check_count(count: i64, owner: &str) -> Result<(), StoreError> {
    if usize::try_from(count).is_ok_and(|count| count <= ATTRIBUTES_MAX) {
        return Ok(());
    }
    let what = format!("must leave the {owner} at most {ATTRIBUTES_MAX} attributes");
    Err(StoreError::refused("attributes", &what))
}
