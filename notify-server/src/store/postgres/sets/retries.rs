//! Sets of claims of retries, and of their results.

use std::collections::{BTreeMap, HashMap, HashSet};

use notify_core::{Day, Timestamp};

use super::completion::{Failures, add_failures, complete, lock_event_logs};
use super::{Gather, SetKind, SetTx, WriteSet, column, place_of};
use crate::store::daily_stats::{self, DailyDelta};
use crate::store::delivery::checkpoint::failure_reason;
use crate::store::delivery::{claim_retries, named_devices, settle_retries};
use crate::store::sql::WriteScope;
use crate::store::sql::writer::WriteTx;
use crate::store::{
    AppNo, AudienceDevice, ClaimedRetry, DeadAddress, DeviceKey, DispatchNo, InstanceId, Operation,
    Outcome, PageNo, RetryClaim, RetryNo, RetryOutcome, RetryResult, StoreError, platform_code,
};

/// A claim of due retries.
pub(in crate::store) struct ClaimRetries(pub(in crate::store) RetryClaim);

impl WriteSet for ClaimRetries {
    type Answer = Vec<ClaimedRetry>;
    const KIND: SetKind = SetKind::ClaimRetries;
    const OPERATION: Operation = Operation::ClaimRetries;
    const GATHER: Gather = Gather::NONE;

    fn scope(&self) -> WriteScope {
        WriteScope::app(self.0.app)
    }

    fn fits(&self) -> bool {
        !self.0.reclaim_own
    }

    fn weight(&self) -> usize {
        self.0.limit as usize
    }

    fn write_alone(&self, tx: &mut WriteTx<'_>) -> Result<Vec<ClaimedRetry>, StoreError> {
        claim_retries(tx, &self.0)
    }

    fn write_set(
        tx: &mut SetTx<'_>,
        rows: &[&Self],
    ) -> Result<Vec<Option<Vec<ClaimedRetry>>>, StoreError> {
        // A statement does not see its own claims. Another claim of the same lane is written alone.
        let mut lanes = HashSet::new();
        let claims: Vec<(usize, &RetryClaim)> = rows
            .iter()
            .map(|row| &row.0)
            .enumerate()
            .filter(|(_, claim)| lanes.insert((claim.app, claim.platform)))
            .collect();
        let claimed = claim(tx, &claims)?;
        tx.is_read_only = claimed.is_empty();
        let devices = read_devices(tx, &claimed)?;
        let mut answers: Vec<_> = rows.iter().map(|_| None).collect();
        for (place, _) in claims {
            answers[place] = Some(Vec::new());
        }
        for Claimed { place, retry, .. } in claimed {
            let device = devices.get(&(retry.dispatch, retry.key)).cloned();
            if let Some(answer) = &mut answers[place] {
                answer.push(ClaimedRetry { device, ..retry });
            }
        }
        Ok(answers)
    }
}

/// A retry that the set has claimed.
struct Claimed {
    /// The position of the claim in the set.
    place: usize,
    /// The retry, without its device.
    retry: ClaimedRetry,
    /// The tag of its notification.
    tag: Option<String>,
}

