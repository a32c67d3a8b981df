//! Queues by application, and the ids of applications, for the metrics by application.

use notify_core::{AppId, Timestamp};

use crate::store::sql::connection::Rows;
use crate::store::sql::row::{count_at, uuid_at};
use crate::store::sql::{Connection, OptionalExtension, params, seq_of};
use crate::store::{AppNo, QUEUE_ROWS_MAX, Store, StoreError};

/// The queue of one application.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AppQueue {
    /// The application.
    pub app: AppNo,
    /// The number of deliveries that began and have no outcome: in open pages, and waiting for a retry.
    pub open: u64,
    /// The due time of the oldest unfinished work.
    pub oldest_due_at: Option<Timestamp>,
}

impl Store {
    /// Reads the queues of the applications that have unfinished work. Reads at most [`QUEUE_ROWS_MAX`] rows of
    /// each kind, as [`Store::queue`] does.
    pub async fn app_queues(&self, now: Timestamp) -> Result<Vec<AppQueue>, StoreError> {
        self.read(move |connection| read_app_queues(connection, now)).await
    }

    /// Reads the oldest applications, oldest first.
    pub async fn oldest_apps(&self, limit: u32) -> Result<Vec<(AppNo, AppId)>, StoreError> {
        self.read_statement(move |connection| {
            let apps = connection
                .prepare_cached(
                    "select no, id from apps where status <> 'erasing' order by no limit ?1",
                )?
                .query_map([limit], |row| Ok((AppNo(row.get(0)?), AppId(uuid_at(row, 1)?))))?
                .collect::<Result<Vec<_>, _>>()?;
            Ok(apps)
        })
        .await
    }

    /// Reads the ids of applications; `None` for an application that was deleted.
    pub async fn app_ids(
        &self,
        apps: Vec<AppNo>,
    ) -> Result<Vec<(AppNo, Option<AppId>)>, StoreError> {
        self.read(move |connection| {
            let mut statement = connection.prepare_cached("select id from apps where no = ?1")?;
            apps.into_iter()
                .map(|app| {
                    let id = statement
                        .query_row([app.0], |row| uuid_at(row, 0).map(AppId))
                        .optional()?;
                    Ok((app, id))
                })
                .collect()
        })
        .await
    }
}

fn read_app_queues(connection: &Connection, now: Timestamp) -> Result<Vec<AppQueue>, StoreError> {
    let mut queues = Vec::new();
    let mut due = connection.prepare_cached(
        "select app_no, cast(0 as bigint), min(due_at) from
         (select app_no, due_at from notifications indexed by notifications_due
          where status in ('scheduled', 'queued') and due_at <= ?1 order by due_at limit ?2) due
         group by app_no",
    )?;
    add(&mut queues, &mut due.query([now.as_ms(), i64::from(QUEUE_ROWS_MAX)])?)?;
    let mut unread = connection.prepare_cached(concat!(
        "select n.app_no, cast(0 as bigint), min(n.due_at) from
         (select notification_no from dispatches indexed by dispatches_unread
          where scan_done = 0 order by ",
        seq_of!("no"),
        " limit ?1) d join notifications n on n.no = d.notification_no group by n.app_no"
    ))?;
    add(&mut queues, &mut unread.query([QUEUE_ROWS_MAX])?)?;
    let mut pages = connection.prepare_cached(concat!(
        "select n.app_no, sum(p.sending), min(n.due_at) from
         (select dispatch_no, targeted - sent - failed - unregistered - expired - canceled
          - retrying as sending from pages indexed by pages_open where finished = 0
          order by ",
        seq_of!("no"),
        " limit ?1) p join dispatches d on d.no = p.dispatch_no
         join notifications n on n.no = d.notification_no group by n.app_no"
    ))?;
    add(&mut queues, &mut pages.query([QUEUE_ROWS_MAX])?)?;
    let mut retries = connection.prepare_cached(
        "select app_no, count(*), min(case when claimable_at <= ?1 then claimable_at end) from
         (select app_no, claimable_at from retries indexed by retries_open
          where outcome is null limit ?2) open group by app_no",
    )?;
    add(&mut queues, &mut retries.query(params![now.as_ms(), QUEUE_ROWS_MAX])?)?;
    Ok(merged(queues))
}

/// Adds rows of an application, a number of deliveries and a due time.
fn add(queues: &mut Vec<AppQueue>, rows: &mut Rows<'_>) -> Result<(), StoreError> {
    while let Some(row) = rows.next()? {
        let due_at: Option<i64> = row.get(2)?;
        queues.push(AppQueue {
            app: AppNo(row.get(0)?),
            open: count_at(&row, 1)?,
            oldest_due_at: due_at.map(Timestamp),
        });
    }
    Ok(())
}

/// One queue for each application, in the order of the applications.
fn merged(mut queues: Vec<AppQueue>) -> Vec<AppQueue> {
    queues.sort_by_key(|queue| queue.app);
    queues.dedup_by(|queue, kept| {
        let is_same = queue.app == kept.app;
        if is_same {
            kept.open += queue.open;
            kept.oldest_due_at = kept.oldest_due_at.into_iter().chain(queue.oldest_due_at).min();
        }
        is_same
    });
    queues
}
