//! The queues: deliveries without an outcome, and how long the oldest work is overdue. They are read from
//! partial indexes of unfinished rows, so the cost depends on the length of a queue, up to a limit, and not on
//! the number of all rows.

use notify_core::{Platform, Timestamp};

use crate::store::sql::connection::Rows;
use crate::store::sql::row::{count_at, platforms_of};
use crate::store::sql::{Connection, params, seq_of};
use crate::store::{AppNo, Store, StoreError, platform_of};

/// The most rows of each kind that [`Store::queues`] reads. A longer queue is reported with this length. The
/// length is for alarms, and reading it must not become more expensive as the queue grows.
pub const QUEUE_ROWS_MAX: u32 = 20_000;

/// All queues at one instant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queues {
    /// The queue of every platform.
    pub platforms: Vec<Queue>,
    /// The queues of the applications with unfinished work, in the order of their numbers.
    pub apps: Vec<AppQueue>,
}

/// The queue of one platform.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Queue {
    /// Platform.
    pub platform: Platform,
    /// The number of deliveries in open pages that have neither outcome nor retry.
    pub sending: u64,
    /// The number of retries that are due.
    pub retry_due: u64,
    /// The number of retries that are not due yet, are claimed, or belong to a paused notification.
    pub retry_waiting: u64,
    /// The due time of the oldest unfinished work. What waits for the end of a pause or for its rate is not
    /// due.
    pub oldest_due_at: Option<Timestamp>,
}

impl Queue {
    /// An empty queue.
    #[must_use]
    pub fn empty(platform: Platform) -> Self {
        Self { platform, sending: 0, retry_due: 0, retry_waiting: 0, oldest_due_at: None }
    }
}

/// The queue of one application.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AppQueue {
    /// The application.
    pub app: AppNo,
    /// The number of deliveries that began and have no outcome: in open pages, and waiting for a retry.
    pub open: u64,
    /// The due time of the oldest unfinished work, as in [`Queue::oldest_due_at`].
    pub oldest_due_at: Option<Timestamp>,
}

impl Store {
    /// Reads the queues. Reads at most [`QUEUE_ROWS_MAX`] rows of each kind.
    pub async fn queues(&self, now: Timestamp) -> Result<Queues, StoreError> {
        self.read(move |connection| Ok(Queues::of(&read_work(connection, now)?))).await
    }
}

/// The unfinished work of one kind, of one application on one platform.
struct Work {
    app: AppNo,
    platform: Platform,
    sending: u64,
    retry_due: u64,
    retry_waiting: u64,
    oldest_due_at: Option<Timestamp>,
}

impl Queues {
    fn of(work: &[Work]) -> Self {
        let mut platforms = Platform::ALL.map(Queue::empty);
        for queue in &mut platforms {
            for work in work.iter().filter(|work| work.platform == queue.platform) {
                queue.sending += work.sending;
                queue.retry_due += work.retry_due;
                queue.retry_waiting += work.retry_waiting;
                queue.oldest_due_at = earlier(queue.oldest_due_at, work.oldest_due_at);
            }
        }
        let mut apps: Vec<AppQueue> = work
            .iter()
            .map(|work| AppQueue {
                app: work.app,
                open: work.sending + work.retry_due + work.retry_waiting,
                oldest_due_at: work.oldest_due_at,
            })
            .collect();
        apps.sort_by_key(|queue| queue.app);
        apps.dedup_by(|queue, kept| {
            let is_same = queue.app == kept.app;
            if is_same {
                kept.open += queue.open;
                kept.oldest_due_at = earlier(kept.oldest_due_at, queue.oldest_due_at);
            }
            is_same
        });
        Self { platforms: platforms.to_vec(), apps }
    }
}

fn earlier(one: Option<Timestamp>, other: Option<Timestamp>) -> Option<Timestamp> {
    one.into_iter().chain(other).min()
}

