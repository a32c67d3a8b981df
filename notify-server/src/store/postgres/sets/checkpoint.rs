//! Sets of checkpoints.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::Duration;

use notify_core::{Day, Timestamp};

use super::completion::{Failures, add_failures, complete, lock_event_logs};
use super::{Gather, SetKind, SetTx, WriteSet, column, place_of};
use crate::store::delivery::{checkpoint, encode_outcomes};
use crate::store::sql::WriteScope;
use crate::store::sql::row::count;
use crate::store::sql::writer::WriteTx;
use crate::store::{
    Checkpoint, DeadAddress, DispatchNo, NewRetry, OpenPage, Operation, Outcome, StoreError,
    platform_code,
};

/// How long a checkpoint waits for others. The engine has many pages in progress, so it loses nothing,
/// and each commit costs a flush. In a benchmark of two servers, this saved a quarter of the commits
/// and 5 % of the CPU; a wait for claims of pages made a fan-out slower.
const CHECKPOINT_GATHER: Gather = Gather::Fixed(Duration::from_millis(2));

/// A checkpoint of a page.
pub(in crate::store) struct CommitCheckpoint(pub(in crate::store) Checkpoint);

impl WriteSet for CommitCheckpoint {
    type Answer = OpenPage;
    const KIND: SetKind = SetKind::Checkpoint;
    const OPERATION: Operation = Operation::Checkpoint;
    const GATHER: Gather = CHECKPOINT_GATHER;

    fn scope(&self) -> WriteScope {
        scope_of(&self.0)
    }

    fn fits(&self) -> bool {
        fits(&self.0)
    }

    fn write_alone(&self, tx: &mut WriteTx<'_>) -> Result<OpenPage, StoreError> {
        checkpoint::commit(tx, &self.0)
    }

    fn write_set(tx: &mut SetTx<'_>, rows: &[&Self]) -> Result<Vec<Option<OpenPage>>, StoreError> {
        let checkpoints: Vec<&Checkpoint> = rows.iter().map(|row| &row.0).collect();
        write(tx, &checkpoints)
    }
}

/// The last checkpoints of several pages.
pub(in crate::store) struct FinishPages(pub(in crate::store) Vec<Checkpoint>);

impl WriteSet for FinishPages {
    type Answer = Vec<Result<OpenPage, StoreError>>;
    const KIND: SetKind = SetKind::FinishPages;
    const OPERATION: Operation = Operation::FinishPages;
    const GATHER: Gather = CHECKPOINT_GATHER;

    fn scope(&self) -> WriteScope {
        WriteScope::all(self.0.iter().map(scope_of))
    }

    fn fits(&self) -> bool {
        // The set writes every checkpoint of the row, unless its page has another state.
        let is_last =
            |checkpoint: &Checkpoint| checkpoint.finished && checkpoint.retries.is_empty();
        self.0.iter().all(|checkpoint| fits(checkpoint) && is_last(checkpoint))
    }

    fn weight(&self) -> usize {
        self.0.len()
    }

    fn write_alone(&self, tx: &mut WriteTx<'_>) -> Result<Self::Answer, StoreError> {
        let mut results = Vec::with_capacity(self.0.len());
        for checkpoint in &self.0 {
            match checkpoint::commit(tx, checkpoint) {
                // A fenced checkpoint has written nothing, so the others can be committed.
                result @ (Ok(_) | Err(StoreError::Fenced)) => results.push(result),
                Err(error) => return Err(error),
            }
        }
        Ok(results)
    }

