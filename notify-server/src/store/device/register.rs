//! Registering a device or replacing its fields.

use notify_core::{DeviceId, IosEnv, Platform, Timestamp};

use crate::store::delivery::cancel_retries_of_device;
use crate::store::device::counts::{self, State};
use crate::store::device::row::{
    DeviceRow, DeviceUpsert, address_hash, address_space, by_id, key_by_id,
};
use crate::store::device::{LastSeenBuffer, inbound, tags};
use crate::store::sql::error::internal;
use crate::store::sql::row::{env_code, require_app};
use crate::store::sql::writer::WriteTx;
use crate::store::sql::{Connection, OptionalExtension, params};
use crate::store::{
    AppNo, DeliveryChange, DeviceKey, MovedAddress, NewBrowser, REGISTRATION_WRITTEN_EVERY_MS,
    SEQUENCE_MAX, StoreError, SubscribedBrowser,
};

/// The key and written registration of a device that a registration would not change.
pub(super) fn unchanged(
    connection: &Connection,
    app: AppNo,
    wanted: &DeviceUpsert,
) -> Result<Option<(DeviceKey, Timestamp)>, StoreError> {
    let row = by_id(connection, app, &wanted.device_id)?;
    Ok(row.filter(|row| is_unchanged(row, wanted)).map(|row| (row.key, row.registered_at)))
}

fn is_unchanged(row: &DeviceRow, wanted: &DeviceUpsert) -> bool {
    row.key.platform() == wanted.platform && row.fields == wanted.fields
}

/// The result of a registration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Registered {
    /// Something changed.
    Changed,
    /// Only the time of the registration changed, which may be written or not.
    Unchanged(DeviceKey),
}

/// Registers a device, or replaces every field of it.
pub(super) fn register(
    tx: &mut WriteTx<'_>,
    app: AppNo,
    wanted: &DeviceUpsert,
    at: Timestamp,
) -> Result<Registered, StoreError> {
    require_app(tx, app)?;
    let key = match by_id(tx, app, &wanted.device_id)? {
        Some(row) if is_unchanged(&row, wanted) => {
            if at.ms_since(row.registered_at) >= REGISTRATION_WRITTEN_EVERY_MS {
                write_seen(tx, row.key, at)?;
            }
            return Ok(Registered::Unchanged(row.key));
        }
        Some(row) if row.key.platform() == wanted.platform => replace(tx, &row, wanted, at)?,
        Some(row) => change_platform(tx, app, &row, wanted, at)?,
        None => {
            let key = next_key(tx, app, wanted)?;
            let displaced = take(tx, app, AddressLookup::of(wanted), key, at)?;
            insert(tx, wanted, &NewRow { key, displaced, created_at: at, registered_at: at })?;
            counts::changed(tx, None, Some(State::of_wanted(key, wanted, at)))?;
            key
        }
    };
    tx.changed(DeliveryChange::Device(key));
    Ok(Registered::Changed)
}

/// The same for subscriptions: an id of a device of another platform is refused.
pub(super) fn subscribe(
    tx: &mut WriteTx<'_>,
    app: AppNo,
    wanted: &DeviceUpsert,
    at: Timestamp,
) -> Result<Registered, StoreError> {
    if let Some(row) = by_id(tx, app, &wanted.device_id)?
        && row.key.platform() != wanted.platform
    {
        return Err(StoreError::refused("device_id", "is in use by a device of another platform"));
    }
    register(tx, app, wanted, at)
}

