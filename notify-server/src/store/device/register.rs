//! Registering a device or replacing its fields.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use notify_core::{DeviceId, IosEnv, Platform, Timestamp};

use crate::store::delivery::cancel_retries_of_device;
use crate::store::device::counts::{self, State};
use crate::store::device::row::{
    DeviceRow, DeviceUpsert, address_hash, address_space, by_id, key_by_id,
};
use crate::store::device::{fields, inbound, tags};
use crate::store::sql::columns::{assignments, names, placeholders, values};
use crate::store::sql::error::internal;
use crate::store::sql::row::require_app;
use crate::store::sql::writer::WriteTx;
use crate::store::sql::{Connection, OptionalExtension, Value, params, value};
use crate::store::{
    AppNo, DeliveryChange, DeviceKey, MovedAddress, NewBrowser, REGISTRATION_WRITTEN_EVERY_MS,
    SEQUENCE_MAX, StoreError, SubscribedBrowser, erased_ids, user,
};

/// Whether a registration changes nothing, not even the time of the last one.
pub(super) fn needs_no_write(
    connection: &Connection,
    app: AppNo,
    wanted: &DeviceUpsert,
    at: Timestamp,
) -> Result<bool, StoreError> {
    let Some(row) = by_id(connection, app, &wanted.device_id)? else { return Ok(false) };
    let is_logged_in = match &wanted.user {
        Some(user) => user::is_logged_in(connection, row.key, user)?,
        None => true,
    };
    Ok(is_logged_in && is_unchanged(&row, wanted) && !is_time_due(&row, at))
}

/// Whether the time of an unchanged registration has to be written.
pub(in crate::store) fn is_time_due(row: &DeviceRow, at: Timestamp) -> bool {
    at.ms_since(row.registered_at) >= REGISTRATION_WRITTEN_EVERY_MS
}

/// Whether a registration would leave the fields of a device as they are.
pub(in crate::store) fn is_unchanged(row: &DeviceRow, wanted: &DeviceUpsert) -> bool {
    row.key.platform() == wanted.platform && row.fields == wanted.fields
}

/// Registers a device, or replaces all fields of an existing device. Logs in the user of the
/// registration, if it has one.
pub(in crate::store) fn register(
    tx: &mut WriteTx<'_>,
    app: AppNo,
    wanted: &DeviceUpsert,
    at: Timestamp,
) -> Result<(), StoreError> {
    require_app(tx, app)?;
    write_device(tx, app, wanted, at)?;
    let Some(user) = &wanted.user else { return Ok(()) };
    let key = key_by_id(tx, app, wanted.device_id.as_str())?
        .ok_or_else(|| internal("a device that was just registered is gone"))?;
    user::log_in(tx, key, user, at)
}

fn write_device(
    tx: &mut WriteTx<'_>,
    app: AppNo,
    wanted: &DeviceUpsert,
    at: Timestamp,
) -> Result<(), StoreError> {
    let key = match by_id(tx, app, &wanted.device_id)? {
        Some(row) if is_unchanged(&row, wanted) => {
            if is_time_due(&row, at) {
                write_time(tx, row.key, at)?;
            }
            return Ok(());
        }
        Some(row) if row.key.platform() == wanted.platform => replace(tx, &row, wanted, at)?,
        Some(row) => change_platform(tx, app, &row, wanted, at)?,
        None => {
            let key = next_key(tx, app, wanted)?;
            let displaced = release_address(tx, app, AddressLookup::of(wanted), key, at)?;
            insert(tx, wanted, &NewRow { key, displaced, created_at: at, registered_at: at })?;
            counts::apply_change(tx, None, Some(State::of_wanted(key, wanted, at)))?;
            key
        }
    };
    tx.changed(DeliveryChange::Device(key));
    Ok(())
}

/// As [`register()`], but refuses an id of a device of another platform.
pub(super) fn subscribe(
    tx: &mut WriteTx<'_>,
    app: AppNo,
    wanted: &DeviceUpsert,
    at: Timestamp,
) -> Result<(), StoreError> {
    if let Some(row) = by_id(tx, app, &wanted.device_id)?
        && row.key.platform() != wanted.platform
    {
        return Err(StoreError::refused("device_id", "is in use by a device of another platform"));
    }
    register(tx, app, wanted, at)
}