    fn write_set(
        tx: &mut SetTx<'_>,
        rows: &[&Self],
    ) -> Result<Vec<Option<Self::Answer>>, StoreError> {
        let checkpoints: Vec<&Checkpoint> = rows.iter().flat_map(|row| &row.0).collect();
        let mut written = write(tx, &checkpoints)?.into_iter();
        let mut answers = Vec::with_capacity(rows.len());
        for row in rows {
            let mut results = Vec::with_capacity(row.0.len());
            for (checkpoint, written) in row.0.iter().zip(&mut written) {
                results.push(match written {
                    Some(page) => Ok(page),
                    // Only reads.
                    None => match checkpoint::resolve_conflict(tx, checkpoint) {
                        Err(error) if !matches!(error, StoreError::Fenced) => return Err(error),
                        result => result,
                    },
                });
            }
            answers.push(Some(results));
        }
        Ok(answers)
    }
}

fn scope_of(checkpoint: &Checkpoint) -> WriteScope {
    if checkpoint.dead.iter().any(DeadAddress::may_trip_guard) {
        return WriteScope::Installation;
    }
    WriteScope::key(checkpoint.page.no.0)
}

/// Whether a checkpoint fits a set: it concerns the page and its deliveries, no device, and records no
/// intents.
fn fits(checkpoint: &Checkpoint) -> bool {
    checkpoint.intents.is_none()
        && checkpoint.dead.is_empty()
        && checkpoint.moved.is_empty()
        && checkpoint.verified.is_empty()
}

/// Writes checkpoints. Returns the new states of their pages, in order; `None` for a checkpoint of
/// which nothing was written.
fn write(
    tx: &mut SetTx<'_>,
    checkpoints: &[&Checkpoint],
) -> Result<Vec<Option<OpenPage>>, StoreError> {
    // Of several checkpoints of a page, the statement must update the page with one: at most one has
    // its instance and number. A repetition of the same checkpoint is left out.
    let mut states = HashSet::new();
    let mut rows = Vec::with_capacity(checkpoints.len());
    for (place, checkpoint) in checkpoints.iter().enumerate() {
        let OpenPage { no, instance, checkpoint_no, .. } = checkpoint.page;
        if states.insert((no, instance, checkpoint_no)) {
            rows.push(CheckpointRow::new(place, checkpoint)?);
        }
    }
    let ending = rows.iter().filter(|row| row.checkpoint.finished);
    let logs =
        lock_event_logs(tx, ending.map(|row| (row.checkpoint.page.from.app(), row.checkpoint.at)))?;
    let Counted { written, ended } = write_pages(tx, &rows)?;
    rows.retain(|row| written.contains(&row.place));
    insert_retries(tx, &rows)?;
    complete(tx, &logs, &ended)?;
    let mut failures = Failures::new();
    let mut states = vec![None; checkpoints.len()];
    for CheckpointRow { place, checkpoint, .. } in rows {
        for outcome in &checkpoint.settled {
            let reason = checkpoint::failure_reason(outcome.settled, outcome.reason.as_deref());
            if let Some(reason) = reason {
                *failures.entry((checkpoint.page.dispatch, reason)).or_default() += 1;
            }
        }
        states[place] = Some(OpenPage {
            checkpoint_no: checkpoint.page.checkpoint_no + 1,
            lease_until: checkpoint.lease_until,
            ..checkpoint.page
        });
    }
    add_failures(tx, &failures)?;
    Ok(states)
}

/// A checkpoint in a set.
struct CheckpointRow<'a> {
    /// The position in the set.
    place: usize,
    checkpoint: &'a Checkpoint,
    /// The number of outcomes, by code.
    counts: [i64; Outcome::ALL.len()],
    /// The encoded outcomes; `None` if there are none.
    entries: Option<Vec<u8>>,
}

impl<'a> CheckpointRow<'a> {
    fn new(place: usize, checkpoint: &'a Checkpoint) -> Result<Self, StoreError> {
        let settled = &checkpoint.settled;
        let entries = if settled.is_empty() {
            None
        } else {
            Some(encode_outcomes(checkpoint.page.from, settled)?)
        };
        Ok(Self { place, checkpoint, counts: checkpoint::count_by_code(settled), entries })
    }
}

