//! Reading notifications back with their counts, failures and engagement. The counts of running
//! dispatches are summed from their pages; a finished dispatch has its counts in its row.

use std::cmp::Reverse;
use std::collections::HashMap;

use notify_core::json::JsonObject;
use notify_core::{
    Counts, Engagement, FailureCount, NotificationId, NotificationRecord, NotificationStatus,
    Origin, Pause, Platform, PlatformCounts, Timestamp, UserCounts,
};

use crate::store::notification::users;
use crate::store::page::{CursorCodec, rows_wanted};
use crate::store::sql::error::internal;
use crate::store::sql::row::{count_at, platforms_of, require_app, unexpected_value};
use crate::store::sql::{
    self, Connection, NUMBERS, OptionalExtension, Params, Row, Type, list_of, params,
};
use crate::store::{AppNo, NotificationNo, Page, PageRequest, StoreError, erased_ids, platform_of};

/// A page of the list is full once its requests have this many bytes. Without this limit, a page of
/// a thousand of the largest requests would have a gigabyte.
const PAGE_BYTES_MAX: u64 = 4 * 1_048_576;

/// The most notifications that one request for a status reads.
pub(in crate::store) const NOTIFICATIONS_SCANNED_MAX: i64 = 10_000;

/// The columns that [`read_row`] reads.
const NOTIFICATION_COLUMNS: &str = "n.no, n.id, n.status, n.origin, n.created_at, n.due_at, \
    n.local_time, n.started_at, n.completed_at, n.request, n.platforms, n.unknown, n.audience, \
    n.names_devices, n.paused_at, n.paused_reason";

/// The row of a notification.
struct NotificationRow {
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
    /// The number of ids in the list for any platform that name no device.
    unknown: u64,
    /// The condition of the audience in JSON.
    audience: Option<String>,
    names_devices: bool,
    paused: Option<Pause>,
}

/// Reads one notification.
pub(super) fn notification(
    connection: &Connection,
    app: AppNo,
    id: &NotificationId,
) -> Result<NotificationRecord, StoreError> {
    require_app(connection, app)?;
    let row = connection
        .prepare_cached(&format!(
            "select {NOTIFICATION_COLUMNS} from notifications n where n.app_no = ?1 and n.id = ?2"
        ))?
        .query_row(params![app.0, id.as_str()], read_row)
        .optional()?
        .ok_or(StoreError::NotFound)?;
    let row = leave_out_erased(connection, app, vec![row])?.pop().ok_or(StoreError::NotFound)?;
    let sums = read_sums(connection, &[row.no])?.remove(&row.no).unwrap_or_default();
    let users = count_users(connection, std::slice::from_ref(&row))?.remove(&row.no);
    record(row, sums, users)
}

/// Removes the ids of erased devices and users from the requests of notifications.
fn leave_out_erased(
    connection: &Connection,
    app: AppNo,
    mut rows: Vec<NotificationRow>,
) -> Result<Vec<NotificationRow>, StoreError> {
    if rows.iter().any(|row| row.names_devices) && erased_ids::are_pending(connection, app)? {
        for row in rows.iter_mut().filter(|row| row.names_devices) {
            let (no, request) = (NotificationNo(row.no), std::mem::take(&mut row.request));
            row.request = erased_ids::without_erased(connection, app, no, request)?;
        }
    }
    Ok(rows)
}

/// Counts the users of those notifications that name users.
fn count_users(
    connection: &Connection,
    rows: &[NotificationRow],
) -> Result<HashMap<i64, UserCounts>, StoreError> {
    let naming = rows.iter().filter(|row| row.names_devices);
    let numbers: Vec<i64> = naming.map(|row| row.no).collect();
    if numbers.is_empty() { Ok(HashMap::new()) } else { users::counts(connection, &numbers) }
}

