//! Disabling a device whose address a provider reported dead (B22, B40).

use notify_core::{IosEnv, Timestamp};
use rusqlite::{OptionalExtension, params};

use super::super::device::{Seen, count_dead, registered_at};
use super::super::row::env_code;
use super::super::writer::WriteTx;
use super::guard;
use crate::store::{DeadAddress, StoreError};

/// Disables the device, unless it has another address or host now, or registered after the report's
/// time: the report is about what was sent to, not about what the device has become (B22).
pub(super) fn disable(
    tx: &mut WriteTx<'_>,
    seen: &Seen,
    dead: &DeadAddress,
) -> Result<(), StoreError> {
    if let Some(since) = dead.since
        && registered_at(tx, seen, dead.key)?.is_some_and(|registered| registered > since)
    {
        return Ok(());
    }
    if let Some(answers_before) = dead.ambiguous
        && !guard::allows(tx, dead, answers_before)?
    {
        return Ok(());
    }
    let disabled = tx
        .prepare_cached(
            "update devices set dead_reason = ?3, dead_at = ?4
             where key = ?1 and address = ?2 and dead_at is null and coalesce(ios_env, ?5) = ?6
             returning push_disabled, created_at",
        )?
        .query_row(
            params![
                dead.key.0,
                &*dead.address,
                &*dead.reason,
                dead.at.as_ms(),
                env_code(IosEnv::default()),
                env_code(dead.ios_env)
            ],
            |row| Ok((row.get::<_, bool>(0)?, Timestamp(row.get(1)?))),
        )
        .optional()?;
    let Some((push_disabled, created_at)) = disabled else { return Ok(()) };
    if !push_disabled {
        count_dead(tx, dead.key, created_at)?;
    }
    // Nobody is told. The page that reported it has had this device's turn, and would read all that
    // is left of it again at each checkpoint; another one that is open meanwhile reads again within
    // a second, and before that is told the same by the provider at the worst.
    Ok(())
}
