//! The fields of a device that conditions of audiences compare. They are copied to a narrow table, so
//! that a scan of all devices reads few bytes.

use notify_core::{DeviceDetails, Timestamp};

use crate::store::sql::columns::{
    Column, assignments, column, names, placeholders, replacements, values,
};
use crate::store::sql::{Connection, Value};
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

    pub(in crate::store) fn columns(&self) -> [Column<'_>; 5] {
        [
            column("country", &self.country),
            column("language", &self.language),
            column("app_version", &self.app_version),
            column("os_version", &self.os_version),
            column("timezone", &self.timezone),
        ]
    }
}

/// Replaces the fields of a registered device. Does not change its user.
pub(super) fn replace(
    tx: &Connection,
    key: DeviceKey,
    fields: &ConditionFields,
    registered_at: Timestamp,
) -> Result<(), StoreError> {
    let columns = fields.columns();
    let mut parameters: Vec<Value<'_>> = vec![key.0.into(), registered_at.as_ms().into()];
    parameters.extend(values(&columns));
    // Cheaper than an insert that resolves its conflict.
    let replaced = tx
        .prepare_cached(&format!(
            "update device_fields set {}, registered_at = max(registered_at, ?2) where key = ?1",
            assignments(3, &columns)
        ))?
        .execute(&parameters[..])?;
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
    let mut columns: Vec<Column<'_>> = vec![
        ("key", key.0.into()),
        ("created_at", created_at.as_ms().into()),
        ("registered_at", registered_at.as_ms().into()),
    ];
    let replaced = fields.columns();
    columns.extend(replaced);
    tx.prepare_cached(&format!(
        "insert into device_fields ({}) values ({}) on conflict (key) do update set {},
         registered_at = max(device_fields.registered_at, excluded.registered_at)",
        names(&columns),
        placeholders(1, &columns),
        replacements("excluded", &replaced)
    ))?
    .execute(&values(&columns)[..])?;
    Ok(())
}
