//! Completing dispatches and notifications in sets, and the counters of deliveries.

use std::collections::BTreeMap;

use notify_core::{Timestamp, WebhookEventType};

use super::event_log::EventLogs;
use super::{SetTx, column};
use crate::store::delivery::{end_canceled_or_not, schedule_next_zone};
use crate::store::{AppNo, DispatchNo, NotificationNo, StoreError};

/// Locks the event logs of the applications for which a notification may end in the set. Called
/// before the set locks any other row.
pub(super) fn lock_event_logs(
    tx: &SetTx<'_>,
    ending: impl Iterator<Item = (AppNo, Timestamp)>,
) -> Result<EventLogs, StoreError> {
    let kinds = [WebhookEventType::NotificationCompleted, WebhookEventType::NotificationFailed];
    EventLogs::lock(tx, ending.flat_map(|(app, at)| kinds.map(|kind| (app, kind, at))))
}

/// Ends dispatches that have no open page and retry, and the notifications of which these were the
/// last dispatches. `logs` are the locked event logs of the applications.
///
/// The statement that counted the pages down must have ended: only a later statement sees the pages
/// that other sets have counted since the first one began. It has locked the dispatches.
pub(super) fn complete(
    tx: &mut SetTx<'_>,
    logs: &EventLogs,
    ended: &BTreeMap<DispatchNo, Timestamp>,
) -> Result<(), StoreError> {
    if ended.is_empty() {
        return Ok(());
    }
    // A notification ends in this statement if nothing was canceled, it has no local time and no open
    // canary, and its application has no subscriber for the event of its end.
    let counted_down = tx.query(
        "with ended as (
           update dispatches d set completed_at = g.at,
             (targeted, sent, failed, unregistered, expired, canceled, excluded) =
             (select coalesce(sum(p.targeted), 0), coalesce(sum(p.sent), 0),
                coalesce(sum(p.failed), 0), coalesce(sum(p.unregistered), 0),
                coalesce(sum(p.expired), 0), coalesce(sum(p.canceled), 0),
                coalesce(sum(p.excluded), 0)
              from pages p where p.dispatch_no = d.no)
           from unnest($1::bigint[], $2::bigint[]) g (no, at) where d.no = g.no
           returning d.notification_no, g.at),
         counted as materialized (
           select notification_no, count(*) as dispatches, max(at) as at from ended
           group by notification_no),
         locked as materialized (
           select n.no, c.dispatches, c.at,
             n.open_dispatches = c.dispatches and n.local_time is null
               and n.cancel_requested_at is null and n.canary_check_at is null
               and n.app_no <> all ($3::bigint[]) as is_ordinary
           from counted c join notifications n on n.no = c.notification_no
           order by n.no for no key update of n)
         update notifications n set open_dispatches = n.open_dispatches - l.dispatches,
           status = case when l.is_ordinary then 'completed' else n.status end,
           completed_at = case when l.is_ordinary then l.at else n.completed_at end
         from locked l where n.no = l.no
         returning n.no, l.at, n.open_dispatches = 0 and not l.is_ordinary,
           n.local_time is not null and n.cancel_requested_at is null",
        &[
            column!(ended, dispatch => dispatch.0.0),
            column!(ended, dispatch => dispatch.1.as_ms()),
            &logs.apps().map(|app| app.0).collect::<Vec<_>>(),
        ],
    )?;
    let mut remaining: Vec<(NotificationNo, Timestamp, bool)> = counted_down
        .iter()
        .filter(|row| row.get(2))
        .map(|row| (NotificationNo(row.get(0)), Timestamp(row.get(1)), row.get(3)))
        .collect();
    remaining.sort_unstable_by_key(|(notification, ..)| *notification);
    for (notification, at, is_local) in remaining {
        if is_local {
            schedule_next_zone(tx, notification, at)?;
        } else {
            end_canceled_or_not(tx, notification, at)?;
        }
    }
    Ok(())
}

/// Failed deliveries by dispatch and reason.
pub(super) type Failures<'a> = BTreeMap<(DispatchNo, &'a str), i64>;

/// Adds failed deliveries to the counters of their reasons.
pub(super) fn add_failures(tx: &SetTx<'_>, failures: &Failures<'_>) -> Result<(), StoreError> {
    if failures.is_empty() {
        return Ok(());
    }
    tx.query(
        "insert into failures as f (dispatch_no, reason, count)
         select * from unnest($1::bigint[], $2::text[], $3::bigint[])
         on conflict (dispatch_no, reason) do update set count = f.count + excluded.count",
        &[
            column!(failures, failure => failure.0.0.0),
            column!(failures, failure => failure.0.1),
            column!(failures, failure => *failure.1),
        ],
    )?;
    Ok(())
}
