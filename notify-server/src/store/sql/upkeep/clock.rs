//! What an installation keeps of its clock.

use notify_core::Timestamp;

use crate::clock::{ClockMark, LEAP_MS};
use crate::store::StoreError;
use crate::store::sql::{Connection, OptionalExtension, params};

pub(super) fn mark(connection: &Connection) -> Result<Option<ClockMark>, StoreError> {
    let kept = kept(connection)?;
    Ok(kept.and_then(|(trusted_at, in_doubt)| {
        Some(ClockMark { trusted_at: Timestamp(trusted_at?), in_doubt: in_doubt != 0 })
    }))
}

/// The row, if there is one: the trusted time, and whether the clock is in doubt.
fn kept(connection: &Connection) -> Result<Option<(Option<i64>, i64)>, StoreError> {
    Ok(connection
        .prepare_cached("select trusted_at, clock_in_doubt from installation")?
        .query_row([], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?)
}

pub(super) fn keep(tx: &Connection, mark: ClockMark) -> Result<bool, StoreError> {
    if mark.in_doubt {
        let is_confirmed = match kept(tx)? {
            None => false,
            Some((None, _)) => true,
            Some((Some(trusted_at), _)) => trusted_at > mark.trusted_at.as_ms() + LEAP_MS,
        };
        if is_confirmed {
            return Ok(true);
        }
    }
    tx.prepare_cached(
        "insert into installation (no, trusted_at, clock_in_doubt) values (1, ?1, ?2)
         on conflict (no) do update set trusted_at = excluded.trusted_at,
         clock_in_doubt = excluded.clock_in_doubt",
    )?
    .execute(params![mark.trusted_at.as_ms(), i64::from(mark.in_doubt)])?;
    Ok(false)
}

pub(super) fn confirm(tx: &Connection) -> Result<bool, StoreError> {
    let rows = tx
        .prepare_cached(
            "update installation set trusted_at = null, clock_in_doubt = 0 where clock_in_doubt = 1",
        )?
        .execute([])?;
    Ok(rows > 0)
}
