//! The row of a device, and the values that a registration writes to it.

use std::collections::HashMap;

use aws_lc_rs::digest::{Context, SHA256};
use notify_core::{
    DeviceDetails, DeviceId, DeviceRegistered, Endpoint, IosEnv, Platform, Registration,
    Subscription, Timestamp, UserId, canonical_address,
};
use serde::Serializer;

use crate::store::device::ConditionFields;
use crate::store::sql::columns::{Column, column};
use crate::store::sql::row::{env_code, env_of, unexpected_value};
use crate::store::sql::{
    self, Connection, NUMBERS, OptionalExtension, Row, TEXTS, Type, Value, list_of, params,
};
use crate::store::{AppNo, DeviceKey, StoreError, platform_code};

/// The values that a registration or subscription writes.
#[derive(Clone, PartialEq, Eq)]
pub(in crate::store) struct DeviceUpsert {
    pub(in crate::store) device_id: DeviceId,
    pub(in crate::store) platform: Platform,
    pub(in crate::store) fields: Fields,
    pub(in crate::store) address_hash: Option<i64>,
    /// Fields that conditions compare. They follow from `fields`.
    pub(in crate::store) condition_fields: ConditionFields,
    /// The user to log in; `None` leaves the user of the device as it is.
    pub(in crate::store) user: Option<UserId>,
}

/// The fields that a registration replaces.
#[derive(Clone, PartialEq, Eq)]
pub(in crate::store) struct Fields {
    pub(in crate::store) address: Option<String>,
    pub(in crate::store) ios_env: Option<IosEnv>,
    pub(in crate::store) push_disabled: bool,
    pub(in crate::store) utc_offset_minutes: i32,
    /// Canonical JSON: the fields that are set, in a fixed order.
    pub(in crate::store) details: String,
    pub(in crate::store) p256dh: Option<String>,
    pub(in crate::store) auth: Option<String>,
}

/// A stored device.
#[derive(Clone, PartialEq, Eq)]
pub(in crate::store) struct DeviceRow {
    pub(in crate::store) key: DeviceKey,
    pub(in crate::store) device_id: String,
    pub(in crate::store) fields: Fields,
    /// Whether the device was disabled as unregistered.
    pub(in crate::store) dead: bool,
    pub(in crate::store) created_at: Timestamp,
    pub(in crate::store) registered_at: Timestamp,
}

/// The first columns that [`DeviceRow::read`] reads, from `devices d`. The time of the last written
/// registration follows them.
pub(in crate::store) const DEVICE_COLUMNS: &str = "d.key, d.device_id, d.address, d.ios_env, d.push_disabled, \
    d.dead_at, d.utc_offset_minutes, d.details, d.p256dh, d.auth, d.created_at";
/// The time of the last written registration, as an expression over [`DEVICES`].
pub(in crate::store) const REGISTERED: &str = "f.registered_at";
/// The tables of a device.
pub(in crate::store) const DEVICES: &str = "devices d left join device_fields f on f.key = d.key";

impl Fields {
    /// The texts on which no index and no counter depends.
    pub(in crate::store) fn texts(&self) -> [Column<'_>; 3] {
        [
            column("details", &self.details),
            column("p256dh", &self.p256dh),
            column("auth", &self.auth),
        ]
    }

    /// The APNs host and the offset from UTC. A change of them has effects on other rows.
    pub(in crate::store) fn states(&self) -> [Column<'_>; 2] {
        [
            ("ios_env", self.ios_env.map(env_code).into()),
            column("utc_offset_minutes", &self.utc_offset_minutes),
        ]
    }
}

impl DeviceUpsert {
    /// The columns of the row that a registration gives.
    pub(in crate::store) fn columns(&self) -> Vec<Column<'_>> {
        let mut columns = vec![
            ("device_id", Value::Text(self.device_id.as_str())),
            column("address", &self.fields.address),
            column("address_hash", &self.address_hash),
            column("push_disabled", &self.fields.push_disabled),
        ];
        columns.extend(self.fields.states());
        columns.extend(self.fields.texts());
        columns
    }

    /// The answer to the registration.
    pub(in crate::store) fn registered(&self) -> DeviceRegistered {
        DeviceRegistered::new(&self.device_id, self.user.as_ref())
    }
}

impl DeviceRow {
    /// Whether the device is neither disabled by the app nor reported as unregistered.
    pub(in crate::store) fn enabled(&self) -> bool {
        !self.fields.push_disabled && !self.dead
    }

    /// The total length of the texts, in bytes.
    pub(super) fn text_bytes(&self) -> usize {
        let Fields { address, details, p256dh, auth, .. } = &self.fields;
        let optional = [address, p256dh, auth].map(|text| text.as_ref().map_or(0, String::len));
        self.device_id.len() + details.len() + optional.iter().sum::<usize>()
    }

