//! The fields of a device that conditions of audiences compare. They are copied to a narrow table, so
//! that a scan of all devices reads few bytes.

use notify_core::{DeviceDetails, Timestamp};

use crate::store::sql::{Connection, params};
use crate::store::{DeviceKey, StoreError};

/// The fields of a registration that conditions compare.
#[derive(Clone, Default, PartialEq, Eq)]
pub(in crate::store) struct ConditionFields {
    pub(in crate::store) country: Option<String>,
    pub(in crate::store) language: Option<String>,
    pub(in crate::store) app_version: Option<String>,
    pub(in crate::store) os_version: Option<String>,
    /// The offset from UTC in minutes, if the device reported one.
    pub(in crate::store) timezone: Option<i32>,
}

impl ConditionFields {
    pub(super) fn of(details: DeviceDetails, timezone: Option<i32>) -> Self {
        let DeviceDetails { country, language, app_version, os_version, .. } = details;
        Self { country, language, app_version, os_version, timezone }
    }
}

/// Replaces the fields of a registered device, which has a row since its first registration or since
/// migration 17. Does not change its user.
pub(super) fn replace(
    tx: &Connection,
    key: DeviceKey,
    fields: &ConditionFields,
    registered_at: Timestamp,
) -> Result<(), StoreError> {
    // Cheaper than an insert that resolves its conflict.
    let replaced = tx
        .prepare_cached(
            "update device_fields set country = ?2, language = ?3, app_version = ?4, os_version = ?5,
             timezone = ?6, registered_at = max(registered_at, ?7) where key = ?1",
        )?
        .execute(params![
            key.0,
            fields.country,
            fields.language,
            fields.app_version,
            fields.os_version,
            fields.timezone,
            registered_at.as_ms(),
        ])?;
    debug_assert_eq!(replaced, 1, "every device has fields");
    Ok(())
}

/// Writes the fields of a device with a new key. A device that changes its platform has some already. Does
/// not change its user.
pub(super) fn write(
    tx: &Connection,
    key: DeviceKey,
    fields: &ConditionFields,
    created_at: Timestamp,
    registered_at: Timestamp,
) -> Result<(), StoreError> {
    tx.prepare_cached(
        "insert into device_fields (key, country, language, app_version, os_version, timezone,
         created_at, registered_at) values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
         on conflict (key) do update set country = excluded.country,
         language = excluded.language, app_version = excluded.app_version,
         os_version = excluded.os_version, timezone = excluded.timezone,
         registered_at = max(device_fields.registered_at, excluded.registered_at)",
    )?
    .execute(params![
        key.0,
        fields.country,
        fields.language,
        fields.app_version,
        fields.os_version,
        fields.timezone,
        created_at.as_ms(),
        registered_at.as_ms(),
    ])?;
    Ok(())
}
