//! Provider tokens that one server signs for all.

use notify_core::Timestamp;

use crate::store::sql::{self, Connection, OptionalExtension, Row, params};
use crate::store::{StoreError, TOKEN_KEPT_MS, TokenName, TokenRow};

pub(super) fn read(
    connection: &Connection,
    name: &TokenName,
) -> Result<Option<TokenRow>, StoreError> {
    let row = connection
        .prepare_cached(
            "select sealed, issued_at, wall_ahead_ms, frozen_until from provider_tokens
             where name = ?1",
        )?
        .query_row([name.as_slice()], token_of)
        .optional()?;
    Ok(row)
}

/// Writes a token where the row is still the one that the caller saw. A freeze stays: it is the
/// provider's word about the key, whichever token it has.
pub(super) fn keep(
    tx: &Connection,
    name: &TokenName,
    new: &TokenRow,
    replaces: Option<Timestamp>,
) -> Result<TokenRow, StoreError> {
    tx.prepare_cached(
        "insert into provider_tokens (name, sealed, issued_at, wall_ahead_ms) values (?1, ?2, ?3, ?4)
         on conflict (name) do update set sealed = excluded.sealed, issued_at = excluded.issued_at,
         wall_ahead_ms = excluded.wall_ahead_ms where provider_tokens.issued_at = ?5",
    )?
    .execute(params![
        name.as_slice(),
        new.sealed,
        new.issued_at.as_ms(),
        new.wall_ahead_ms,
        replaces.map(Timestamp::as_ms)
    ])?;
    tx.prepare_cached("delete from provider_tokens where issued_at < ?1")?
        .execute([new.issued_at.as_ms() - TOKEN_KEPT_MS])?;
    Ok(read(tx, name)?.unwrap_or_else(|| new.clone()))
}

pub(super) fn freeze(
    tx: &Connection,
    name: &TokenName,
    until: Timestamp,
) -> Result<(), StoreError> {
    tx.prepare_cached(
        "update provider_tokens set frozen_until = ?2
         where name = ?1 and (frozen_until is null or frozen_until < ?2)",
    )?
    .execute(params![name.as_slice(), until.as_ms()])?;
    Ok(())
}

fn token_of(row: &Row<'_>) -> sql::Result<TokenRow> {
    Ok(TokenRow {
        sealed: row.get(0)?,
        issued_at: Timestamp(row.get(1)?),
        wall_ahead_ms: row.get(2)?,
        frozen_until: row.get::<Option<i64>>(3)?.map(Timestamp),
    })
}
