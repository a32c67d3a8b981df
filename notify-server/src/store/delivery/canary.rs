//! Canaries: a share of the audience gets the notification first. The notification then has two dispatches
//! on each platform: one has the devices of the canary, and the other has the rest and waits until the
//! canary is judged. It waits as the dispatches of a paused notification do, so that a cancellation and the
//! expiry end it in the same way.

use notify_core::{CanaryPlan, CanaryThen, Timestamp};

use crate::store::delivery::dispatch::{CANARY_CODE, REST_CODE, is_in_canary};
use crate::store::delivery::settle;
use crate::store::delivery::start::{self, DueNotification, NamedDevice, PlatformAudience};
use crate::store::notification::pause;
use crate::store::sql::row::count_at;
use crate::store::sql::writer::WriteTx;
use crate::store::sql::{Connection, OptionalExtension, seq_of};
use crate::store::{AppNo, DeliveryChange, DispatchNo, NotificationNo, Portion, StoreError};

/// How often a canary is checked until it is judged, in milliseconds. Counting down in each checkpoint
/// would cost every notification something.
const CHECK_EVERY_MS: i64 = 5_000;
/// How much longer a canary waits for progress while first attempts are to be made, in milliseconds. With the
/// lowest rate, one is made each minute.
const STALLED_MS: i64 = 120_000;
/// The reason of a pause after too many deliveries of a canary failed.
const CANARY_FAILED: &str = "canary_failed";
/// The reason of a pause after a canary that did not fail.
const CANARY_DONE: &str = "canary_done";

/// When a canary that starts now is first checked.
pub(super) fn first_check(now: Timestamp) -> Timestamp {
    now.plus_ms(CHECK_EVERY_MS)
}

/// Parses a stored canary; `None` if it cannot be read, so that all devices get the notification.
pub(super) fn plan_of(json: &str) -> Option<CanaryPlan> {
    serde_json::from_str(json).ok()
}

/// Creates the dispatches of a notification with a canary, two for each part. Returns those that have a device to send to.
pub(super) fn start(
    tx: &mut WriteTx<'_>,
    due: &DueNotification,
    plan: CanaryPlan,
    parts: Vec<PlatformAudience>,
    now: Timestamp,
) -> Result<Vec<DispatchNo>, StoreError> {
    let mut dispatches = Vec::with_capacity(2 * parts.len());
    for part in parts {
        let (canary, rest) = split(due, part, plan.percent);
        let portions =
            [(canary, Portion::Canary(plan.percent)), (rest, Portion::Rest(plan.percent))];
        for (part, portion) in portions {
            dispatches.extend(start::start_dispatch(tx, due, &part, portion, now)?);
        }
    }
    settle::hold_rest(tx, due.no)?;
    Ok(dispatches)
}

/// Splits an audience into the canary and the rest. The unknown ids count with the rest.
fn split(
    due: &DueNotification,
    part: PlatformAudience,
    percent: u32,
) -> (PlatformAudience, PlatformAudience) {
    let PlatformAudience { platform, named, unknown } = part;
    let (canary, rest) = match named {
        Some(devices) => {
            let is_in = |device: &NamedDevice| is_in_canary(due.no, device.key, percent);
            let (canary, rest) = devices.into_iter().partition(is_in);
            (Some(canary), Some(rest))
        }
        None => (None, None),
    };
    (
        PlatformAudience { platform, named: canary, unknown: 0 },
        PlatformAudience { platform, named: rest, unknown },
    )
}

/// When the next canary has to be checked. Those of paused notifications, and of an application that is being
/// erased, are left out.
pub(super) fn next_check(connection: &Connection) -> Result<Option<Timestamp>, StoreError> {
    let next = connection
        .prepare_cached(
            "select n.canary_check_at from notifications n indexed by notifications_canaries
             cross join apps a where n.canary_check_at is not null and n.paused_at is null
             and a.no = n.app_no and a.status <> 'erasing' order by n.canary_check_at limit 1",
        )?
        .query_row([], |row| row.get(0).map(Timestamp))
        .optional()?;
    Ok(next)
}

/// A canary that is not judged.
struct OpenCanary {
    no: NotificationNo,
    app: AppNo,
    /// `None` if it cannot be read.
    plan: Option<CanaryPlan>,
    judge_at: Option<Timestamp>,
    progress: Option<i64>,
    is_sending: bool,
}

