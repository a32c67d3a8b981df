//! Checkpoints. A checkpoint commits the changes of a page since the last checkpoint in one
//! transaction. It compares instance and checkpoint number with the row, so that a process that has
//! lost its page overwrites nothing.

use std::collections::BTreeMap;

use notify_core::{IosEnv, Platform, ProviderKind, Timestamp, WebhookEventType};

use crate::store::daily_stats::{self, DailyDelta};
use crate::store::delivery::outcomes;
use crate::store::delivery::settle;
use crate::store::delivery::settle::PendingDelta;
use crate::store::delivery::start::bytes_of_keys;
use crate::store::device::{
    count_dead, count_revived, hour_of, inbound, registered_at, replace_moved,
};
use crate::store::event::{self, EventRefs};
use crate::store::sql::row::{count, env_code};
use crate::store::sql::writer::WriteTx;
use crate::store::sql::{self, Connection, OptionalExtension, params};
use crate::store::{
    AppNo, Checkpoint, DeadAddress, DeliveryChange, DeviceKey, DeviceOutcome, DispatchNo,
    GUARD_THRESHOLD, GUARD_WINDOW, NewRetry, OpenPage, Outcome, StoreError, breaker, platform_code,
    platform_of,
};

/// Commits a checkpoint; returns the new state of the page.
pub(in crate::store) fn commit(
    tx: &mut WriteTx<'_>,
    checkpoint: &Checkpoint,
) -> Result<OpenPage, StoreError> {
    let page = checkpoint.page;
    let counts = count_by_code(&checkpoint.settled);
    let retries = i64::try_from(checkpoint.retries.len()).unwrap_or(i64::MAX);
    let updated = tx
        .prepare_cached(
            "update pages set checkpoint_no = checkpoint_no + 1, lease_until = ?4, targeted = ?5,
             excluded = ?6, finished = ?7, sent = sent + ?8, failed = failed + ?9,
             unregistered = unregistered + ?10, expired = expired + ?11, canceled = canceled + ?12,
             retrying = retrying + ?13, intents = coalesce(?14, intents)
             where no = ?1 and epoch = ?2 and checkpoint_no = ?3 and finished = 0",
        )?
        .execute(params![
            page.no.0,
            page.instance.0,
            page.checkpoint_no,
            checkpoint.lease_until.as_ms(),
            count(checkpoint.targeted),
            count(checkpoint.excluded),
            checkpoint.finished,
            counts[0],
            counts[1],
            counts[2],
            counts[3],
            counts[4],
            retries,
            checkpoint.intents.as_ref().map(|keys| bytes_of_keys(keys.iter().copied())),
        ])?;
    if updated == 0 {
        return resolve_conflict(tx, checkpoint);
    }
    if !checkpoint.settled.is_empty() {
        tx.prepare_cached(
            "insert into outcomes (page_no, chunk_no, at, entries) values (?1, ?2, ?3, ?4)",
        )?
        .execute(params![
            page.no.0,
            page.checkpoint_no,
            checkpoint.at.as_ms(),
            outcomes::encode(page.from, &checkpoint.settled)?
        ])?;
        count_failures(tx, page.dispatch, &checkpoint.settled)?;
        let mut day = DailyDelta::default();
        for outcome in Outcome::ALL {
            day.add_outcome(outcome, counts[usize::from(outcome.code())]);
        }
        daily_stats::add(tx, page.from.app(), day, checkpoint.at)?;
    }
    insert_retries(tx, &page, &checkpoint.retries)?;
    for report in &checkpoint.moved {
        replace_moved(tx, report)?;
    }
    inbound::verify(tx, &checkpoint.verified)?;
    disable(tx, checkpoint.dead.iter())?;
    if retries > 0 || checkpoint.finished {
        let delta =
            PendingDelta { pages: -i64::from(checkpoint.finished), retries, scan_done: false };
        settle::apply_delta(tx, page.dispatch, delta, checkpoint.at)?;
    }
    if retries > 0 {
        hold_or_cancel_retries(tx, page.dispatch, checkpoint.at)?;
    }
    Ok(OpenPage {
        checkpoint_no: page.checkpoint_no + 1,
        lease_until: checkpoint.lease_until,
        ..page
    })
}