/// Claims due retries. Returns them in the order of their numbers.
fn claim(tx: &SetTx<'_>, claims: &[(usize, &RetryClaim)]) -> Result<Vec<Claimed>, StoreError> {
    let excluded: Vec<(usize, RetryNo)> = claims
        .iter()
        .flat_map(|(place, claim)| claim.exclude.iter().map(|no| (*place, *no)))
        .collect();
    // Retries that another set is claiming or settling are skipped.
    let claimed = tx.query(
        "with given as materialized (
           select * from unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[],
             $5::bigint[], $6::bigint[], $7::bigint[])
             g (place, app_no, platform, most, now, epoch, lease_until)),
         excluded as materialized (
           select * from unnest($8::bigint[], $9::bigint[]) e (place, no)),
         due as materialized (
           select g.place, g.epoch, g.lease_until, d.no from given g
           cross join lateral (
             select r.no from retries r
             where r.app_no = g.app_no and r.platform = g.platform and r.outcome is null
               and r.claimable_at <= g.now
               and not exists (select 1 from excluded e where e.place = g.place and e.no = r.no)
             order by r.claimable_at limit g.most for no key update of r skip locked) d),
         claimed as (
           update retries r set epoch = d.epoch, claimable_at = d.lease_until
           from due d where r.no = d.no
           returning d.place, r.no, r.dispatch_no, r.device_key, r.attempts, r.first_attempt_at,
             r.unknown_outcomes, r.has_intent)
         select c.place, c.no, c.dispatch_no, c.device_key, c.attempts, c.first_attempt_at,
           c.unknown_outcomes, n.tag, c.has_intent
         from claimed c join dispatches d on d.no = c.dispatch_no
         join notifications n on n.no = d.notification_no order by c.no",
        &[
            column!(claims, claim => claim.0 as i64),
            column!(claims, claim => claim.1.app.0),
            column!(claims, claim => platform_code(claim.1.platform)),
            column!(claims, claim => i64::from(claim.1.limit)),
            column!(claims, claim => claim.1.now.as_ms()),
            column!(claims, claim => claim.1.instance.0),
            column!(claims, claim => claim.1.lease_until.as_ms()),
            column!(excluded, retry => retry.0 as i64),
            column!(excluded, retry => retry.1.0),
        ],
    )?;
    let small = |number: i64| u16::try_from(number).unwrap_or(u16::MAX);
    let read = |row: &tokio_postgres::Row| Claimed {
        place: place_of(row.get(0)),
        retry: ClaimedRetry {
            no: RetryNo(row.get(1)),
            dispatch: DispatchNo(row.get(2)),
            key: DeviceKey(row.get(3)),
            device: None,
            attempts: small(row.get(4)),
            first_attempt_at: Timestamp(row.get(5)),
            unknown_outcomes: small(row.get(6)),
            is_in_doubt: row.get::<_, i64>(8) != 0,
        },
        tag: row.get(7),
    };
    Ok(claimed.iter().map(read).collect())
}

/// Reads the devices of claimed retries, with one statement for each application and tag.
fn read_devices(
    tx: &SetTx<'_>,
    claimed: &[Claimed],
) -> Result<HashMap<(DispatchNo, DeviceKey), AudienceDevice>, StoreError> {
    let mut audiences: BTreeMap<(AppNo, Option<&str>), Vec<DeviceKey>> = BTreeMap::new();
    for Claimed { retry, tag, .. } in claimed {
        let audience = (retry.key.app(), tag.as_deref());
        audiences.entry(audience).or_default().push(retry.key);
    }
    let mut devices = HashMap::new();
    for ((app, tag), mut keys) in audiences {
        keys.sort_unstable();
        keys.dedup();
        for device in named_devices(tx, app, &keys, tag)? {
            devices.insert((app, tag, device.key), device);
        }
    }
    let of_retry = |Claimed { retry, tag, .. }: &Claimed| {
        let device = devices.get(&(retry.key.app(), tag.as_deref(), retry.key))?;
        Some(((retry.dispatch, retry.key), device.clone()))
    };
    Ok(claimed.iter().filter_map(of_retry).collect())
}

/// The results of claimed retries.
pub(in crate::store) struct SettleRetries {
    pub(in crate::store) instance: InstanceId,
    pub(in crate::store) outcomes: Vec<RetryOutcome>,
    pub(in crate::store) at: Timestamp,
}

impl WriteSet for SettleRetries {
    type Answer = ();
    const KIND: SetKind = SetKind::SettleRetries;
    const OPERATION: Operation = Operation::SettleRetries;
    const GATHER: Gather = Gather::NONE;

    fn scope(&self) -> WriteScope {
        if self.outcomes.iter().flat_map(|outcome| &outcome.dead).any(DeadAddress::may_trip_guard) {
            return WriteScope::Installation;
        }
        WriteScope::all(self.outcomes.iter().map(|outcome| WriteScope::key(outcome.no.0)))
    }

    fn fits(&self) -> bool {
        let concerns_device = |outcome: &RetryOutcome| {
            outcome.dead.is_some() || outcome.moved.is_some() || outcome.verified.is_some()
        };
        !self.outcomes.iter().any(concerns_device)
    }

    fn weight(&self) -> usize {
        self.outcomes.len()
    }

    fn write_alone(&self, tx: &mut WriteTx<'_>) -> Result<(), StoreError> {
        settle_retries(tx, self.instance, &self.outcomes, self.at)
    }

    fn write_set(tx: &mut SetTx<'_>, rows: &[&Self]) -> Result<Vec<Option<()>>, StoreError> {
        let held = lock_retries(tx, rows)?;
        tx.is_read_only = held.is_empty();
        if !held.is_empty() {
            settle(tx, &held)?;
        }
        Ok(vec![Some(()); rows.len()])
    }
}

