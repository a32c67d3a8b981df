//! Grants of first attempts, which keep the rate of a notification (`per_minute`) over all platforms and
//! servers. What a server does not use of a grant is lost, so that a crash never adds attempts.

use notify_core::Timestamp;

use crate::store::sql::{Connection, OptionalExtension, params};
use crate::store::{NotificationNo, StoreError};

/// A request for the next first attempts of a notification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GrantRequest {
    /// The notification.
    pub notification: NotificationNo,
    /// How long no other attempts are granted, in milliseconds.
    pub interval_ms: i64,
    /// Now.
    pub at: Timestamp,
}

/// The answer to a [`GrantRequest`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grant {
    /// The attempts may start.
    Granted,
    /// No attempts are granted before this time.
    NotBefore(Timestamp),
}

/// The longest interval of a grant, in milliseconds. A later time is from a clock that was set back since.
const INTERVAL_MS_MAX: i64 = 60_000;

/// Grants the attempts, unless the interval of the last grant has not passed.
///
/// # Errors
/// `NotFound` when the notification does not exist.
pub(super) fn take(tx: &Connection, request: GrantRequest) -> Result<Grant, StoreError> {
    let GrantRequest { notification, interval_ms, at } = request;
    let granted = tx
        .prepare_cached(
            "update notifications set next_grant_at = ?2
             where no = ?1
             and (coalesce(next_grant_at, 0) <= ?3 or next_grant_at > ?3 + ?4)",
        )?
        .execute([notification.0, at.plus_ms(interval_ms).as_ms(), at.as_ms(), INTERVAL_MS_MAX])?;
    if granted > 0 {
        return Ok(Grant::Granted);
    }
    let next: Option<i64> = tx
        .prepare_cached("select next_grant_at from notifications where no = ?1")?
        .query_row(params![notification.0], |row| row.get(0))
        .optional()?
        .ok_or(StoreError::NotFound)?;
    Ok(Grant::NotBefore(next.map_or(at, Timestamp)))
}
