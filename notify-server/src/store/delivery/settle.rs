//! Ending retries, dispatches and notifications. A dispatch counts its open pages and retries, and
//! the change that brings the count to zero ends the dispatch. The alternative, to check whether
//! all other parts have ended, fails if two transactions end the last two parts concurrently: each
//! still sees the part of the other as open.

use std::collections::BTreeMap;

use notify_core::{TTL_SECONDS_MAX, Timestamp, WebhookEventType};

use crate::reasons::NO_SUCH_DEVICE;
use crate::store::delivery::dispatch::REST_CODE;
use crate::store::event::{self, EventRefs};
use crate::store::sql::writer::WriteTx;
use crate::store::sql::{Connection, OptionalExtension, params};
use crate::store::{AppNo, DeviceKey, DispatchNo, NotificationNo, Outcome, PageNo, StoreError};

/// A change of the numbers of open pages and retries of a dispatch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct PendingDelta {
    /// The change of the number of open pages.
    pub(super) pages: i64,
    /// The change of the number of open retries.
    pub(super) retries: i64,
    /// Whether the scan has ended with this change.
    pub(super) scan_done: bool,
}

/// Applies a change of the open pages and retries. If nothing is open afterwards and the scan has
/// ended, the dispatch ends.
pub(super) fn apply_delta(
    tx: &mut WriteTx<'_>,
    dispatch: DispatchNo,
    delta: PendingDelta,
    at: Timestamp,
) -> Result<(), StoreError> {
    let is_complete: Option<bool> = tx
        .prepare_cached(
            "update dispatches set open_pages = open_pages + ?2, open_retries = open_retries + ?3,
             scan_done = scan_done | ?4 where no = ?1 and completed_at is null
             returning scan_done = 1 and open_pages = 0 and open_retries = 0",
        )?
        .query_row(params![dispatch.0, delta.pages, delta.retries, delta.scan_done], |row| {
            row.get(0)
        })
        .optional()?;
    if is_complete == Some(true) { complete(tx, dispatch, at) } else { Ok(()) }
}

/// Ends a dispatch and stores its counts in its row, so that later reads need not sum its pages.
/// Ends the notification with its last dispatch.
fn complete(tx: &mut WriteTx<'_>, dispatch: DispatchNo, at: Timestamp) -> Result<(), StoreError> {
    let notification: i64 = tx
        .prepare_cached(
            "update dispatches set completed_at = ?2,
             (targeted, sent, failed, unregistered, expired, canceled, excluded) =
             (select coalesce(sum(targeted), 0), coalesce(sum(sent), 0), coalesce(sum(failed), 0),
              coalesce(sum(unregistered), 0), coalesce(sum(expired), 0),
              coalesce(sum(canceled), 0), coalesce(sum(excluded), 0)
              from pages where dispatch_no = ?1)
             where no = ?1 returning notification_no",
        )?
        .query_row([dispatch.0, at.as_ms()], |row| row.get(0))?;
    let (open_dispatches, is_local): (i64, bool) = tx
        .prepare_cached(
            "update notifications set open_dispatches = open_dispatches - 1 where no = ?1
             returning open_dispatches, local_time is not null and cancel_requested_at is null",
        )?
        .query_row([notification], |row| Ok((row.get(0)?, row.get(1)?)))?;
    if open_dispatches > 0 {
        return Ok(());
    }
    let notification = NotificationNo(notification);
    if is_local {
        return schedule_next_zone(tx, notification, at);
    }
    end_canceled_or_not(tx, notification, at)
}

/// Schedules the next check of a notification at a local time whose last open dispatch has ended.
/// More zones and the catch-up may follow. `zones.rs` then ends the notification.
pub(crate) fn schedule_next_zone(
    tx: &Connection,
    notification: NotificationNo,
    at: Timestamp,
) -> Result<(), StoreError> {
    tx.prepare_cached(
        "update notifications set next_zone_at = coalesce(next_zone_at, ?2) where no = ?1",
    )?
    .execute([notification.0, at.as_ms()])?;
    Ok(())
}

