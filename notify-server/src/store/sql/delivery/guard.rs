//! The guard against disabling an audience by mistake (B40): a wrong key or host makes every address
//! look dead. What looks dead in that way is counted in the commit that would disable it; above the
//! bound the latest are enabled again, and nothing more is disabled or sent.

use notify_core::{IosEnv, Platform, ProviderKind, Timestamp};

use super::super::channel;
use super::super::device::count_revived;
use super::super::row::env_code;
use super::super::writer::WriteTx;
use crate::store::sql::{self, OptionalExtension, params};
use crate::store::{
    AppNo, Change, DeadAddress, DeviceKey, GUARD_ANSWERS, GUARD_DEAD_MAX, StoreError,
    platform_code, platform_of,
};

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
        channel::stopped(tx, (place.0, place.1), dead.at)?;
    }
    write(tx, place, &guard, dead.at)?;
    Ok(!guard.stopped)
}

/// Whether an application's platform is stopped.
pub(super) fn is_stopped(
    connection: &sql::Connection,
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
pub(super) fn stopped(
    connection: &sql::Connection,
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

/// Begins anew: an administrator looked, or changed the credentials.
pub(in crate::store::sql) fn release(
    tx: &mut WriteTx<'_>,
    app: AppNo,
    provider: ProviderKind,
) -> Result<(), StoreError> {
    for platform in Platform::ALL.into_iter().filter(|platform| platform.provider() == provider) {
        tx.prepare_cached("delete from purge_guards where app_no = ?1 and platform = ?2")?
            .execute(params![app.0, platform_code(platform)])?;
        channel::released(tx, app, platform)?;
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
