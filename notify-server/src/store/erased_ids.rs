//! Ids of erased devices and users in stored requests. An erasure removes them from the requests in its own
//! transaction if there are few requests. Otherwise it stores the ids, and a search removes them in slices.
//! Until then, everything that reads a request leaves them out ([`without_erased`]).

use std::collections::{BTreeSet, HashMap, HashSet};

use notify_core::{PendingErasures, Timestamp};

use crate::store::device::{NamedIds, without_ids};
use crate::store::sql::error::internal;
use crate::store::sql::row::{count, count_at};
use crate::store::sql::writer::WriteTx;
use crate::store::sql::{self, Connection, TEXTS, WriteScope, list_of, params};
use crate::store::{AppNo, NotificationNo, Operation, Store, StoreError};

/// The most requests that a slice of a search reads.
pub const REQUESTS_PER_SLICE: u32 = 1_000;
/// The most bytes of requests that a slice reads, and one more request.
const BYTES_PER_SLICE: u64 = 1_048_576;
/// The most ids that one search looks for. Later ones wait for the next search.
const IDS_PER_SEARCH: u64 = 500;
/// The most requests that [`Store::pending_erasures`] counts.
const REQUESTS_COUNTED_MAX: u64 = 1_000_000;

/// What has an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Device,
    User,
}

impl Kind {
    const fn code(self) -> i64 {
        match self {
            Self::Device => 0,
            Self::User => 1,
        }
    }

    fn of_code(code: i64) -> Result<Self, StoreError> {
        match code {
            0 => Ok(Self::Device),
            1 => Ok(Self::User),
            _ => Err(internal("an erased id has an unknown kind")),
        }
    }
}

/// The id of an erased device or user.
#[derive(Debug)]
pub(super) struct ErasedId {
    pub(super) kind: Kind,
    pub(super) id: String,
    /// No notification up to this one names it; 0 if any may.
    pub(super) unnamed_to: i64,
}

impl Store {
    /// Lists the applications whose stored requests may still contain erased ids.
    pub async fn apps_with_erasures(&self) -> Result<Vec<AppNo>, StoreError> {
        self.read(|connection| {
            let apps = connection
                .prepare_cached(
                    "select no from apps a where status <> 'erasing'
                     and exists (select 1 from erased_ids e where e.app_no = a.no) order by no",
                )?
                .query_map([], |row| row.get(0).map(AppNo))?
                .collect::<sql::Result<Vec<_>>>()?;
            Ok(apps)
        })
        .await
    }

    /// Removes erased ids from the next stored requests of an application, at most
    /// [`REQUESTS_PER_SLICE`]. Returns whether there is more to search. If the server stops in between, a
    /// later call continues, on any server.
    pub async fn remove_erased_ids(&self, app: AppNo) -> Result<bool, StoreError> {
        self.write_to(WriteScope::app(app), Operation::RemoveErasedIds, move |tx| {
            search_next(tx, app)
        })
        .await
    }

    /// Reads how much the searches for erased ids have left.
    pub async fn pending_erasures(&self) -> Result<PendingErasures, StoreError> {
        self.read_long(pending).await
    }
}

/// Removes the ids of devices and users that this transaction erases from the stored requests. Ids that
/// it cannot remove within one slice are stored for the search.
pub(super) fn remove(
    tx: &WriteTx<'_>,
    app: AppNo,
    erased: Vec<ErasedId>,
    at: Timestamp,
) -> Result<(), StoreError> {
    // Writes of an application run one after another, so every later notification has a higher number.
    let last = last_naming(tx, app)?;
    let erased: Vec<_> = erased.into_iter().filter(|erased| erased.unnamed_to < last).collect();
    let Some(after) = erased.iter().map(|erased| erased.unnamed_to).min() else { return Ok(()) };
    let sought = erased.iter().map(|erased| ((erased.kind, erased.id.as_str()), last)).collect();
    let slice = search_slice(tx, app, &sought, after, last)?;
    if slice.is_last {
        return Ok(());
    }
    // An id of which an earlier search has not ended is searched for again: that search may have passed requests
    // that name the later device or user of this id.
    let mut insert = tx.prepare_cached(
        "insert into erased_ids (app_no, kind, id, last_no, searched_to, erased_at)
         values (?1, ?2, ?3, ?4, ?5, ?6)
         on conflict (app_no, kind, id) do update set last_no = excluded.last_no,
         searched_to = excluded.searched_to, is_sought = 0",
    )?;
    for ErasedId { kind, id, unnamed_to } in &erased {
        let searched_to = slice.to.max(*unnamed_to);
        insert.execute(params![app.0, kind.code(), id.as_str(), last, searched_to, at.as_ms()])?;
    }
    Ok(())
}

