//! Retries: deliveries that failed temporarily. Each has a row with the time of its next attempt.

use std::borrow::Cow;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};

use notify_core::{Platform, Timestamp};

use crate::reasons::OUTCOME_UNKNOWN;
use crate::store::daily_stats::{self, DailyDelta};
use crate::store::delivery::settle;
use crate::store::delivery::settle::PendingDelta;
use crate::store::delivery::{checkpoint, dispatch};
use crate::store::device::{inbound, replace_moved};
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
    /// The number of attempts so far.
    pub attempts: u16,
    /// When the first attempt was made, or the delivery was postponed before it. The time that a delivery
    /// is retried counts from here.
    pub first_attempt_at: Timestamp,
    /// When the next attempt is due.
    pub due_at: Timestamp,
    /// Why the last attempt failed, or why the delivery was postponed before its first attempt.
    pub reason: Cow<'static, str>,
    /// The number of attempts whose result is unknown.
    pub unknown_outcomes: u16,
}

/// A claim of due retries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryClaim {
    /// Application.
    pub app: AppNo,
    /// Platform.
    pub platform: Platform,
    /// The most retries to claim.
    pub limit: u32,
    /// The claiming process.
    pub instance: InstanceId,
    /// End of the lease.
    pub lease_until: Timestamp,
    /// Now.
    pub now: Timestamp,
    /// Retries that this process is still working on. They are not claimed, even if their lease has
    /// ended.
    pub exclude: Vec<RetryNo>,
    /// Set if it is unknown whether an earlier claim of this process was committed. The retries
    /// that it may have claimed, which are not in `exclude`, are then claimed again at once.
    pub reclaim_own: bool,
}

/// A claimed retry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimedRetry {
    /// The number of the retry.
    pub no: RetryNo,
    /// The dispatch.
    pub dispatch: DispatchNo,
    /// The device.
    pub key: DeviceKey,
    /// The device as it is now; `None` if it was erased.
    pub device: Option<AudienceDevice>,
    /// The number of attempts so far.
    pub attempts: u16,
    /// When the first attempt was made.
    pub first_attempt_at: Timestamp,
    /// The number of attempts whose result is unknown.
    pub unknown_outcomes: u16,
    /// Whether the process that claimed the retry before has recorded that it sends the message, and no
    /// result.
    pub is_in_doubt: bool,
}

/// The result of a claimed retry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RetryResult {
    /// The delivery has ended.
    Final {
        /// The outcome.
        settled: Outcome,
        /// The reason.
        reason: Option<Cow<'static, str>>,
        /// The number of attempts.
        attempts: u16,
        /// The provider's message id, if ids are kept.
        message_id: Option<Box<str>>,
    },
    /// The retry waits longer. No attempt was made.
    Deferred {
        /// When the retry is due.
        due_at: Timestamp,
    },
    /// The attempt failed, and the delivery is tried again.
    Retry {
        /// The number of attempts so far.
        attempts: u16,
        /// When the next attempt is due.
        due_at: Timestamp,
        /// Why the last attempt failed.
        reason: Cow<'static, str>,
        /// The number of attempts whose result is unknown.
        unknown_outcomes: u16,
    },
}

/// The result of a retry, and its consequences for the address.
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
    /// A result without consequences for the address.
    #[must_use]
    pub fn of(no: RetryNo, result: RetryResult) -> Self {
        Self { no, result, dead: None, moved: None, verified: None }
    }

    /// The result of a retry that is in doubt, whose message must not be sent again; `None` if it is not in
    /// doubt.
    #[must_use]
    pub fn of_doubt(retry: &ClaimedRetry) -> Option<Self> {
        let result = RetryResult::Final {
            settled: Outcome::Failed,
            reason: Some(OUTCOME_UNKNOWN.into()),
            attempts: retry.attempts.saturating_add(1),
            message_id: None,
        };
        retry.is_in_doubt.then(|| Self::of(retry.no, result))
    }

    /// When the retry is due next; `None` if the delivery has ended.
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

/// Finds every lane with open retries. Jumps from lane to lane in the index, so the cost does not
/// depend on the number of retries.
pub(super) fn lanes(connection: &Connection) -> Result<Vec<Lane>, StoreError> {
    // Two statements instead of one comparison of rows, `(app_no, platform) > (?1, ?2)`, for which
    // the index would only be used for the first column.
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
    let (mut last_app, mut last_platform) = (-1_i64, -1_i64);
    loop {
        let lane = match next_platform.query_row([last_app, last_platform], read).optional()? {
            Some(lane) => Some(lane),
            None => next_app.query_row([last_app], read).optional()?,
        };
        let Some((app, platform, claimable_at)) = lane else { return Ok(lanes) };
        (last_app, last_platform) = (app, platform);
        lanes.push(Lane { app: AppNo(app), platform: platform_of(platform), claimable_at });
    }
}