/// What the statement for the pages did.
struct Counted {
    /// The positions of the checkpoints that were written.
    written: BTreeSet<usize>,
    /// The dispatches without an open page and retry, each with the time of its last checkpoint.
    ended: BTreeMap<DispatchNo, Timestamp>,
}

/// The statement of [`write_pages`]. Rows are locked in the order of their keys: pages, dispatches, then
/// the counters of the day, which wait for the dispatches.
const WRITE_PAGES: &str = "\
    with given as materialized (
      select * from unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[],
        $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[],
        $11::bigint[], $12::bigint[], $13::bigint[], $14::bigint[], $15::bigint[],
        $16::bigint[], $17::bigint[], $18::bigint[])
        g (place, page_no, dispatch_no, app_no, day, epoch, checkpoint_no, lease_until, targeted,
        excluded, finished, retries, sent, failed, unregistered, expired, canceled, at)),
    locked as materialized (
      select p.no from given g join pages p on p.no = g.page_no and p.epoch = g.epoch
        and p.checkpoint_no = g.checkpoint_no and p.finished = 0
      order by p.no for no key update of p),
    counted as materialized (
      select d.no, d.is_canceled = 1 or d.paused_until is not null as is_stopped
      from (select g.dispatch_no from given g join locked l on l.no = g.page_no
            where g.finished + g.retries > 0 group by g.dispatch_no) c
      join dispatches d on d.no = c.dispatch_no order by d.no for no key update of d),
    fitting as materialized (
      select g.* from given g join locked l on l.no = g.page_no
      where g.retries = 0
        or g.dispatch_no not in (select c.no from counted c where c.is_stopped)),
    written as (
      update pages p set checkpoint_no = p.checkpoint_no + 1, lease_until = f.lease_until,
        targeted = f.targeted, excluded = f.excluded, finished = f.finished,
        sent = p.sent + f.sent, failed = p.failed + f.failed,
        unregistered = p.unregistered + f.unregistered, expired = p.expired + f.expired,
        canceled = p.canceled + f.canceled, retrying = p.retrying + f.retries
      from fitting f where p.no = f.page_no returning p.no),
    settled as (
      insert into outcomes (page_no, chunk_no, at, entries)
      select f.page_no, f.checkpoint_no, f.at, e.entries
      from unnest($19::bigint[], $20::bytea[]) e (place, entries)
      join fitting f on f.place = e.place join written w on w.no = f.page_no),
    dispatched as (
      update dispatches d set open_pages = d.open_pages - c.finished,
        open_retries = d.open_retries + c.retries
      from (select f.dispatch_no, sum(f.finished)::bigint as finished,
              sum(f.retries)::bigint as retries
            from fitting f where f.finished + f.retries > 0 group by f.dispatch_no) c
      join counted l on l.no = c.dispatch_no
      where d.no = l.no and d.completed_at is null
      returning d.no, d.scan_done = 1 and d.open_pages = 0 and d.open_retries = 0 as has_ended),
    days as (
      insert into day_counts as t (app_no, day, sent, failed, unregistered, expired)
      select f.app_no, f.day, sum(f.sent), sum(f.failed), sum(f.unregistered), sum(f.expired)
      from fitting f where f.sent + f.failed + f.unregistered + f.expired > 0
        and (select count(*) from dispatched) >= 0
      group by f.app_no, f.day order by f.app_no, f.day
      on conflict (app_no, day) do update set sent = t.sent + excluded.sent,
        failed = t.failed + excluded.failed,
        unregistered = t.unregistered + excluded.unregistered,
        expired = t.expired + excluded.expired)
    select f.place, d.no from fitting f
    left join dispatched d on d.no = f.dispatch_no and d.has_ended";