/// The number of the last notification of an application that names devices or users; 0 if there is none.
pub(super) fn last_naming(connection: &Connection, app: AppNo) -> Result<i64, StoreError> {
    let last = connection
        .prepare_cached(
            "select coalesce(max(no), 0) from notifications where app_no = ?1 and names_devices = 1",
        )?
        .query_row([app.0], |row| row.get(0))?;
    Ok(last)
}

// The search. All ids of a search are sought in the same slices, whatever their number. Each slice is a
// transaction of its own, which also stores how far the search is.

/// Searches the next slice of an application. Returns whether there is more to search.
fn search_next(tx: &WriteTx<'_>, app: AppNo) -> Result<bool, StoreError> {
    let mut sought = Sought::read(tx, app)?;
    if sought.ids.is_empty() {
        // Those that wait longest are sought first.
        tx.prepare_cached(
            "update erased_ids set is_sought = 1 where app_no = ?1 and (kind, id) in
             (select kind, id from erased_ids where app_no = ?1 and is_sought = 0
              order by erased_at limit ?2)",
        )?
        .execute([app.0, count(IDS_PER_SEARCH)])?;
        sought = Sought::read(tx, app)?;
    }
    let Sought { ids, after, last } = sought;
    let ids = ids.iter().map(|((kind, id), last)| ((*kind, id.as_str()), *last)).collect();
    let slice = search_slice(tx, app, &ids, after, last)?;
    if !slice.is_last {
        tx.prepare_cached(
            "update erased_ids set searched_to = max(searched_to, ?2)
             where app_no = ?1 and is_sought = 1",
        )?
        .execute([app.0, slice.to])?;
        return Ok(true);
    }
    tx.prepare_cached("delete from erased_ids where app_no = ?1 and is_sought = 1")?
        .execute([app.0])?;
    are_pending(tx, app)
}

/// The ids that the running search of an application looks for.
struct Sought {
    /// Each with the last notification that may name it.
    ids: HashMap<(Kind, String), i64>,
    /// The last notification that was searched.
    after: i64,
    /// The last notification to search.
    last: i64,
}

impl Sought {
    fn read(connection: &Connection, app: AppNo) -> Result<Self, StoreError> {
        let mut sought = Self { ids: HashMap::new(), after: i64::MAX, last: 0 };
        let mut statement = connection.prepare_cached(
            "select kind, id, last_no, searched_to from erased_ids
             where app_no = ?1 and is_sought = 1",
        )?;
        let mut rows = statement.query([app.0])?;
        while let Some(row) = rows.next()? {
            let last = row.get(2)?;
            sought.ids.insert((Kind::of_code(row.get(0)?)?, row.get(1)?), last);
            sought.after = sought.after.min(row.get(3)?);
            sought.last = sought.last.max(last);
        }
        Ok(sought)
    }
}

/// A part of a search.
struct Slice {
    /// The last notification that was read.
    to: i64,
    /// Whether the search has ended.
    is_last: bool,
}

/// Removes ids from the requests of the notifications `(after, last]`, until the slice is full. `sought` has
/// the last notification that may name each id.
fn search_slice(
    tx: &WriteTx<'_>,
    app: AppNo,
    sought: &HashMap<(Kind, &str), i64>,
    after: i64,
    last: i64,
) -> Result<Slice, StoreError> {
    // The lengths are read first, so that the requests are read within the limit of bytes.
    let lengths = tx
        .prepare_cached(
            "select no, octet_length(request) from notifications
             where app_no = ?1 and names_devices = 1 and no > ?2 and no <= ?3 order by no limit ?4",
        )?
        .query_map([app.0, after, last, i64::from(REQUESTS_PER_SLICE)], |row| {
            Ok((row.get::<i64>(0)?, count_at(row, 1)?))
        })?
        .collect::<sql::Result<Vec<_>>>()?;
    let mut bytes_left = BYTES_PER_SLICE;
    let within = lengths.iter().take_while(|(_, bytes)| {
        let has_room = bytes_left > 0;
        bytes_left = bytes_left.saturating_sub(*bytes);
        has_room
    });
    let read: Vec<i64> = within.map(|(no, _)| *no).collect();
    let to = read.last().copied().unwrap_or(last);
    let is_full = lengths.len() == REQUESTS_PER_SLICE as usize || read.len() < lengths.len();
    let slice = Slice { to, is_last: !is_full || to >= last };
    let mut found = Vec::new();
    let mut requests = tx.prepare_cached(
        "select no, request from notifications
         where app_no = ?1 and names_devices = 1 and no > ?2 and no <= ?3",
    )?;
    let mut rows = requests.query([app.0, after, to])?;
    while let Some(row) = rows.next()? {
        let no = row.get(0)?;
        let request = row.get_ref(1)?.as_str().ok_or(sql::Error::Column(1))?;
        if let Some(cleared) = clear(request, sought, no)? {
            found.push((no, cleared));
        }
    }
    drop(rows);
    let mut update = tx.prepare_cached("update notifications set request = ?2 where no = ?1")?;
    for (no, request) in found {
        update.execute(params![no, request])?;
    }
    Ok(slice)
}