/// Handles a checkpoint whose compare-and-set failed. It is a success if the same checkpoint is
/// already stored, because only the reply to it was lost. An error would make the engine send its
/// deliveries again. It is also a success if the page was finished when it was opened, because it
/// has no devices. In all other cases the process has lost the page.
pub(in crate::store) fn resolve_conflict(
    tx: &Connection,
    checkpoint: &Checkpoint,
) -> Result<OpenPage, StoreError> {
    let page = checkpoint.page;
    let stored_no: Option<i64> = tx
        .prepare_cached(
            "select checkpoint_no from pages where no = ?1 and epoch = ?2 and targeted = ?3
             and excluded = ?4 and finished = ?5",
        )?
        .query_row(
            params![
                page.no.0,
                page.instance.0,
                count(checkpoint.targeted),
                count(checkpoint.excluded),
                checkpoint.finished
            ],
            |row| row.get(0),
        )
        .optional()?;
    let is_empty = checkpoint.settled.is_empty() && checkpoint.retries.is_empty();
    match stored_no {
        Some(no) if no == page.checkpoint_no + 1 && matches_stored(tx, checkpoint)? => {
            Ok(OpenPage { checkpoint_no: no, lease_until: checkpoint.lease_until, ..page })
        }
        Some(no) if no == page.checkpoint_no && is_empty && checkpoint.targeted == 0 => Ok(page),
        _ => Err(StoreError::Fenced),
    }
}

