//! Idempotency keys: the response of a request is committed with its effect and looked up in the same
//! transaction.

use notify_core::Timestamp;
use serde::Serialize;

use crate::store::sql::row::count;
use crate::store::sql::writer::WriteTx;
use crate::store::sql::{Connection, OptionalExtension, params};
use crate::store::{AppNo, StoreError};

/// How long a response is kept for replay, in milliseconds: 24 hours.
pub const REPLAY_KEPT_MS: i64 = 24 * 3_600_000;

/// A POST request with an idempotency key.
#[derive(Debug, Clone)]
pub struct IdempotentRequest {
    /// Path of the request. Path and application are the scope of the key.
    pub path: String,
    /// The `Idempotency-Key`.
    pub key: String,
    /// SHA-256 of the body's bytes.
    pub digest: [u8; 32],
    /// When the request came in.
    pub at: Timestamp,
}

/// The result of a write that may be repeated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Idempotent<T> {
    /// It was executed. With an [`IdempotentRequest`], the JSON of this response was committed with the
    /// effect.
    Executed(T),
    /// It had been executed before; this is the JSON of that response. Nothing was written.
    Replayed(String),
}

/// Most expired records that are deleted when one is added.
const OVER_DELETED_MAX: u64 = 100;

/// Runs a write at most once: returns the stored response, or runs the write and stores its response.
pub(super) fn run<T: Serialize>(
    tx: &mut WriteTx<'_>,
    app: AppNo,
    once: Option<&IdempotentRequest>,
    write: impl FnOnce(&mut WriteTx<'_>) -> Result<T, StoreError>,
) -> Result<Idempotent<T>, StoreError> {
    let Some(once) = once else { return write(tx).map(Idempotent::Executed) };
    if let Some(answer) = before(tx, app, once)? {
        return Ok(Idempotent::Replayed(answer));
    }
    let answer = write(tx)?;
    keep(tx, app, once, &serde_json::to_string(&answer)?)?;
    Ok(Idempotent::Executed(answer))
}

/// The response to an earlier request with this key.
pub(super) fn before(
    connection: &Connection,
    app: AppNo,
    once: &IdempotentRequest,
) -> Result<Option<String>, StoreError> {
    let found = connection
        .prepare_cached(
            "select digest, answer from idempotency
             where app_no = ?1 and path = ?2 and key = ?3 and at > ?4",
        )?
        .query_row(params![app.0, once.path, once.key, once.at.as_ms() - REPLAY_KEPT_MS], |row| {
            Ok((row.get::<[u8; 32]>(0)?, row.get::<String>(1)?))
        })
        .optional()?;
    match found {
        Some((digest, answer)) if digest == once.digest => Ok(Some(answer)),
        Some(_) => Err(StoreError::KeyReused),
        None => Ok(None),
    }
}

fn keep(
    tx: &Connection,
    app: AppNo,
    once: &IdempotentRequest,
    answer: &str,
) -> Result<(), StoreError> {
    delete_expired(tx, once.at.plus_ms(-REPLAY_KEPT_MS), OVER_DELETED_MAX)?;
    tx.prepare_cached(
        "insert into idempotency (app_no, path, key, digest, answer, at)
         values (?1, ?2, ?3, ?4, ?5, ?6) on conflict (app_no, path, key) do update
         set digest = excluded.digest, answer = excluded.answer, at = excluded.at",
    )?
    .execute(params![app.0, once.path, once.key, once.digest, answer, once.at.as_ms()])?;
    Ok(())
}

/// Deletes some expired records, each by its whole key: an `in` over the three columns would scan every
/// record of the application.
pub(super) fn delete_expired(
    tx: &Connection,
    until: Timestamp,
    limit: u64,
) -> Result<u64, StoreError> {
    let expired = tx
        .prepare_cached(
            "select app_no, path, key from idempotency indexed by idempotency_by_age
             where at <= ?1 order by at limit ?2",
        )?
        .query_map([until.as_ms(), count(limit)], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })?
        .collect::<Result<Vec<(i64, String, String)>, _>>()?;
    for (app, path, key) in &expired {
        tx.prepare_cached("delete from idempotency where app_no = ?1 and path = ?2 and key = ?3")?
            .execute(params![app, path, key])?;
    }
    Ok(expired.len() as u64)
}
