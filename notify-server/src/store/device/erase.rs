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

/// Erases a device and returns its key. Its id in stored requests is removed by
/// [`remove_from_requests`].
pub(super) fn erase_device(
    tx: &mut WriteTx<'_>,
    app: AppNo,
    id: &DeviceId,
    at: Timestamp,
) -> Result<DeviceKey, StoreError> {
    require_app(tx, app)?;
    let row = by_id(tx, app, id)?.ok_or(StoreError::NotFound)?;
    erase_row(tx, &row, at)?;
    Ok(row.key)
}

/// Erases a device whose row the caller has just read.
pub(in crate::store) fn erase_row(
    tx: &mut WriteTx<'_>,
    row: &DeviceRow,
    at: Timestamp,
) -> Result<(), StoreError> {
    let key = row.key;
    cancel_retries_of_device(tx, key, at)?;
    tags::remove_all(tx, key)?;
    counts::apply_change(tx, Some(State::of_row(row)), None)?;
    for sql in [
        // The engagement counters of notifications keep the events of the device.
        "delete from engagement where device_key = ?1",
        "delete from poll_votes where device_key = ?1",
        "delete from device_seen where key = ?1",
        "delete from device_secrets where device_key = ?1",
        "delete from unverified_addresses where device_key = ?1",
        "delete from device_attributes where device_key = ?1",
        "delete from device_fields where key = ?1",
        "delete from devices where key = ?1",
    ] {
        tx.prepare_cached(sql)?.execute([key.0])?;
    }
    tx.changed(DeliveryChange::Device(key));
    Ok(())
}

// Removing the ids of erased devices and users from stored requests. Requests are searched in bounded steps
// before the transaction of the erasure. The transaction itself only searches the requests that
// were added since.

/// The most requests that one step scans.
const REQUESTS_PER_STEP: i64 = 1_000;
/// The fields of a request that contain device ids.
const LISTS: [&str; 3] = ["android_device_ids", "ios_device_ids", "device_ids"];
/// The field of a request that contains user ids.
const USER_LIST: &str = "user_ids";

/// The ids to remove from stored requests.
#[derive(Debug, Clone, Default)]
pub(in crate::store) struct ErasedIds {
    pub(in crate::store) devices: BTreeSet<String>,
    pub(in crate::store) user: Option<String>,
}

impl ErasedIds {
    pub(super) fn of_device(id: &DeviceId) -> Self {
        Self { devices: BTreeSet::from([id.as_str().to_owned()]), user: None }
    }

    fn all(&self) -> impl Iterator<Item = &String> {
        self.devices.iter().chain(&self.user)
    }

    /// Whether a list of the request contains one of these ids.
    fn are_in(&self, named: &NamedIds) -> bool {
        let lists = [&named.android_device_ids, &named.ios_device_ids, &named.device_ids];
        lists.into_iter().flatten().flatten().any(|id| self.devices.contains(id))
            || named.user_ids.iter().flatten().any(|id| Some(id) == self.user.as_ref())
    }
}

/// The state of a search for the requests that contain one of the ids.
#[derive(Debug)]
pub(in crate::store) struct RequestSearch {
    ids: ErasedIds,
    /// The numbers of the notifications whose requests contain one of the ids.
    matches: Vec<i64>,
    /// The number of the last notification that was searched.
    up_to: i64,
    /// The number of the last notification that is searched.
    last: i64,
}

impl RequestSearch {
    /// A search that has not begun.
    pub(in crate::store) fn empty(ids: ErasedIds) -> Self {
        Self { ids, matches: Vec::new(), up_to: 0, last: 0 }
    }

    /// The ids that it searches for.
    pub(in crate::store) fn ids(&self) -> &ErasedIds {
        &self.ids
    }
}

/// Begins a search. On PostgreSQL, notifications are not committed in the order of their numbers.
/// All notifications up to the last one of the search are committed before the search begins.
pub(super) fn begin_search(
    connection: &Connection,
    app: AppNo,
    ids: ErasedIds,
) -> Result<RequestSearch, StoreError> {
    connection.wait_for_writes(app)?;
    let last = connection
        .prepare_cached(
            "select coalesce(max(no), 0) from notifications where app_no = ?1 and names_devices = 1",
        )?
        .query_row([app.0], |row| row.get(0))?;
    Ok(RequestSearch { last, ..RequestSearch::empty(ids) })
}

