//! Counts, failures and engagement of many notifications at once. Running dispatches are summed from
//! their pages; finished ones have their sums in their row.

use std::collections::HashMap;

use notify_core::{Counts, Engagement, FailureCount, Platform};

use crate::store::sql::row::count_at;
use crate::store::sql::{self, Connection, NUMBERS, Row, list_of};
use crate::store::{StoreError, platform_of};

/// Most kinds of failure that are listed of one notification.
const FAILURES_LISTED_MAX: usize = 100;

/// The sums of one notification.
#[derive(Default)]
pub(super) struct Sums {
    /// Of every dispatch, by platform.
    pub(super) dispatches: Vec<(Platform, Counts)>,
    /// The most frequent first.
    pub(super) failures: Vec<FailureCount>,
    pub(super) engagement: Engagement,
}

/// The sums by notification; notifications without any are left out.
pub(super) fn sums(
    connection: &Connection,
    notifications: &[i64],
) -> Result<HashMap<i64, Sums>, StoreError> {
    let mut sums = HashMap::with_capacity(notifications.len());
    if notifications.is_empty() {
        return Ok(sums);
    }
    let notifications = list_of(notifications);
    dispatches(connection, &notifications, &mut sums)?;
    failures(connection, &notifications, &mut sums)?;
    engagement(connection, &notifications, &mut sums)?;
    Ok(sums)
}

fn dispatches(
    connection: &Connection,
    notifications: &str,
    sums: &mut HashMap<i64, Sums>,
) -> Result<(), StoreError> {
    struct Dispatch {
        notification: i64,
        platform: Platform,
        counts: Counts,
        /// Its number if it is not finished.
        open: Option<i64>,
    }
    let found = connection
        .prepare_cached(&format!(
            "select targeted, sent, failed, unregistered, expired, canceled, excluded, unknown,
             notification_no, platform, no, completed_at is not null from dispatches
             where notification_no in {NUMBERS} order by notification_no, platform, no"
        ))?
        .query_map([notifications], |row| {
            let (no, done): (i64, bool) = (row.get(10)?, row.get(11)?);
            Ok(Dispatch {
                notification: row.get(8)?,
                platform: platform_of(row.get(9)?),
                counts: Counts { unknown: count_at(row, 7)?, ..counts_of(row, 0)? },
                open: (!done).then_some(no),
            })
        })?
        .collect::<sql::Result<Vec<_>>>()?;
    let open: Vec<i64> = found.iter().filter_map(|dispatch| dispatch.open).collect();
    let of_pages = pages(connection, &open)?;
    for Dispatch { notification, platform, counts, open } in found {
        let counts = match open {
            Some(no) => {
                let sums = of_pages.get(&no).copied().unwrap_or_default();
                Counts { unknown: counts.unknown, ..sums }
            }
            None => counts,
        };
        sums.entry(notification).or_default().dispatches.push((platform, counts));
    }
    Ok(())
}

/// The sums of the pages of dispatches.
fn pages(connection: &Connection, dispatches: &[i64]) -> Result<HashMap<i64, Counts>, StoreError> {
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

/// Reads the seven counts that begin at column `first`.
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

fn failures(
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

fn engagement(
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