/// Draws the next device key of the application. The keys of erased devices are never reused.
fn next_key(tx: &Connection, app: AppNo, wanted: &DeviceUpsert) -> Result<DeviceKey, StoreError> {
    let sequence: Option<i64> = tx
        .prepare_cached(
            "update apps set device_sequence = device_sequence + 1
             where no = ?1 and device_sequence < ?2 returning device_sequence",
        )?
        .query_row([app.0, SEQUENCE_MAX], |row| row.get(0))
        .optional()?;
    sequence
        .map(|sequence| DeviceKey::new(app, wanted.platform, sequence))
        .ok_or_else(|| internal("the application has no device sequence left"))
}

/// The row of a device that has no row of its platform yet.
struct NewRow {
    key: DeviceKey,
    displaced: Option<DisplacedOwner>,
    /// Earlier than `registered_at` if the device only changes its platform.
    created_at: Timestamp,
    registered_at: Timestamp,
}

/// Writes a new row.
fn insert(tx: &Connection, wanted: &DeviceUpsert, row: &NewRow) -> Result<(), StoreError> {
    let NewRow { key, displaced, created_at, registered_at } = row;
    let displaced = displaced.as_ref();
    let mut columns = vec![("key", key.0.into()), ("app_no", key.app().0.into())];
    columns.extend(wanted.columns());
    columns.extend([
        ("moved_from", displaced.map(|displaced| displaced.from.0).into()),
        ("moved_at", displaced.map(|displaced| displaced.at.as_ms()).into()),
        ("last_inbound_at", displaced.and_then(|displaced| displaced.last_inbound_at).into()),
        ("created_at", created_at.as_ms().into()),
    ]);
    tx.prepare_cached(&format!(
        "insert into devices ({}) values ({})",
        names(&columns),
        placeholders(1, &columns)
    ))?
    .execute(&values(&columns)[..])?;
    fields::write(tx, *key, &wanted.condition_fields, *created_at, *registered_at)?;
    inbound::mark_unverified(tx, *key, *registered_at)
}

/// Replaces the fields of a device of the same platform.
fn replace(
    tx: &mut WriteTx<'_>,
    row: &DeviceRow,
    wanted: &DeviceUpsert,
    at: Timestamp,
) -> Result<DeviceKey, StoreError> {
    let stored = &wanted.fields;
    let key = row.key;
    let host_of = |env: Option<IosEnv>| env.unwrap_or_default();
    let has_new_address = row.fields.address != stored.address;
    // A report that the address is unregistered applies to one token on one host.
    let clears_report = has_new_address || host_of(row.fields.ios_env) != host_of(stored.ios_env);
    if has_new_address {
        let displaced = release_address(tx, key.app(), AddressLookup::of(wanted), key, at)?;
        write_address(tx, key, AddressLookup::of(wanted), displaced.as_ref())?;
        inbound::mark_unverified(tx, key, at)?;
    } else {
        inbound::restart_retention(tx, key, at)?;
    }
    // `push_disabled` and `dead_at` have separate statements: an update that names an indexed
    // column writes the index, even if the value is the same.
    if row.fields.push_disabled != stored.push_disabled {
        tx.prepare_cached("update devices set push_disabled = ?2 where key = ?1")?
            .execute(params![key.0, stored.push_disabled])?;
    }
    if clears_report && row.dead {
        tx.prepare_cached("update devices set dead_reason = null, dead_at = null where key = ?1")?
            .execute([key.0])?;
    }
    let columns = [&stored.states()[..], &stored.texts()].concat();
    let mut parameters: Vec<Value<'_>> =
        vec![key.0.into(), value(&stored.utc_offset_minutes), at.as_ms().into()];
    parameters.extend(values(&columns));
    tx.prepare_cached(&format!(
        "update devices set {},
         zone_changed_at = case when utc_offset_minutes = ?2 then zone_changed_at else ?3 end
         where key = ?1",
        assignments(4, &columns)
    ))?
    .execute(&parameters[..])?;
    fields::replace(tx, key, &wanted.condition_fields, at)?;
    let enabled = !stored.push_disabled && (clears_report || !row.dead);
    counts::apply_change(
        tx,
        Some(State::of_row(row)),
        Some(State { key, enabled, created_at: row.created_at, zone: stored.utc_offset_minutes }),
    )?;
    Ok(key)
}

