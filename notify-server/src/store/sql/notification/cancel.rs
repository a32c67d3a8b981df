//! Canceling what has not been sent yet (B20).

use notify_core::{NotificationId, NotificationStatus, Timestamp};

use super::super::delivery::{
    cancel_retries_of_dispatch, canceled_so_far, end_canceled_or_not, tell_end,
};
use super::super::row::{live_app, unknown_value};
use super::super::writer::WriteTx;
use crate::store::sql::{OptionalExtension, Type, params};
use crate::store::{AppNo, Change, DispatchNo, NotificationNo, StoreError};

/// Cancels a notification.
pub(super) fn notification(
    tx: &mut WriteTx<'_>,
    app: AppNo,
    id: &NotificationId,
    at: Timestamp,
) -> Result<(), StoreError> {
    live_app(tx, app)?;
    let (no, status, requested) = tx
        .prepare_cached(
            "select no, status, cancel_requested_at is not null from notifications
             where app_no = ?1 and id = ?2",
        )?
        .query_row(params![app.0, id.as_str()], |row| {
            let status: String = row.get(1)?;
            let status = NotificationStatus::from_word(&status)
                .ok_or_else(|| unknown_value(1, Type::Text))?;
            Ok((NotificationNo(row.get(0)?), status, row.get::<bool>(2)?))
        })
        .optional()?
        .ok_or(StoreError::NotFound)?;
    match status {
        NotificationStatus::Scheduled | NotificationStatus::Queued => {
            tx.prepare_cached(
                "update notifications set status = 'canceled', cancel_requested_at = ?2,
                 completed_at = ?2, next_zone_at = null where no = ?1",
            )?
            .execute([no.0, at.as_ms()])?;
            tell_end(tx, no, true, at)?;
        }
        NotificationStatus::Sending if !requested => cancel_dispatches(tx, no, at)?,
        NotificationStatus::Sending
        | NotificationStatus::Completed
        | NotificationStatus::Canceled
        | NotificationStatus::Reported => {
            return Err(StoreError::refused("id", "has ended: no delivery is left to cancel"));
        }
    }
    tx.changed(Change::NotificationCanceled(no));
    Ok(())
}

/// Marks every dispatch that is not done and ends its retries; the engine counts the rest off.
fn cancel_dispatches(
    tx: &mut WriteTx<'_>,
    no: NotificationNo,
    at: Timestamp,
) -> Result<(), StoreError> {
    let before = canceled_so_far(tx, no)?;
    tx.prepare_cached(
        "update notifications set cancel_requested_at = ?2, canceled_before = ?3,
         zones_canceled = case when next_zone_at is not null then 1 else 0 end, next_zone_at = null where no = ?1",
    )?
    .execute([no.0, at.as_ms(), before])?;
    let dispatches = tx
        .prepare_cached(
            "update dispatches set is_canceled = 1
             where notification_no = ?1 and completed_at is null returning no",
        )?
        .query_map([no.0], |row| row.get(0).map(DispatchNo))?
        .collect::<Result<Vec<_>, _>>()?;
    if dispatches.is_empty() {
        // Between two zones: nothing else ends it.
        return end_canceled_or_not(tx, no, at);
    }
    dispatches.into_iter().try_for_each(|dispatch| cancel_retries_of_dispatch(tx, dispatch, at))
}
