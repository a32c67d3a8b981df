//! Daily counters: one row for each application and UTC day. The transaction that records a
//! delivery or an event also increments the counter. Counters are never decremented, so the
//! deletion of old rows does not change them.

use notify_core::{Day, DayCount, DayPeriod, EventType, Timestamp};

use crate::store::sql::row::count_at;
use crate::store::sql::{Connection, params};
use crate::store::{AppNo, Outcome, StoreError};

/// What a transaction adds to the counters of a day.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct DailyDelta {
    sent: i64,
    failed: i64,
    unregistered: i64,
    expired: i64,
    received: i64,
    opened: i64,
    clicked: i64,
    dismissed: i64,
}

impl DailyDelta {
    /// Adds `deliveries` that ended with an outcome. Canceled deliveries have no daily counter.
    pub(super) fn add_outcome(&mut self, outcome: Outcome, deliveries: i64) {
        match outcome {
            Outcome::Sent => self.sent += deliveries,
            Outcome::Failed => self.failed += deliveries,
            Outcome::Unregistered => self.unregistered += deliveries,
            Outcome::Expired => self.expired += deliveries,
            Outcome::Canceled => {}
        }
    }

    /// Adds an event. The caller passes only the first event of its type for each device and
    /// notification.
    pub(super) fn add_event(&mut self, kind: EventType) {
        match kind {
            EventType::Received => self.received += 1,
            EventType::Opened => self.opened += 1,
            EventType::Clicked => self.clicked += 1,
            EventType::Dismissed => self.dismissed += 1,
        }
    }

    fn is_empty(&self) -> bool {
        let deliveries = self.sent + self.failed + self.unregistered + self.expired;
        deliveries + self.received + self.opened + self.clicked + self.dismissed == 0
    }
}

/// Adds a delta to the counters of the day of `at`. An empty delta writes nothing.
pub(super) fn add(
    tx: &Connection,
    app: AppNo,
    delta: DailyDelta,
    at: Timestamp,
) -> Result<(), StoreError> {
    if delta.is_empty() {
        return Ok(());
    }
    tx.prepare_cached(
        "insert into day_counts (app_no, day, sent, failed, unregistered, expired, received, opened,
         clicked, dismissed) values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
         on conflict (app_no, day) do update set sent = day_counts.sent + excluded.sent,
         failed = day_counts.failed + excluded.failed,
         unregistered = day_counts.unregistered + excluded.unregistered,
         expired = day_counts.expired + excluded.expired,
         received = day_counts.received + excluded.received,
         opened = day_counts.opened + excluded.opened,
         clicked = day_counts.clicked + excluded.clicked,
         dismissed = day_counts.dismissed + excluded.dismissed",
    )?
    .execute(params![
        app.0,
        Day::of(at).0,
        delta.sent,
        delta.failed,
        delta.unregistered,
        delta.expired,
        delta.received,
        delta.opened,
        delta.clicked,
        delta.dismissed
    ])?;
    Ok(())
}

/// Reads the counters of a period, in the order of the days. Days without counters are left out.
pub(super) fn read(
    connection: &Connection,
    app: AppNo,
    period: DayPeriod,
) -> Result<Vec<DayCount>, StoreError> {
    let days = connection
        .prepare_cached(
            "select day, sent, failed, unregistered, expired, received, opened, clicked, dismissed
             from day_counts where app_no = ?1 and day >= ?2 and day <= ?3 order by day",
        )?
        .query_map([app.0, period.earliest().0, period.last.0], |row| {
            Ok(DayCount {
                day: Day(row.get(0)?),
                sent: count_at(row, 1)?,
                failed: count_at(row, 2)?,
                unregistered: count_at(row, 3)?,
                expired: count_at(row, 4)?,
                received: count_at(row, 5)?,
                opened: count_at(row, 6)?,
                clicked: count_at(row, 7)?,
                dismissed: count_at(row, 8)?,
            })
        })?
        .collect::<Result<Vec<_>, _>>()?;
    Ok(days)
}