/// Changes the platform of a device, which gives it a new key. Its `created_at`, tags and
/// engagement stay. Pending deliveries to the old key are canceled.
fn change_platform(
    tx: &mut WriteTx<'_>,
    app: AppNo,
    row: &DeviceRow,
    wanted: &DeviceUpsert,
    at: Timestamp,
) -> Result<DeviceKey, StoreError> {
    let key = next_key(tx, app, wanted)?;
    cancel_retries_of_device(tx, row.key, at)?;
    for sql in [
        "delete from devices where key = ?1",
        "delete from device_secrets where device_key = ?1",
        "delete from unverified_addresses where device_key = ?1",
    ] {
        tx.prepare_cached(sql)?.execute([row.key.0])?;
    }
    tx.changed(DeliveryChange::Device(row.key));
    let displaced = release_address(tx, app, AddressLookup::of(wanted), key, at)?;
    // The user of the device stays, so the fields move before they are written.
    tx.prepare_cached("update device_fields set key = ?2 where key = ?1")?
        .execute([row.key.0, key.0])?;
    insert(tx, wanted, &NewRow { key, displaced, created_at: row.created_at, registered_at: at })?;
    for sql in [
        "update device_attributes set device_key = ?2 where device_key = ?1",
        "update device_tags set device_key = ?2 where device_key = ?1",
        "update engagement set device_key = ?2 where device_key = ?1",
        "update poll_votes set device_key = ?2 where device_key = ?1",
    ] {
        tx.prepare_cached(sql)?.execute([row.key.0, key.0])?;
    }
    counts::apply_change(
        tx,
        Some(State::of_row(row)),
        Some(State::of_wanted(key, wanted, row.created_at)),
    )?;
    Ok(key)
}

/// Writes the time of a registration that changed nothing.
fn write_time(tx: &Connection, key: DeviceKey, at: Timestamp) -> Result<(), StoreError> {
    tx.prepare_cached(
        "update device_fields set registered_at = max(registered_at, ?2) where key = ?1",
    )?
    .execute([key.0, at.as_ms()])?;
    inbound::restart_retention(tx, key, at)
}

// Ownership of addresses. An address belongs to at most one device of an application, whether it is
// a push token, a push subscription, a person or a chat.

/// An address to look up.
#[derive(Clone, Copy)]
pub(super) struct AddressLookup<'a> {
    platform: Platform,
    address: Option<&'a str>,
    hash: Option<i64>,
}

impl<'a> AddressLookup<'a> {
    pub(super) fn of(wanted: &'a DeviceUpsert) -> Self {
        Self {
            platform: wanted.platform,
            address: wanted.fields.address.as_deref(),
            hash: wanted.address_hash,
        }
    }
}

/// The device that had an address before, and the time of the change.
pub(super) struct DisplacedOwner {
    pub(super) from: DeviceKey,
    pub(super) at: Timestamp,
    /// When the person last wrote. This state moves with the address.
    pub(super) last_inbound_at: Option<i64>,
}

/// The id of the device that has the wanted address; `None` if no device has it.
pub(super) fn owner_of_address(
    tx: &Connection,
    app: AppNo,
    wanted: &DeviceUpsert,
) -> Result<Option<DeviceId>, StoreError> {
    let Some((owner, _)) = owners(tx, app, AddressLookup::of(wanted))?.into_iter().next() else {
        return Ok(None);
    };
    let id: String = tx
        .prepare_cached("select device_id from devices where key = ?1")?
        .query_row([owner.0], |row| row.get(0))?;
    DeviceId::new(id).map(Some).map_err(internal)
}

