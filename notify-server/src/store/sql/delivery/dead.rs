//! Disabling devices whose address a provider reported dead (B22, B40).

use std::collections::BTreeMap;

use notify_core::{IosEnv, Platform, Timestamp, WebhookEventType};

use super::super::device::{Seen, count_dead, hour_of, registered_at};
use super::super::event::{self, About};
use super::super::row::env_code;
use super::super::writer::WriteTx;
use super::guard;
use crate::store::sql::{Connection, OptionalExtension, params};
use crate::store::{AppNo, DeadAddress, DeviceKey, StoreError};

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
            if !guard::allows(tx, dead, answers_before)? {
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