    /// Reads a device from a row of [`DEVICE_COLUMNS`] and [`REGISTERED`].
    pub(in crate::store) fn read(row: &Row<'_>) -> sql::Result<Self> {
        let ios_env = match row.get::<Option<i64>>(3)? {
            Some(code) => Some(env_of(code).ok_or_else(|| unexpected_value(3, Type::Integer))?),
            None => None,
        };
        Ok(Self {
            key: DeviceKey(row.get(0)?),
            device_id: row.get(1)?,
            fields: Fields {
                address: row.get(2)?,
                ios_env,
                push_disabled: row.get(4)?,
                utc_offset_minutes: row.get(6)?,
                details: row.get(7)?,
                p256dh: row.get(8)?,
                auth: row.get(9)?,
            },
            dead: row.get::<Option<i64>>(5)?.is_some(),
            created_at: Timestamp(row.get(10)?),
            registered_at: Timestamp(row.get(11)?),
        })
    }
}

/// Reads a device by its id.
pub(super) fn by_id(
    connection: &Connection,
    app: AppNo,
    id: &DeviceId,
) -> Result<Option<DeviceRow>, StoreError> {
    let row = connection
        .prepare_cached(&format!(
            "select {DEVICE_COLUMNS}, {REGISTERED} from {DEVICES}
             where d.app_no = ?1 and d.device_id = ?2"
        ))?
        .query_row(params![app.0, id.as_str()], DeviceRow::read)
        .optional()?;
    Ok(row)
}

/// Reads a device by its key.
pub(in crate::store) fn by_key(
    connection: &Connection,
    key: DeviceKey,
) -> Result<Option<DeviceRow>, StoreError> {
    let row = connection
        .prepare_cached(&format!(
            "select {DEVICE_COLUMNS}, {REGISTERED} from {DEVICES} where d.key = ?1"
        ))?
        .query_row([key.0], DeviceRow::read)
        .optional()?;
    Ok(row)
}

/// Reads devices by their keys, in the order of the keys.
pub(in crate::store) fn by_keys(
    connection: &Connection,
    keys: &[DeviceKey],
) -> Result<Vec<DeviceRow>, StoreError> {
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    let numbers: Vec<i64> = keys.iter().map(|key| key.0).collect();
    let rows = connection
        .prepare_cached(&format!(
            "select {DEVICE_COLUMNS}, {REGISTERED} from {DEVICES} where d.key in {NUMBERS} order by d.key"
        ))?
        .query_map([list_of(&numbers)], DeviceRow::read)?
        .collect::<Result<Vec<_>, _>>()?;
    Ok(rows)
}

/// Reads the key of a device by its id.
pub(crate) fn key_by_id(
    connection: &Connection,
    app: AppNo,
    id: &str,
) -> Result<Option<DeviceKey>, StoreError> {
    let key = connection
        .prepare_cached("select key from devices where app_no = ?1 and device_id = ?2")?
        .query_row(params![app.0, id], |row| row.get(0).map(DeviceKey))
        .optional()?;
    Ok(key)
}

/// Reads the keys of devices, by id. Unknown ids are left out.
pub(crate) fn keys_by_ids(
    connection: &Connection,
    app: AppNo,
    ids: &[&str],
) -> Result<HashMap<String, DeviceKey>, StoreError> {
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let keys = connection
        .prepare_cached(&format!(
            "select device_id, key from devices where app_no = ?2 and device_id in {TEXTS}"
        ))?
        .query_map(params![list_of(ids), app.0], |row| Ok((row.get(0)?, DeviceKey(row.get(1)?))))?
        .collect::<sql::Result<_>>()?;
    Ok(keys)
}

/// Reads the key of the device that has an address on a platform.
pub(super) fn key_by_address(
    connection: &Connection,
    app: AppNo,
    platform: Platform,
    address: &str,
) -> Result<Option<DeviceKey>, StoreError> {
    let candidates = connection
        .prepare_cached(
            "select key from devices where address_hash = ?1 and address = ?2 and app_no = ?3",
        )?
        .query_map(params![address_hash(app, platform, address), address, app.0], |row| {
            row.get(0).map(DeviceKey)
        })?
        .collect::<Result<Vec<_>, _>>()?;
    Ok(candidates.into_iter().find(|key| key.platform() == platform))
}

