//! Erasing a device and everything stored about it.

use notify_core::{DeviceId, Timestamp};

use crate::store::delivery::cancel_retries_of_device;
use crate::store::device::counts::{self, State};
use crate::store::device::row::{DeviceRow, by_id};
use crate::store::device::tags;
use crate::store::erased_ids::{self, ErasedId, Kind};
use crate::store::sql::OptionalExtension;
use crate::store::sql::row::require_app;
use crate::store::sql::writer::WriteTx;
use crate::store::{AppNo, DeliveryChange, StoreError, idempotency};

/// Erases a device, also from stored requests, and returns its key.
pub(super) fn erase_device(
    tx: &mut WriteTx<'_>,
    app: AppNo,
    id: &DeviceId,
    at: Timestamp,
) -> Result<(), StoreError> {
    require_app(tx, app)?;
    let row = by_id(tx, app, id)?.ok_or(StoreError::NotFound)?;
    let erased = erase_row(tx, &row, at)?;
    erased_ids::remove(tx, app, vec![erased], at)
}

/// Erases a device whose row the caller has just read. Returns its id, which stored requests may still
/// contain.
pub(in crate::store) fn erase_row(
    tx: &mut WriteTx<'_>,
    row: &DeviceRow,
    at: Timestamp,
) -> Result<ErasedId, StoreError> {
    let key = row.key;
    let unnamed_to = tx
        .prepare_cached("select unnamed_to from device_secrets where device_key = ?1")?
        .query_row([key.0], |row| row.get::<Option<i64>>(0))
        .optional()?;
    cancel_retries_of_device(tx, key, at)?;
    tags::remove_all(tx, key)?;
    counts::apply_change(tx, Some(State::of_row(row)), None)?;
    for sql in [
        // The engagement counters of notifications keep the events of the device.
        "delete from engagement where device_key = ?1",
        "delete from poll_votes where device_key = ?1",
        "delete from device_secrets where device_key = ?1",
        "delete from unverified_addresses where device_key = ?1",
        "delete from device_attributes where device_key = ?1",
        "delete from device_fields where key = ?1",
        "delete from devices where key = ?1",
    ] {
        tx.prepare_cached(sql)?.execute([key.0])?;
    }
    idempotency::forget_device(tx, key.app(), &row.device_id)?;
    tx.changed(DeliveryChange::Device(key));
    let unnamed_to = unnamed_to.flatten().unwrap_or(0);
    Ok(ErasedId { kind: Kind::Device, id: row.device_id.clone(), unnamed_to })
}