/// The next key of the application; keys of erased devices are never reused.
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
    let fields = &wanted.fields;
    tx.prepare_cached(
        "insert into devices (key, app_no, device_id, address, address_hash, ios_env,
         push_disabled, utc_offset_minutes, details, p256dh, auth, moved_from, moved_at,
         last_inbound_at, created_at, registered_at)
         values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)",
    )?
    .execute(params![
        key.0,
        key.app().0,
        wanted.device_id.as_str(),
        fields.address,
        wanted.address_hash,
        fields.ios_env.map(env_code),
        fields.push_disabled,
        fields.utc_offset_minutes,
        fields.details,
        fields.p256dh,
        fields.auth,
        displaced.as_ref().map(|displaced| displaced.from.0),
        displaced.as_ref().map(|displaced| displaced.at.as_ms()),
        displaced.as_ref().and_then(|displaced| displaced.last_inbound_at),
        created_at.as_ms(),
        registered_at.as_ms(),
    ])?;
    inbound::start(tx, *key, *registered_at)
}

/// Replaces the fields of a device of the same platform.
fn replace(
    tx: &mut WriteTx<'_>,
    row: &DeviceRow,
    wanted: &DeviceUpsert,
    at: Timestamp,
) -> Result<DeviceKey, StoreError> {
    let fields = &wanted.fields;
    let key = row.key;
    let same_host = |env: Option<IosEnv>| env.unwrap_or_default();
    let moved = row.fields.address != fields.address;
    // Another token or host is another address, so reports about the old one no longer apply.
    let revived = moved || same_host(row.fields.ios_env) != same_host(fields.ios_env);
    if moved {
        let displaced = take(tx, key.app(), AddressLookup::of(wanted), key, at)?;
        write(tx, key, AddressLookup::of(wanted), displaced.as_ref())?;
        inbound::start(tx, key, at)?;
    } else {
        inbound::refresh(tx, key, at)?;
    }
    // Separate from the columns that most registrations change, since naming an indexed column writes
    // its index.
    if row.fields.push_disabled != fields.push_disabled {
        tx.prepare_cached("update devices set push_disabled = ?2 where key = ?1")?
            .execute(params![key.0, fields.push_disabled])?;
    }
    if revived && row.dead {
        tx.prepare_cached("update devices set dead_reason = null, dead_at = null where key = ?1")?
            .execute([key.0])?;
    }
    tx.prepare_cached(
        "update devices set ios_env = ?2, utc_offset_minutes = ?3, details = ?4, p256dh = ?5,
         auth = ?6, registered_at = max(registered_at, ?7),
         zone_changed_at = case when utc_offset_minutes = ?3 then zone_changed_at else ?7 end
         where key = ?1",
    )?
    .execute(params![
        key.0,
        fields.ios_env.map(env_code),
        fields.utc_offset_minutes,
        fields.details,
        fields.p256dh,
        fields.auth,
        at.as_ms()
    ])?;
    let enabled = !fields.push_disabled && (revived || !row.dead);
    counts::changed(
        tx,
        Some(State::of_row(row)),
        Some(State { key, enabled, created_at: row.created_at, zone: fields.utc_offset_minutes }),
    )?;
    Ok(key)
}

/// Gives a device another platform and with it another key. `created_at`, tags and engagement stay;
/// pending deliveries to the old key are canceled.
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
        "delete from device_seen where key = ?1",
        "delete from device_secrets where device_key = ?1",
        "delete from unverified_addresses where device_key = ?1",
    ] {
        tx.prepare_cached(sql)?.execute([row.key.0])?;
    }
    tx.changed(DeliveryChange::Device(row.key));
    let displaced = take(tx, app, AddressLookup::of(wanted), key, at)?;
    insert(tx, wanted, &NewRow { key, displaced, created_at: row.created_at, registered_at: at })?;
    for sql in [
        "update device_tags set device_key = ?2 where device_key = ?1",
        "update engagement set device_key = ?2 where device_key = ?1",
        "update poll_votes set device_key = ?2 where device_key = ?1",
    ] {
        tx.prepare_cached(sql)?.execute([row.key.0, key.0])?;
    }
    counts::changed(
        tx,
        Some(State::of_row(row)),
        Some(State::of_wanted(key, wanted, row.created_at)),
    )?;
    Ok(key)
}

