//! Checkpoints: what happened on a page since its last one, committed as one and fenced by epoch
//! and checkpoint number, so that a worker that lost its page overwrites nothing.

use std::collections::BTreeMap;

use super::super::day::{self, Tally};
use super::super::device::{Seen, replace_moved, verification};
use super::super::row::count;
use super::super::writer::WriteTx;
use super::settle::{self, Moved};
use super::{dead, outcomes};
use crate::store::sql::{Connection, OptionalExtension, params};
use crate::store::{
    Checkpoint, DeviceOutcome, DispatchNo, NewRetry, OpenPage, Settled, StoreError, platform_code,
};

/// Commits a checkpoint; the page as it is now.
pub(super) fn commit(
    tx: &mut WriteTx<'_>,
    seen: &Seen,
    checkpoint: &Checkpoint,
) -> Result<OpenPage, StoreError> {
    let page = checkpoint.page;
    let sums = sums(&checkpoint.settled);
    let retries = i64::try_from(checkpoint.retries.len()).unwrap_or(i64::MAX);
    let held = tx
        .prepare_cached(
            "update pages set checkpoint_no = checkpoint_no + 1, lease_until = ?4, targeted = ?5,
             excluded = ?6, finished = ?7, sent = sent + ?8, failed = failed + ?9,
             unregistered = unregistered + ?10, expired = expired + ?11, canceled = canceled + ?12,
             retrying = retrying + ?13
             where no = ?1 and epoch = ?2 and checkpoint_no = ?3 and finished = 0",
        )?
        .execute(params![
            page.no.0,
            page.epoch.0,
            page.checkpoint_no,
            checkpoint.lease_until.as_ms(),
            count(checkpoint.targeted),
            count(checkpoint.excluded),
            checkpoint.finished,
            sums[0],
            sums[1],
            sums[2],
            sums[3],
            sums[4],
            retries,
        ])?;
    if held == 0 {
        return stored_before(tx, checkpoint);
    }
    if !checkpoint.settled.is_empty() {
        tx.prepare_cached(
            "insert into outcomes (page_no, chunk_no, at, entries) values (?1, ?2, ?3, ?4)",
        )?
        .execute(params![
            page.no.0,
            page.checkpoint_no,
            checkpoint.at.as_ms(),
            outcomes::write(page.from, &checkpoint.settled)?
        ])?;
        count_failures(tx, page.dispatch, &checkpoint.settled)?;
        let sent = sums[usize::from(Settled::Sent.code())];
        day::add(tx, page.from.app(), Tally::sent(sent), checkpoint.at)?;
    }
    insert_retries(tx, &page, &checkpoint.retries)?;
    for report in &checkpoint.moved {
        replace_moved(tx, report)?;
    }
    verification::verify(tx, &checkpoint.verified)?;
    dead::disable(tx, seen, checkpoint.dead.iter())?;
    if retries > 0 || checkpoint.finished {
        let by = Moved { pages: -i64::from(checkpoint.finished), retries, scan_done: false };
        settle::moved(tx, page.dispatch, by, checkpoint.at)?;
    }
    // What was on its way when the rest was canceled is not tried again either.
    if retries > 0 && is_canceled(tx, page.dispatch)? {
        settle::cancel_retries_of_dispatch(tx, page.dispatch, checkpoint.at)?;
    }
    Ok(OpenPage {
        checkpoint_no: page.checkpoint_no + 1,
        lease_until: checkpoint.lease_until,
        ..page
    })
}

