//! Reading notifications back with their counts (B20). What is still being sent is summed from its
//! pages; what is done has its sums in its dispatches.

use notify_core::json::JsonObject;
use notify_core::{
    Counts, Engagement, FailureCount, NotificationId, NotificationRecord, NotificationStatus,
    Origin, Platform, PlatformCounts, Timestamp,
};

use super::super::cursor::{Listing, rows_wanted};
use super::super::error::broken;
use super::super::row::{count_at, live_app, platforms_of, unknown_value};
use crate::store::sql::{self, Connection, OptionalExtension, Row, Type, params};
use crate::store::{AppNo, Page, PageRequest, StoreError, platform_of};

/// Most kinds of failure that one answer lists.
const FAILURES_LISTED_MAX: i64 = 100;

/// From so many bytes of requests on a page is full: a thousand of the largest would be a gigabyte.
const PAGE_REQUEST_BYTES_MAX: usize = 4 * 1_048_576;

/// Columns as [`read_row`] reads them.
const NOTIFICATION: &str = "n.no, n.id, n.status, n.origin, n.created_at, n.due_at, \
    n.local_time, n.started_at, n.completed_at, n.request, n.platforms";

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
    record(connection, found)
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
    let mut statement = connection.prepare_cached(&format!(
        "select {NOTIFICATION} from notifications n where n.app_no = ?1 and n.no < ?2
         order by n.no desc limit ?3"
    ))?;
    let (mut rows, mut request_bytes, mut limit) = (Vec::new(), 0, page.limit);
    for found in statement.query_map([app.0, before, rows_wanted(page)], read_row)? {
        let found = found?;
        let is_full = request_bytes >= PAGE_REQUEST_BYTES_MAX;
        request_bytes += found.request.len();
        rows.push((found.no, record(connection, found)?));
        if is_full {
            // This one begins the next page.
            limit = u32::try_from(rows.len() - 1).unwrap_or(limit);
            break;
        }
    }
    Ok(listing.page(rows, &PageRequest { limit, cursor: None }))
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
    })
}

fn record(connection: &Connection, found: Found) -> Result<NotificationRecord, StoreError> {
    let mut by_platform: Vec<PlatformCounts> = platforms_of(found.platforms)
        .into_iter()
        .map(|platform| PlatformCounts { platform, counts: Counts::default() })
        .collect();
    for (platform, counts) in dispatch_counts(connection, found.no)? {
        match by_platform.iter_mut().find(|row| row.platform == platform) {
            Some(row) => row.counts.add(&counts),
            None => by_platform.push(PlatformCounts { platform, counts }),
        }
    }
    let mut counts = Counts::default();
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
        failures: failures(connection, found.no)?,
        engagement: engagement(connection, found.no)?,
    })
}

/// The counts of every dispatch that there is.
fn dispatch_counts(
    connection: &Connection,
    notification: i64,
) -> Result<Vec<(Platform, Counts)>, StoreError> {
    const SUMS: &str = "targeted, sent, failed, unregistered, expired, canceled, excluded";
    let dispatches = connection
        .prepare_cached(&format!(
            "select {SUMS}, platform, unknown, no, completed_at is not null from dispatches
             where notification_no = ?1 order by platform"
        ))?
        .query_map([notification], |row| {
            let counts = Counts { unknown: count_at(row, 8)?, ..counts_of(row)? };
            let (no, done): (i64, bool) = (row.get(9)?, row.get(10)?);
            Ok((platform_of(row.get(7)?), counts, (!done).then_some(no)))
        })?
        .collect::<Result<Vec<_>, _>>()?;
    dispatches
        .into_iter()
        .map(|(platform, counts, open)| {
            let Some(no) = open else { return Ok((platform, counts)) };
            let sums = connection
                .prepare_cached(
                    "select coalesce(sum(targeted), 0), coalesce(sum(sent), 0),
                     coalesce(sum(failed), 0), coalesce(sum(unregistered), 0),
                     coalesce(sum(expired), 0), coalesce(sum(canceled), 0),
                     coalesce(sum(excluded), 0) from pages where dispatch_no = ?1",
                )?
                .query_row([no], counts_of)?;
            Ok((platform, Counts { unknown: counts.unknown, ..sums }))
        })
        .collect()
}

fn counts_of(row: &Row<'_>) -> sql::Result<Counts> {
    let mut counts = Counts {
        targeted: count_at(row, 0)?,
        sent: count_at(row, 1)?,
        failed: count_at(row, 2)?,
        unregistered: count_at(row, 3)?,
        expired: count_at(row, 4)?,
        canceled: count_at(row, 5)?,
        pending: 0,
        unknown: 0,
        excluded: count_at(row, 6)?,
    };
    let settled =
        counts.sent + counts.failed + counts.unregistered + counts.expired + counts.canceled;
    counts.pending = counts.targeted.saturating_sub(settled);
    Ok(counts)
}

fn failures(connection: &Connection, notification: i64) -> Result<Vec<FailureCount>, StoreError> {
    let rows = connection
        .prepare_cached(
            "select d.platform, f.reason, sum(f.count) from dispatches d
             join failures f on f.dispatch_no = d.no where d.notification_no = ?1
             group by d.platform, f.reason
             order by sum(f.count) desc, d.platform, f.reason limit ?2",
        )?
        .query_map([notification, FAILURES_LISTED_MAX], |row| {
            Ok(FailureCount {
                platform: platform_of(row.get(0)?),
                reason: row.get(1)?,
                count: count_at(row, 2)?,
            })
        })?
        .collect::<Result<Vec<_>, _>>()?;
    Ok(rows)
}

fn engagement(connection: &Connection, notification: i64) -> Result<Engagement, StoreError> {
    let engagement = connection
        .prepare_cached(
            "select received, opened, clicked, dismissed from engagement_counts
             where notification_no = ?1",
        )?
        .query_row([notification], |row| {
            Ok(Engagement {
                received: count_at(row, 0)?,
                opened: count_at(row, 1)?,
                clicked: count_at(row, 2)?,
                dismissed: count_at(row, 3)?,
            })
        })
        .optional()?;
    Ok(engagement.unwrap_or_default())
}