/// Writes the time of a registration that changed nothing, unless a newer one is stored or the device
/// is gone.
pub(super) fn write_seen(tx: &Connection, key: DeviceKey, at: Timestamp) -> Result<(), StoreError> {
    tx.prepare_cached(
        "insert into device_seen (key, registered_at) select key, ?2 from devices
         where key = ?1 and registered_at < ?2
         on conflict (key) do update
         set registered_at = max(device_seen.registered_at, excluded.registered_at)",
    )?
    .execute([key.0, at.as_ms()])?;
    inbound::refresh(tx, key, at)
}

// Ownership of addresses: a push token belongs to one device per application, and so does a
// subscription, a person or a chat.

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

/// The previous owner of an address.
pub(super) struct DisplacedOwner {
    pub(super) from: DeviceKey,
    pub(super) at: Timestamp,
    /// The state of the person moves with the address.
    pub(super) last_inbound_at: Option<i64>,
}

/// The device that has the wanted address.
pub(super) fn device_at(
    tx: &Connection,
    app: AppNo,
    wanted: &DeviceUpsert,
) -> Result<Option<DeviceId>, StoreError> {
    let Some((holder, _)) = holders(tx, app, AddressLookup::of(wanted))?.into_iter().next() else {
        return Ok(None);
    };
    let id: String = tx
        .prepare_cached("select device_id from devices where key = ?1")?
        .query_row([holder.0], |row| row.get(0))?;
    DeviceId::new(id).map(Some).map_err(internal)
}

/// The devices with an address, at most one, and when the person last wrote.
fn holders(
    tx: &Connection,
    app: AppNo,
    sought: AddressLookup<'_>,
) -> Result<Vec<(DeviceKey, Option<i64>)>, StoreError> {
    let keys = tx
        .prepare_cached(
            "select key, last_inbound_at from devices
             where address_hash = ?1 and address = ?2 and app_no = ?3",
        )?
        .query_map(params![sought.hash, sought.address, app.0], |row| {
            Ok((DeviceKey(row.get(0)?), row.get(1)?))
        })?
        .collect::<Result<Vec<_>, _>>()?;
    let space = address_space(sought.platform);
    Ok(keys.into_iter().filter(|(key, _)| address_space(key.platform()) == space).collect())
}

/// Removes an address from the device that has it; returns that device if it is of the same platform.
pub(super) fn take(
    tx: &mut WriteTx<'_>,
    app: AppNo,
    sought: AddressLookup<'_>,
    key: DeviceKey,
    at: Timestamp,
) -> Result<Option<DisplacedOwner>, StoreError> {
    if sought.hash.is_none() {
        return Ok(None);
    }
    let mut displaced = None;
    for (holder, last_inbound_at) in holders(tx, app, sought)? {
        if holder != key {
            tx.prepare_cached(
                "update devices set address = null, address_hash = null, p256dh = null,
                 auth = null, last_inbound_at = null where key = ?1",
            )?
            .execute([holder.0])?;
            tx.changed(DeliveryChange::Device(holder));
            // A dispatch of another platform never sent to this address through this platform's
            // provider.
            if holder.platform() == key.platform() {
                displaced = Some(DisplacedOwner { from: holder, at, last_inbound_at });
            }
        }
    }
    Ok(displaced)
}

/// Writes the address of a device, and where it came from.
pub(super) fn write(
    tx: &Connection,
    key: DeviceKey,
    sought: AddressLookup<'_>,
    displaced: Option<&DisplacedOwner>,
) -> Result<(), StoreError> {
    tx.prepare_cached(
        "update devices set address = ?2, address_hash = ?3, moved_from = ?4, moved_at = ?5,
         last_inbound_at = ?6 where key = ?1",
    )?
    .execute(params![
        key.0,
        sought.address,
        sought.hash,
        displaced.map(|displaced| displaced.from.0),
        displaced.map(|displaced| displaced.at.as_ms()),
        displaced.and_then(|displaced| displaced.last_inbound_at)
    ])?;
    Ok(())
}

