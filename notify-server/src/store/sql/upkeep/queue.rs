//! How much waits, over the partial indexes of what is open: the cost follows the queue, up to a
//! bound, and not the history.

use notify_core::{Platform, Timestamp};

use super::super::row::{count_at, platforms_of};
use crate::store::sql::{Connection, count_of, params};
use crate::store::{QUEUE_ROWS_MAX, Queue, StoreError, platform_of};

pub(super) fn read(connection: &Connection, now: Timestamp) -> Result<Vec<Queue>, StoreError> {
    let mut queues = Queues(Platform::ALL.map(Queue::empty));
    not_started(connection, now, &mut queues)?;
    not_scanned(connection, &mut queues)?;
    sending(connection, &mut queues)?;
    retrying(connection, now, &mut queues)?;
    Ok(queues.0.to_vec())
}

struct Queues([Queue; Platform::ALL.len()]);

impl Queues {
    fn of(&mut self, platform: Platform) -> &mut Queue {
        let mut queues = self.0.iter_mut();
        queues.find(|queue| queue.platform == platform).expect("every platform is listed")
    }

    /// Something was due then.
    fn due(&mut self, platform: Platform, at: Option<i64>) {
        let queue = self.of(platform);
        let at = at.map(Timestamp);
        queue.oldest_due_at = match (queue.oldest_due_at, at) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
    }
}

/// Notifications that are due and have no dispatch: an engine that does not work shows here.
fn not_started(
    connection: &Connection,
    now: Timestamp,
    queues: &mut Queues,
) -> Result<(), StoreError> {
    let mut oldest = connection.prepare_cached(
        "select platforms, min(due_at) from
         (select platforms, due_at from notifications indexed by notifications_due
          where status in ('scheduled', 'queued') and due_at <= ?1 order by due_at limit ?2) due
         group by platforms",
    )?;
    let mut rows = oldest.query([now.as_ms(), i64::from(QUEUE_ROWS_MAX)])?;
    while let Some(row) = rows.next()? {
        let at = row.get(1)?;
        platforms_of(row.get(0)?).into_iter().for_each(|platform| queues.due(platform, at));
    }
    Ok(())
}

/// Dispatches whose audience is not read to its end, the oldest first.
fn not_scanned(connection: &Connection, queues: &mut Queues) -> Result<(), StoreError> {
    let mut oldest = connection.prepare_cached(concat!(
        "select d.platform, min(n.due_at) from
         (select platform, notification_no from dispatches indexed by dispatches_unread
          where scan_done = 0 order by ",
        count_of!("no"),
        " limit ?1) d join notifications n on n.no = d.notification_no group by d.platform"
    ))?;
    let mut rows = oldest.query([QUEUE_ROWS_MAX])?;
    while let Some(row) = rows.next()? {
        queues.due(platform_of(row.get(0)?), row.get(1)?);
    }
    Ok(())
}

/// Pages that are worked on: what is targeted and has neither outcome nor retry.
fn sending(connection: &Connection, queues: &mut Queues) -> Result<(), StoreError> {
    let mut pages = connection.prepare_cached(concat!(
        "select d.platform, sum(p.waiting), min(n.due_at) from
         (select dispatch_no, targeted - sent - failed - unregistered - expired - canceled
          - retrying as waiting from pages indexed by pages_open where finished = 0
          order by ",
        count_of!("no"),
        " limit ?1) p join dispatches d on d.no = p.dispatch_no
         join notifications n on n.no = d.notification_no group by d.platform"
    ))?;
    let mut rows = pages.query([QUEUE_ROWS_MAX])?;
    while let Some(row) = rows.next()? {
        let platform = platform_of(row.get(0)?);
        queues.of(platform).sending = count_at(&row, 1)?;
        queues.due(platform, row.get(2)?);
    }
    Ok(())
}

fn retrying(
    connection: &Connection,
    now: Timestamp,
    queues: &mut Queues,
) -> Result<(), StoreError> {
    let mut retries = connection.prepare_cached(
        "select platform, count(*) filter (where claimable_at <= ?1),
         count(*) filter (where claimable_at > ?1),
         min(case when claimable_at <= ?1 then claimable_at end) from
         (select platform, claimable_at from retries indexed by retries_open
          where outcome is null limit ?2) open group by platform",
    )?;
    let mut rows = retries.query(params![now.as_ms(), QUEUE_ROWS_MAX])?;
    while let Some(row) = rows.next()? {
        let platform = platform_of(row.get(0)?);
        let queue = queues.of(platform);
        queue.retry_due = count_at(&row, 1)?;
        queue.retry_waiting = count_at(&row, 2)?;
        queues.due(platform, row.get(3)?);
    }
    Ok(())
}