/// Ends a notification. Its status is `canceled` if a request canceled some of its deliveries, and
/// otherwise `completed`.
pub(crate) fn end_canceled_or_not(
    tx: &mut WriteTx<'_>,
    notification: NotificationNo,
    at: Timestamp,
) -> Result<(), StoreError> {
    let (is_requested, zones_canceled, canceled_before): (bool, bool, i64) = tx
        .prepare_cached(
            "select cancel_requested_at is not null, zones_canceled, canceled_before
             from notifications where no = ?1",
        )?
        .query_row([notification.0], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    // Deliveries to devices that were erased before the request were canceled by the erasure, not
    // by the request.
    let by_request =
        is_requested && (zones_canceled || canceled_so_far(tx, notification)? > canceled_before);
    end(tx, notification, by_request, at)
}

/// Ends a notification as canceled or completed.
pub(super) fn end(
    tx: &mut WriteTx<'_>,
    notification: NotificationNo,
    canceled: bool,
    at: Timestamp,
) -> Result<(), StoreError> {
    let status = if canceled { "canceled" } else { "completed" };
    tx.prepare_cached(
        "update notifications set status = ?2, completed_at = ?3, canary_check_at = null,
         canary_judge_at = null where no = ?1",
    )?
    .execute(params![notification.0, status, at.as_ms()])?;
    record_completion_event(tx, notification, canceled, at)
}

/// How a notification ended, for webhooks.
enum End {
    Completed,
    /// It had devices, and no provider accepted it for any of them.
    Failed,
    /// All ids that it names are unknown.
    NoSuchDevice,
}

/// Writes the event of the end of a notification. A notification that was not canceled has failed
/// if it had devices and no provider accepted it for any of them, or if all ids that it names are
/// unknown.
pub(crate) fn record_completion_event(
    tx: &mut WriteTx<'_>,
    notification: NotificationNo,
    canceled: bool,
    at: Timestamp,
) -> Result<(), StoreError> {
    let (app, end) = tx
        .prepare_cached(
            "select n.app_no, case when l.app_no is null then 0
              when coalesce((select sum(d.sent) = 0
               and sum(d.failed + d.unregistered + d.expired) > 0
               from dispatches d where d.notification_no = n.no), false) then 1
              when (select coalesce(sum(d.targeted + d.excluded), 0) = 0
               and coalesce(sum(d.unknown), 0) + n.unknown > 0
               and not coalesce(length(n.named_users) > 0, false)
               from dispatches d where d.notification_no = n.no) then 2 else 0 end
             from notifications n left join event_logs l on l.app_no = n.app_no where n.no = ?1",
        )?
        .query_row([notification.0], |row| {
            let end = match row.get::<i64>(1)? {
                1 => End::Failed,
                2 => End::NoSuchDevice,
                _ => End::Completed,
            };
            Ok((AppNo(row.get(0)?), end))
        })?;
    let (kind, detail) = match end {
        // A canceled notification has not failed.
        _ if canceled => (WebhookEventType::NotificationCompleted, None),
        End::Completed => (WebhookEventType::NotificationCompleted, None),
        End::Failed => (WebhookEventType::NotificationFailed, None),
        End::NoSuchDevice => (WebhookEventType::NotificationFailed, Some(NO_SUCH_DEVICE)),
    };
    let refs = EventRefs { notification: Some(notification), detail, ..EventRefs::default() };
    event::record(tx, app, kind, refs, at)
}

/// Counts the deliveries of a notification that are canceled so far.
pub(crate) fn canceled_so_far(
    tx: &Connection,
    notification: NotificationNo,
) -> Result<i64, StoreError> {
    let sum = tx
        .prepare_cached(
            "select coalesce(sum(case when d.completed_at is not null then d.canceled else
             (select coalesce(sum(p.canceled), 0) from pages p where p.dispatch_no = d.no) end), 0)
             from dispatches d where d.notification_no = ?1",
        )?
        .query_row([notification.0], |row| row.get(0))?;
    Ok(sum)
}

/// Adds `deliveries` with this outcome to the counters of a page. `retries` of them were retries.
pub(super) fn count(
    tx: &Connection,
    page: PageNo,
    outcome: Outcome,
    deliveries: i64,
    retries: i64,
) -> Result<(), StoreError> {
    let column = match outcome {
        Outcome::Sent => "sent",
        Outcome::Failed => "failed",
        Outcome::Unregistered => "unregistered",
        Outcome::Expired => "expired",
        Outcome::Canceled => "canceled",
    };
    tx.prepare_cached(&format!(
        "update pages set {column} = {column} + ?2, retrying = retrying - ?3 where no = ?1"
    ))?
    .execute([page.0, deliveries, retries])?;
    Ok(())
}

/// Adds failed deliveries to the counter of a reason.
pub(super) fn count_failures(
    tx: &Connection,
    dispatch: DispatchNo,
    reason: &str,
    failures: i64,
) -> Result<(), StoreError> {
    tx.prepare_cached(
        "insert into failures (dispatch_no, reason, count) values (?1, ?2, ?3)
         on conflict (dispatch_no, reason) do update set count = failures.count + excluded.count",
    )?
    .execute(params![dispatch.0, reason, failures])?;
    Ok(())
}

