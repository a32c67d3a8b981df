//! Deleting what is over, a bounded number of rows a transaction, so that others' writes come in
//! between. Where it stands is in the rows themselves: `notifications.kept` says what of one is
//! still there.

use super::super::app::{erase_notification, erase_pages};
use super::super::device::verification;
use super::super::once;
use super::super::writer::WriteTx;
use crate::store::sql::{Connection, OptionalExtension};
use crate::store::{Deleted, Over, RETENTION_ROWS_MAX, StoreError};

/// Bits of `notifications.kept`: outcomes device by device, and events device by device.
const OUTCOMES: i64 = 1;
pub(crate) const EVENTS: i64 = 2;
/// Approximate number of rows that erasing an anonymous device changes, its tags and counts included.
const ROWS_OF_A_DEVICE: u64 = 64;

/// Deletes some of what is over.
pub(super) fn step(tx: &mut WriteTx<'_>, over: &Over) -> Result<Deleted, StoreError> {
    let answers = once::delete_over(tx, over.answers_before, RETENTION_ROWS_MAX)?;
    let mut deleted =
        Deleted { answers, more: answers >= RETENTION_ROWS_MAX, ..Deleted::default() };
    let mut left = RETENTION_ROWS_MAX.saturating_sub(answers);
    while left > 0 {
        let Some(rows) = next(tx, over, &mut deleted)? else { return Ok(deleted) };
        left = left.saturating_sub(rows);
    }
    deleted.more = true;
    Ok(deleted)
}

/// Takes one notification a step further; how many rows that came to, or `None`: nothing is over.
fn next(
    tx: &mut WriteTx<'_>,
    over: &Over,
    deleted: &mut Deleted,
) -> Result<Option<u64>, StoreError> {
    if let Some(before) = over.notifications_before
        && let Some(no) = oldest(tx, &[0, OUTCOMES, EVENTS, OUTCOMES | EVENTS], before.as_ms())?
    {
        let (rows, gone) = erase_notification(tx, no)?;
        deleted.notifications += u64::from(gone);
        return Ok(Some(rows));
    }
    if let Some(before) = over.outcomes_before
        && let Some(no) = oldest(tx, &[OUTCOMES, OUTCOMES | EVENTS], before.as_ms())?
    {
        let rows = erase_pages(tx, no)?;
        if rows == 0 {
            forget(tx, no, OUTCOMES)?;
            deleted.outcomes += 1;
        }
        return Ok(Some(rows + 1));
    }
    if let Some(before) = over.events_before
        && let Some(no) = oldest(tx, &[EVENTS, OUTCOMES | EVENTS], before.as_ms())?
    {
        let rows = erase_events(tx, no)?;
        if rows == 0 {
            forget(tx, no, EVENTS)?;
            deleted.events += 1;
        }
        return Ok(Some(rows + 1));
    }
    if let Some(before) = over.anonymous_before
        && verification::remove_expired(tx, before, over.at)?
    {
        deleted.anonymous_devices += 1;
        return Ok(Some(ROWS_OF_A_DEVICE));
    }
    Ok(None)
}

/// A notification that has one of these sets of what is kept, and ended before.
fn oldest(tx: &Connection, kept: &[i64], before: i64) -> Result<Option<i64>, StoreError> {
    for kept in kept {
        let no = tx
            .prepare_cached(
                "select no from notifications indexed by notifications_ended
                 where status in ('completed', 'canceled', 'reported') and kept = ?1
                 and coalesce(completed_at, created_at) < ?2
                 order by coalesce(completed_at, created_at) limit 1",
            )?
            .query_row([*kept, before], |row| row.get(0))
            .optional()?;
        if no.is_some() {
            return Ok(no);
        }
    }
    Ok(None)
}

fn forget(tx: &Connection, no: i64, what: i64) -> Result<(), StoreError> {
    tx.prepare_cached("update notifications set kept = kept & ~?2 where no = ?1")?
        .execute([no, what])?;
    Ok(())
}

fn erase_events(tx: &Connection, no: i64) -> Result<u64, StoreError> {
    let rows = tx
        .prepare_cached(
            "delete from engagement where notification_no = ?1 and device_key <=
             (select max(device_key) from (select device_key from engagement
              where notification_no = ?1 order by device_key limit ?2) first)",
        )?
        .execute([no, i64::try_from(RETENTION_ROWS_MAX).unwrap_or(i64::MAX)])?;
    Ok(rows as u64)
}
