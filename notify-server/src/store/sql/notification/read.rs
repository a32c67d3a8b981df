//! Reading notifications back with their counts (B20).

use std::cmp::Reverse;

use notify_core::json::JsonObject;
use notify_core::{
    Counts, NotificationId, NotificationRecord, NotificationStatus, Origin, PlatformCounts,
    Timestamp,
};

use super::super::cursor::{Listing, rows_wanted};
use super::super::error::broken;
use super::super::row::{count_at, live_app, platforms_of, unknown_value};
use super::sums::{Sums, sums};
use crate::store::sql::{self, Connection, NUMBERS, OptionalExtension, Row, Type, list_of, params};
use crate::store::{AppNo, Page, PageRequest, StoreError};

/// From so many bytes of requests on a page is full: a thousand of the largest would be a gigabyte.
const PAGE_REQUEST_BYTES_MAX: u64 = 4 * 1_048_576;

/// Columns as [`read_row`] reads them.
const NOTIFICATION: &str = "n.no, n.id, n.status, n.origin, n.created_at, n.due_at, \
    n.local_time, n.started_at, n.completed_at, n.request, n.platforms, n.unknown";

struct Found {
    no: i64,
    id: String,
    status: NotificationStatus,
    origin: Origin,
    created_at: Timestamp,
    send_at: Option<Timestamp>,
    started_at: Option<Timestamp>,
    completed_at: Option<Timestamp>,
    request: String,
    platforms: i64,
    /// Ids of any platform that name no device.
    unknown: u64,
}

/// Reads one notification.
pub(super) fn notification(
    connection: &Connection,
    app: AppNo,
    id: &NotificationId,
) -> Result<NotificationRecord, StoreError> {
    live_app(connection, app)?;
    let found = connection
        .prepare_cached(&format!(
            "select {NOTIFICATION} from notifications n where n.app_no = ?1 and n.id = ?2"
        ))?
        .query_row(params![app.0, id.as_str()], read_row)
        .optional()?
        .ok_or(StoreError::NotFound)?;
    let its = sums(connection, &[found.no])?.remove(&found.no).unwrap_or_default();
    record(found, its)
}

/// Lists notifications, newest first.
pub(super) fn list(
    connection: &Connection,
    app: AppNo,
    page: &PageRequest,
) -> Result<Page<NotificationRecord>, StoreError> {
    live_app(connection, app)?;
    let listing = Listing { name: "notifications", of: app.0 };
    let before = listing.number(page)?.unwrap_or(i64::MAX);
    let (numbers, limit) = numbers_of(connection, app, (before, page))?;
    let mut sums = sums(connection, &numbers)?;
    let mut found = connection
        .prepare_cached(&format!(
            "select {NOTIFICATION} from notifications n where n.no in {NUMBERS}"
        ))?
        .query_map([list_of(&numbers)], read_row)?
        .collect::<sql::Result<Vec<_>>>()?;
    found.sort_unstable_by_key(|found| Reverse(found.no));
    let mut rows = Vec::with_capacity(numbers.len());
    for found in found {
        let its = sums.remove(&found.no).unwrap_or_default();
        rows.push((found.no, record(found, its)?));
    }
    Ok(listing.page(rows, &PageRequest { limit, cursor: None }))
}

/// The notifications of a page, one more when another page follows, and how many it shows: what they
/// hold is not read before it is known that it fits.
fn numbers_of(
    connection: &Connection,
    app: AppNo,
    (before, page): (i64, &PageRequest),
) -> Result<(Vec<i64>, u32), StoreError> {
    let mut statement = connection.prepare_cached(
        "select no, octet_length(request) from notifications where app_no = ?1 and no < ?2
         order by no desc limit ?3",
    )?;
    let (mut numbers, mut request_bytes, mut limit) = (Vec::new(), 0, page.limit);
    for row in statement.query_map([app.0, before, rows_wanted(page)], |row| {
        Ok((row.get::<i64>(0)?, count_at(row, 1)?))
    })? {
        let (no, bytes) = row?;
        numbers.push(no);
        if request_bytes >= PAGE_REQUEST_BYTES_MAX {
            // This one begins the next page.
            limit = u32::try_from(numbers.len() - 1).unwrap_or(limit);
            break;
        }
        request_bytes += bytes;
    }
    Ok((numbers, limit))
}

fn read_row(row: &Row<'_>) -> sql::Result<Found> {
    let status: String = row.get(2)?;
    let origin: String = row.get(3)?;
    let time = |column| row.get::<Option<i64>>(column).map(|at| at.map(Timestamp));
    let is_local = row.get::<Option<i64>>(6)?.is_some();
    Ok(Found {
        no: row.get(0)?,
        id: row.get(1)?,
        status: NotificationStatus::from_word(&status)
            .ok_or_else(|| unknown_value(2, Type::Text))?,
        origin: Origin::from_word(&origin).ok_or_else(|| unknown_value(3, Type::Text))?,
        created_at: Timestamp(row.get(4)?),
        send_at: if is_local { None } else { time(5)? },
        started_at: time(7)?,
        completed_at: time(8)?,
        request: row.get(9)?,
        platforms: row.get(10)?,
        unknown: count_at(row, 11)?,
    })
}

fn record(found: Found, sums: Sums) -> Result<NotificationRecord, StoreError> {
    let mut by_platform: Vec<PlatformCounts> = platforms_of(found.platforms)
        .into_iter()
        .map(|platform| PlatformCounts { platform, counts: Counts::default() })
        .collect();
    for (platform, counts) in sums.dispatches {
        match by_platform.iter_mut().find(|row| row.platform == platform) {
            Some(row) => row.counts.add(&counts),
            None => by_platform.push(PlatformCounts { platform, counts }),
        }
    }
    // Those of devices of any platform are known by their dispatches alone (B64).
    by_platform.sort_by_key(|row| row.platform);
    let mut counts = Counts { unknown: found.unknown, ..Counts::default() };
    by_platform.iter().for_each(|row| counts.add(&row.counts));
    Ok(NotificationRecord {
        id: NotificationId::new(found.id).map_err(broken)?,
        status: found.status,
        origin: found.origin,
        created_at: found.created_at,
        send_at: found.send_at,
        started_at: found.started_at,
        completed_at: found.completed_at,
        request: JsonObject::new(&found.request)?,
        counts,
        by_platform,
        failures: sums.failures,
        engagement: sums.engagement,
    })
}