/// Cancels the open retries of an erased device.
pub(crate) fn cancel_retries_of_device(
    tx: &mut WriteTx<'_>,
    key: DeviceKey,
    at: Timestamp,
) -> Result<(), StoreError> {
    let ended = tx
        .prepare_cached(
            "update retries set outcome = ?2, settled_at = ?3, epoch = null
             where device_key = ?1 and outcome is null returning dispatch_no, page_no",
        )?
        .query_map([key.0, i64::from(Outcome::Canceled.code()), at.as_ms()], |row| {
            Ok((DispatchNo(row.get(0)?), PageNo(row.get(1)?)))
        })?
        .collect::<Result<Vec<_>, _>>()?;
    for (dispatch, page) in ended {
        count(tx, page, Outcome::Canceled, 1, 1)?;
        apply_delta(tx, dispatch, PendingDelta { retries: -1, ..PendingDelta::default() }, at)?;
    }
    Ok(())
}

/// Cancels the open retries of a canceled dispatch, including claimed ones.
pub(crate) fn cancel_retries_of_dispatch(
    tx: &mut WriteTx<'_>,
    dispatch: DispatchNo,
    at: Timestamp,
) -> Result<(), StoreError> {
    let pages = tx
        .prepare_cached(
            "update retries set outcome = ?2, settled_at = ?3, epoch = null
             where dispatch_no = ?1 and outcome is null returning page_no",
        )?
        .query_map([dispatch.0, i64::from(Outcome::Canceled.code()), at.as_ms()], |row| {
            row.get::<i64>(0)
        })?
        .collect::<Result<Vec<_>, _>>()?;
    let mut ended = BTreeMap::<i64, i64>::new();
    for page in pages {
        *ended.entry(page).or_default() += 1;
    }
    for (page, retries) in &ended {
        count(tx, PageNo(*page), Outcome::Canceled, *retries, *retries)?;
    }
    apply_delta(
        tx,
        dispatch,
        PendingDelta { retries: -ended.values().sum::<i64>(), ..PendingDelta::default() },
        at,
    )
}

// Pausing and resuming.

/// Pauses the open dispatches of a notification: none of their pages and retries can be claimed until they
/// expire. A dispatch without a time of expiry waits as long as the longest `ttl_seconds`, and expires
/// then.
pub(crate) fn hold(tx: &Connection, notification: NotificationNo) -> Result<(), StoreError> {
    hold_from(tx, notification, i64::MIN)
}

/// Keeps the rest of an audience from being sent until its canary is judged. Its dispatches wait as those
/// of a paused notification do.
pub(super) fn hold_rest(tx: &Connection, notification: NotificationNo) -> Result<(), StoreError> {
    hold_from(tx, notification, REST_CODE)
}

/// Holds the open dispatches of a notification whose portions have at least this code.
fn hold_from(
    tx: &Connection,
    notification: NotificationNo,
    portion: i64,
) -> Result<(), StoreError> {
    let dispatches = tx
        .prepare_cached(
            "update dispatches set paused_until = due_at + 1000 * coalesce(
              (select nullif(n.ttl_seconds, 0) from notifications n
               where n.no = notification_no), ?2)
             where notification_no = ?1 and completed_at is null and portion >= ?3 returning no",
        )?
        .query_map([notification.0, i64::from(TTL_SECONDS_MAX), portion], |row| {
            row.get(0).map(DispatchNo)
        })?
        .collect::<Result<Vec<_>, _>>()?;
    dispatches.into_iter().try_for_each(|dispatch| hold_retries(tx, dispatch))
}

/// How long after the end of a pause a retry can be claimed that a process holds, in milliseconds: as long
/// as the longest lease of a claim. The process settles the retry long before.
const HELD_CLAIM_MS: i64 = 600_000;

/// Keeps the open retries of a paused dispatch from being claimed, also those whose claim ends during the
/// pause.
pub(super) fn hold_retries(tx: &Connection, dispatch: DispatchNo) -> Result<(), StoreError> {
    tx.prepare_cached(
        "update retries set claimable_at =
          (select d.paused_until from dispatches d where d.no = dispatch_no)
         where dispatch_no = ?1 and outcome is null",
    )?
    .execute([dispatch.0])?;
    Ok(())
}

/// Ends the pause of the dispatches of a notification. The rest of an audience waits until its canary is
/// judged.
pub(crate) fn release(
    tx: &Connection,
    notification: NotificationNo,
    at: Timestamp,
) -> Result<(), StoreError> {
    let dispatches = tx
        .prepare_cached(
            "update dispatches set paused_until = null
             where notification_no = ?1 and paused_until is not null
             and not (portion >= ?2 and portion < ?3 and exists
              (select 1 from notifications n
               where n.no = notification_no and n.canary_check_at is not null))
             returning no",
        )?
        .query_map([notification.0, REST_CODE, REST_CODE + 100], |row| row.get(0).map(DispatchNo))?
        .collect::<Result<Vec<_>, _>>()?;
    for dispatch in dispatches {
        tx.prepare_cached(
            "update retries set claimable_at = case when epoch is null then due_at else ?2 end
             where dispatch_no = ?1 and outcome is null",
        )?
        .execute([dispatch.0, at.plus_ms(HELD_CLAIM_MS).as_ms()])?;
    }
    Ok(())
}