/// Writes the pages whose instance and checkpoint number are as expected, their outcomes, and the
/// counters of their dispatches and days. A page with new retries of a canceled or paused
/// dispatch is not written.
fn write_pages(tx: &SetTx<'_>, rows: &[CheckpointRow<'_>]) -> Result<Counted, StoreError> {
    let written = tx.query(
        WRITE_PAGES,
        &[
            column!(rows, row => row.place as i64),
            column!(rows, row => row.checkpoint.page.no.0),
            column!(rows, row => row.checkpoint.page.dispatch.0),
            column!(rows, row => row.checkpoint.page.from.app().0),
            column!(rows, row => Day::of(row.checkpoint.at).0),
            column!(rows, row => row.checkpoint.page.instance.0),
            column!(rows, row => row.checkpoint.page.checkpoint_no),
            column!(rows, row => row.checkpoint.lease_until.as_ms()),
            column!(rows, row => count(row.checkpoint.targeted)),
            column!(rows, row => count(row.checkpoint.excluded)),
            column!(rows, row => i64::from(row.checkpoint.finished)),
            column!(rows, row => row.checkpoint.retries.len() as i64),
            column!(rows, row => row.counts[0]),
            column!(rows, row => row.counts[1]),
            column!(rows, row => row.counts[2]),
            column!(rows, row => row.counts[3]),
            column!(rows, row => row.counts[4]),
            column!(rows, row => row.checkpoint.at.as_ms()),
            &rows
                .iter()
                .filter(|row| row.entries.is_some())
                .map(|row| row.place as i64)
                .collect::<Vec<_>>(),
            &rows.iter().filter_map(|row| row.entries.as_deref()).collect::<Vec<_>>(),
        ],
    )?;
    let times: BTreeMap<usize, Timestamp> =
        rows.iter().map(|row| (row.place, row.checkpoint.at)).collect();
    let mut counted = Counted { written: BTreeSet::new(), ended: BTreeMap::new() };
    for row in &written {
        let place = place_of(row.get(0));
        counted.written.insert(place);
        if let (Some(no), Some(at)) = (row.get::<_, Option<i64>>(1), times.get(&place)) {
            let last = counted.ended.entry(DispatchNo(no)).or_insert(*at);
            *last = (*at).max(*last);
        }
    }
    Ok(counted)
}

/// Inserts the retries of checkpoints.
fn insert_retries(tx: &SetTx<'_>, rows: &[CheckpointRow<'_>]) -> Result<(), StoreError> {
    let retries: Vec<(&OpenPage, &NewRetry)> = rows
        .iter()
        .flat_map(|row| row.checkpoint.retries.iter().map(|retry| (&row.checkpoint.page, retry)))
        .collect();
    if retries.is_empty() {
        return Ok(());
    }
    tx.query(
        "insert into retries (no, dispatch_no, page_no, app_no, platform, device_key, attempts,
           first_attempt_at, due_at, claimable_at, unknown_outcomes, reason)
         select g.app_no << 43 | nextval('retries_no_seq'), g.dispatch_no, g.page_no, g.app_no,
           g.platform, g.device_key, g.attempts, g.first_attempt_at, g.due_at, g.due_at,
           g.unknown_outcomes, g.reason
         from unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[],
           $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::text[])
           g (dispatch_no, page_no, app_no, platform, device_key, attempts, first_attempt_at, due_at,
           unknown_outcomes, reason)",
        &[
            column!(retries, retry => retry.0.dispatch.0),
            column!(retries, retry => retry.0.no.0),
            column!(retries, retry => retry.1.key.app().0),
            column!(retries, retry => platform_code(retry.1.key.platform())),
            column!(retries, retry => retry.1.key.0),
            column!(retries, retry => i64::from(retry.1.attempts)),
            column!(retries, retry => retry.1.first_attempt_at.as_ms()),
            column!(retries, retry => retry.1.due_at.as_ms()),
            column!(retries, retry => i64::from(retry.1.unknown_outcomes)),
            column!(retries, retry => &*retry.1.reason),
        ],
    )?;
    Ok(())
}