/// Reads the keys of the devices that have an address on any platform, in order. The address may have any
/// spelling that a registration accepts.
pub(super) fn keys_by_address(
    connection: &Connection,
    app: AppNo,
    address: &str,
) -> Result<Vec<DeviceKey>, StoreError> {
    let mut keys = Vec::new();
    for platform in Platform::ALL {
        if let Some(address) = canonical_address(platform, address) {
            keys.extend(key_by_address(connection, app, platform, &address)?);
        }
    }
    keys.sort_unstable();
    Ok(keys)
}

impl DeviceUpsert {
    /// The device of a registration.
    pub(super) fn of_registration(
        app: AppNo,
        registration: Registration,
    ) -> Result<Self, StoreError> {
        let upsert = Self::new(
            app,
            registration.device_id,
            registration.endpoint,
            registration.push_disabled,
            registration.utc_offset_minutes,
            &registration.details,
        )?;
        let condition_fields =
            ConditionFields::of(registration.details, registration.timezone_minutes);
        Ok(Self { condition_fields, user: registration.user_id, ..upsert })
    }

    /// The device of a subscription. It has the id `generated_id` if the subscription has no id.
    pub(super) fn of_subscription(
        app: AppNo,
        subscription: Subscription,
        generated_id: DeviceId,
    ) -> Result<Self, StoreError> {
        let Subscription {
            device_id,
            endpoint,
            utc_offset_minutes,
            timezone_minutes,
            details,
            user_id,
        } = subscription;
        let device_id = device_id.unwrap_or(generated_id);
        let upsert = Self::new(app, device_id, endpoint, false, utc_offset_minutes, &details)?;
        let condition_fields = ConditionFields::of(details, timezone_minutes);
        Ok(Self { condition_fields, user: user_id, ..upsert })
    }

    fn new(
        app: AppNo,
        device_id: DeviceId,
        endpoint: Endpoint,
        push_disabled: bool,
        utc_offset_minutes: i32,
        details: &DeviceDetails,
    ) -> Result<Self, StoreError> {
        let platform = endpoint.platform();
        let mut fields = Fields {
            address: None,
            ios_env: None,
            push_disabled,
            utc_offset_minutes,
            details: details_text(details)?,
            p256dh: None,
            auth: None,
        };
        match endpoint {
            Endpoint::Android { push_token } => fields.address = push_token,
            Endpoint::Ios { push_token, env } => {
                fields.address = push_token;
                fields.ios_env = env;
            }
            Endpoint::Web(web) => {
                fields.address = Some(web.endpoint);
                fields.p256dh = Some(web.p256dh);
                fields.auth = Some(web.auth);
            }
            Endpoint::FbMessenger { recipient_id } | Endpoint::ChatApp { recipient_id } => {
                fields.address = Some(recipient_id);
            }
        }
        let address_hash =
            fields.address.as_ref().map(|address| address_hash(app, platform, address));
        let condition_fields = ConditionFields::default();
        Ok(Self { device_id, platform, fields, address_hash, condition_fields, user: None })
    }
}

/// The address space of a platform, named by one of its platforms. Android and iOS share an address
/// space: a push token belongs to one device, even if that device changes its platform. The other
/// platforms have separate spaces: a Messenger person and a chat may have the same id.
pub(super) fn address_space(platform: Platform) -> Platform {
    match platform {
        Platform::Android | Platform::Ios => Platform::Android,
        Platform::Web | Platform::FbMessenger | Platform::ChatApp => platform,
    }
}

/// A 64-bit hash for the index of addresses. Two addresses may have the same hash, so a lookup also
/// compares the address.
pub(super) fn address_hash(app: AppNo, platform: Platform, address: &str) -> i64 {
    let mut digest = Context::new(&SHA256);
    digest.update(&app.0.to_be_bytes());
    digest.update(&platform_code(address_space(platform)).to_be_bytes());
    digest.update(address.as_bytes());
    let digest = digest.finish();
    i64::from_be_bytes(std::array::from_fn(|at| digest.as_ref()[at]))
}

/// The details that are set as JSON, in a fixed order, so that equal details are equal texts.
fn details_text(details: &DeviceDetails) -> Result<String, serde_json::Error> {
    let fields = [
        ("android_id", &details.android_id),
        ("ad_id", &details.ad_id),
        ("imei", &details.imei),
        ("sdk_version", &details.sdk_version),
        ("app_version", &details.app_version),
        ("os_version", &details.os_version),
        ("store_identifier", &details.store_identifier),
        ("timezone", &details.timezone),
        ("country", &details.country),
        ("utc_offset", &details.utc_offset),
        ("language", &details.language),
        ("device_description", &details.device_description),
    ];
    let mut text = Vec::new();
    serde_json::Serializer::new(&mut text)
        .collect_map(fields.into_iter().filter(|(_, value)| value.is_some()))?;
    Ok(String::from_utf8(text).expect("serde_json writes UTF-8"))
}