/// Lists notifications, newest first.
pub(super) fn list(
    connection: &Connection,
    app: AppNo,
    status: Option<NotificationStatus>,
    page: &PageRequest,
) -> Result<Page<NotificationRecord>, StoreError> {
    require_app(connection, app)?;
    let cursors = CursorCodec { list: "notifications", owner: app.0 };
    let before = cursors.decode_number(page)?.unwrap_or(i64::MAX);
    let selected = select_page(connection, app, status, before, page)?;
    let (numbers, limit) = (selected.numbers, selected.limit);
    let mut sums = read_sums(connection, &numbers)?;
    let mut rows = connection
        .prepare_cached(&format!(
            "select {NOTIFICATION_COLUMNS} from notifications n where n.no in {NUMBERS}"
        ))?
        .query_map([list_of(&numbers)], read_row)?
        .collect::<sql::Result<Vec<_>>>()?;
    rows.sort_unstable_by_key(|row| Reverse(row.no));
    let rows = leave_out_erased(connection, app, rows)?;
    let mut users = count_users(connection, &rows)?;
    let mut records = Vec::with_capacity(numbers.len());
    for row in rows {
        let sums_of_row = sums.remove(&row.no).unwrap_or_default();
        let users_of_row = users.remove(&row.no);
        records.push((row.no, record(row, sums_of_row, users_of_row)?));
    }
    let mut listed = cursors.page(records, &PageRequest { limit, cursor: None });
    if listed.next.is_none() {
        listed.next = selected.scanned_to.map(|no| cursors.encode_number(no));
    }
    Ok(listed)
}

/// The notifications of a page.
struct Selected {
    /// Their numbers, one more if another page follows.
    numbers: Vec<i64>,
    /// The number of rows of the page.
    limit: u32,
    /// The last notification that was read, if the search for a status stopped at
    /// [`NOTIFICATIONS_SCANNED_MAX`].
    scanned_to: Option<i64>,
}

/// Selects the notifications of a page by their status and the lengths of their requests, before
/// the requests are read.
fn select_page(
    connection: &Connection,
    app: AppNo,
    status: Option<NotificationStatus>,
    before: i64,
    page: &PageRequest,
) -> Result<Selected, StoreError> {
    let wanted = rows_wanted(page);
    let Some(status) = status else {
        let sql = format!(
            "select n.no, {BYTES} from notifications n
             where n.app_no = ?1 and n.no < ?2 order by n.no desc limit ?3"
        );
        return select_within_bytes(connection, &sql, [app.0, before, wanted], page.limit);
    };
    // The bound is read from the index alone, so that a status that most notifications have costs
    // little more than a list without a status.
    let scanned_to: Option<i64> = connection
        .prepare_cached(
            "select no from notifications where app_no = ?1 and no < ?2
             order by no desc limit 1 offset ?3",
        )?
        .query_row([app.0, before, NOTIFICATIONS_SCANNED_MAX - 1], |row| row.get(0))
        .optional()?;
    let sql = format!(
        "select n.no, {BYTES} from notifications n
         where n.app_no = ?1 and n.no < ?2 and n.no >= ?4 and n.status = ?5
         order by n.no desc limit ?3"
    );
    let first = scanned_to.unwrap_or(0);
    let selected = select_within_bytes(
        connection,
        &sql,
        params![app.0, before, wanted, first, status.as_str()],
        page.limit,
    )?;
    Ok(Selected { scanned_to, ..selected })
}

/// About the bytes that it takes to read a notification. Each device of a user takes 64 bytes while the users
/// are counted; it has 8 in the dispatch.
const BYTES: &str = "octet_length(n.request) + coalesce(octet_length(n.audience), 0)
    + case when n.named_users is null then 0 else 8 * coalesce((select sum(octet_length(d.named_users))
        from dispatches d where d.notification_no = n.no), 0) end";

/// Selects rows of a statement until they have [`PAGE_BYTES_MAX`] bytes, as [`BYTES`] counts them.
fn select_within_bytes(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    mut limit: u32,
) -> Result<Selected, StoreError> {
    let mut statement = connection.prepare_cached(sql)?;
    let (mut numbers, mut page_bytes) = (Vec::new(), 0);
    for row in statement.query_map(params, |row| Ok((row.get::<i64>(0)?, count_at(row, 1)?)))? {
        let (no, bytes) = row?;
        numbers.push(no);
        if page_bytes >= PAGE_BYTES_MAX {
            // This row begins the next page.
            limit = u32::try_from(numbers.len() - 1).unwrap_or(limit);
            break;
        }
        page_bytes += bytes;
    }
    Ok(Selected { numbers, limit, scanned_to: None })
}

