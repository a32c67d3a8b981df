//! Retries: deliveries with a row of their own and a due time.

use std::borrow::Cow;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};

use notify_core::{Platform, Timestamp};

use crate::store::daily_stats::{self, DailyDelta};
use crate::store::delivery::settle;
use crate::store::delivery::settle::PendingDelta;
use crate::store::delivery::{checkpoint, dispatch};
use crate::store::device::{LastSeenBuffer, inbound, replace_moved};
use crate::store::sql::row::count_at;
use crate::store::sql::writer::WriteTx;
use crate::store::sql::{Connection, OptionalExtension, Row, params};
use crate::store::{
    AppNo, AudienceDevice, DeadAddress, DeviceKey, DispatchNo, InstanceId, MovedAddress, Outcome,
    PageNo, RetryNo, StoreError, VerifiedAddress, platform_code, platform_of,
};

/// A new retry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRetry {
    /// The device.
    pub key: DeviceKey,
    /// Attempts made so far.
    pub attempts: u16,
    /// When the first was made.
    pub first_attempt_at: Timestamp,
    /// When the next is due.
    pub due_at: Timestamp,
    /// Why the last one failed.
    pub reason: Cow<'static, str>,
    /// How many attempts had an ambiguous result.
    pub unknown_outcomes: u16,
}

/// A claim of due retries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryClaim {
    /// Application.
    pub app: AppNo,
    /// Platform.
    pub platform: Platform,
    /// Most retries.
    pub limit: u32,
    /// The claiming process.
    pub instance: InstanceId,
    /// End of the lease.
    pub lease_until: Timestamp,
    /// Now.
    pub now: Timestamp,
    /// Retries that the process still works on, which are left out even if their lease has ended.
    pub exclude: Vec<RetryNo>,
    /// Set if it is unknown whether an earlier claim was committed: retries that this process has
    /// claimed and that are not in `exclude` are claimed again at once.
    pub reclaim_own: bool,
}

/// A claimed retry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimedRetry {
    /// Number.
    pub no: RetryNo,
    /// Its dispatch.
    pub dispatch: DispatchNo,
    /// The device.
    pub key: DeviceKey,
    /// The device as it is now; `None` if it was erased.
    pub device: Option<AudienceDevice>,
    /// Attempts made so far.
    pub attempts: u16,
    /// When the first was made.
    pub first_attempt_at: Timestamp,
    /// How many attempts had an ambiguous result.
    pub unknown_outcomes: u16,
}

/// The result of a claimed retry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RetryResult {
    /// It has ended.
    Final {
        /// The outcome.
        settled: Outcome,
        /// The reason.
        reason: Option<Cow<'static, str>>,
        /// Attempts made.
        attempts: u16,
        /// The provider's message id, if ids are kept.
        message_id: Option<Box<str>>,
    },
    /// It waits longer. No attempt was made.
    Deferred {
        /// When it is due.
        due_at: Timestamp,
    },
    /// It is tried again.
    Retry {
        /// Attempts made so far.
        attempts: u16,
        /// When the next is due.
        due_at: Timestamp,
        /// Why the last one failed.
        reason: Cow<'static, str>,
        /// How many attempts had an ambiguous result.
        unknown_outcomes: u16,
    },
}

/// The result of a retry, and what it says about the address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryOutcome {
    /// The retry.
    pub no: RetryNo,
    /// The result.
    pub result: RetryResult,
    /// An address to disable.
    pub dead: Option<DeadAddress>,
    /// An address to replace.
    pub moved: Option<MovedAddress>,
    /// The address, if it received its first message.
    pub verified: Option<VerifiedAddress>,
}

impl RetryOutcome {
    /// A result that says nothing about the address.
    #[must_use]
    pub fn of(no: RetryNo, result: RetryResult) -> Self {
        Self { no, result, dead: None, moved: None, verified: None }
    }

    /// When it is due next, unless it has ended.
    #[must_use]
    pub fn due_at(&self) -> Option<Timestamp> {
        match self.result {
            RetryResult::Final { .. } => None,
            RetryResult::Deferred { due_at } | RetryResult::Retry { due_at, .. } => Some(due_at),
        }
    }
}

/// An application and platform with open retries, and when the first of them can be claimed.
pub(super) struct Lane {
    pub(super) app: AppNo,
    pub(super) platform: Platform,
    pub(super) claimable_at: Timestamp,
}