/// The part of a request that contains ids of devices and users.
#[derive(Deserialize)]
pub(crate) struct NamedIds {
    #[serde(default)]
    pub(crate) android_device_ids: Option<Vec<String>>,
    #[serde(default)]
    pub(crate) ios_device_ids: Option<Vec<String>>,
    #[serde(default)]
    pub(crate) device_ids: Option<Vec<String>>,
    #[serde(default)]
    pub(crate) user_ids: Option<Vec<String>>,
}

impl NamedIds {
    /// The lists without duplicates. An id that is in `device_ids` is removed from the other two
    /// lists.
    pub(crate) fn lists(self) -> IdLists {
        let ids = |list: Option<Vec<String>>| list.into_iter().flatten().collect::<BTreeSet<_>>();
        let any = ids(self.device_ids);
        let mut lists =
            IdLists { android: ids(self.android_device_ids), ios: ids(self.ios_device_ids), any };
        lists.android.retain(|id| !lists.any.contains(id));
        lists.ios.retain(|id| !lists.any.contains(id));
        lists
    }
}

/// The device ids of a request, without duplicates.
pub(crate) struct IdLists {
    pub(crate) android: BTreeSet<String>,
    pub(crate) ios: BTreeSet<String>,
    /// Ids of devices of any platform.
    pub(crate) any: BTreeSet<String>,
}

/// Continues a search with the next requests. Returns the search and whether there are more
/// requests.
pub(super) fn search_next(
    connection: &Connection,
    app: AppNo,
    mut search: RequestSearch,
) -> Result<(RequestSearch, bool), StoreError> {
    let mut requests = connection.prepare_cached(
        "select no, request from notifications
         where app_no = ?1 and names_devices = 1 and no > ?2 and no <= ?4 order by no limit ?3",
    )?;
    let mut rows = requests.query([app.0, search.up_to, REQUESTS_PER_STEP, search.last])?;
    let mut scanned = 0;
    while let Some(row) = rows.next()? {
        search.up_to = row.get(0)?;
        scanned += 1;
        if request_names(row.get_ref(1)?.as_str().ok_or(sql::Error::Column(1))?, &search.ids)? {
            search.matches.push(search.up_to);
        }
    }
    Ok((search, scanned == REQUESTS_PER_STEP))
}

/// Removes the ids from the requests that `search` found, and from requests that were added since.
pub(in crate::store) fn remove_from_requests(
    tx: &Connection,
    app: AppNo,
    search: &RequestSearch,
) -> Result<(), StoreError> {
    let mut newer = RequestSearch {
        up_to: search.last,
        last: i64::MAX,
        ..RequestSearch::empty(search.ids.clone())
    };
    let mut has_more = true;
    while has_more {
        (newer, has_more) = search_next(tx, app, newer)?;
    }
    for no in search.matches.iter().chain(&newer.matches) {
        let request: String = tx
            .prepare_cached("select request from notifications where no = ?1")?
            .query_row([no], |row| row.get(0))?;
        tx.prepare_cached("update notifications set request = ?2 where no = ?1")?
            .execute(params![no, remove_from_lists(&request, &search.ids)?])?;
    }
    Ok(())
}

/// Whether a request names one of the ids in its lists.
fn request_names(request: &str, ids: &ErasedIds) -> Result<bool, StoreError> {
    // A request that contains an id contains it literally, unless JSON escapes some of its
    // characters. Other requests need not be parsed.
    if !request.contains('\\') && !ids.all().any(|id| request.contains(id.as_str())) {
        return Ok(false);
    }
    Ok(ids.are_in(&serde_json::from_str(request)?))
}

/// Removes the ids from the lists of a request and returns the request. Everything else stays as it
/// was.
fn remove_from_lists(request: &str, erased: &ErasedIds) -> Result<String, StoreError> {
    let mut text = String::from("{");
    for (name, value) in JsonObject::new(request)?.members() {
        if text.len() > 1 {
            text.push(',');
        }
        text.push_str(&serde_json::to_string(&name)?);
        text.push(':');
        let is_user_list = name == USER_LIST;
        let is_list = is_user_list || LISTS.contains(&name.as_str());
        let list: Option<Vec<String>> =
            if is_list { serde_json::from_str(value.get())? } else { None };
        match list {
            Some(mut ids) => {
                ids.retain(|id| match is_user_list {
                    true => Some(id) != erased.user.as_ref(),
                    false => !erased.devices.contains(id),
                });
                text.push_str(&serde_json::to_string(&ids)?);
            }
            None => text.push_str(value.get()),
        }
    }
    text.push('}');
    Ok(text)
}