/// A retry of the set that its process still holds.
struct HeldRetry<'a> {
    outcome: &'a RetryOutcome,
    at: Timestamp,
    dispatch: DispatchNo,
    page: PageNo,
    app: AppNo,
}

/// Locks the retries of the set that their processes still hold. The others stay as they are.
fn lock_retries<'a>(
    tx: &SetTx<'_>,
    rows: &[&'a SettleRetries],
) -> Result<Vec<HeldRetry<'a>>, StoreError> {
    // Of several results of a process for a retry, the first counts, since it releases the retry.
    let mut first: HashMap<(i64, i64), (&SettleRetries, &RetryOutcome)> = HashMap::new();
    for row in rows {
        for outcome in &row.outcomes {
            first.entry((outcome.no.0, row.instance.0)).or_insert((*row, outcome));
        }
    }
    let (numbers, instances): (Vec<i64>, Vec<i64>) = first.keys().copied().unzip();
    let held = tx.query(
        "select r.no, r.epoch, r.dispatch_no, r.page_no, r.app_no
         from unnest($1::bigint[], $2::bigint[]) g (no, epoch)
         join retries r on r.no = g.no and r.epoch = g.epoch and r.outcome is null
         order by r.no for no key update of r",
        &[&numbers, &instances],
    )?;
    let read = |row: &tokio_postgres::Row| {
        let (settle, outcome) = first.get(&(row.get(0), row.get(1)))?;
        let (dispatch, page) = (DispatchNo(row.get(2)), PageNo(row.get(3)));
        Some(HeldRetry { outcome, at: settle.at, dispatch, page, app: AppNo(row.get(4)) })
    };
    Ok(held.iter().filter_map(read).collect())
}

/// The counts of retries that have ended.
#[derive(Default)]
struct EndedCounts<'a> {
    /// The ended retries of each page, by the code of the outcome.
    pages: BTreeMap<PageNo, [i64; Outcome::ALL.len()]>,
    /// The ended retries of each dispatch, and the time of the last one.
    dispatches: BTreeMap<DispatchNo, (i64, Timestamp)>,
    failures: Failures<'a>,
    days: BTreeMap<(AppNo, i64), (Timestamp, DailyDelta)>,
}

/// Writes the results of retries that are locked.
fn settle(tx: &mut SetTx<'_>, held: &[HeldRetry<'_>]) -> Result<(), StoreError> {
    let mut ended = EndedCounts::default();
    let mut ending = Vec::new();
    for HeldRetry { outcome, at, dispatch, page, app } in held {
        let RetryResult::Final { settled, reason, .. } = &outcome.result else { continue };
        ended.pages.entry(*page).or_default()[usize::from(settled.code())] += 1;
        let of_dispatch = ended.dispatches.entry(*dispatch).or_insert((0, *at));
        *of_dispatch = (of_dispatch.0 + 1, (*at).max(of_dispatch.1));
        if let Some(reason) = failure_reason(*settled, reason.as_deref()) {
            *ended.failures.entry((*dispatch, reason)).or_default() += 1;
        }
        let day = ended.days.entry((*app, Day::of(*at).0)).or_insert((*at, DailyDelta::default()));
        day.1.add_outcome(*settled, 1);
        ending.push((*app, *at));
    }
    let logs = lock_event_logs(tx, ending.into_iter())?;
    write_results(tx, held)?;
    if ended.dispatches.is_empty() {
        return Ok(());
    }
    count_in_pages(tx, &ended.pages)?;
    let without_retries = count_down(tx, &ended.dispatches)?;
    // The days come before the notifications, as in a set of checkpoints.
    for ((app, _), (at, delta)) in ended.days {
        daily_stats::add(tx, app, delta, at)?;
    }
    complete(tx, &logs, &without_retries)?;
    add_failures(tx, &ended.failures)
}