/// Every lane with open retries. Jumps in the index from lane to lane, independent of the number of
/// rows.
pub(super) fn lanes(connection: &Connection) -> Result<Vec<Lane>, StoreError> {
    // Two statements, since the index serves only the first column of a row comparison.
    let mut next_platform = connection.prepare_cached(
        "select app_no, platform, claimable_at from retries indexed by retries_open
         where outcome is null and app_no = ?1 and platform > ?2
         order by platform, claimable_at limit 1",
    )?;
    let mut next_app = connection.prepare_cached(
        "select app_no, platform, claimable_at from retries indexed by retries_open
         where outcome is null and app_no > ?1 order by app_no, platform, claimable_at limit 1",
    )?;
    let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, Timestamp(row.get(2)?)));
    let mut lanes = Vec::new();
    let (mut app, mut platform) = (-1_i64, -1_i64);
    loop {
        let next = next_platform.query_row([app, platform], read).optional()?;
        let next = match next {
            Some(next) => Some(next),
            None => next_app.query_row([app], read).optional()?,
        };
        let Some(found) = next else { return Ok(lanes) };
        let claimable_at;
        (app, platform, claimable_at) = found;
        lanes.push(Lane { app: AppNo(app), platform: platform_of(platform), claimable_at });
    }
}

/// How many retries of a lane are open.
pub(super) fn open(
    connection: &Connection,
    app: AppNo,
    platform: Platform,
) -> Result<u64, StoreError> {
    let open = connection
        .prepare_cached(
            "select count(*) from retries indexed by retries_open
             where app_no = ?1 and platform = ?2 and outcome is null",
        )?
        .query_row([app.0, platform_code(platform)], |row| count_at(row, 0))?;
    Ok(open)
}

/// Claims due retries of a lane.
pub(super) fn claim(tx: &Connection, claim: &RetryClaim) -> Result<Vec<ClaimedRetry>, StoreError> {
    if claim.reclaim_own {
        release_unacked(tx, claim)?;
    }
    let mut claimed = Vec::new();
    for no in due(tx, claim)? {
        claimed.push(claim_one(tx, claim, no)?);
    }
    claimed.sort_unstable_by_key(|retry| retry.no);
    let mut tags = HashMap::new();
    for retry in &mut claimed {
        let tag = match tags.entry(retry.dispatch) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => place.insert(tag_of(tx, retry.dispatch)?),
        };
        retry.device = dispatch::read_device(tx, retry.key, tag.as_deref())?;
    }
    Ok(claimed)
}

/// Releases what an earlier claim of this process took without a reply.
fn release_unacked(tx: &Connection, claim: &RetryClaim) -> Result<(), StoreError> {
    let mut own = tx.prepare_cached(
        "select no from retries indexed by retries_open
         where app_no = ?1 and platform = ?2 and outcome is null and epoch = ?3",
    )?;
    let platform = platform_code(claim.platform);
    let own =
        own.query_map([claim.app.0, platform, claim.instance.0], |row| row.get(0).map(RetryNo))?;
    for no in own.collect::<Result<Vec<_>, _>>()? {
        if !claim.exclude.contains(&no) {
            tx.prepare_cached(
                "update retries set epoch = null, claimable_at = due_at where no = ?1",
            )?
            .execute([no.0])?;
        }
    }
    Ok(())
}

/// The numbers of the retries to claim.
fn due(tx: &Connection, claim: &RetryClaim) -> Result<Vec<RetryNo>, StoreError> {
    let mut due = tx.prepare_cached(
        "select no from retries indexed by retries_open
         where app_no = ?1 and platform = ?2 and outcome is null and claimable_at <= ?3
         order by claimable_at limit ?4",
    )?;
    let platform = platform_code(claim.platform);
    // Enough rows to skip the excluded ones.
    let rows_max = i64::from(claim.limit) + i64::try_from(claim.exclude.len()).unwrap_or(i64::MAX);
    let mut rows = due.query([claim.app.0, platform, claim.now.as_ms(), rows_max])?;
    let mut found = Vec::new();
    while found.len() < claim.limit as usize
        && let Some(row) = rows.next()?
    {
        let no = RetryNo(row.get(0)?);
        if !claim.exclude.contains(&no) {
            found.push(no);
        }
    }
    Ok(found)
}

/// Claims one.
fn claim_one(tx: &Connection, claim: &RetryClaim, no: RetryNo) -> Result<ClaimedRetry, StoreError> {
    // Read first, since an UPDATE with RETURNING builds a temporary table each time.
    let claimed = tx
        .prepare_cached(
            "select dispatch_no, device_key, attempts, first_attempt_at, unknown_outcomes
             from retries where no = ?1",
        )?
        .query_row([no.0], |row| {
            Ok(ClaimedRetry {
                no,
                dispatch: DispatchNo(row.get(0)?),
                key: DeviceKey(row.get(1)?),
                device: None,
                attempts: row.get(2)?,
                first_attempt_at: Timestamp(row.get(3)?),
                unknown_outcomes: row.get(4)?,
            })
        })?;
    tx.prepare_cached("update retries set epoch = ?2, claimable_at = ?3 where no = ?1")?
        .execute([no.0, claim.instance.0, claim.lease_until.as_ms()])?;
    Ok(claimed)
}