/// The devices that have an address, at most one, each with the time when the person last wrote.
fn owners(
    tx: &Connection,
    app: AppNo,
    lookup: AddressLookup<'_>,
) -> Result<Vec<(DeviceKey, Option<i64>)>, StoreError> {
    let candidates = tx
        .prepare_cached(
            "select key, last_inbound_at from devices
             where address_hash = ?1 and address = ?2 and app_no = ?3",
        )?
        .query_map(params![lookup.hash, lookup.address, app.0], |row| {
            Ok((DeviceKey(row.get(0)?), row.get(1)?))
        })?
        .collect::<Result<Vec<_>, _>>()?;
    let space = address_space(lookup.platform);
    // Devices of platforms with another kind of addresses may have the same text as their address.
    let owners = candidates.into_iter().filter(|(key, _)| address_space(key.platform()) == space);
    Ok(owners.collect())
}

/// Removes an address from another device that has it, so that the device `key` can get the
/// address. Returns the other device if it has the same platform.
pub(super) fn release_address(
    tx: &mut WriteTx<'_>,
    app: AppNo,
    lookup: AddressLookup<'_>,
    key: DeviceKey,
    at: Timestamp,
) -> Result<Option<DisplacedOwner>, StoreError> {
    if lookup.hash.is_none() {
        return Ok(None);
    }
    let mut displaced = None;
    for (owner, last_inbound_at) in owners(tx, app, lookup)? {
        if owner != key {
            tx.prepare_cached(
                "update devices set address = null, address_hash = null, p256dh = null,
                 auth = null, last_inbound_at = null where key = ?1",
            )?
            .execute([owner.0])?;
            tx.changed(DeliveryChange::Device(owner));
            // The previous owner is recorded so that a dispatch does not send to an address twice.
            // A dispatch has one platform, so an owner of another platform does not matter.
            if owner.platform() == key.platform() {
                displaced = Some(DisplacedOwner { from: owner, at, last_inbound_at });
            }
        }
    }
    Ok(displaced)
}

/// Writes the address of a device, and the device that had the address before.
pub(super) fn write_address(
    tx: &Connection,
    key: DeviceKey,
    lookup: AddressLookup<'_>,
    displaced: Option<&DisplacedOwner>,
) -> Result<(), StoreError> {
    tx.prepare_cached(
        "update devices set address = ?2, address_hash = ?3, moved_from = ?4, moved_at = ?5,
         last_inbound_at = ?6 where key = ?1",
    )?
    .execute(params![
        key.0,
        lookup.address,
        lookup.hash,
        displaced.map(|displaced| displaced.from.0),
        displaced.map(|displaced| displaced.at.as_ms()),
        displaced.and_then(|displaced| displaced.last_inbound_at)
    ])?;
    Ok(())
}

/// Replaces the address of a device with the new address that its provider reported. Does nothing
/// if the device no longer has the reported old address.
pub(crate) fn replace_moved(tx: &mut WriteTx<'_>, moved: &MovedAddress) -> Result<(), StoreError> {
    let (app, platform) = (moved.key.app(), moved.key.platform());
    let is_current = tx
        .prepare_cached("select 1 from devices where key = ?1 and address = ?2")?
        .exists(params![moved.key.0, &*moved.from])?;
    if !is_current {
        return Ok(());
    }
    let hash = Some(address_hash(app, platform, &moved.to));
    let lookup = AddressLookup { platform, address: Some(&moved.to), hash };
    let displaced = release_address(tx, app, lookup, moved.key, moved.at)?;
    write_address(tx, moved.key, lookup, displaced.as_ref())?;
    tx.changed(DeliveryChange::Device(moved.key));
    Ok(())
}

// Browsers that subscribe without an API key. Each has a secret that proves which device it is.

