//! Erasing a device and everything stored about it.

use std::collections::BTreeSet;

use notify_core::json::JsonObject;
use notify_core::{DeviceId, Timestamp};
use serde::Deserialize;

use crate::store::delivery::cancel_retries_of_device;
use crate::store::device::counts::{self, State};
use crate::store::device::row::{DeviceRow, by_id};
use crate::store::device::tags;
use crate::store::sql::row::require_app;
use crate::store::sql::writer::WriteTx;
use crate::store::sql::{self, Connection, params};
use crate::store::{AppNo, DeliveryChange, DeviceKey, StoreError};

/// Erases a device, except for its id in stored requests; returns its key.
pub(super) fn device(
    tx: &mut WriteTx<'_>,
    app: AppNo,
    id: &DeviceId,
    at: Timestamp,
) -> Result<DeviceKey, StoreError> {
    require_app(tx, app)?;
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
        // Its engagement stays in the notifications' counters.
        "delete from engagement where device_key = ?1",
        "delete from poll_votes where device_key = ?1",
        "delete from device_seen where key = ?1",
        "delete from device_secrets where device_key = ?1",
        "delete from unverified_addresses where device_key = ?1",
        "delete from devices where key = ?1",
    ] {
        tx.prepare_cached(sql)?.execute([key.0])?;
    }
    tx.changed(DeliveryChange::Device(key));
    Ok(())
}

// Removing an erased device's id from stored requests. The requests are searched in bounded steps
// before the transaction; the transaction searches only newer ones.

/// Most requests that one read scans.
const REQUESTS_PER_STEP: i64 = 1_000;
/// The fields of a request that name devices.
const LISTS: [&str; 3] = ["android_device_ids", "ios_device_ids", "device_ids"];

/// The notifications that name a device, and up to where they were searched.
#[derive(Debug, Default)]
pub(super) struct Naming {
    found: Vec<i64>,
    up_to: i64,
}

/// The part of a request that names devices.
#[derive(Deserialize)]
pub(crate) struct Named {
    #[serde(default)]
    pub(crate) android_device_ids: Option<Vec<String>>,
    #[serde(default)]
    pub(crate) ios_device_ids: Option<Vec<String>>,
    #[serde(default)]
    pub(crate) device_ids: Option<Vec<String>>,
}

impl Named {
    /// Its lists without duplicates. An id that is also in `device_ids` counts only there.
    pub(crate) fn lists(self) -> Lists {
        let ids = |list: Option<Vec<String>>| list.into_iter().flatten().collect::<BTreeSet<_>>();
        let any = ids(self.device_ids);
        let mut lists =
            Lists { android: ids(self.android_device_ids), ios: ids(self.ios_device_ids), any };
        lists.android.retain(|id| !lists.any.contains(id));
        lists.ios.retain(|id| !lists.any.contains(id));
        lists
    }
}

/// The ids that a request names.
pub(crate) struct Lists {
    pub(crate) android: BTreeSet<String>,
    pub(crate) ios: BTreeSet<String>,
    /// Of devices of any platform.
    pub(crate) any: BTreeSet<String>,
}

/// Searches the next requests; returns whether there are more.
pub(super) fn look(
    connection: &Connection,
    app: AppNo,
    id: &DeviceId,
    mut naming: Naming,
) -> Result<(Naming, bool), StoreError> {
    let mut requests = connection.prepare_cached(
        "select no, request from notifications
         where app_no = ?1 and names_devices = 1 and no > ?2 order by no limit ?3",
    )?;
    let mut rows = requests.query([app.0, naming.up_to, REQUESTS_PER_STEP])?;
    let mut read = 0;
    while let Some(row) = rows.next()? {
        naming.up_to = row.get(0)?;
        read += 1;
        if names(row.get_ref(1)?.as_str().ok_or(sql::Error::Column(1))?, id)? {
            naming.found.push(naming.up_to);
        }
    }
    Ok((naming, read == REQUESTS_PER_STEP))
}

/// Removes the id from the requests found and from newer ones.
pub(super) fn requests(
    tx: &Connection,
    app: AppNo,
    id: &DeviceId,
    naming: &Naming,
) -> Result<(), StoreError> {
    let mut since = Naming { found: Vec::new(), up_to: naming.up_to };
    loop {
        let (next, more) = look(tx, app, id, since)?;
        since = next;
        if !more {
            break;
        }
    }
    for no in naming.found.iter().chain(&since.found) {
        let request: String = tx
            .prepare_cached("select request from notifications where no = ?1")?
            .query_row([no], |row| row.get(0))?;
        tx.prepare_cached("update notifications set request = ?2 where no = ?1")?
            .execute(params![no, without(&request, id)?])?;
    }
    Ok(())
}

fn names(request: &str, id: &DeviceId) -> Result<bool, StoreError> {
    // The id is either there literally or JSON-escaped.
    if !request.contains(id.as_str()) && !request.contains('\\') {
        return Ok(false);
    }
    let named: Named = serde_json::from_str(request)?;
    let lists = [named.android_device_ids, named.ios_device_ids, named.device_ids];
    Ok(lists.iter().flatten().flatten().any(|named| named == id.as_str()))
}

/// The request without the id; everything else is unchanged.
fn without(request: &str, id: &DeviceId) -> Result<String, StoreError> {
    let mut text = String::from("{");
    for (name, value) in JsonObject::new(request)?.members() {
        if text.len() > 1 {
            text.push(',');
        }
        text.push_str(&serde_json::to_string(&name)?);
        text.push(':');
        let list = LISTS
            .contains(&name.as_str())
            .then(|| serde_json::from_str::<Option<Vec<String>>>(value.get()));
        match list.transpose()?.flatten() {
            Some(mut ids) => {
                ids.retain(|named| named != id.as_str());
                text.push_str(&serde_json::to_string(&ids)?);
            }
            None => text.push_str(value.get()),
        }
    }
    text.push('}');
    Ok(text)
}