/// Counts the open retries of a lane. The retries of paused dispatches do not count: they must not keep
/// other notifications waiting.
pub(super) fn count_open(
    connection: &Connection,
    app: AppNo,
    platform: Platform,
    now: Timestamp,
) -> Result<u64, StoreError> {
    let open = connection
        .prepare_cached(
            "select count(*) from retries r indexed by retries_open
             where r.app_no = ?1 and r.platform = ?2 and r.outcome is null
             and not exists (select 1 from dispatches d where d.no = r.dispatch_no
              and d.paused_until > ?3)",
        )?
        .query_row([app.0, platform_code(platform), now.as_ms()], |row| count_at(row, 0))?;
    Ok(open)
}

/// Claims due retries of a lane.
pub(in crate::store) fn claim(
    tx: &Connection,
    claim: &RetryClaim,
) -> Result<Vec<ClaimedRetry>, StoreError> {
    if claim.reclaim_own {
        release_unacked(tx, claim)?;
    }
    let mut claimed = Vec::new();
    for no in claimable_retries(tx, claim)? {
        claimed.push(claim_retry(tx, claim, no)?);
    }
    claimed.sort_unstable_by_key(|retry| retry.no);
    let mut tags = HashMap::new();
    for retry in &mut claimed {
        let tag = match tags.entry(retry.dispatch) {
            Entry::Occupied(tag) => tag.into_mut(),
            Entry::Vacant(entry) => entry.insert(tag_of(tx, retry.dispatch)?),
        };
        retry.device = dispatch::read_device(tx, retry.key, tag.as_deref())?;
    }
    Ok(claimed)
}

/// Releases the retries that an earlier claim of this process may have taken without the process
/// knowing.
fn release_unacked(tx: &Connection, claim: &RetryClaim) -> Result<(), StoreError> {
    let mut own = tx.prepare_cached(
        "select no from retries indexed by retries_open
         where app_no = ?1 and platform = ?2 and outcome is null and epoch = ?3",
    )?;
    let platform = platform_code(claim.platform);
    let claimed_numbers = own
        .query_map([claim.app.0, platform, claim.instance.0], |row| row.get(0).map(RetryNo))?
        .collect::<Result<Vec<_>, _>>()?;
    for no in claimed_numbers {
        if !claim.exclude.contains(&no) {
            tx.prepare_cached(
                "update retries set epoch = null, claimable_at = coalesce(
                  (select d.paused_until from dispatches d where d.no = dispatch_no), due_at)
                 where no = ?1",
            )?
            .execute([no.0])?;
        }
    }
    Ok(())
}

/// The numbers of the retries to claim.
fn claimable_retries(tx: &Connection, claim: &RetryClaim) -> Result<Vec<RetryNo>, StoreError> {
    let mut due = tx.prepare_cached(
        "select no from retries indexed by retries_open
         where app_no = ?1 and platform = ?2 and outcome is null and claimable_at <= ?3
         order by claimable_at limit ?4",
    )?;
    let platform = platform_code(claim.platform);
    // Enough rows to reach the limit even if all excluded retries are among them.
    let rows_max = i64::from(claim.limit) + i64::try_from(claim.exclude.len()).unwrap_or(i64::MAX);
    let mut rows = due.query([claim.app.0, platform, claim.now.as_ms(), rows_max])?;
    let mut numbers = Vec::new();
    while numbers.len() < claim.limit as usize
        && let Some(row) = rows.next()?
    {
        let no = RetryNo(row.get(0)?);
        if !claim.exclude.contains(&no) {
            numbers.push(no);
        }
    }
    Ok(numbers)
}

/// Claims one retry. The device is `None`: the caller reads it.
fn claim_retry(
    tx: &Connection,
    claim: &RetryClaim,
    no: RetryNo,
) -> Result<ClaimedRetry, StoreError> {
    // A query and an update instead of one update with RETURNING, for which SQLite builds a
    // temporary table each time.
    let claimed = tx
        .prepare_cached(
            "select dispatch_no, device_key, attempts, first_attempt_at, unknown_outcomes, has_intent
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
                is_in_doubt: row.get(5)?,
            })
        })?;
    tx.prepare_cached("update retries set epoch = ?2, claimable_at = ?3 where no = ?1")?
        .execute([no.0, claim.instance.0, claim.lease_until.as_ms()])?;
    Ok(claimed)
}

/// Reads the tag of the notification of a dispatch.
fn tag_of(tx: &Connection, dispatch: DispatchNo) -> Result<Option<String>, StoreError> {
    let tag = tx
        .prepare_cached(
            "select n.tag from dispatches d join notifications n on n.no = d.notification_no
             where d.no = ?1",
        )?
        .query_row([dispatch.0], |row| row.get(0))?;
    Ok(tag)
}