/// Checks the canaries of at most `limit` notifications, and judges those that are due. A paused notification
/// stays as it is. Its canary is checked when it is resumed.
///
/// The progress of a canary is found by checks, and not by counting down in each checkpoint: it matters once
/// in a notification, and a few seconds later is early enough.
pub(super) fn check_due(
    tx: &mut WriteTx<'_>,
    now: Timestamp,
    limit: u32,
) -> Result<(), StoreError> {
    let canaries = tx
        .prepare_cached(concat!(
            "select n.no, n.app_no, n.canary, n.canary_judge_at, n.canary_progress,
             n.status = 'sending' and n.cancel_requested_at is null
             from notifications n indexed by notifications_canaries cross join apps a
             where n.canary_check_at <= ?1 and n.paused_at is null
             and a.no = n.app_no and a.status <> 'erasing' order by n.canary_check_at, ",
            seq_of!("n.no"),
            " limit ?2"
        ))?
        .query_map([now.as_ms(), i64::from(limit)], |row| {
            Ok(OpenCanary {
                no: NotificationNo(row.get(0)?),
                app: AppNo(row.get(1)?),
                plan: row.get::<Option<String>>(2)?.as_deref().and_then(plan_of),
                judge_at: row.get::<Option<i64>>(3)?.map(Timestamp),
                progress: row.get(4)?,
                is_sending: row.get(5)?,
            })
        })?
        .collect::<Result<Vec<_>, _>>()?;
    canaries.into_iter().try_for_each(|canary| check(tx, &canary, now))
}

/// Checks one canary. It is judged `wait_seconds` after its last progress. If first attempts are still to be
/// made, it has [`STALLED_MS`] more: it may have a low rate, or its provider may be unavailable.
fn check(tx: &mut WriteTx<'_>, canary: &OpenCanary, now: Timestamp) -> Result<(), StoreError> {
    let Some(plan) = canary.plan.filter(|_| canary.is_sending) else {
        return close(tx, canary.no);
    };
    let counts = counts(tx, canary.no)?;
    let makes_progress = canary.progress != Some(counts.progress);
    let wait_ms = i64::from(plan.wait_seconds) * 1_000;
    let judge_at = match canary.judge_at {
        Some(at) if !makes_progress => at,
        Some(_) | None => now.plus_ms(wait_ms),
    };
    let is_empty = !counts.is_open && counts.targeted == 0;
    let due_at = if counts.is_open { judge_at.plus_ms(STALLED_MS) } else { judge_at };
    if is_empty || due_at <= now {
        let exceeds = counts.exceed(plan);
        // A canary of which not all devices are known can only fail.
        if exceeds || counts.is_scanned {
            close(tx, canary.no)?;
            return judge(tx, canary, plan, exceeds, now);
        }
    }
    let soon = now.plus_ms(CHECK_EVERY_MS);
    let next = if counts.is_open || due_at <= now { soon } else { due_at };
    tx.prepare_cached(
        "update notifications set canary_check_at = ?2, canary_judge_at = ?3, canary_progress = ?4
         where no = ?1",
    )?
    .execute([canary.no.0, next.as_ms(), judge_at.as_ms(), counts.progress])?;
    Ok(())
}

/// Records that a canary needs no more checks.
fn close(tx: &Connection, no: NotificationNo) -> Result<(), StoreError> {
    tx.prepare_cached(
        "update notifications set canary_check_at = null, canary_judge_at = null where no = ?1",
    )?
    .execute([no.0])?;
    Ok(())
}

/// How far a canary is, and its deliveries.
struct Counts {
    /// Whether all devices of the canary are known.
    is_scanned: bool,
    /// Whether devices of the canary may still get their first attempt.
    is_open: bool,
    /// A number that changes with each page and each checkpoint.
    progress: i64,
    targeted: u64,
    /// Those that failed or expired.
    failed: u64,
    /// Those that have an outcome.
    settled: u64,
}

