//! Registering a device or replacing its fields (B21, B22, B25).

use notify_core::{DeviceId, IosEnv, Platform, Timestamp};

use crate::store::delivery::cancel_retries_of_device;
use crate::store::device::counts::{self, State};
use crate::store::device::row::{DeviceRow, Wanted, address_hash, address_space, by_id, key_by_id};
use crate::store::device::{Seen, inbound, tags};
use crate::store::sql::error::broken;
use crate::store::sql::row::{env_code, live_app};
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
    wanted: &Wanted,
) -> Result<Option<(DeviceKey, Timestamp)>, StoreError> {
    let row = by_id(connection, app, &wanted.device_id)?;
    Ok(row.filter(|row| is_unchanged(row, wanted)).map(|row| (row.key, row.registered_at)))
}

fn is_unchanged(row: &DeviceRow, wanted: &Wanted) -> bool {
    row.key.platform() == wanted.platform && row.fields == wanted.fields
}

/// What a registration came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Registered {
    /// Something is not as it was.
    Changed,
    /// Nothing but the time of the registration, which may be written or not.
    Unchanged(DeviceKey),
}

/// Registers a device, or replaces every field of it.
pub(super) fn register(
    tx: &mut WriteTx<'_>,
    app: AppNo,
    wanted: &Wanted,
    at: Timestamp,
) -> Result<Registered, StoreError> {
    live_app(tx, app)?;
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
            let taken = take(tx, app, Sought::of(wanted), key, at)?;
            insert(tx, wanted, &NewRow { key, taken, created_at: at, registered_at: at })?;
            counts::changed(tx, None, Some(State::of_wanted(key, wanted, at)))?;
            key
        }
    };
    tx.changed(DeliveryChange::Device(key));
    Ok(Registered::Changed)
}

/// The same for the platforms of B25: an id of a device of another platform is refused.
pub(super) fn subscribe(
    tx: &mut WriteTx<'_>,
    app: AppNo,
    wanted: &Wanted,
    at: Timestamp,
) -> Result<Registered, StoreError> {
    if let Some(row) = by_id(tx, app, &wanted.device_id)?
        && row.key.platform() != wanted.platform
    {
        return Err(StoreError::refused("device_id", "is in use by a device of another platform"));
    }
    register(tx, app, wanted, at)
}

/// The next key of the application: never one that an erased device had.
fn next_key(tx: &Connection, app: AppNo, wanted: &Wanted) -> Result<DeviceKey, StoreError> {
    let sequence: Option<i64> = tx
        .prepare_cached(
            "update apps set device_sequence = device_sequence + 1
             where no = ?1 and device_sequence < ?2 returning device_sequence",
        )?
        .query_row([app.0, SEQUENCE_MAX], |row| row.get(0))
        .optional()?;
    sequence
        .map(|sequence| DeviceKey::new(app, wanted.platform, sequence))
        .ok_or_else(|| broken("the application has no device sequence left"))
}

/// The row of a device that has no row of its platform yet.
struct NewRow {
    key: DeviceKey,
    taken: Option<Taken>,
    /// Earlier than `registered_at` if the device only changes its platform.
    created_at: Timestamp,
    registered_at: Timestamp,
}

/// Writes a new row.
fn insert(tx: &Connection, wanted: &Wanted, row: &NewRow) -> Result<(), StoreError> {
    let NewRow { key, taken, created_at, registered_at } = row;
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
        taken.as_ref().map(|taken| taken.from.0),
        taken.as_ref().map(|taken| taken.at.as_ms()),
        taken.as_ref().and_then(|taken| taken.last_inbound_at),
        created_at.as_ms(),
        registered_at.as_ms(),
    ])?;
    inbound::start(tx, *key, *registered_at)
}

