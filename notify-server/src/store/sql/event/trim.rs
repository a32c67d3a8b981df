//! Deleting events and messages that are over, a bounded number of rows a transaction.

use notify_core::Timestamp;

use crate::store::sql::{Connection, params};
use crate::store::{AppNo, EVENTS_KEPT_MAX, EVENTS_KEPT_MS, MESSAGES_KEPT_MS, StoreError, Trimmed};

/// Most rows that a step deletes of one application, and of messages.
const ROWS_PER_STEP: i64 = 1_000;

pub(super) fn step(tx: &Connection, now: Timestamp) -> Result<Trimmed, StoreError> {
    let mut trimmed = Trimmed::default();
    let apps = tx
        .prepare_cached("select app_no from event_logs")?
        .query_map([], |row| row.get(0).map(AppNo))?
        .collect::<Result<Vec<_>, _>>()?;
    for app in apps {
        if trimmed.events >= ROWS_PER_STEP.unsigned_abs() {
            trimmed.more = true;
            break;
        }
        of_app(tx, app, now, &mut trimmed)?;
    }
    let messages = tx
        .prepare_cached(
            "delete from webhook_messages where no in
             (select no from webhook_messages indexed by webhook_messages_over
              where state <> 0 and last_attempt_at < ?1 order by last_attempt_at limit ?2)",
        )?
        .execute([now.as_ms() - MESSAGES_KEPT_MS, ROWS_PER_STEP])?;
    trimmed.messages = messages as u64;
    trimmed.more |= trimmed.messages >= ROWS_PER_STEP.unsigned_abs();
    Ok(trimmed)
}

fn of_app(
    tx: &Connection,
    app: AppNo,
    now: Timestamp,
    trimmed: &mut Trimmed,
) -> Result<(), StoreError> {
    // Numbers and times both grow: what is over lies at the beginning.
    let up_to: Option<i64> = tx
        .prepare_cached(
            "select max(no) from (select no, at from events where app_no = ?1 order by no limit ?4) first
             where at < ?2
             or no <= (select max(no) from events where app_no = ?1) - ?3",
        )?
        .query_row(
            [app.0, now.as_ms() - EVENTS_KEPT_MS, EVENTS_KEPT_MAX, ROWS_PER_STEP],
            |row| row.get(0),
        )?;
    let Some(up_to) = up_to else { return Ok(()) };
    trimmed.dropped += drop_untold(tx, app, up_to)?;
    let events = tx
        .prepare_cached("delete from events where app_no = ?1 and no <= ?2")?
        .execute([app.0, up_to])?;
    tx.prepare_cached("update event_logs set floor = max(floor, ?2) where app_no = ?1")?
        .execute([app.0, up_to])?;
    trimmed.events += events as u64;
    trimmed.more |= events as i64 >= ROWS_PER_STEP;
    Ok(())
}

/// Counts for each webhook the events that go before it was told of them.
fn drop_untold(tx: &Connection, app: AppNo, up_to: i64) -> Result<u64, StoreError> {
    let behind = tx
        .prepare_cached(
            "select w.no, (select count(*) from events e where e.app_no = ?1 and e.no > w.cursor
              and e.no <= ?2 and w.events & (cast(1 as bigint) << cast(e.type as integer)) <> 0)
             from webhooks w where w.app_no = ?1 and w.enabled = 1 and w.cursor < ?2",
        )?
        .query_map([app.0, up_to], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<Vec<(i64, i64)>, _>>()?;
    let mut dropped = 0;
    for (no, count) in behind {
        tx.prepare_cached("update webhooks set dropped = dropped + ?2, cursor = ?3 where no = ?1")?
            .execute(params![no, count, up_to])?;
        dropped += count.unsigned_abs();
    }
    Ok(dropped)
}