/// Records that the message of a claimed retry is being sent from now on. Returns false if the retry has
/// ended or another process has claimed it.
pub(super) fn record_intent(
    tx: &Connection,
    instance: InstanceId,
    no: RetryNo,
) -> Result<bool, StoreError> {
    let recorded = tx
        .prepare_cached(
            "update retries set has_intent = 1 where no = ?1 and epoch = ?2 and outcome is null",
        )?
        .execute([no.0, instance.0])?;
    Ok(recorded > 0)
}

/// Commits the results of claimed retries.
pub(in crate::store) fn settle_retries(
    tx: &mut WriteTx<'_>,
    instance: InstanceId,
    outcomes: &[RetryOutcome],
    at: Timestamp,
) -> Result<(), StoreError> {
    for report in outcomes.iter().filter_map(|outcome| outcome.moved.as_ref()) {
        replace_moved(tx, report)?;
    }
    inbound::verify(tx, outcomes.iter().filter_map(|outcome| outcome.verified.as_ref()))?;
    checkpoint::disable(tx, outcomes.iter().filter_map(|outcome| outcome.dead.as_ref()))?;
    let mut ended = EndedCounts::default();
    for outcome in outcomes {
        apply_result(tx, instance, outcome, at, &mut ended)?;
    }
    ended.write(tx, at)
}

/// The counts of retries that have ended, collected to update the counters of each page and
/// dispatch once.
#[derive(Default)]
struct EndedCounts<'o> {
    /// The ended retries of each page, by outcome.
    pages: BTreeMap<(PageNo, Outcome), i64>,
    /// The failures of each dispatch, by reason.
    failures: BTreeMap<(DispatchNo, &'o str), i64>,
    /// The ended retries of each dispatch.
    dispatches: BTreeMap<DispatchNo, i64>,
    /// The daily counts of each application.
    days: BTreeMap<AppNo, DailyDelta>,
}

impl EndedCounts<'_> {
    /// Adds the counts to the stored counters.
    fn write(self, tx: &mut WriteTx<'_>, at: Timestamp) -> Result<(), StoreError> {
        for ((page, outcome), ended) in self.pages {
            settle::count(tx, page, outcome, ended, ended)?;
        }
        for ((dispatch, reason), failures) in self.failures {
            settle::count_failures(tx, dispatch, reason, failures)?;
        }
        for (dispatch, ended) in self.dispatches {
            let delta = PendingDelta { retries: -ended, ..PendingDelta::default() };
            settle::apply_delta(tx, dispatch, delta, at)?;
        }
        for (app, day) in self.days {
            daily_stats::add(tx, app, day, at)?;
        }
        Ok(())
    }
}

/// Writes one result. A retry that has ended or that another process has claimed stays as it is. A retry
/// of a paused dispatch cannot be claimed until it expires, or until [`settle::release`].
fn apply_result<'o>(
    tx: &Connection,
    instance: InstanceId,
    outcome: &'o RetryOutcome,
    at: Timestamp,
    ended: &mut EndedCounts<'o>,
) -> Result<(), StoreError> {
    match &outcome.result {
        RetryResult::Final { settled, reason, attempts, message_id } => {
            let numbers = tx
                .prepare_cached(
                    "select dispatch_no, page_no, app_no from retries
                     where no = ?1 and epoch = ?2 and outcome is null",
                )?
                .query_row([outcome.no.0, instance.0], |row| {
                    Ok((DispatchNo(row.get(0)?), PageNo(row.get(1)?), AppNo(row.get(2)?)))
                })
                .optional()?;
            let Some((dispatch, page, app)) = numbers else { return Ok(()) };
            tx.prepare_cached(
                "update retries set outcome = ?2, reason = ?3, attempts = ?4, settled_at = ?5,
                 message_id = ?6, epoch = null where no = ?1",
            )?
            .execute(params![
                outcome.no.0,
                settled.code(),
                reason,
                attempts,
                at.as_ms(),
                message_id
            ])?;
            *ended.pages.entry((page, *settled)).or_default() += 1;
            if let Some(reason) = checkpoint::failure_reason(*settled, reason.as_deref()) {
                *ended.failures.entry((dispatch, reason)).or_default() += 1;
            }
            *ended.dispatches.entry(dispatch).or_default() += 1;
            ended.days.entry(app).or_default().add_outcome(*settled, 1);
        }
        RetryResult::Deferred { due_at } => {
            tx.prepare_cached(
                "update retries set due_at = ?3, epoch = null, has_intent = 0, claimable_at = coalesce(
                  (select d.paused_until from dispatches d where d.no = dispatch_no), ?3)
                 where no = ?1 and epoch = ?2 and outcome is null",
            )?
            .execute([outcome.no.0, instance.0, due_at.as_ms()])?;
        }
        RetryResult::Retry { attempts, due_at, reason, unknown_outcomes } => {
            tx.prepare_cached(
                "update retries set attempts = ?3, due_at = ?4, reason = ?5, unknown_outcomes = ?6,
                 epoch = null, has_intent = 0, claimable_at = coalesce(
                  (select d.paused_until from dispatches d where d.no = dispatch_no), ?4)
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