/// Writes the results to the rows of the retries.
fn write_results(tx: &SetTx<'_>, held: &[HeldRetry<'_>]) -> Result<(), StoreError> {
    let mut results = Vec::with_capacity(held.len());
    for HeldRetry { outcome, at, .. } in held {
        let mut result = ResultRow { no: outcome.no.0, ..ResultRow::default() };
        match &outcome.result {
            RetryResult::Final { settled, reason, attempts, message_id } => {
                result.settled = Some((i64::from(settled.code()), at.as_ms()));
                result.attempt = Some((i64::from(*attempts), reason.as_deref()));
                result.message_id = message_id.as_deref();
            }
            RetryResult::Deferred { due_at } => result.due_at = Some(due_at.as_ms()),
            RetryResult::Retry { attempts, due_at, reason, unknown_outcomes } => {
                result.due_at = Some(due_at.as_ms());
                result.attempt = Some((i64::from(*attempts), Some(&**reason)));
                result.unknown_outcomes = Some(i64::from(*unknown_outcomes));
            }
        }
        results.push(result);
    }
    tx.query(
        "update retries r set epoch = null, has_intent = 0, outcome = g.outcome, settled_at = g.settled_at,
           attempts = coalesce(g.attempts, r.attempts),
           reason = case when g.attempts is null then r.reason else g.reason end,
           message_id = g.message_id, due_at = coalesce(g.due_at, r.due_at),
           claimable_at = case when g.due_at is null then r.claimable_at else coalesce(
             (select d.paused_until from dispatches d where d.no = r.dispatch_no), g.due_at) end,
           unknown_outcomes = coalesce(g.unknown_outcomes, r.unknown_outcomes)
         from unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::text[], $6::text[],
           $7::bigint[], $8::bigint[])
           g (no, outcome, settled_at, attempts, reason, message_id, due_at, unknown_outcomes)
         where r.no = g.no",
        &[
            column!(results, result => result.no),
            column!(results, result => result.settled.map(|(code, _)| code)),
            column!(results, result => result.settled.map(|(_, at)| at)),
            column!(results, result => result.attempt.map(|(attempts, _)| attempts)),
            column!(results, result => result.attempt.and_then(|(_, reason)| reason)),
            column!(results, result => result.message_id),
            column!(results, result => result.due_at),
            column!(results, result => result.unknown_outcomes),
        ],
    )?;
    Ok(())
}

/// A result as columns.
#[derive(Default)]
struct ResultRow<'a> {
    no: i64,
    /// The code of the outcome and its time, if the delivery has ended.
    settled: Option<(i64, i64)>,
    /// The number of attempts and the reason, if an attempt was made.
    attempt: Option<(i64, Option<&'a str>)>,
    message_id: Option<&'a str>,
    due_at: Option<i64>,
    unknown_outcomes: Option<i64>,
}

/// Adds ended retries to the counters of their pages.
fn count_in_pages(
    tx: &SetTx<'_>,
    pages: &BTreeMap<PageNo, [i64; Outcome::ALL.len()]>,
) -> Result<(), StoreError> {
    tx.query(
        "with locked as materialized (
           select g.* from unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[],
             $5::bigint[], $6::bigint[])
             g (no, sent, failed, unregistered, expired, canceled)
           join pages p on p.no = g.no order by p.no for no key update of p)
         update pages p set sent = p.sent + l.sent, failed = p.failed + l.failed,
           unregistered = p.unregistered + l.unregistered, expired = p.expired + l.expired,
           canceled = p.canceled + l.canceled,
           retrying = p.retrying - (l.sent + l.failed + l.unregistered + l.expired + l.canceled)
         from locked l where p.no = l.no",
        &[
            column!(pages, page => page.0.0),
            column!(pages, page => page.1[0]),
            column!(pages, page => page.1[1]),
            column!(pages, page => page.1[2]),
            column!(pages, page => page.1[3]),
            column!(pages, page => page.1[4]),
        ],
    )?;
    Ok(())
}

/// Subtracts ended retries from the open ones of their dispatches. Returns the dispatches that have
/// no open page and retry, each with the time of its last retry.
fn count_down(
    tx: &SetTx<'_>,
    dispatches: &BTreeMap<DispatchNo, (i64, Timestamp)>,
) -> Result<BTreeMap<DispatchNo, Timestamp>, StoreError> {
    let counted = tx.query(
        "with locked as materialized (
           select g.* from unnest($1::bigint[], $2::bigint[]) g (no, retries)
           join dispatches d on d.no = g.no and d.completed_at is null
           order by d.no for no key update of d)
         update dispatches d set open_retries = d.open_retries - l.retries
         from locked l where d.no = l.no
         returning d.no, d.scan_done = 1 and d.open_pages = 0 and d.open_retries = 0",
        &[
            column!(dispatches, dispatch => dispatch.0.0),
            column!(dispatches, dispatch => dispatch.1.0),
        ],
    )?;
    let without_retries = counted.iter().filter(|row| row.get(1)).filter_map(|row| {
        let no = DispatchNo(row.get(0));
        Some((no, dispatches.get(&no)?.1))
    });
    Ok(without_retries.collect())
}
