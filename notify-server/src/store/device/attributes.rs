//! Attributes of devices and users. `device_attributes` has the values that count for a device: its
//! own values, and copies of the values of its user, so that devices can be found by value without
//! reading users.

use std::collections::{BTreeMap, HashMap};

use notify_core::{ATTRIBUTES_MAX, AttributeChanges, AttributeValue, Attributes};

use crate::store::sql::error::internal;
use crate::store::sql::writer::WriteTx;
use crate::store::sql::{Connection, NUMBERS, OptionalExtension, list_of, params};
use crate::store::{AppNo, DeliveryChange, DeviceKey, StoreError, UserNo};

/// The most names of attributes of an application. Their rows stay until the application is erased.
const ATTRIBUTE_NAMES_MAX: i64 = 10_000;

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

/// Returns the number of an attribute. A new attribute gets the next number of the application, whose lock the
/// caller holds.
fn number_or_insert(tx: &Connection, app: AppNo, name: &str) -> Result<i64, StoreError> {
    if let Some(number) = number_of(tx, app, name)? {
        return Ok(number);
    }
    let last: i64 = tx
        .prepare_cached("select coalesce(max(number), 0) from attributes where app_no = ?1")?
        .query_row([app.0], |row| row.get(0))?;
    if last >= ATTRIBUTE_NAMES_MAX {
        let what =
            format!("the application has {ATTRIBUTE_NAMES_MAX} different attributes already");
        return Err(StoreError::refused("attributes", &what));
    }
    tx.prepare_cached("insert into attributes (app_no, number, name) values (?1, ?2, ?3)")?
        .execute(params![app.0, last + 1, name])?;
    Ok(last + 1)
}

fn check_count(count: i64, owner: &str) -> Result<(), StoreError> {
    if usize::try_from(count).is_ok_and(|count| count <= ATTRIBUTES_MAX) {
        return Ok(());
    }
    let what = format!("must leave the {owner} at most {ATTRIBUTES_MAX} attributes");
    Err(StoreError::refused("attributes", &what))
}
