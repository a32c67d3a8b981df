//! Idempotency keys. The transaction that writes the effect of a request also looks up the key and
//! stores the response. A repeated request gets the stored response and has no effect.

use notify_core::{DeviceId, Timestamp};
use serde::Serialize;

use crate::store::sql::row::count;
use crate::store::sql::writer::WriteTx;
use crate::store::sql::{Connection, OptionalExtension, params};
use crate::store::{AppNo, DeviceKey, StoreError};

/// How long a response is kept for replay, in milliseconds: 24 hours.
pub const REPLAY_KEPT_MS: i64 = 24 * 3_600_000;

/// A POST request with an idempotency key.
#[derive(Debug, Clone)]
pub struct IdempotentRequest {
    /// The path of the request. The same key with another path or another application is another
    /// key.
    pub path: String,
    /// The `Idempotency-Key`.
    pub key: String,
    /// The SHA-256 of the body, to detect that a key is used with another body.
    pub digest: [u8; 32],
    /// When the request came in.
    pub at: Timestamp,
    /// The device that the path or the response is about, if it is about one. The record is deleted with
    /// this device.
    pub device: Option<DeviceId>,
}

impl IdempotentRequest {
    /// The request, whose path or response is about a device.
    #[must_use]
    pub fn about(self, device: &DeviceId) -> Self {
        Self { device: Some(device.clone()), ..self }
    }
}

/// The result of a write that may be repeated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Idempotent<T> {
    /// The write was executed. With an [`IdempotentRequest`], the JSON of this response was
    /// committed with the effect.
    Executed(T),
    /// An earlier request executed the write, and this is the JSON of its response. Nothing was
    /// written now.
    Replayed(String),
}

/// The most expired records that are deleted when a record is added.
pub(super) const EXPIRED_DELETED_MAX: u64 = 100;

/// Runs a write at most once. If the response of an earlier request is stored, returns that
/// response. Otherwise runs the write and stores its response. Without `once`, always runs the
/// write.
pub(super) fn run<T: Serialize>(
    tx: &mut WriteTx<'_>,
    app: AppNo,
    once: Option<&IdempotentRequest>,
    write: impl FnOnce(&mut WriteTx<'_>) -> Result<T, StoreError>,
) -> Result<Idempotent<T>, StoreError> {
    let Some(once) = once else { return write(tx).map(Idempotent::Executed) };
    if let Some(response) = find_response(tx, app, once)? {
        return Ok(Idempotent::Replayed(response));
    }
    let response = write(tx)?;
    store_response(tx, app, once, &serde_json::to_string(&response)?)?;
    Ok(Idempotent::Executed(response))
}

/// Reads the response to an earlier request with the same key, if there is one.
///
/// # Errors
/// `KeyReused` when the earlier request had another body.
pub(super) fn find_response(
    connection: &Connection,
    app: AppNo,
    once: &IdempotentRequest,
) -> Result<Option<String>, StoreError> {
    let stored = connection
        .prepare_cached(
            "select digest, answer from idempotency
             where app_no = ?1 and path = ?2 and key = ?3 and at > ?4",
        )?
        .query_row(params![app.0, once.path, once.key, once.at.as_ms() - REPLAY_KEPT_MS], |row| {
            Ok((row.get::<[u8; 32]>(0)?, row.get::<String>(1)?))
        })
        .optional()?;
    match stored {
        Some((digest, response)) if digest == once.digest => Ok(Some(response)),
        Some(_) => Err(StoreError::KeyReused),
        None => Ok(None),
    }
}

/// Stores the response to a request, and deletes some expired responses.
fn store_response(
    tx: &Connection,
    app: AppNo,
    once: &IdempotentRequest,
    response: &str,
) -> Result<(), StoreError> {
    tx.prepare_cached(
        "insert into idempotency (app_no, path, key, digest, answer, at, device_id)
         values (?1, ?2, ?3, ?4, ?5, ?6, ?7) on conflict (app_no, path, key) do update
         set digest = excluded.digest, answer = excluded.answer, at = excluded.at,
         device_id = excluded.device_id",
    )?
    .execute(params![
        app.0,
        once.path,
        once.key,
        once.digest,
        response,
        once.at.as_ms(),
        once.device.as_ref().map(DeviceId::as_str)
    ])?;
    // After the insert, which can wait for another server: this one must not wait while another one waits
    // for the records that it deletes.
    delete_expired(tx, once.at.plus_ms(-REPLAY_KEPT_MS), EXPIRED_DELETED_MAX)?;
    Ok(())
}

/// Deletes at most `limit` records that were stored at `until` or earlier, and returns their
/// number. Skips records that another server is deleting. Each record is deleted with its own
/// statement: one statement with `in` over the three key columns would scan every record of the
/// application.
pub(super) fn delete_expired(
    tx: &Connection,
    until: Timestamp,
    limit: u64,
) -> Result<u64, StoreError> {
    let expired = tx
        .prepare_cached(
            "select app_no, path, key from idempotency indexed by idempotency_by_age
             where at <= ?1 order by at limit ?2 /* for update skip locked */",
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

/// As [`forget_device`], for a device whose id the caller does not know.
pub(super) fn forget_device_with_key(tx: &Connection, key: DeviceKey) -> Result<(), StoreError> {
    tx.prepare_cached(
        "delete from idempotency where app_no = ?1
         and device_id = (select device_id from devices where key = ?2)",
    )?
    .execute([key.app().0, key.0])?;
    Ok(())
}

/// Deletes the records that are about a device, since their paths and responses show its id. A repeated
/// request is executed again.
pub(super) fn forget_device(tx: &Connection, app: AppNo, id: &str) -> Result<(), StoreError> {
    tx.prepare_cached("delete from idempotency where app_no = ?1 and device_id = ?2")?
        .execute(params![app.0, id])?;
    Ok(())
}
