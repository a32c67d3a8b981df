//! Registering a device or replacing its fields (B21, B22, B25).

use notify_core::{IosEnv, Timestamp};

use super::super::delivery::cancel_retries_of_device;
use super::super::error::broken;
use super::super::row::{env_code, live_app};
use super::super::writer::WriteTx;
use super::address::{self, Sought, Taken};
use super::counts::{self, State};
use super::row::{DeviceRow, Wanted, by_id};
use super::verification;
use crate::store::sql::{Connection, OptionalExtension, params};
use crate::store::{
    AppNo, Change, DeviceKey, REGISTRATION_WRITTEN_EVERY_MS, SEQUENCE_MAX, StoreError,
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
        Some(row) => change_platform(tx, app, &row, (wanted, at))?,
        None => {
            let key = next_key(tx, app, wanted)?;
            let taken = address::take(tx, app, Sought::of(wanted), (key, at))?;
            insert(tx, (key, taken.as_ref()), wanted, (at, at))?;
            counts::changed(tx, None, Some(State::of_wanted(key, wanted, at)))?;
            key
        }
    };
    tx.changed(Change::DeviceChanged(key));
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

/// Writes a new row. `created_at` is a time of before when the device only changes its platform.
fn insert(
    tx: &Connection,
    (key, taken): (DeviceKey, Option<&Taken>),
    wanted: &Wanted,
    (created_at, at): (Timestamp, Timestamp),
) -> Result<(), StoreError> {
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
        taken.map(|taken| taken.from.0),
        taken.map(|taken| taken.at.as_ms()),
        taken.and_then(|taken| taken.last_inbound_at),
        created_at.as_ms(),
        at.as_ms(),
    ])?;
    verification::start(tx, key, at)
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
        let taken = address::take(tx, key.app(), Sought::of(wanted), (key, at))?;
        address::write(tx, key, Sought::of(wanted), taken.as_ref())?;
        verification::start(tx, key, at)?;
    } else {
        verification::refresh(tx, key, at)?;
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
    (wanted, at): (&Wanted, Timestamp),
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
    tx.changed(Change::DeviceChanged(row.key));
    let taken = address::take(tx, app, Sought::of(wanted), (key, at))?;
    insert(tx, (key, taken.as_ref()), wanted, (row.created_at, at))?;
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
    verification::refresh(tx, key, at)
}
