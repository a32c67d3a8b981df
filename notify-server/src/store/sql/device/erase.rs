//! Erasing a device with all that is kept about it (B23).

use notify_core::{DeviceId, Timestamp};

use super::super::delivery::cancel_retries_of_device;
use super::super::row::live_app;
use super::super::writer::WriteTx;
use super::counts::{self, State};
use super::row::{DeviceRow, by_id};
use super::tags;
use crate::store::{AppNo, Change, DeviceKey, StoreError};

/// Erases a device but for the requests that name it; its key.
pub(super) fn device(
    tx: &mut WriteTx<'_>,
    app: AppNo,
    id: &DeviceId,
    at: Timestamp,
) -> Result<DeviceKey, StoreError> {
    live_app(tx, app)?;
    let found = by_id(tx, app, id)?.ok_or(StoreError::NotFound)?;
    row(tx, &found, at)?;
    Ok(found.key)
}

/// Erases a device that was just read.
pub(super) fn row(tx: &mut WriteTx<'_>, row: &DeviceRow, at: Timestamp) -> Result<(), StoreError> {
    let key = row.key;
    cancel_retries_of_device(tx, key, at)?;
    tags::remove_all(tx, key)?;
    counts::changed(tx, Some(State::of_row(row)), None)?;
    for sql in [
        // What it did with notifications was counted there and stays counted.
        "delete from engagement where device_key = ?1",
        "delete from poll_votes where device_key = ?1",
        "delete from device_seen where key = ?1",
        "delete from device_secrets where device_key = ?1",
        "delete from unverified_addresses where device_key = ?1",
        "delete from devices where key = ?1",
    ] {
        tx.prepare_cached(sql)?.execute([key.0])?;
    }
    tx.changed(Change::DeviceChanged(key));
    Ok(())
}
