//! Attributes of devices and users. `device_attributes` has the values that count for a device: its
//! own values, and copies of the values of its user, so that devices can be found by value without
//! reading users.

use std::collections::{BTreeMap, HashMap, HashSet};

use notify_core::{ATTRIBUTES_MAX, AttributeChanges, AttributeValue, Attributes};
use serde::Serialize;

use crate::store::sql::error::internal;
use crate::store::sql::writer::WriteTx;
use crate::store::sql::{Connection, NUMBERS, PAIRS, TEXTS, list_of, params};
use crate::store::{AppNo, DeliveryChange, DeviceKey, SEQ_MAX, StoreError, UserNo, user};

/// The most names of attributes of an application. A name that no device and no user has any more is
/// removed when another one needs the room.
const ATTRIBUTE_NAMES_MAX: i64 = 10_000;
/// The most names that one change examines when it needs room, because the change holds the writer.
const NAMES_EXAMINED_MAX: i64 = 500;
/// The most values of a number at which the search for names without values looks. All applications use the
/// same numbers, so the values may be those of others. A number with more values counts as used.
const VALUES_SEEN_MAX: i64 = 100;

// A change takes a fixed number of statements, however many attributes and devices it has.

/// Changes a device's own attributes.
pub(super) fn change_of_device(
    tx: &mut WriteTx<'_>,
    key: DeviceKey,
    user: Option<UserNo>,
    changes: &AttributeChanges,
) -> Result<(), StoreError> {
    let changes = NumberedChanges::of(tx, key.app(), changes)?;
    if !changes.set.is_empty() {
        tx.prepare_cached(&format!(
            "insert into device_attributes (device_key, attribute, value, own)
             select ?2, number, text, 1 from {PAIRS} pairs where true
             on conflict (device_key, attribute) do update set value = excluded.value, own = 1"
        ))?
        .execute(params![list_of(&changes.set), key.0])?;
    }
    if !changes.removed.is_empty() {
        tx.prepare_cached(&format!(
            "delete from device_attributes where attribute in {NUMBERS} and device_key = ?2 and own = 1"
        ))?
        .execute(params![list_of(&changes.removed), key.0])?;
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
    changes: &AttributeChanges,
) -> Result<(), StoreError> {
    let changes = NumberedChanges::of(tx, app, changes)?;
    let devices = user::devices_of(tx, user)?;
    if !changes.set.is_empty() {
        let set = list_of(&changes.set);
        tx.prepare_cached(&format!(
            "insert into user_attributes (user_no, attribute, value)
             select ?2, number, text from {PAIRS} pairs where true
             on conflict (user_no, attribute) do update set value = excluded.value"
        ))?
        .execute(params![set, user.0])?;
        if !devices.is_empty() {
            tx.prepare_cached(&format!(
                "insert into device_attributes (device_key, attribute, value, own)
                 select f.key, pairs.number, pairs.text, 0 from {PAIRS} pairs cross join device_fields f
                 where f.user_no = ?2
                 on conflict (device_key, attribute) do update
                 set value = excluded.value where device_attributes.own = 0"
            ))?
            .execute(params![set, user.0])?;
        }
    }
    if !changes.removed.is_empty() {
        let removed = list_of(&changes.removed);
        tx.prepare_cached(&format!(
            "delete from user_attributes where attribute in {NUMBERS} and user_no = ?2"
        ))?
        .execute(params![removed, user.0])?;
        if !devices.is_empty() {
            tx.prepare_cached(&format!(
                "delete from device_attributes where attribute in {NUMBERS} and own = 0
                 and device_key in (select key from device_fields where user_no = ?2)"
            ))?
            .execute(params![removed, user.0])?;
        }
    }
    let count: i64 = tx
        .prepare_cached("select count(*) from user_attributes where user_no = ?1")?
        .query_row([user.0], |row| row.get(0))?;
    check_count(count, "user")?;
    if !changes.set.is_empty() || !changes.removed.is_empty() {
        devices.iter().for_each(|key| tx.changed(DeliveryChange::Device(*key)));
    }
    Ok(())
}

/// Changes of attributes, by the numbers of the attributes.
struct NumberedChanges {
    /// The attributes that are set, with their stored values.
    set: Vec<(i64, String)>,
    /// The attributes that are removed. Names that nothing ever had are left out.
    removed: Vec<i64>,
}

impl NumberedChanges {
    /// Looks the names up. New attributes get free numbers of the application, whose lock the caller holds.
    fn of(tx: &Connection, app: AppNo, changes: &AttributeChanges) -> Result<Self, StoreError> {
        let names: Vec<&String> = changes.0.keys().collect();
        let count_new = |known: &BTreeMap<String, i64>| {
            let is_new = |(name, value): &(&String, &Option<AttributeValue>)| {
                value.is_some() && !known.contains_key(*name)
            };
            changes.0.iter().filter(is_new).count()
        };
        let mut known = numbers_of(tx, app, &names)?;
        let mut free = free_numbers(tx, app, count_new(&known))?;
        if free.len() < count_new(&known) {
            remove_unused_names(tx, app)?;
            // Some of these names may have been removed just now.
            known = numbers_of(tx, app, &names)?;
            free = free_numbers(tx, app, count_new(&known))?;
        }
        if free.len() < count_new(&known) {
            let what =
                format!("the application has {ATTRIBUTE_NAMES_MAX} different attributes already");
            return Err(StoreError::refused("attributes", &what));
        }
        let mut free = free.into_iter();
        let (mut set, mut removed, mut new) = (Vec::new(), Vec::new(), Vec::new());
        for (name, value) in &changes.0 {
            let number = known.get(name).copied();
            let Some(value) = value else {
                removed.extend(number);
                continue;
            };
            let Some(number) = number.or_else(|| {
                let number = free.next();
                new.extend(number.map(|number| (number, name)));
                number
            }) else {
                return Err(internal("a new attribute has no number"));
            };
            set.push((number, value.to_stored()));
        }
        if !new.is_empty() {
            tx.prepare_cached(&format!(
                "insert into attributes (app_no, number, name)
                 select ?2, number, text from {PAIRS} pairs"
            ))?
            .execute(params![list_of(&new), app.0])?;
        }
        Ok(Self { set, removed })
    }
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
    names: &[impl Serialize],
) -> Result<BTreeMap<String, i64>, StoreError> {
    if names.is_empty() {
        return Ok(BTreeMap::new());
    }
    let numbers = connection
        .prepare_cached(&format!(
            "select name, number from attributes where app_no = ?2 and name in {TEXTS}"
        ))?
        .query_map(params![list_of(names), app.0], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<BTreeMap<_, _>, _>>()?;
    Ok(numbers)
}

/// Free numbers of attributes of an application, whose lock the caller holds: those after the last one, or
/// the lowest ones once the last one has been reached. Fewer than `count` if the application has no more.
fn free_numbers(tx: &Connection, app: AppNo, count: usize) -> Result<Vec<i64>, StoreError> {
    let last: i64 = tx
        .prepare_cached("select coalesce(max(number), 0) from attributes where app_no = ?1")?
        .query_row([app.0], |row| row.get(0))?;
    let after_last = last + 1..=ATTRIBUTE_NAMES_MAX;
    if after_last.clone().count() >= count {
        return Ok(after_last.take(count).collect());
    }
    let used = tx
        .prepare_cached("select number from attributes where app_no = ?1")?
        .query_map([app.0], |row| row.get(0))?
        .collect::<Result<HashSet<i64>, _>>()?;
    Ok((1..=ATTRIBUTE_NAMES_MAX).filter(|number| !used.contains(number)).take(count).collect())
}

/// Removes names that no device and no user of the application has, among some names from a random one on. So
/// repeated changes examine all names.
fn remove_unused_names(tx: &Connection, app: AppNo) -> Result<(), StoreError> {
    // Keys of devices and numbers of users begin with the application.
    let (first, last) = (app.key_prefix(), app.key_prefix() | SEQ_MAX);
    let before = fastrand::i64(0..=ATTRIBUTE_NAMES_MAX - NAMES_EXAMINED_MAX);
    tx.prepare_cached(
        "delete from attributes where app_no = ?1 and number in (
           select a.number from (select number from attributes where app_no = ?1 and number > ?6
             order by number limit ?4) a
           where not exists (select 1 from (select d.device_key from device_attributes d
             where d.attribute = a.number limit ?5) seen where seen.device_key between ?2 and ?3)
           and not exists (select 1 from (select u.user_no from user_attributes u
             where u.attribute = a.number limit ?5) seen where seen.user_no between ?2 and ?3)
           and not exists (select 1 from device_attributes d where d.attribute = a.number
             limit 1 offset ?5)
           and not exists (select 1 from user_attributes u where u.attribute = a.number
             limit 1 offset ?5))",
    )?
    .execute([app.0, first, last, NAMES_EXAMINED_MAX, VALUES_SEEN_MAX, before])?;
    Ok(())
}

fn check_count(count: i64, owner: &str) -> Result<(), StoreError> {
    if usize::try_from(count).is_ok_and(|count| count <= ATTRIBUTES_MAX) {
        return Ok(());
    }
    let what = format!("must leave the {owner} at most {ATTRIBUTES_MAX} attributes");
    Err(StoreError::refused("attributes", &what))
}