/// Subscribes a browser. A browser that proves to be an existing device keeps that device; any
/// other browser becomes a new device.
pub(in crate::store) fn subscribe_browser(
    tx: &mut WriteTx<'_>,
    app: AppNo,
    browser: NewBrowser,
    at: Timestamp,
) -> Result<SubscribedBrowser, StoreError> {
    let proved_by_secret = match browser.existing {
        Some((id, secret)) if is_browser_with_secret(tx, app, &id, secret)? => Some(id),
        Some(_) | None => None,
    };
    let has_new_secret = proved_by_secret.is_none();
    // Only a caller with an API key may choose a device id. Otherwise a page could take an id that
    // the application uses, or will use, for someone else.
    let mut subscription = browser.subscription;
    subscription.device_id = None;
    let mut wanted = DeviceUpsert::of_subscription(app, subscription, browser.generated_id)?;
    let existing_id = match proved_by_secret {
        Some(id) => Some(id),
        None => device_of_browser(tx, app, &wanted)?,
    };
    let is_new = existing_id.is_none();
    if let Some(id) = existing_id {
        wanted.device_id = id;
    }
    subscribe(tx, app, &wanted, at)?;
    if has_new_secret {
        let key = key_by_id(tx, app, wanted.device_id.as_str())?
            .ok_or_else(|| internal("a device that was just registered is gone"))?;
        write_secret(tx, key, browser.secret)?;
        if is_new {
            write_unnamed(tx, key)?;
            inbound::set_anonymous(tx, key, at)?;
        }
    }
    if !browser.tags.is_empty() {
        tags::set(tx, app, &wanted.device_id, &browser.tags)?;
    }
    Ok(SubscribedBrowser { id: wanted.device_id, has_new_secret })
}

/// The id of the device with exactly this address and these two keys. They prove that the browser
/// is this device: pages of other sites do not see them, and the push service only sees the
/// address.
fn device_of_browser(
    tx: &Connection,
    app: AppNo,
    wanted: &DeviceUpsert,
) -> Result<Option<DeviceId>, StoreError> {
    let Some(id) = owner_of_address(tx, app, wanted)? else { return Ok(None) };
    let row = by_id(tx, app, &id)?;
    let has_keys = row.is_some_and(|row| {
        let (stored, wanted) = (&row.fields, &wanted.fields);
        (&stored.p256dh, &stored.auth) == (&wanted.p256dh, &wanted.auth)
    });
    Ok(has_keys.then_some(id))
}

/// Finds a device by its id and the SHA-256 of its secret; `None` if the device is unknown, has no
/// secret, or has another one. The hashes are compared in constant time.
pub(in crate::store) fn key_by_secret(
    connection: &Connection,
    app: AppNo,
    id: &DeviceId,
    secret: [u8; 32],
) -> Result<Option<DeviceKey>, StoreError> {
    let found: Option<(i64, [u8; 32])> = connection
        .prepare_cached(
            "select d.key, s.hash from devices d join device_secrets s on s.device_key = d.key
             where d.app_no = ?1 and d.device_id = ?2",
        )?
        .query_row(params![app.0, id.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let is_equal = |hash: &[u8; 32]| verify_slices_are_equal(hash, &secret).is_ok();
    Ok(found.filter(|(_, hash)| is_equal(hash)).map(|(key, _)| DeviceKey(key)))
}

/// Whether a device has a secret.
pub(super) fn has_any_secret(
    connection: &Connection,
    app: AppNo,
    id: &DeviceId,
) -> Result<bool, StoreError> {
    let has_secret = connection
        .prepare_cached(
            "select 1 from devices d join device_secrets s on s.device_key = d.key
             where d.app_no = ?1 and d.device_id = ?2",
        )?
        .exists(params![app.0, id.as_str()])?;
    Ok(has_secret)
}

/// Whether a browser exists and has a secret with this SHA-256.
pub(in crate::store) fn is_browser_with_secret(
    connection: &Connection,
    app: AppNo,
    id: &DeviceId,
    secret: [u8; 32],
) -> Result<bool, StoreError> {
    let key = key_by_secret(connection, app, id, secret)?;
    Ok(key.is_some_and(|key| key.platform() == Platform::Web))
}

/// Gives a device a secret, which replaces its current one.
pub(super) fn write_secret(
    tx: &Connection,
    key: DeviceKey,
    secret: [u8; 32],
) -> Result<(), StoreError> {
    tx.prepare_cached(
        "insert into device_secrets (device_key, hash) values (?1, ?2)
         on conflict (device_key) do update set hash = excluded.hash",
    )?
    .execute(params![key.0, secret])?;
    Ok(())
}

/// Records that the server has just made the id of a device with a secret, so that no request before now
/// names it.
pub(super) fn write_unnamed(tx: &Connection, key: DeviceKey) -> Result<(), StoreError> {
    let last = erased_ids::last_naming(tx, key.app())?;
    tx.prepare_cached("update device_secrets set unnamed_to = ?2 where device_key = ?1")?
        .execute([key.0, last])?;
    Ok(())
}