fn read_row(row: &Row<'_>) -> sql::Result<NotificationRow> {
    let status: String = row.get(2)?;
    let origin: String = row.get(3)?;
    let time = |column| row.get::<Option<i64>>(column).map(|at| at.map(Timestamp));
    let is_local = row.get::<Option<i64>>(6)?.is_some();
    Ok(NotificationRow {
        no: row.get(0)?,
        id: row.get(1)?,
        status: status.parse().map_err(|_| unexpected_value(2, Type::Text))?,
        origin: origin.parse().map_err(|_| unexpected_value(3, Type::Text))?,
        created_at: Timestamp(row.get(4)?),
        send_at: if is_local { None } else { time(5)? },
        started_at: time(7)?,
        completed_at: time(8)?,
        request: row.get(9)?,
        platforms: row.get(10)?,
        unknown: count_at(row, 11)?,
        audience: row.get(12)?,
        names_devices: row.get(13)?,
        paused: time(14)?
            .zip(row.get::<Option<String>>(15)?)
            .map(|(at, reason)| Pause { at, reason }),
    })
}

/// Makes the record that the API shows from the row and the sums of a notification.
fn record(
    row: NotificationRow,
    sums: Sums,
    users: Option<UserCounts>,
) -> Result<NotificationRecord, StoreError> {
    let mut platforms = platforms_of(row.platforms);
    if row.names_devices && platforms.len() == Platform::ALL.len() {
        // The devices of users may be on any platform. Those of the dispatches count.
        platforms.clear();
    }
    let mut by_platform: Vec<PlatformCounts> = platforms
        .into_iter()
        .map(|platform| PlatformCounts { platform, counts: Counts::default() })
        .collect();
    for (platform, counts) in sums.dispatches {
        match by_platform.iter_mut().find(|row| row.platform == platform) {
            Some(row) => row.counts.add(&counts),
            None => by_platform.push(PlatformCounts { platform, counts }),
        }
    }
    // The platforms of ids in the list for any platform are only known from the dispatches, so the
    // list may have got more platforms.
    by_platform.sort_by_key(|row| row.platform);
    let mut counts = Counts { unknown: row.unknown, ..Counts::default() };
    by_platform.iter().for_each(|row| counts.add(&row.counts));
    Ok(NotificationRecord {
        id: NotificationId::new(row.id).map_err(internal)?,
        status: row.status,
        origin: row.origin,
        created_at: row.created_at,
        send_at: row.send_at,
        started_at: row.started_at,
        completed_at: row.completed_at,
        // What has ended while it was paused does not wait any more.
        paused: row.paused.filter(|_| row.completed_at.is_none()),
        request: JsonObject::new(&row.request)?,
        counts,
        by_platform,
        failures: sums.failures,
        audience: row.audience.as_deref().map(serde_json::from_str).transpose()?,
        users,
        engagement: sums.engagement,
    })
}

// The counts, failures and engagement of several notifications at once.

/// The most failures that are listed for one notification.
const FAILURES_LISTED_MAX: usize = 100;

/// The counts, failures and engagement of one notification.
#[derive(Default)]
struct Sums {
    /// The platform and counts of each dispatch.
    dispatches: Vec<(Platform, Counts)>,
    /// The failures, most frequent first.
    failures: Vec<FailureCount>,
    engagement: Engagement,
}

/// Reads the sums of notifications, by the number of the notification. Notifications without
/// dispatches and engagement are left out.
fn read_sums(
    connection: &Connection,
    notifications: &[i64],
) -> Result<HashMap<i64, Sums>, StoreError> {
    let mut sums = HashMap::with_capacity(notifications.len());
    if notifications.is_empty() {
        return Ok(sums);
    }
    let notifications = list_of(notifications);
    add_dispatches(connection, &notifications, &mut sums)?;
    add_failures(connection, &notifications, &mut sums)?;
    add_engagement(connection, &notifications, &mut sums)?;
    Ok(sums)
}

/// Adds the counts of each dispatch. `notifications` is a list of numbers as [`list_of`] makes it.
fn add_dispatches(
    connection: &Connection,
    notifications: &str,
    sums: &mut HashMap<i64, Sums>,
) -> Result<(), StoreError> {
    struct Dispatch {
        no: i64,
        notification: i64,
        platform: Platform,
        /// The counts in the row. Only `unknown` is meaningful before the dispatch is finished.
        counts: Counts,
        is_finished: bool,
    }
    let dispatches = connection
        .prepare_cached(&format!(
            "select targeted, sent, failed, unregistered, expired, canceled, excluded, unknown,
             notification_no, platform, no, completed_at is not null from dispatches
             where notification_no in {NUMBERS} order by notification_no, platform, no"
        ))?
        .query_map([notifications], |row| {
            Ok(Dispatch {
                no: row.get(10)?,
                notification: row.get(8)?,
                platform: platform_of(row.get(9)?),
                counts: Counts { unknown: count_at(row, 7)?, ..counts_of(row, 0)? },
                is_finished: row.get(11)?,
            })
        })?
        .collect::<sql::Result<Vec<_>>>()?;
    let running = dispatches.iter().filter(|dispatch| !dispatch.is_finished);
    let running_numbers: Vec<i64> = running.map(|dispatch| dispatch.no).collect();
    let page_sums = sum_pages(connection, &running_numbers)?;
    for dispatch in dispatches {
        let counts = if dispatch.is_finished {
            dispatch.counts
        } else {
            let counts_of_pages = page_sums.get(&dispatch.no).copied().unwrap_or_default();
            Counts { unknown: dispatch.counts.unknown, ..counts_of_pages }
        };
        let sums_of_notification = sums.entry(dispatch.notification).or_default();
        sums_of_notification.dispatches.push((dispatch.platform, counts));
    }
    Ok(())
}

