//! Web Push addresses that have not taken a message yet: when they came in, and which of them a browser
//! registered without an API key.

use notify_core::{Platform, Timestamp};

use super::super::writer::WriteTx;
use super::{erase, row};
use crate::store::sql::{Connection, OptionalExtension, params};
use crate::store::{DeviceKey, StoreError, VerifiedAddress};

/// Notes that a device got an address that has taken no message yet. Only Web Push tracks this: other
/// addresses come from an app store's app or a person who wrote first, and always with an API key.
pub(super) fn start(tx: &Connection, key: DeviceKey, at: Timestamp) -> Result<(), StoreError> {
    if key.platform() != Platform::Web {
        return Ok(());
    }
    tx.prepare_cached(
        "insert into unverified_addresses (device_key, since, is_anonymous)
         select ?1, ?2, count(*) from device_secrets where device_key = ?1
         on conflict (device_key) do update set since = excluded.since",
    )?
    .execute([key.0, at.as_ms()])?;
    Ok(())
}

/// Notes that a browser registered a new device without an API key.
pub(super) fn set_anonymous(tx: &Connection, key: DeviceKey) -> Result<(), StoreError> {
    tx.prepare_cached("update unverified_addresses set is_anonymous = 1 where device_key = ?1")?
        .execute([key.0])?;
    Ok(())
}

/// Notes that an API key registered a device: it does not expire.
pub(in crate::store::sql) fn set_known(tx: &Connection, key: DeviceKey) -> Result<(), StoreError> {
    tx.prepare_cached(
        "update unverified_addresses set is_anonymous = 0 where device_key = ?1 and is_anonymous = 1",
    )?
    .execute([key.0])?;
    Ok(())
}

/// Notes that a device registered again: its retention period starts again.
pub(super) fn refresh(tx: &Connection, key: DeviceKey, at: Timestamp) -> Result<(), StoreError> {
    if key.platform() == Platform::Web {
        tx.prepare_cached(
            "update unverified_addresses set since = ?2 where device_key = ?1 and since < ?2",
        )?
        .execute([key.0, at.as_ms()])?;
    }
    Ok(())
}

/// Notes which addresses took their first message. A device that has another address by now stays
/// unverified.
pub(in crate::store::sql) fn verify<'v>(
    tx: &Connection,
    verified: impl IntoIterator<Item = &'v VerifiedAddress>,
) -> Result<(), StoreError> {
    for VerifiedAddress { key, address } in verified {
        tx.prepare_cached(
            "delete from unverified_addresses where device_key = ?1
             and exists (select 1 from devices d where d.key = ?1 and d.address = ?2)",
        )?
        .execute(params![key.0, &**address])?;
    }
    Ok(())
}

/// Erases the anonymous device that was seen last before all others, if that was before `before`.
/// No stored request names it: its id was drawn for it, and targets name devices of other platforms.
pub(in crate::store::sql) fn remove_expired(
    tx: &mut WriteTx<'_>,
    before: Timestamp,
    at: Timestamp,
) -> Result<bool, StoreError> {
    let oldest = tx
        .prepare_cached(
            "select device_key from unverified_addresses
             where is_anonymous = 1 and since < ?1 order by since limit 1",
        )?
        .query_row([before.as_ms()], |row| row.get::<i64>(0).map(DeviceKey))
        .optional()?;
    let Some(key) = oldest else { return Ok(false) };
    match row::by_key(tx, key)? {
        Some(row) => erase::row(tx, &row, at)?,
        None => forget(tx, key)?,
    }
    Ok(true)
}

/// Forgets a device that is gone.
pub(super) fn forget(tx: &Connection, key: DeviceKey) -> Result<(), StoreError> {
    tx.prepare_cached("delete from unverified_addresses where device_key = ?1")?
        .execute([key.0])?;
    Ok(())
}