/// Whether the outcomes and retries of a checkpoint are stored under its number.
fn matches_stored(tx: &Connection, checkpoint: &Checkpoint) -> Result<bool, StoreError> {
    let page = checkpoint.page;
    let entries: Option<Vec<u8>> = tx
        .prepare_cached("select entries from outcomes where page_no = ?1 and chunk_no = ?2")?
        .query_row(params![page.no.0, page.checkpoint_no], |row| row.get(0))
        .optional()?;
    let expected = if checkpoint.settled.is_empty() {
        None
    } else {
        Some(outcomes::encode(page.from, &checkpoint.settled)?)
    };
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

/// Counts the outcomes. The index of a count is the code of the outcome.
pub(in crate::store) fn count_by_code(settled: &[DeviceOutcome]) -> [i64; Outcome::ALL.len()] {
    let mut counts = [0; Outcome::ALL.len()];
    for outcome in settled {
        counts[usize::from(outcome.settled.code())] += 1;
    }
    counts
}

/// Adds the failed deliveries to the counters of their reasons.
fn count_failures(
    tx: &Connection,
    dispatch: DispatchNo,
    settled: &[DeviceOutcome],
) -> Result<(), StoreError> {
    let mut reasons = BTreeMap::<&str, i64>::new();
    for outcome in settled {
        if let Some(reason) = failure_reason(outcome.settled, outcome.reason.as_deref()) {
            *reasons.entry(reason).or_default() += 1;
        }
    }
    reasons
        .into_iter()
        .try_for_each(|(reason, failures)| settle::count_failures(tx, dispatch, reason, failures))
}

/// The reason under which an outcome is counted as a failure; `None` if it is not a failure.
pub(in crate::store) fn failure_reason(settled: Outcome, reason: Option<&str>) -> Option<&str> {
    match settled {
        Outcome::Failed | Outcome::Unregistered => Some(reason.unwrap_or(settled.as_str())),
        Outcome::Sent | Outcome::Expired | Outcome::Canceled => None,
    }
}

/// Cancels the new retries of a dispatch that was canceled while they were in flight, and lets those of a
/// paused one wait.
fn hold_or_cancel_retries(
    tx: &mut WriteTx<'_>,
    dispatch: DispatchNo,
    at: Timestamp,
) -> Result<(), StoreError> {
    let (is_canceled, is_paused) = interventions_of(tx, dispatch)?;
    if is_canceled {
        settle::cancel_retries_of_dispatch(tx, dispatch, at)
    } else if is_paused {
        settle::hold_retries(tx, dispatch)
    } else {
        Ok(())
    }
}

/// Whether a dispatch is canceled, and whether it is paused.
fn interventions_of(tx: &Connection, dispatch: DispatchNo) -> Result<(bool, bool), StoreError> {
    let interventions = tx
        .prepare_cached(
            "select is_canceled, paused_until is not null from dispatches where no = ?1",
        )?
        .query_row([dispatch.0], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(interventions)
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
        insert.insert(
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

// Disabling devices whose address a provider reported as unregistered.

/// Devices that were disabled and are not yet subtracted from the counters of enabled devices, by
/// application, platform and hour of creation. Each value is one of the devices, its time of
/// creation, and the number of devices.
#[derive(Default)]
struct PendingCounts(BTreeMap<(AppNo, Platform, i64), (DeviceKey, Timestamp, i64)>);

impl PendingCounts {
    fn add(&mut self, key: DeviceKey, created_at: Timestamp) {
        let counter = (key.app(), key.platform(), hour_of(created_at));
        self.0.entry(counter).or_insert((key, created_at, 0)).2 += 1;
    }

    /// Subtracts the devices from the counters of enabled devices.
    fn write(&mut self, tx: &Connection) -> Result<(), StoreError> {
        let counts = std::mem::take(&mut self.0).into_values();
        counts.into_iter().try_for_each(|(key, created_at, by)| count_dead(tx, key, created_at, by))
    }
}

/// Disables devices whose addresses a provider reported as unregistered. A device that has another
/// address or host now, or registered after the time of the report, is not disabled: the report is
/// about the address that was sent to.
///
/// No [`DeliveryChange::Device`] is recorded. It would make the reporting page read all its
/// remaining devices again at each checkpoint, although the page is done with this device. Other
/// open pages read the device again within a second. Until then they may at worst send to it and
/// get the same report.
pub(in crate::store) fn disable<'r>(
    tx: &mut WriteTx<'_>,
    reports: impl Iterator<Item = &'r DeadAddress>,
) -> Result<(), StoreError> {
    let mut pending = PendingCounts::default();
    for dead in reports {
        if let Some(since) = dead.since
            && registered_at(tx, dead.key)?.is_some_and(|registered| registered > since)
        {
            continue;
        }
        if let Some(responses_before) = dead.ambiguous {
            // The guard may enable devices again that this loop has disabled. They have to be
            // counted as disabled first.
            pending.write(tx)?;
            let may_disable = count_ambiguous(tx, dead, responses_before)?;
            if !may_disable {
                continue;
            }
        }
        if let Some(created_at) = disable_device(tx, dead)? {
            pending.add(dead.key, created_at);
        }
    }
    pending.write(tx)
}

/// Disables one device. Returns its time of creation if it was enabled until now, so that the
/// counters have to change.
fn disable_device(
    tx: &mut WriteTx<'_>,
    dead: &DeadAddress,
) -> Result<Option<Timestamp>, StoreError> {
    // A query and an update instead of one update with RETURNING, for which SQLite builds a
    // temporary table each time.
    let enabled = tx
        .prepare_cached(
            "select push_disabled, created_at from devices
             where key = ?1 and address = ?2 and dead_at is null and coalesce(ios_env, ?3) = ?4",
        )?
        .query_row(
            params![
                dead.key.0,
                &*dead.address,
                env_code(IosEnv::default()),
                env_code(dead.ios_env)
            ],
            |row| Ok((row.get::<bool>(0)?, Timestamp(row.get(1)?))),
        )
        .optional()?;
    let Some((push_disabled, created_at)) = enabled else { return Ok(None) };
    tx.prepare_cached("update devices set dead_reason = ?2, dead_at = ?3 where key = ?1")?
        .execute(params![dead.key.0, &*dead.reason, dead.at.as_ms()])?;
    let refs =
        EventRefs { device: Some(dead.key), detail: Some(&dead.reason), ..EventRefs::default() };
    event::record(tx, dead.key.app(), WebhookEventType::DeviceUnregistered, refs, dead.at)?;
    Ok((!push_disabled).then_some(created_at))
}

// The mass-unregister guard. A wrong key or host makes a provider report every address as
// unregistered. The guard counts such ambiguous reports in the transaction that would disable the
// device. Above the threshold it trips: the recently disabled devices are enabled again, and
// nothing more is disabled or sent until an administrator resets the guard.

/// Recent ambiguous reports, each with the number of its response and its device. The guard numbers
/// the responses from 1.
type RecentReports = Vec<(i64, DeviceKey)>;

/// Identifies a guard.
#[derive(Clone, Copy)]
struct GuardKey {
    app: AppNo,
    platform: Platform,
    env: IosEnv,
}

/// The state of a guard.
struct Guard {
    /// The number of responses so far.
    responses: i64,
    /// The ambiguous reports among the last [`GUARD_WINDOW`] responses.
    latest: RecentReports,
    has_tripped: bool,
}

/// Counts an ambiguous report, and trips the guard above [`GUARD_THRESHOLD`]. `responses_before` is
/// the number of responses between the previous ambiguous report and this one. Returns whether the
/// device may be disabled.
pub(super) fn count_ambiguous(
    tx: &mut WriteTx<'_>,
    dead: &DeadAddress,
    responses_before: u32,
) -> Result<bool, StoreError> {
    let (app, platform) = (dead.key.app(), dead.key.platform());
    let key = GuardKey { app, platform, env: dead.ios_env };
    let mut guard = read_guard(tx, key)?;
    if guard.has_tripped {
        return Ok(false);
    }
    guard.responses += i64::from(responses_before) + 1;
    guard.latest.retain(|(response, _)| guard.responses - response < i64::from(GUARD_WINDOW));
    guard.latest.push((guard.responses, dead.key));
    guard.has_tripped = guard.latest.len() > GUARD_THRESHOLD;
    if guard.has_tripped {
        for (_, key) in std::mem::take(&mut guard.latest) {
            re_enable(tx, key)?;
        }
        tx.changed(DeliveryChange::GuardTripped(app, platform));
        breaker::trip(tx, app, platform, dead.at)?;
    }
    write_guard(tx, key, &guard, dead.at)?;
    Ok(!guard.has_tripped)
}

/// Whether the guard has stopped a platform of an application.
pub(super) fn is_guard_tripped(
    connection: &Connection,
    app: AppNo,
    platform: Platform,
) -> Result<bool, StoreError> {
    let stopped = connection
        .prepare_cached(
            "select 1 from purge_guards
             where app_no = ?1 and platform = ?2 and stopped_at is not null",
        )?
        .exists(params![app.0, platform_code(platform)])?;
    Ok(stopped)
}

/// The platforms that the guard has stopped.
pub(super) fn tripped_platforms(
    connection: &Connection,
    app: AppNo,
) -> Result<Vec<Platform>, StoreError> {
    let stopped = connection
        .prepare_cached(
            "select distinct platform from purge_guards
             where app_no = ?1 and stopped_at is not null",
        )?
        .query_map([app.0], |row| row.get(0).map(platform_of))?
        .collect::<sql::Result<_>>()?;
    Ok(stopped)
}

/// Resets the guards and circuit breakers of a provider, after an administrator checked or changed
/// its credentials.
pub(in crate::store) fn release(
    tx: &mut WriteTx<'_>,
    app: AppNo,
    provider: ProviderKind,
) -> Result<(), StoreError> {
    for platform in Platform::ALL.into_iter().filter(|platform| platform.provider() == provider) {
        tx.prepare_cached("delete from purge_guards where app_no = ?1 and platform = ?2")?
            .execute(params![app.0, platform_code(platform)])?;
        breaker::close_all(tx, app, platform)?;
    }
    Ok(())
}

/// Reads the state of a guard.
fn read_guard(
    tx: &WriteTx<'_>,
    GuardKey { app, platform, env }: GuardKey,
) -> Result<Guard, StoreError> {
    let found = tx
        .prepare_cached(
            "select answers, latest, stopped_at is not null from purge_guards
             where app_no = ?1 and platform = ?2 and ios_env = ?3",
        )?
        .query_row(params![app.0, platform_code(platform), env_code(env)], |row| {
            let latest: Vec<u8> = row.get(1)?;
            Ok(Guard {
                responses: row.get(0)?,
                latest: recent_reports(&latest),
                has_tripped: row.get(2)?,
            })
        })
        .optional()?;
    Ok(found.unwrap_or(Guard { responses: 0, latest: RecentReports::new(), has_tripped: false }))
}

fn write_guard(
    tx: &WriteTx<'_>,
    GuardKey { app, platform, env }: GuardKey,
    guard: &Guard,
    at: Timestamp,
) -> Result<(), StoreError> {
    let latest: Vec<u8> = guard
        .latest
        .iter()
        .flat_map(|(response, key)| [response.to_be_bytes(), key.0.to_be_bytes()])
        .flatten()
        .collect();
    tx.prepare_cached(
        "insert into purge_guards (app_no, platform, ios_env, answers, latest, stopped_at)
         values (?1, ?2, ?3, ?4, ?5, ?6)
         on conflict (app_no, platform, ios_env) do update set answers = ?4, latest = ?5, stopped_at = ?6",
    )?
    .execute(params![
        app.0,
        platform_code(platform),
        env_code(env),
        guard.responses,
        latest,
        guard.has_tripped.then_some(at.as_ms())
    ])?;
    Ok(())
}

/// Decodes the reports, which [`write_guard`] encodes as two big-endian numbers each.
fn recent_reports(bytes: &[u8]) -> RecentReports {
    let (pairs, _) = bytes.as_chunks::<16>();
    let number = |bytes: &[u8]| i64::from_be_bytes(bytes.try_into().expect("eight bytes"));
    pairs.iter().map(|pair| (number(&pair[..8]), DeviceKey(number(&pair[8..])))).collect()
}

/// Enables a device again after the guard has tripped.
fn re_enable(tx: &mut WriteTx<'_>, key: DeviceKey) -> Result<(), StoreError> {
    let enabled = tx
        .prepare_cached(
            "update devices set dead_reason = null, dead_at = null
             where key = ?1 and dead_at is not null returning push_disabled, created_at",
        )?
        .query_row([key.0], |row| Ok((row.get::<bool>(0)?, Timestamp(row.get(1)?))))
        .optional()?;
    let Some((push_disabled, created_at)) = enabled else { return Ok(()) };
    if !push_disabled {
        count_revived(tx, key, created_at)?;
    }
    tx.changed(DeliveryChange::Device(key));
    Ok(())
}