/// Sums the counts of the pages of each dispatch.
fn sum_pages(
    connection: &Connection,
    dispatches: &[i64],
) -> Result<HashMap<i64, Counts>, StoreError> {
    if dispatches.is_empty() {
        return Ok(HashMap::new());
    }
    let counts = connection
        .prepare_cached(&format!(
            "select sum(targeted), sum(sent), sum(failed), sum(unregistered), sum(expired),
             sum(canceled), sum(excluded), dispatch_no from pages
             where dispatch_no in {NUMBERS} group by dispatch_no"
        ))?
        .query_map([list_of(dispatches)], |row| Ok((row.get(7)?, counts_of(row, 0)?)))?
        .collect::<sql::Result<_>>()?;
    Ok(counts)
}

/// Reads seven counts from column `first` on: targeted, sent, failed, unregistered, expired,
/// canceled and excluded. Computes `pending` from them.
pub(in crate::store) fn counts_of(row: &Row<'_>, first: usize) -> sql::Result<Counts> {
    let mut counts = Counts {
        targeted: count_at(row, first)?,
        sent: count_at(row, first + 1)?,
        failed: count_at(row, first + 2)?,
        unregistered: count_at(row, first + 3)?,
        expired: count_at(row, first + 4)?,
        canceled: count_at(row, first + 5)?,
        pending: 0,
        unknown: 0,
        excluded: count_at(row, first + 6)?,
    };
    let settled =
        counts.sent + counts.failed + counts.unregistered + counts.expired + counts.canceled;
    counts.pending = counts.targeted.saturating_sub(settled);
    Ok(counts)
}

/// Adds the most frequent failures of each notification.
fn add_failures(
    connection: &Connection,
    notifications: &str,
    sums: &mut HashMap<i64, Sums>,
) -> Result<(), StoreError> {
    let mut statement = connection.prepare_cached(&format!(
        "select platform, reason, times, notification_no from (
           select d.notification_no, d.platform, f.reason, sum(f.count) as times,
             row_number() over (partition by d.notification_no
               order by sum(f.count) desc, d.platform, f.reason) as place
           from dispatches d join failures f on f.dispatch_no = d.no
           where d.notification_no in {NUMBERS}
           group by d.notification_no, d.platform, f.reason) ranked
         where place <= {FAILURES_LISTED_MAX} order by notification_no, place"
    ))?;
    for row in statement.query_map([notifications], |row| {
        let failure = FailureCount {
            platform: platform_of(row.get(0)?),
            reason: row.get(1)?,
            count: count_at(row, 2)?,
        };
        Ok((row.get(3)?, failure))
    })? {
        let (notification, failure): (i64, _) = row?;
        sums.entry(notification).or_default().failures.push(failure);
    }
    Ok(())
}

/// Adds the engagement counters of each notification.
fn add_engagement(
    connection: &Connection,
    notifications: &str,
    sums: &mut HashMap<i64, Sums>,
) -> Result<(), StoreError> {
    let mut statement = connection.prepare_cached(&format!(
        "select received, opened, clicked, dismissed, notification_no from engagement_counts
         where notification_no in {NUMBERS}"
    ))?;
    for row in statement.query_map([notifications], |row| {
        let engagement = Engagement {
            received: count_at(row, 0)?,
            opened: count_at(row, 1)?,
            clicked: count_at(row, 2)?,
            dismissed: count_at(row, 3)?,
        };
        Ok((row.get(4)?, engagement))
    })? {
        let (notification, engagement): (i64, _) = row?;
        sums.entry(notification).or_default().engagement = engagement;
    }
    Ok(())
}
