//! The work of the delivery engine, for tests that wait until it has none.

use std::collections::BTreeSet;

use notify_core::{Platform, Timestamp};

use crate::store::delivery::{retry, start};
use crate::store::sql::Connection;
use crate::store::{AppNo, StoreError, platform_of};

/// The work of the delivery engine at one instant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workload {
    /// Whether a notification, one of its zones or the check of a canary is due.
    pub has_starts_due: bool,
    /// The applications and platforms that have deliveries which are due or under way.
    pub lanes: BTreeSet<(AppNo, Platform)>,
    /// When the next work becomes due that is not due yet.
    pub next_due: Option<Timestamp>,
}

impl Workload {
    /// Whether anything is due or under way.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.has_starts_due || !self.lanes.is_empty()
    }
}

/// The dispatches with devices to read, with open pages and with claimed retries.
const BUSY: &str = "
    select d.no, d.platform from dispatches d join notifications n on n.no = d.notification_no
    where d.scan_done = 0 and d.paused_until is null and coalesce(n.next_grant_at, 0) <= ?1
    union
    select d.no, d.platform from pages p join dispatches d on d.no = p.dispatch_no
    where p.finished = 0 and d.paused_until is null
    union
    select dispatch_no, platform from retries where epoch is not null and outcome is null";

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
    let mut lanes = connection
        .prepare_cached(BUSY)?
        .query_map([now.0], |row| Ok((AppNo::from_key(row.get(0)?), platform_of(row.get(1)?))))?
        .collect::<Result<BTreeSet<_>, _>>()?;
    lanes.extend(agenda.retry_lanes);
    // Retries of a platform that gets no deliveries stay due, and must not hide those of the others.
    let retries = retry::lanes(connection)?.into_iter().map(|lane| lane.claimable_at);
    let times = agenda.next_due.into_iter().chain(next_granted.map(Timestamp)).chain(retries);
    let next_due = times.filter(|due| *due > now).min();
    let has_starts_due = agenda.next_due.is_some_and(|due| due <= now);
    Ok(Workload { has_starts_due, lanes, next_due })
}
