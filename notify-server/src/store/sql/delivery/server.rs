//! Servers of one storage: who is alive, and what the dead ones held.

use crate::store::sql::{Connection, params};

use crate::store::{Epoch, Heartbeat, Others, StoreError};

/// How long a server that is dead is remembered, in milliseconds: a day.
const REMEMBERED_MS: i64 = 86_400_000;

/// Says that a server lives.
pub(super) fn heartbeat(tx: &Connection, beat: Heartbeat) -> Result<Others, StoreError> {
    let Heartbeat { epoch, now, lease_until } = beat;
    tx.prepare_cached(
        "insert into servers (epoch, alive_until) values (?1, ?2)
         on conflict (epoch) do update set alive_until = excluded.alive_until",
    )?
    .execute(params![epoch.0, lease_until.as_ms()])?;
    tx.prepare_cached("delete from servers where alive_until <= ?1")?
        .execute([now.as_ms() - REMEMBERED_MS])?;
    let servers = tx
        .prepare_cached("select count(*) from servers where alive_until > ?1")?
        .query_row([now.as_ms()], |row| row.get(0))?;
    let left_behind = tx
        .prepare_cached(
            "select exists (select 1 from pages where finished = 0 and epoch not in
               (select epoch from servers where alive_until > ?1))
             or exists (select 1 from retries where epoch is not null and epoch not in
               (select epoch from servers where alive_until > ?1))",
        )?
        .query_row([now.as_ms()], |row| row.get(0))?;
    Ok(Others { servers, left_behind })
}

/// Forgets a server that has stopped.
pub(super) fn leave(tx: &Connection, epoch: Epoch) -> Result<(), StoreError> {
    tx.prepare_cached("delete from servers where epoch = ?1")?.execute([epoch.0])?;
    Ok(())
}