/// Replaces a device's address with the one that its provider reported.
pub(crate) fn replace_moved(tx: &mut WriteTx<'_>, moved: &MovedAddress) -> Result<(), StoreError> {
    let (app, platform) = (moved.key.app(), moved.key.platform());
    let is_there = tx
        .prepare_cached("select 1 from devices where key = ?1 and address = ?2")?
        .exists(params![moved.key.0, &*moved.from])?;
    if !is_there {
        return Ok(());
    }
    let hash = Some(address_hash(app, platform, &moved.to));
    let sought = AddressLookup { platform, address: Some(&moved.to), hash };
    let displaced = take(tx, app, sought, moved.key, moved.at)?;
    write(tx, moved.key, sought, displaced.as_ref())?;
    tx.changed(DeliveryChange::Device(moved.key));
    Ok(())
}

// Browsers that subscribe without an API key, and the secret that identifies each.

/// Subscribes a browser as the device that it proves to be, or as a new device.
pub(in crate::store) fn subscribe_browser(
    tx: &mut WriteTx<'_>,
    seen: &LastSeenBuffer,
    app: AppNo,
    browser: NewBrowser,
    at: Timestamp,
) -> Result<SubscribedBrowser, StoreError> {
    let shown = match browser.existing {
        Some((id, secret)) if opens(tx, app, &id, secret)? => Some(id),
        Some(_) | None => None,
    };
    let has_new_secret = shown.is_none();
    // The device id of a subscription is for callers with a key.
    let mut subscription = browser.subscription;
    subscription.device_id = None;
    let mut wanted = DeviceUpsert::of_subscription(app, subscription, browser.made)?;
    let proved = match shown {
        Some(id) => Some(id),
        None => same_browser(tx, app, &wanted)?,
    };
    let is_new = proved.is_none();
    if let Some(id) = proved {
        wanted.device_id = id;
    }
    if let Registered::Unchanged(key) = subscribe(tx, app, &wanted, at)? {
        seen.record(key, at);
    }
    if has_new_secret {
        let key = key_by_id(tx, app, wanted.device_id.as_str())?
            .ok_or_else(|| internal("a device that was just registered is gone"))?;
        tx.prepare_cached(
            "insert into device_secrets (device_key, hash) values (?1, ?2)
             on conflict (device_key) do update set hash = excluded.hash",
        )?
        .execute(params![key.0, browser.secret])?;
        if is_new {
            inbound::set_anonymous(tx, key)?;
        }
    }
    if !browser.tags.is_empty() {
        tags::set(tx, app, &wanted.device_id, &browser.tags)?;
    }
    Ok(SubscribedBrowser { id: wanted.device_id, has_new_secret })
}

/// The device with exactly this address and these keys. Only the browser has all three: pages of other
/// sites do not see them, and the push service sees only the address.
fn same_browser(
    tx: &Connection,
    app: AppNo,
    wanted: &DeviceUpsert,
) -> Result<Option<DeviceId>, StoreError> {
    let Some(id) = device_at(tx, app, wanted)? else { return Ok(None) };
    let row = by_id(tx, app, &id)?;
    let has_keys = row.is_some_and(|row| {
        let (has, wants) = (&row.fields, &wanted.fields);
        (&has.p256dh, &has.auth) == (&wants.p256dh, &wants.auth)
    });
    Ok(has_keys.then_some(id))
}

/// Whether a device exists and has this secret.
pub(in crate::store) fn opens(
    connection: &Connection,
    app: AppNo,
    id: &DeviceId,
    secret: [u8; 32],
) -> Result<bool, StoreError> {
    let opens = connection
        .prepare_cached(
            "select 1 from devices d join device_secrets s on s.device_key = d.key
             where d.app_no = ?1 and d.device_id = ?2 and s.hash = ?3",
        )?
        .exists(params![app.0, id.as_str(), secret])?;
    Ok(opens)
}