fn counts(tx: &Connection, no: NotificationNo) -> Result<Counts, StoreError> {
    let counts = tx
        .prepare_cached(
            "select coalesce(min(d.scan_done), 1) = 1,
             coalesce(min(d.scan_done), 1) = 0 or coalesce(max(d.open_pages), 0) > 0,
             coalesce(sum(p.checkpoint_no + 1), 0), coalesce(sum(p.targeted), 0),
             coalesce(sum(p.failed + p.expired), 0),
             coalesce(sum(p.sent + p.failed + p.unregistered + p.expired + p.canceled), 0)
             from dispatches d left join pages p on p.dispatch_no = d.no
             where d.notification_no = ?1 and d.portion >= ?2 and d.portion < ?3",
        )?
        .query_row([no.0, CANARY_CODE, REST_CODE], |row| {
            Ok(Counts {
                is_scanned: row.get(0)?,
                is_open: row.get(1)?,
                progress: row.get(2)?,
                targeted: count_at(row, 3)?,
                failed: count_at(row, 4)?,
                settled: count_at(row, 5)?,
            })
        })?;
    Ok(counts)
}

impl Counts {
    /// Whether more deliveries failed, or are still pending, than allowed.
    fn exceed(&self, plan: CanaryPlan) -> bool {
        let pending = self.targeted.saturating_sub(self.settled);
        (self.failed + pending) * 100 > self.targeted * u64::from(plan.max_failed_percent)
    }
}

/// Judges a canary: the rest is sent, or the notification pauses.
fn judge(
    tx: &mut WriteTx<'_>,
    canary: &OpenCanary,
    plan: CanaryPlan,
    has_failed: bool,
    now: Timestamp,
) -> Result<(), StoreError> {
    let reason = match plan.then {
        _ if has_failed => Some(CANARY_FAILED),
        CanaryThen::Pause => Some(CANARY_DONE),
        CanaryThen::Continue => None,
    };
    match reason {
        Some(reason) => {
            pause(tx, canary.app, canary.no, reason, now)?;
            tx.changed(DeliveryChange::NotificationPaused(canary.no));
        }
        None => {
            settle::release(tx, canary.no, now)?;
            tx.changed(DeliveryChange::NotificationResumed(canary.no));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::DeviceKey;

    #[test]
    fn a_canary_fails_above_its_limit() {
        let plan = |max_failed_percent| CanaryPlan {
            percent: 5,
            wait_seconds: 60,
            max_failed_percent,
            then: CanaryThen::Continue,
        };
        for (targeted, failed, settled, max_failed_percent, is_exceeded) in [
            (100, 5, 100, 5, false),
            (100, 6, 100, 5, true),
            // Pending deliveries count as failed ones do.
            (100, 5, 99, 5, true),
            (100, 0, 95, 5, false),
            (100, 0, 94, 5, true),
            (3, 0, 3, 0, false),
            (3, 1, 3, 0, true),
            (3, 3, 3, 100, false),
            (0, 0, 0, 0, false),
        ] {
            let (is_scanned, is_open, progress) = (true, false, 0);
            let counts = Counts { is_scanned, is_open, progress, targeted, failed, settled };
            assert_eq!(
                counts.exceed(plan(max_failed_percent)),
                is_exceeded,
                "{failed} of {targeted} failed, {settled} settled, {max_failed_percent} %"
            );
        }
    }

    #[test]
    fn canaries_have_their_share_and_differ() {
        const DEVICES: i64 = 20_000;
        let keys = (1..=DEVICES).map(|sequence| DeviceKey(1 << 43 | 1 << 40 | sequence));
        let keys: Vec<DeviceKey> = keys.collect();
        let members = |notification, percent| -> Vec<DeviceKey> {
            let is_in = |key: &&DeviceKey| is_in_canary(notification, **key, percent);
            keys.iter().filter(is_in).copied().collect()
        };
        let (one, other) = (NotificationNo(1 << 43 | 7), NotificationNo(1 << 43 | 8));
        for percent in [1, 5, 50] {
            let expected = keys.len() * percent as usize / 100;
            let drawn = members(one, percent).len();
            let tolerance = expected / 5;
            assert!(drawn.abs_diff(expected) < tolerance, "{percent} %: {drawn} of {expected}");
        }
        let in_both = members(one, 50);
        let in_both = in_both.iter().filter(|key| is_in_canary(other, **key, 50)).count();
        assert!(in_both.abs_diff(keys.len() / 4) < keys.len() / 40, "{in_both}");
    }
}