/// What became of a page that a checkpoint did not find as it left it. A checkpoint that was stored,
/// and its answer lost on the way, is no error: what its page has in flight would be sent again. Nor is
/// finishing again what was finished when it was opened, without anybody to send to. Everything else has
/// lost the page.
fn stored_before(tx: &Connection, checkpoint: &Checkpoint) -> Result<OpenPage, StoreError> {
    let page = checkpoint.page;
    let found: Option<i64> = tx
        .prepare_cached(
            "select checkpoint_no from pages where no = ?1 and epoch = ?2 and targeted = ?3
             and excluded = ?4 and finished = ?5",
        )?
        .query_row(
            params![
                page.no.0,
                page.epoch.0,
                count(checkpoint.targeted),
                count(checkpoint.excluded),
                checkpoint.finished
            ],
            |row| row.get(0),
        )
        .optional()?;
    let is_empty = checkpoint.settled.is_empty() && checkpoint.retries.is_empty();
    match found {
        Some(no) if no == page.checkpoint_no + 1 && has_stored(tx, checkpoint)? => {
            Ok(OpenPage { checkpoint_no: no, lease_until: checkpoint.lease_until, ..page })
        }
        Some(no) if no == page.checkpoint_no && is_empty && checkpoint.targeted == 0 => Ok(page),
        _ => Err(StoreError::Fenced),
    }
}

/// Whether the outcomes and retries of a checkpoint are those that are stored under its number.
fn has_stored(tx: &Connection, checkpoint: &Checkpoint) -> Result<bool, StoreError> {
    let page = checkpoint.page;
    let entries: Option<Vec<u8>> = tx
        .prepare_cached("select entries from outcomes where page_no = ?1 and chunk_no = ?2")?
        .query_row(params![page.no.0, page.checkpoint_no], |row| row.get(0))
        .optional()?;
    let expected = (!checkpoint.settled.is_empty())
        .then(|| outcomes::write(page.from, &checkpoint.settled))
        .transpose()?;
    if entries != expected {
        return Ok(false);
    }
    let mut retry = tx.prepare_cached(
        "select 1 from retries where dispatch_no = ?1 and device_key = ?2 and page_no = ?3",
    )?;
    for NewRetry { key, .. } in &checkpoint.retries {
        if !retry.exists([page.dispatch.0, key.0, page.no.0])? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// How many of each outcome, by its code.
fn sums(settled: &[DeviceOutcome]) -> [i64; Settled::ALL.len()] {
    let mut sums = [0; Settled::ALL.len()];
    for outcome in settled {
        sums[usize::from(outcome.settled.code())] += 1;
    }
    sums
}

fn count_failures(
    tx: &Connection,
    dispatch: DispatchNo,
    settled: &[DeviceOutcome],
) -> Result<(), StoreError> {
    let mut reasons = BTreeMap::<&str, i64>::new();
    for outcome in settled {
        if let Some(reason) = failure(outcome.settled, outcome.reason.as_deref()) {
            *reasons.entry(reason).or_default() += 1;
        }
    }
    reasons
        .into_iter()
        .try_for_each(|(reason, by)| settle::count_failures(tx, dispatch, reason, by))
}

/// The reason under which an outcome is listed among the failures, if it is one.
pub(super) fn failure(settled: Settled, reason: Option<&str>) -> Option<&str> {
    match settled {
        Settled::Failed | Settled::Unregistered => Some(reason.unwrap_or(settled.as_str())),
        Settled::Sent | Settled::Expired | Settled::Canceled => None,
    }
}

fn is_canceled(tx: &Connection, dispatch: DispatchNo) -> Result<bool, StoreError> {
    let canceled = tx
        .prepare_cached("select 1 from dispatches where no = ?1 and is_canceled = 1")?
        .exists([dispatch.0])?;
    Ok(canceled)
}

fn insert_retries(
    tx: &Connection,
    page: &OpenPage,
    retries: &[NewRetry],
) -> Result<(), StoreError> {
    let mut insert = tx.prepare_insert(
        "insert into retries (no, dispatch_no, page_no, app_no, platform, device_key, attempts,
         first_attempt_at, due_at, claimable_at, unknown_outcomes, reason)
         values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?9, ?10, ?11)",
    )?;
    for retry in retries {
        insert.row(
            retry.key.app(),
            params![
                page.dispatch.0,
                page.no.0,
                retry.key.app().0,
                platform_code(retry.key.platform()),
                retry.key.0,
                retry.attempts,
                retry.first_attempt_at.as_ms(),
                retry.due_at.as_ms(),
                retry.unknown_outcomes,
                retry.reason,
            ],
        )?;
    }
    Ok(())
}