/// The request of a notification without the ids; `None` if it contains none of them.
fn clear(
    request: &str,
    sought: &HashMap<(Kind, &str), i64>,
    no: i64,
) -> Result<Option<String>, StoreError> {
    // Requests that cannot contain the only id need not be parsed. An id can be written with escapes.
    if sought.len() == 1
        && !request.contains('\\')
        && !sought.keys().any(|(_, id)| request.contains(id))
    {
        return Ok(None);
    }
    let named: NamedIds = serde_json::from_str(request)?;
    let is_sought =
        |kind, id: &&String| sought.get(&(kind, id.as_str())).is_some_and(|last| no <= *last);
    let devices: BTreeSet<String> =
        named.devices().filter(|id| is_sought(Kind::Device, id)).cloned().collect();
    let users: BTreeSet<String> =
        named.users().filter(|id| is_sought(Kind::User, id)).cloned().collect();
    if devices.is_empty() && users.is_empty() {
        return Ok(None);
    }
    without_ids(request, &devices, &users).map(Some)
}

// Reading requests while a search has not ended.

/// Whether stored requests of an application may contain erased ids.
pub(super) fn are_pending(connection: &Connection, app: AppNo) -> Result<bool, StoreError> {
    Ok(connection
        .prepare_cached("select 1 from erased_ids where app_no = ?1 limit 1")?
        .exists([app.0])?)
}

/// The request of a notification without the ids of devices and users that were erased since it was
/// accepted.
pub(super) fn without_erased(
    connection: &Connection,
    app: AppNo,
    no: NotificationNo,
    request: String,
) -> Result<String, StoreError> {
    let named: NamedIds = serde_json::from_str(&request)?;
    let erased = |kind: Kind, ids: HashSet<&str>| -> Result<BTreeSet<String>, StoreError> {
        if ids.is_empty() {
            return Ok(BTreeSet::new());
        }
        let ids: Vec<&str> = ids.into_iter().collect();
        let erased = connection
            .prepare_cached(&format!(
                "select id from erased_ids
                 where app_no = ?2 and kind = ?3 and last_no >= ?4 and id in {TEXTS}"
            ))?
            .query_map(params![list_of(&ids), app.0, kind.code(), no.0], |row| row.get(0))?
            .collect::<sql::Result<BTreeSet<_>>>()?;
        Ok(erased)
    };
    let devices = erased(Kind::Device, named.devices().map(String::as_str).collect())?;
    let users = erased(Kind::User, named.users().map(String::as_str).collect())?;
    if devices.is_empty() && users.is_empty() {
        return Ok(request);
    }
    without_ids(&request, &devices, &users)
}

/// As [`without_erased`], for a request that was read without knowing whether erasures are pending.
pub(super) fn readable(
    connection: &Connection,
    app: AppNo,
    no: NotificationNo,
    request: String,
) -> Result<String, StoreError> {
    if are_pending(connection, app)? {
        without_erased(connection, app, no, request)
    } else {
        Ok(request)
    }
}

fn pending(connection: &Connection) -> Result<PendingErasures, StoreError> {
    let (ids, oldest_at) = connection
        .prepare_cached("select count(*), min(erased_at) from erased_ids")?
        .query_row([], |row| Ok((count_at(row, 0)?, row.get::<Option<i64>>(1)?.map(Timestamp))))?;
    let searches = connection
        .prepare_cached(
            "select app_no, min(searched_to), max(last_no) from erased_ids group by app_no",
        )?
        .query_map([], |row| Ok([row.get(0)?, row.get(1)?, row.get(2)?]))?
        .collect::<sql::Result<Vec<[i64; 3]>>>()?;
    let mut requests_left = 0;
    for [app, after, last] in searches {
        requests_left += connection
            .prepare_cached(
                "select count(*) from (select 1 from notifications
                 where app_no = ?1 and names_devices = 1 and no > ?2 and no <= ?3 limit ?4) left_over",
            )?
            .query_row([app, after, last, count(REQUESTS_COUNTED_MAX - requests_left)], |row| {
                count_at(row, 0)
            })?;
    }
    Ok(PendingErasures { ids, oldest_at, requests_left })
}

/// Deletes some stored ids of an application; returns whether rows were deleted.
pub(super) fn delete_of_app(tx: &Connection, app: AppNo, limit: i64) -> Result<bool, StoreError> {
    let rows = tx
        .prepare_cached(
            "delete from erased_ids where app_no = ?1 and (kind, id) in
             (select kind, id from erased_ids where app_no = ?1 order by kind, id limit ?2)",
        )?
        .execute([app.0, limit])?;
    Ok(rows > 0)
}
