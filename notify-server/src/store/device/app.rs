//! Devices that apps register with a publishable key. Each has a secret, which proves that a caller is the
//! device.

use std::sync::Arc;

use notify_core::{AppDeviceRegistration, DeviceId, Platform, Timestamp};

use crate::store::device::register;
use crate::store::device::row::{by_id, key_by_id};
use crate::store::device::{DeviceUpsert, inbound};
use crate::store::sql::error::internal;
use crate::store::sql::row::require_app;
use crate::store::sql::writer::WriteTx;
use crate::store::sql::{Connection, WriteScope};
use crate::store::{AppNo, DeviceKey, Operation, Store, StoreError};

/// An app that registers its device.
pub struct NewAppDevice {
    /// The fields of the device. The secret in it is ignored.
    pub registration: AppDeviceRegistration,
    /// The device that the app claims to be, and the SHA-256 of the secret that it presents; `None` for a
    /// new device.
    pub existing: Option<(DeviceId, [u8; 32])>,
    /// The id of a new device.
    pub generated_id: DeviceId,
    /// The SHA-256 of the secret of a new device.
    pub secret: [u8; 32],
}

impl Store {
    /// Registers the device of an app, or replaces all fields of an existing one. Returns its id, or `None`
    /// if the presented secret is not that of the device. Then nothing is written.
    pub async fn register_app_device(
        &self,
        app: AppNo,
        device: NewAppDevice,
        at: Timestamp,
    ) -> Result<Option<DeviceId>, StoreError> {
        let NewAppDevice { registration, existing, generated_id, secret } = device;
        let is_new = existing.is_none();
        let (id, presented) = match existing {
            Some((id, presented)) => (id, Some(presented)),
            None => (generated_id, None),
        };
        let registration = registration.into_registration(id.clone());
        let wanted = Arc::new(DeviceUpsert::of_registration(app, registration)?);
        if let Some(presented) = presented {
            // Most registrations change nothing. A read that finds this is far cheaper than a commit.
            let requested = Arc::clone(&wanted);
            let needs_no_write = self
                .read(move |connection| {
                    Ok(key_of_app(connection, app, &requested.device_id, presented)?.is_some()
                        && register::needs_no_write(connection, app, &requested, at)?)
                })
                .await?;
            if needs_no_write {
                return Ok(Some(id));
            }
        }
        let is_registered = self
            .write_to(WriteScope::app(app), Operation::RegisterAppDevice, move |tx| {
                if let Some(presented) = presented
                    && key_of_app(tx, app, &wanted.device_id, presented)?.is_none()
                {
                    return Ok(false);
                }
                register_row(tx, app, &wanted, at)?;
                if is_new {
                    let key = key_by_id(tx, app, wanted.device_id.as_str())?
                        .ok_or_else(|| internal("a device that was just registered is gone"))?;
                    register::write_secret(tx, key, secret)?;
                    register::write_unnamed(tx, key)?;
                    inbound::set_anonymous(tx, key, at)?;
                }
                Ok(true)
            })
            .await?;
        Ok(is_registered.then_some(id))
    }

    /// Whether a device is one that apps register, and has the secret with this SHA-256.
    pub async fn is_app_device_secret(
        &self,
        app: AppNo,
        id: DeviceId,
        secret: [u8; 32],
    ) -> Result<bool, StoreError> {
        self.read(move |connection| Ok(key_of_app(connection, app, &id, secret)?.is_some())).await
    }

    /// Gives an Android or iOS device a secret with this SHA-256, which replaces its current one. Other
    /// devices are refused with the path `device_id`.
    pub async fn give_device_secret(
        &self,
        app: AppNo,
        id: DeviceId,
        secret: [u8; 32],
    ) -> Result<(), StoreError> {
        self.write_to(WriteScope::app(app), Operation::GiveDeviceSecret, move |tx| {
            require_app(tx, app)?;
            let key = key_by_id(tx, app, id.as_str())?.ok_or(StoreError::NotFound)?;
            if !is_of_apps(key) {
                let what = "must be the id of a device of the platform android or ios";
                return Err(StoreError::refused("device_id", what));
            }
            inbound::clear_anonymous(tx, key)?;
            register::write_secret(tx, key, secret)
        })
        .await
    }
}

/// Registers a device. Its address may be invented, so it counts as unverified until it accepts a message.
fn register_row(
    tx: &mut WriteTx<'_>,
    app: AppNo,
    wanted: &DeviceUpsert,
    at: Timestamp,
) -> Result<(), StoreError> {
    let before = by_id(tx, app, &wanted.device_id)?;
    if before.as_ref().is_some_and(|row| row.key.platform() != wanted.platform) {
        let what = "must be the platform of the device: register another device";
        return Err(StoreError::refused("platform", what));
    }
    check_address_is_free(tx, app, wanted)?;
    register(tx, app, wanted, at)?;
    let address = wanted.fields.address.as_ref();
    let had_address = before.is_some_and(|row| row.fields.address.as_ref() == address);
    if address.is_some()
        && !had_address
        && let Some(key) = key_by_id(tx, app, wanted.device_id.as_str())?
    {
        inbound::mark_unverified_app(tx, key, at)?;
    }
    Ok(())
}

/// Checks that the address does not belong to a device without a secret. Such a device was registered with
/// an API key, and a caller who learned its push token must not take the token from it.
fn check_address_is_free(
    tx: &Connection,
    app: AppNo,
    wanted: &DeviceUpsert,
) -> Result<(), StoreError> {
    let Some(owner) = register::owner_of_address(tx, app, wanted)? else { return Ok(()) };
    if owner == wanted.device_id || register::has_any_secret(tx, app, &owner)? {
        return Ok(());
    }
    let what = "belongs to a device that was registered with an API key: the backend gives that device \
        a secret";
    Err(StoreError::refused("push_token", what))
}

/// Finds an Android or iOS device by its id and the SHA-256 of its secret.
fn key_of_app(
    connection: &Connection,
    app: AppNo,
    id: &DeviceId,
    secret: [u8; 32],
) -> Result<Option<DeviceKey>, StoreError> {
    Ok(register::key_by_secret(connection, app, id, secret)?.filter(|key| is_of_apps(*key)))
}

fn is_of_apps(key: DeviceKey) -> bool {
    matches!(key.platform(), Platform::Android | Platform::Ios)
}