/// The due time of a dispatch `d` of a notification `n`, or null while it waits for the end of a pause or for
/// its rate. With a rate, work is due when the rate allows it. `?1` is the time.
macro_rules! due_at {
    () => {
        "case when coalesce(d.paused_until, 0) <= ?1 and coalesce(n.next_grant_at, 0) <= ?1
         then case when n.next_grant_at > n.due_at then n.next_grant_at else n.due_at end end"
    };
}

fn read_work(connection: &Connection, now: Timestamp) -> Result<Vec<Work>, StoreError> {
    let mut work = Vec::new();
    // Notifications that are due and not started. They become old only if the delivery engine does not run.
    let mut due = connection.prepare_cached(
        "select app_no, platforms, min(due_at) from
         (select app_no, platforms, due_at from notifications indexed by notifications_due
          where status in ('scheduled', 'queued') and due_at <= ?1 order by due_at limit ?2) due
         group by app_no, platforms",
    )?;
    let mut rows = due.query(params![now.as_ms(), QUEUE_ROWS_MAX])?;
    while let Some(row) = rows.next()? {
        let app = AppNo(row.get(0)?);
        let oldest_due_at = row.get::<Option<i64>>(2)?.map(Timestamp);
        let of_platform = |platform| Work {
            app,
            platform,
            sending: 0,
            retry_due: 0,
            retry_waiting: 0,
            oldest_due_at,
        };
        work.extend(platforms_of(row.get(1)?).into_iter().map(of_platform));
    }
    // The oldest dispatches whose scan has not ended.
    let mut unread = connection.prepare_cached(concat!(
        "select n.app_no, d.platform, cast(0 as bigint), cast(0 as bigint), cast(0 as bigint), min(",
        due_at!(),
        ") from
         (select platform, notification_no, paused_until from dispatches indexed by dispatches_unread
          where scan_done = 0 order by ",
        seq_of!("no"),
        " limit ?2) d join notifications n on n.no = d.notification_no
         group by n.app_no, d.platform"
    ))?;
    add(&mut work, &mut unread.query(params![now.as_ms(), QUEUE_ROWS_MAX])?)?;
    // The deliveries of open pages that have neither outcome nor retry.
    let mut pages = connection.prepare_cached(concat!(
        "select n.app_no, d.platform, sum(p.sending), cast(0 as bigint), cast(0 as bigint), min(",
        due_at!(),
        ") from
         (select dispatch_no, targeted - sent - failed - unregistered - expired - canceled
          - retrying as sending from pages indexed by pages_open where finished = 0
          order by ",
        seq_of!("no"),
        " limit ?2) p join dispatches d on d.no = p.dispatch_no
         join notifications n on n.no = d.notification_no group by n.app_no, d.platform"
    ))?;
    add(&mut work, &mut pages.query(params![now.as_ms(), QUEUE_ROWS_MAX])?)?;
    // The retries without an outcome.
    let mut retries = connection.prepare_cached(
        "select r.app_no, r.platform, cast(0 as bigint),
         count(*) filter (where claimable_at <= ?1 and coalesce(d.paused_until, 0) <= ?1),
         count(*) filter (where claimable_at > ?1 or d.paused_until > ?1),
         min(case when claimable_at <= ?1 and coalesce(d.paused_until, 0) <= ?1
             then claimable_at end) from
         (select app_no, platform, claimable_at, dispatch_no from retries indexed by retries_open
          where outcome is null limit ?2) r
         join dispatches d on d.no = r.dispatch_no group by r.app_no, r.platform",
    )?;
    add(&mut work, &mut retries.query(params![now.as_ms(), QUEUE_ROWS_MAX])?)?;
    Ok(work)
}

/// Adds rows of an application, a platform, three numbers of deliveries and a due time.
fn add(work: &mut Vec<Work>, rows: &mut Rows<'_>) -> Result<(), StoreError> {
    while let Some(row) = rows.next()? {
        work.push(Work {
            app: AppNo(row.get(0)?),
            platform: platform_of(row.get(1)?),
            sending: count_at(&row, 2)?,
            retry_due: count_at(&row, 3)?,
            retry_waiting: count_at(&row, 4)?,
            oldest_due_at: row.get::<Option<i64>>(5)?.map(Timestamp),
        });
    }
    Ok(())
}