/// The tag that a dispatch names.
fn tag_of(tx: &Connection, dispatch: DispatchNo) -> Result<Option<String>, StoreError> {
    let tag = tx
        .prepare_cached(
            "select n.tag from dispatches d join notifications n on n.no = d.notification_no
             where d.no = ?1",
        )?
        .query_row([dispatch.0], |row| row.get(0))?;
    Ok(tag)
}

/// Commits the results of claimed retries.
pub(super) fn settle_retries(
    tx: &mut WriteTx<'_>,
    seen: &LastSeenBuffer,
    instance: InstanceId,
    outcomes: &[RetryOutcome],
    at: Timestamp,
) -> Result<(), StoreError> {
    for report in outcomes.iter().filter_map(|outcome| outcome.moved.as_ref()) {
        replace_moved(tx, report)?;
    }
    inbound::verify(tx, outcomes.iter().filter_map(|outcome| outcome.verified.as_ref()))?;
    checkpoint::disable(tx, seen, outcomes.iter().filter_map(|outcome| outcome.dead.as_ref()))?;
    let mut ended = EndedCounts::default();
    for outcome in outcomes {
        apply_result(tx, instance, outcome, at, &mut ended)?;
    }
    ended.count(tx, at)
}

/// Counters of ended retries, written once for each page and dispatch.
#[derive(Default)]
struct EndedCounts<'o> {
    pages: BTreeMap<(PageNo, Outcome), i64>,
    failures: BTreeMap<(DispatchNo, &'o str), i64>,
    dispatches: BTreeMap<DispatchNo, i64>,
    sent: BTreeMap<AppNo, i64>,
}

impl EndedCounts<'_> {
    fn count(self, tx: &mut WriteTx<'_>, at: Timestamp) -> Result<(), StoreError> {
        for ((page, settled), by) in self.pages {
            settle::count(tx, page, settled, by, by)?;
        }
        for ((dispatch, reason), by) in self.failures {
            settle::count_failures(tx, dispatch, reason, by)?;
        }
        for (dispatch, by) in self.dispatches {
            settle::apply_delta(
                tx,
                dispatch,
                PendingDelta { retries: -by, ..PendingDelta::default() },
                at,
            )?;
        }
        for (app, sent) in self.sent {
            daily_stats::add(tx, app, DailyDelta::sent(sent), at)?;
        }
        Ok(())
    }
}

/// Writes one result. A retry that has ended or that another process has claimed is left as it is; what
/// the result says about the address is applied in any case.
fn apply_result<'o>(
    tx: &Connection,
    instance: InstanceId,
    outcome: &'o RetryOutcome,
    at: Timestamp,
    ended: &mut EndedCounts<'o>,
) -> Result<(), StoreError> {
    match &outcome.result {
        RetryResult::Final { settled, reason, attempts, message_id } => {
            let (code, at_ms) = (settled.code(), at.as_ms());
            let its = tx
                .prepare_cached(
                    "select dispatch_no, page_no, app_no from retries
                     where no = ?1 and epoch = ?2 and outcome is null",
                )?
                .query_row([outcome.no.0, instance.0], |row| {
                    Ok((DispatchNo(row.get(0)?), PageNo(row.get(1)?), AppNo(row.get(2)?)))
                })
                .optional()?;
            let Some((dispatch, page, app)) = its else { return Ok(()) };
            tx.prepare_cached(
                "update retries set outcome = ?2, reason = ?3, attempts = ?4, settled_at = ?5,
                 message_id = ?6, epoch = null where no = ?1",
            )?
            .execute(params![
                outcome.no.0,
                code,
                reason,
                attempts,
                at_ms,
                message_id
            ])?;
            *ended.pages.entry((page, *settled)).or_default() += 1;
            if let Some(reason) = checkpoint::failure(*settled, reason.as_deref()) {
                *ended.failures.entry((dispatch, reason)).or_default() += 1;
            }
            *ended.dispatches.entry(dispatch).or_default() += 1;
            if *settled == Outcome::Sent {
                *ended.sent.entry(app).or_default() += 1;
            }
        }
        RetryResult::Deferred { due_at } => {
            tx.prepare_cached(
                "update retries set due_at = ?3, claimable_at = ?3, epoch = null
                 where no = ?1 and epoch = ?2 and outcome is null",
            )?
            .execute([outcome.no.0, instance.0, due_at.as_ms()])?;
        }
        RetryResult::Retry { attempts, due_at, reason, unknown_outcomes } => {
            tx.prepare_cached(
                "update retries set attempts = ?3, due_at = ?4, claimable_at = ?4, reason = ?5,
                 unknown_outcomes = ?6, epoch = null
                 where no = ?1 and epoch = ?2 and outcome is null",
            )?
            .execute(params![
                outcome.no.0,
                instance.0,
                attempts,
                due_at.as_ms(),
                reason,
                unknown_outcomes
            ])?;
        }
    }
    Ok(())
}
