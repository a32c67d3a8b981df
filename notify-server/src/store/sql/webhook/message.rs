//! Messages as callers see them: listed, tested with, redelivered.

use notify_core::{
    Timestamp, WebhookAttempt, WebhookEventType, WebhookId, WebhookMessageId, WebhookOutcome,
};

use super::super::cursor::{Listing, rows_wanted};
use super::super::event::Subject;
use super::super::row::{unknown_value, uuid_at};
use super::super::writer::WriteTx;
use super::number_of;
use crate::store::sql::{self, Connection, OptionalExtension, Row, Type, params};
use crate::store::{
    AppNo, Change, MESSAGES_PENDING_MAX, MessageMade, Page, PageRequest, StoreError,
    event_type_code,
};

/// Columns as [`attempt_of`] reads them.
const ATTEMPT: &str = "no, id, type, at, notification_no, device_key, detail, state, attempts, \
    status, reason, latency_ms, created_at, last_attempt_at, due_at";

/// Reads one.
pub(super) fn read(
    connection: &Connection,
    app: AppNo,
    (webhook, id): (WebhookId, WebhookMessageId),
) -> Result<WebhookAttempt, StoreError> {
    let webhook = number_of(connection, app, webhook)?;
    let sql = format!("select {ATTEMPT} from webhook_messages where webhook_no = ?1 and id = ?2");
    let found = connection
        .prepare_cached(&sql)?
        .query_row(params![webhook.0, id.0.as_bytes()], attempt_of)
        .optional()?;
    found.map(|(_, attempt)| attempt).ok_or(StoreError::NotFound)
}

/// Lists them, newest first.
pub(super) fn list(
    connection: &Connection,
    app: AppNo,
    webhook: WebhookId,
    page: &PageRequest,
) -> Result<Page<WebhookAttempt>, StoreError> {
    let webhook = number_of(connection, app, webhook)?;
    let listing = Listing { name: "attempts", of: webhook.0 };
    let before = listing.number(page)?.unwrap_or(i64::MAX);
    let rows = connection
        .prepare_cached(&format!(
            "select {ATTEMPT} from webhook_messages where webhook_no = ?1 and no < ?2
             order by no desc limit ?3"
        ))?
        .query_map([webhook.0, before, rows_wanted(page)], attempt_of)?
        .collect::<Result<Vec<_>, _>>()?;
    Ok(listing.page(rows, page))
}

/// Makes one that tests.
pub(super) fn test(
    tx: &mut WriteTx<'_>,
    app: AppNo,
    id: WebhookId,
    message: MessageMade,
    at: Timestamp,
) -> Result<(), StoreError> {
    let webhook = number_of(tx, app, id)?;
    is_open(tx, webhook.0)?;
    tx.prepare_insert(
        "insert into webhook_messages (no, webhook_no, id, type, at, detail, started_at, due_at,
         claimable_at, created_at) values (?1, ?2, ?3, ?4, ?5, ?6, ?5, ?5, ?5, ?5)",
    )?
    .row(
        app,
        params![
            webhook.0,
            message.id.0.as_bytes(),
            event_type_code(WebhookEventType::WebhookTest),
            at.as_ms(),
            id.to_string(),
        ],
    )?;
    tx.changed(Change::EventsDue(app));
    Ok(())
}

/// Has one that is over tried anew.
pub(super) fn redeliver(
    tx: &mut WriteTx<'_>,
    app: AppNo,
    (webhook, id): (WebhookId, WebhookMessageId),
    at: Timestamp,
) -> Result<(), StoreError> {
    let webhook = number_of(tx, app, webhook)?;
    let state: Option<i64> = tx
        .prepare_cached("select state from webhook_messages where webhook_no = ?1 and id = ?2")?
        .query_row(params![webhook.0, id.0.as_bytes()], |row| row.get(0))
        .optional()?;
    match state {
        None => return Err(StoreError::NotFound),
        Some(0) => return Err(StoreError::refused("attempt_id", "is still to be tried")),
        Some(_) => is_open(tx, webhook.0)?,
    }
    tx.prepare_cached(
        "update webhook_messages set state = 0, attempts = 0, claim = null, started_at = ?3,
         due_at = ?3, claimable_at = ?3 where webhook_no = ?1 and id = ?2",
    )?
    .execute(params![webhook.0, id.0.as_bytes(), at.as_ms()])?;
    tx.changed(Change::EventsDue(app));
    Ok(())
}

/// Refuses a webhook that is disabled, or has enough to do.
fn is_open(tx: &Connection, webhook: i64) -> Result<(), StoreError> {
    let (enabled, pending): (bool, i64) = tx
        .prepare_cached(
            "select enabled, (select count(*) from webhook_messages
             where webhook_no = ?1 and state = 0) from webhooks where no = ?1",
        )?
        .query_row([webhook], |row| Ok((row.get(0)?, row.get(1)?)))?;
    if !enabled {
        return Err(StoreError::refused("id", "names a webhook that is disabled"));
    }
    if pending >= MESSAGES_PENDING_MAX {
        return Err(StoreError::refused("id", "names a webhook that has enough waiting already"));
    }
    Ok(())
}

fn attempt_of(row: &Row<'_>) -> sql::Result<(i64, WebhookAttempt)> {
    let time = |column| row.get::<Option<i64>>(column).map(|at| at.map(Timestamp));
    let subject = Subject::read(row, 2)?;
    let outcome = match row.get::<i64>(7)? {
        0 => WebhookOutcome::Pending,
        1 => WebhookOutcome::Delivered,
        _ => WebhookOutcome::Failed,
    };
    let latency: Option<i64> = row.get(11)?;
    let attempt = WebhookAttempt {
        id: WebhookMessageId(uuid_at(row, 1)?),
        event: subject.event_type().ok_or_else(|| unknown_value(2, Type::Integer))?,
        outcome,
        attempts: row.get(8)?,
        status: row.get(9)?,
        reason: row.get(10)?,
        latency_ms: latency.map(i64::unsigned_abs),
        created_at: Timestamp(row.get(12)?),
        last_attempt_at: time(13)?,
        next_attempt_at: if outcome == WebhookOutcome::Pending { time(14)? } else { None },
    };
    Ok((row.get(0)?, attempt))
}
