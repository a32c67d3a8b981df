//! Messages as callers see them: listed, tested with, redelivered.

use notify_core::{
    Timestamp, WebhookAttempt, WebhookEventType, WebhookId, WebhookMessageId, WebhookOutcome,
    WebhookRecovered,
};

use super::super::cursor::{Listing, rows_wanted};
use super::super::event::Subject;
use super::super::row::{unknown_value, uuid_at};
use super::super::writer::WriteTx;
use super::number_of;
use crate::store::sql::{self, Connection, NUMBERS, OptionalExtension, Row, Type, list_of, params};
use crate::store::{
    AppNo, Change, MESSAGE_ERASED, MESSAGES_PENDING_MAX, MessageMade, Page, PageRequest,
    StoreError, WebhookNo, event_type_code,
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

/// Has one tried now, by its schedule from the beginning; one that is being tried goes on.
pub(super) fn redeliver(
    tx: &mut WriteTx<'_>,
    app: AppNo,
    (webhook, id): (WebhookId, WebhookMessageId),
    at: Timestamp,
) -> Result<(), StoreError> {
    let webhook = number_of(tx, app, webhook)?;
    let (state, is_claimed): (i64, bool) = tx
        .prepare_cached(
            "select state, claim is not null from webhook_messages
             where webhook_no = ?1 and id = ?2",
        )?
        .query_row(params![webhook.0, id.0.as_bytes()], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?
        .ok_or(StoreError::NotFound)?;
    match (state, is_claimed) {
        (0, true) => return Ok(()),
        (0, false) => {}
        _ => is_open(tx, webhook.0)?,
    }
    tx.prepare_cached(
        "update webhook_messages set state = 0, attempts = 0, claim = null, started_at = ?3,
         due_at = ?3, claimable_at = ?3 where webhook_no = ?1 and id = ?2",
    )?
    .execute(params![webhook.0, id.0.as_bytes(), at.as_ms()])?;
    tx.changed(Change::EventsDue(app));
    Ok(())
}

/// What is to be recovered of a webhook.
pub(super) struct Recovery {
    webhook: WebhookNo,
    since: Timestamp,
    /// The messages that failed, the oldest first; one more than may wait.
    failed: Vec<i64>,
}

/// Looks for messages that failed and were made since then. Tests, and what is about something erased,
/// are left out.
pub(super) fn to_recover(
    connection: &Connection,
    app: AppNo,
    (webhook, since): (WebhookId, Timestamp),
) -> Result<Recovery, StoreError> {
    let webhook = number_of(connection, app, webhook)?;
    let failed = connection
        .prepare_cached(
            "select no from webhook_messages indexed by webhook_messages_by_webhook
             where webhook_no = ?1 and state = 2 and created_at >= ?2
             and type <> ?3 and coalesce(reason, '') <> ?4 order by no limit ?5",
        )?
        .query_map(
            params![
                webhook.0,
                since.as_ms(),
                event_type_code(WebhookEventType::WebhookTest),
                MESSAGE_ERASED,
                MESSAGES_PENDING_MAX + 1
            ],
            |row| row.get(0),
        )?
        .collect::<sql::Result<_>>()?;
    Ok(Recovery { webhook, since, failed })
}

/// Has what failed, and what waits to be tried again, tried now, up to what may wait for a webhook.
pub(super) fn recover(
    tx: &mut WriteTx<'_>,
    app: AppNo,
    recovery: &Recovery,
    at: Timestamp,
) -> Result<WebhookRecovered, StoreError> {
    let Recovery { webhook, since, failed } = recovery;
    let (enabled, pending) = openness(tx, webhook.0)?;
    if !enabled {
        return Err(disabled());
    }
    let waiting = tx
        .prepare_cached(
            "update webhook_messages set attempts = 0, started_at = ?3, due_at = ?3,
             claimable_at = ?3
             where webhook_no = ?1 and state = 0 and claim is null and attempts > 0
             and created_at >= ?2 and type <> ?4",
        )?
        .execute([
            webhook.0,
            since.as_ms(),
            at.as_ms(),
            event_type_code(WebhookEventType::WebhookTest),
        ])?;
    let room = usize::try_from(MESSAGES_PENDING_MAX - pending).unwrap_or(0);
    let fitting = &failed[..failed.len().min(room)];
    let mut recovered = waiting;
    if !fitting.is_empty() {
        // One may have been redelivered meanwhile.
        recovered += tx
            .prepare_cached(&format!(
                "update webhook_messages set state = 0, attempts = 0, claim = null,
                 started_at = ?2, due_at = ?2, claimable_at = ?2 where no in {NUMBERS} and state = 2"
            ))?
            .execute(params![list_of(fitting), at.as_ms()])?;
    }
    tx.changed(Change::EventsDue(app));
    Ok(WebhookRecovered { recovered: recovered as u64, more: failed.len() > fitting.len() })
}

/// Whether a webhook is enabled, and how much waits for it.
fn openness(tx: &Connection, webhook: i64) -> Result<(bool, i64), StoreError> {
    let found = tx
        .prepare_cached(
            "select enabled, (select count(*) from webhook_messages
             where webhook_no = ?1 and state = 0) from webhooks where no = ?1",
        )?
        .query_row([webhook], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(found)
}

fn disabled() -> StoreError {
    StoreError::refused("id", "names a webhook that is disabled")
}

/// Refuses a webhook that is disabled, or has enough to do.
fn is_open(tx: &Connection, webhook: i64) -> Result<(), StoreError> {
    let (enabled, pending) = openness(tx, webhook)?;
    if !enabled {
        return Err(disabled());
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
