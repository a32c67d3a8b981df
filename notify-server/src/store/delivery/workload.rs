//! Whether the delivery engine has work that is due, for tests that wait until it has none.

use notify_core::Timestamp;

use crate::store::StoreError;
use crate::store::delivery::start;
use crate::store::sql::{Connection, params};

/// The work of the delivery engine at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Workload {
    /// Whether anything is due or under way.
    pub is_busy: bool,
    /// When the next work becomes due that is not due yet.
    pub next_due: Option<Timestamp>,
}

/// Reads the work at `now`. What waits for the end of a pause or for its rate is not due.
pub(super) fn read(connection: &Connection, now: Timestamp) -> Result<Workload, StoreError> {
    let agenda = start::agenda(connection, now)?;
    let next_granted = connection
        .prepare_cached(
            "select min(n.next_grant_at) from dispatches d join notifications n
             on n.no = d.notification_no
             where d.scan_done = 0 and d.paused_until is null and n.next_grant_at > ?1",
        )?
        .query_row([now.0], |row| row.get::<Option<i64>>(0))?;
    let times = agenda.next_due.into_iter().chain(agenda.next_retry_due);
    let times: Vec<Timestamp> = times.chain(next_granted.map(Timestamp)).collect();
    let is_busy = times.iter().any(|due| *due <= now)
        || has_unread_dispatches(connection, now)?
        || has_open_pages(connection)?
        || has_claimed_retries(connection)?;
    Ok(Workload { is_busy, next_due: times.into_iter().filter(|due| *due > now).min() })
}

fn has_unread_dispatches(connection: &Connection, now: Timestamp) -> Result<bool, StoreError> {
    let mut statement = connection.prepare_cached(
        "select 1 from dispatches d join notifications n on n.no = d.notification_no
         where d.scan_done = 0 and d.paused_until is null and coalesce(n.next_grant_at, 0) <= ?1
         limit 1",
    )?;
    Ok(statement.exists([now.0])?)
}

fn has_open_pages(connection: &Connection) -> Result<bool, StoreError> {
    let mut statement = connection.prepare_cached(
        "select 1 from pages p join dispatches d on d.no = p.dispatch_no
         where p.finished = 0 and d.paused_until is null limit 1",
    )?;
    Ok(statement.exists(params![])?)
}

fn has_claimed_retries(connection: &Connection) -> Result<bool, StoreError> {
    let mut statement = connection.prepare_cached(
        "select 1 from retries where epoch is not null and outcome is null limit 1",
    )?;
    Ok(statement.exists(params![])?)
}