/// Replaces the fields of a device of the same platform.
fn replace(
    tx: &mut WriteTx<'_>,
    row: &DeviceRow,
    wanted: &Wanted,
    at: Timestamp,
) -> Result<DeviceKey, StoreError> {
    let fields = &wanted.fields;
    let key = row.key;
    let same_host = |env: Option<IosEnv>| env.unwrap_or_default();
    let moved = row.fields.address != fields.address;
    // Another token or host is another address: what was said of the old one is over (B22).
    let revived = moved || same_host(row.fields.ios_env) != same_host(fields.ios_env);
    if moved {
        let taken = take(tx, key.app(), Sought::of(wanted), key, at)?;
        write(tx, key, Sought::of(wanted), taken.as_ref())?;
        inbound::start(tx, key, at)?;
    } else {
        inbound::refresh(tx, key, at)?;
    }
    // Apart from what most registrations change: naming an indexed column writes its index.
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

/// Gives a device another platform and with it another key; `created_at`, the tags and what it did
/// with notifications stay, what was still to be sent to it as the old one is canceled.
fn change_platform(
    tx: &mut WriteTx<'_>,
    app: AppNo,
    row: &DeviceRow,
    wanted: &Wanted,
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
    let taken = take(tx, app, Sought::of(wanted), key, at)?;
    insert(tx, wanted, &NewRow { key, taken, created_at: row.created_at, registered_at: at })?;
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

/// Writes the time of a registration that changed nothing; never an older one, never for a device
/// that is gone.
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

// Whose an address is: a push token belongs to one device per application (B22), and so does a
// subscription, a person and a chat.

/// An address that is looked for.
#[derive(Clone, Copy)]
pub(super) struct Sought<'a> {
    platform: Platform,
    address: Option<&'a str>,
    hash: Option<i64>,
}

impl<'a> Sought<'a> {
    pub(super) fn of(wanted: &'a Wanted) -> Self {
        Self {
            platform: wanted.platform,
            address: wanted.fields.address.as_deref(),
            hash: wanted.address_hash,
        }
    }
}

/// An address that was another device's.
pub(super) struct Taken {
    pub(super) from: DeviceKey,
    pub(super) at: Timestamp,
    /// What is known of its person comes along.
    pub(super) last_inbound_at: Option<i64>,
}

/// The device that has the wanted address.
pub(super) fn device_at(
    tx: &Connection,
    app: AppNo,
    wanted: &Wanted,
) -> Result<Option<DeviceId>, StoreError> {
    let Some((holder, _)) = holders(tx, app, Sought::of(wanted))?.into_iter().next() else {
        return Ok(None);
    };
    let id: String = tx
        .prepare_cached("select device_id from devices where key = ?1")?
        .query_row([holder.0], |row| row.get(0))?;
    DeviceId::new(id).map(Some).map_err(broken)
}

/// The devices that have an address, one or none, and when its person last wrote.
fn holders(
    tx: &Connection,
    app: AppNo,
    sought: Sought<'_>,
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

/// Takes an address from whichever other device has it (B22); the one of the same platform that had
/// it.
pub(super) fn take(
    tx: &mut WriteTx<'_>,
    app: AppNo,
    sought: Sought<'_>,
    key: DeviceKey,
    at: Timestamp,
) -> Result<Option<Taken>, StoreError> {
    if sought.hash.is_none() {
        return Ok(None);
    }
    let mut taken = None;
    for (holder, last_inbound_at) in holders(tx, app, sought)? {
        if holder != key {
            tx.prepare_cached(
                "update devices set address = null, address_hash = null, p256dh = null,
                 auth = null, last_inbound_at = null where key = ?1",
            )?
            .execute([holder.0])?;
            tx.changed(DeliveryChange::Device(holder));
            // Another platform's dispatch never sent to it through this one's provider.
            if holder.platform() == key.platform() {
                taken = Some(Taken { from: holder, at, last_inbound_at });
            }
        }
    }
    Ok(taken)
}

/// Writes the address of a device, and where it came from.
pub(super) fn write(
    tx: &Connection,
    key: DeviceKey,
    sought: Sought<'_>,
    taken: Option<&Taken>,
) -> Result<(), StoreError> {
    tx.prepare_cached(
        "update devices set address = ?2, address_hash = ?3, moved_from = ?4, moved_at = ?5,
         last_inbound_at = ?6 where key = ?1",
    )?
    .execute(params![
        key.0,
        sought.address,
        sought.hash,
        taken.map(|taken| taken.from.0),
        taken.map(|taken| taken.at.as_ms()),
        taken.and_then(|taken| taken.last_inbound_at)
    ])?;
    Ok(())
}

/// Gives a device the address that its provider named in place of the one it has (B22).
pub(crate) fn replace_moved(tx: &mut WriteTx<'_>, moved: &MovedAddress) -> Result<(), StoreError> {
    let (app, platform) = (moved.key.app(), moved.key.platform());
    let is_there = tx
        .prepare_cached("select 1 from devices where key = ?1 and address = ?2")?
        .exists(params![moved.key.0, &*moved.from])?;
    if !is_there {
        return Ok(());
    }
    let hash = Some(address_hash(app, platform, &moved.to));
    let sought = Sought { platform, address: Some(&moved.to), hash };
    let taken = take(tx, app, sought, moved.key, moved.at)?;
    write(tx, moved.key, sought, taken.as_ref())?;
    tx.changed(DeliveryChange::Device(moved.key));
    Ok(())
}

// Browsers that subscribe by themselves, and the secret by which each acts as its device.

/// Subscribes a browser as the device that it proves to be, or as a new one.
pub(in crate::store) fn subscribe_browser(
    tx: &mut WriteTx<'_>,
    seen: &Seen,
    app: AppNo,
    browser: NewBrowser,
    at: Timestamp,
) -> Result<SubscribedBrowser, StoreError> {
    let shown = match browser.known {
        Some((id, secret)) if opens(tx, app, &id, secret)? => Some(id),
        Some(_) | None => None,
    };
    let has_new_secret = shown.is_none();
    // The device id of a subscription is for callers with a key.
    let mut subscription = browser.subscription;
    subscription.device_id = None;
    let mut wanted = Wanted::of_subscription(app, subscription, browser.made)?;
    let proved = match shown {
        Some(id) => Some(id),
        None => same_browser(tx, app, &wanted)?,
    };
    let is_new = proved.is_none();
    if let Some(id) = proved {
        wanted.device_id = id;
    }
    if let Registered::Unchanged(key) = subscribe(tx, app, &wanted, at)? {
        seen.note(key, at);
    }
    if has_new_secret {
        let key = key_by_id(tx, app, wanted.device_id.as_str())?
            .ok_or_else(|| broken("a device that was just registered is gone"))?;
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

/// The device with exactly this address and its keys. Whoever has all three is the browser: pages of
/// other sites do not see them, and the push service sees the address alone.
fn same_browser(
    tx: &Connection,
    app: AppNo,
    wanted: &Wanted,
) -> Result<Option<DeviceId>, StoreError> {
    let Some(id) = device_at(tx, app, wanted)? else { return Ok(None) };
    let row = by_id(tx, app, &id)?;
    let has_keys = row.is_some_and(|row| {
        let (has, wants) = (&row.fields, &wanted.fields);
        (&has.p256dh, &has.auth) == (&wants.p256dh, &wants.auth)
    });
    Ok(has_keys.then_some(id))
}

/// Whether a device is there and has that secret.
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
