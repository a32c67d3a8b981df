//! Checkpoints: what happened on a page since its last one, committed as one and fenced by epoch
//! and checkpoint number, so that a worker that lost its page overwrites nothing.

use std::collections::BTreeMap;

use notify_core::{IosEnv, Platform, ProviderKind, Timestamp, WebhookEventType};

use crate::store::day::{self, Tally};
use crate::store::delivery::outcomes;
use crate::store::delivery::settle;
use crate::store::delivery::settle::PendingDelta;
use crate::store::device::{
    Seen, count_dead, count_revived, hour_of, inbound, registered_at, replace_moved,
};
use crate::store::event::{self, About};
use crate::store::sql::row::{count, env_code};
use crate::store::sql::writer::WriteTx;
use crate::store::sql::{self, Connection, OptionalExtension, params};
use crate::store::{
    AppNo, Change, Checkpoint, DeadAddress, DeviceKey, DeviceOutcome, DispatchNo, GUARD_ANSWERS,
    GUARD_DEAD_MAX, NewRetry, OpenPage, Settled, StoreError, breaker, platform_code, platform_of,
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
    inbound::verify(tx, &checkpoint.verified)?;
    disable(tx, seen, checkpoint.dead.iter())?;
    if retries > 0 || checkpoint.finished {
        let by = PendingDelta { pages: -i64::from(checkpoint.finished), retries, scan_done: false };
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

// Disabling devices whose address a provider reported dead (B22, B40).

/// Devices that were disabled and are not counted yet: how many of one hour of creation, by one of
/// them.
#[derive(Default)]
struct Uncounted(BTreeMap<(AppNo, Platform, i64), (DeviceKey, Timestamp, i64)>);

impl Uncounted {
    fn add(&mut self, key: DeviceKey, created_at: Timestamp) {
        let place = (key.app(), key.platform(), hour_of(created_at));
        self.0.entry(place).or_insert((key, created_at, 0)).2 += 1;
    }

    fn count(&mut self, tx: &Connection) -> Result<(), StoreError> {
        let counts = std::mem::take(&mut self.0).into_values();
        counts.into_iter().try_for_each(|(key, created_at, by)| count_dead(tx, key, created_at, by))
    }
}

/// Disables devices, each unless it has another address or host now, or registered after the
/// report's time: the report is about what was sent to, not about what the device has become (B22).
///
/// Nobody is told. The page that reported one has had this device's turn, and would read all that is
/// left of it again at each checkpoint; another one that is open meanwhile reads again within a
/// second, and before that is told the same by the provider at the worst.
pub(super) fn disable<'r>(
    tx: &mut WriteTx<'_>,
    seen: &Seen,
    reports: impl Iterator<Item = &'r DeadAddress>,
) -> Result<(), StoreError> {
    let mut uncounted = Uncounted::default();
    for dead in reports {
        if let Some(since) = dead.since
            && registered_at(tx, seen, dead.key)?.is_some_and(|registered| registered > since)
        {
            continue;
        }
        if let Some(answers_before) = dead.ambiguous {
            // The guard may enable those before it again: they have to be counted by then.
            uncounted.count(tx)?;
            if !allows(tx, dead, answers_before)? {
                continue;
            }
        }
        if let Some(created_at) = bury(tx, dead)? {
            uncounted.add(dead.key, created_at);
        }
    }
    uncounted.count(tx)
}

/// Disables one; when it was created, unless it was disabled before.
fn bury(tx: &mut WriteTx<'_>, dead: &DeadAddress) -> Result<Option<Timestamp>, StoreError> {
    // Looked at first: an UPDATE that returns something builds a table for it each time.
    let found = tx
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
    let Some((push_disabled, created_at)) = found else { return Ok(None) };
    tx.prepare_cached("update devices set dead_reason = ?2, dead_at = ?3 where key = ?1")?
        .execute(params![dead.key.0, &*dead.reason, dead.at.as_ms()])?;
    let about = About { device: Some(dead.key), detail: Some(&dead.reason), ..About::default() };
    event::record(tx, dead.key.app(), WebhookEventType::DeviceUnregistered, about, dead.at)?;
    Ok((!push_disabled).then_some(created_at))
}

// The guard against disabling an audience by mistake (B40): a wrong key or host makes every address
// look dead. What looks dead in that way is counted in the commit that would disable it; above the
// bound the latest are enabled again, and nothing more is disabled or sent.

/// One that looked dead: the number of the answer, and the device.
type Latest = Vec<(i64, DeviceKey)>;

struct Guard {
    answers: i64,
    latest: Latest,
    stopped: bool,
}

/// Counts an address that looks dead. Answers whether it may be disabled.
pub(super) fn allows(
    tx: &mut WriteTx<'_>,
    dead: &DeadAddress,
    answers_before: u32,
) -> Result<bool, StoreError> {
    let place = (dead.key.app(), dead.key.platform(), dead.ios_env);
    let mut guard = read(tx, place)?;
    if guard.stopped {
        return Ok(false);
    }
    guard.answers += i64::from(answers_before) + 1;
    guard.latest.retain(|(answer, _)| guard.answers - answer < i64::from(GUARD_ANSWERS));
    guard.latest.push((guard.answers, dead.key));
    guard.stopped = guard.latest.len() > GUARD_DEAD_MAX;
    if guard.stopped {
        for (_, key) in std::mem::take(&mut guard.latest) {
            revive(tx, key)?;
        }
        tx.changed(Change::PurgeStopped(place.0, place.1));
        breaker::trip(tx, place.0, place.1, dead.at)?;
    }
    write(tx, place, &guard, dead.at)?;
    Ok(!guard.stopped)
}

/// Whether an application's platform is stopped.
pub(super) fn is_stopped(
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

/// The platforms that are stopped.
pub(super) fn stopped(connection: &Connection, app: AppNo) -> Result<Vec<Platform>, StoreError> {
    let stopped = connection
        .prepare_cached(
            "select distinct platform from purge_guards
             where app_no = ?1 and stopped_at is not null",
        )?
        .query_map([app.0], |row| row.get(0).map(platform_of))?
        .collect::<sql::Result<_>>()?;
    Ok(stopped)
}

/// Begins anew: an administrator looked, or changed the credentials.
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

fn read(
    tx: &WriteTx<'_>,
    (app, platform, env): (AppNo, Platform, IosEnv),
) -> Result<Guard, StoreError> {
    let found = tx
        .prepare_cached(
            "select answers, latest, stopped_at is not null from purge_guards
             where app_no = ?1 and platform = ?2 and ios_env = ?3",
        )?
        .query_row(params![app.0, platform_code(platform), env_code(env)], |row| {
            let latest: Vec<u8> = row.get(1)?;
            Ok(Guard { answers: row.get(0)?, latest: latest_of(&latest), stopped: row.get(2)? })
        })
        .optional()?;
    Ok(found.unwrap_or(Guard { answers: 0, latest: Latest::new(), stopped: false }))
}

fn write(
    tx: &WriteTx<'_>,
    (app, platform, env): (AppNo, Platform, IosEnv),
    guard: &Guard,
    at: Timestamp,
) -> Result<(), StoreError> {
    let latest: Vec<u8> = guard
        .latest
        .iter()
        .flat_map(|(answer, key)| [answer.to_be_bytes(), key.0.to_be_bytes()])
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
        guard.answers,
        latest,
        guard.stopped.then_some(at.as_ms())
    ])?;
    Ok(())
}

fn latest_of(bytes: &[u8]) -> Latest {
    let (pairs, _) = bytes.as_chunks::<16>();
    let number = |bytes: &[u8]| i64::from_be_bytes(bytes.try_into().expect("eight bytes"));
    pairs.iter().map(|pair| (number(&pair[..8]), DeviceKey(number(&pair[8..])))).collect()
}

/// Enables a device again whose address was taken for dead.
fn revive(tx: &mut WriteTx<'_>, key: DeviceKey) -> Result<(), StoreError> {
    let revived = tx
        .prepare_cached(
            "update devices set dead_reason = null, dead_at = null
             where key = ?1 and dead_at is not null returning push_disabled, created_at",
        )?
        .query_row([key.0], |row| Ok((row.get::<bool>(0)?, Timestamp(row.get(1)?))))
        .optional()?;
    let Some((push_disabled, created_at)) = revived else { return Ok(()) };
    if !push_disabled {
        count_revived(tx, key, created_at)?;
    }
    tx.changed(Change::DeviceChanged(key));
    Ok(())
}
