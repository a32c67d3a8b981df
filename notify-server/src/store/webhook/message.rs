//! Messages of webhooks: reading, redelivering, claiming and settling them.

use notify_core::{
    AppId, Timestamp, WebhookAttempt, WebhookEventType, WebhookId, WebhookMessageId,
    WebhookOutcome, WebhookRecovered,
};

use crate::store::event::{EVENT_COLUMNS, EventRow, render};
use crate::store::page::{CursorCodec, rows_wanted};
use crate::store::sql::row::{unexpected_value, uuid_at};
use crate::store::sql::writer::WriteTx;
use crate::store::sql::{
    self, Connection, NUMBERS, OptionalExtension, Row, Type, list_of, params, seq_of,
};
use crate::store::webhook::{disable, number_of};
use crate::store::{
    AppNo, AttemptOutcome, Change, ClaimedMessage, ClaimedWebhook, MESSAGE_ERASED,
    MESSAGES_PENDING_MAX, MessageMade, MessageNo, MessageStep, Page, PageRequest, StoreError,
    WEBHOOK_FAILING, WEBHOOK_GONE, WebhookClaim, WebhookNo, WebhookWork, event_type_code,
};

/// The columns that [`message_at`] reads.
const MESSAGE_COLUMNS: &str = "no, id, type, at, notification_no, device_key, detail, state, attempts, \
    status, reason, latency_ms, created_at, last_attempt_at, due_at";

/// Reads a message.
pub(super) fn read(
    connection: &Connection,
    app: AppNo,
    webhook: WebhookId,
    id: WebhookMessageId,
) -> Result<WebhookAttempt, StoreError> {
    let webhook = number_of(connection, app, webhook)?;
    let sql =
        format!("select {MESSAGE_COLUMNS} from webhook_messages where webhook_no = ?1 and id = ?2");
    let row = connection
        .prepare_cached(&sql)?
        .query_row(params![webhook.0, id.0.as_bytes()], message_at)
        .optional()?;
    row.map(|(_, message)| message).ok_or(StoreError::NotFound)
}

/// Lists the messages of a webhook, newest first.
pub(super) fn list(
    connection: &Connection,
    app: AppNo,
    webhook: WebhookId,
    page: &PageRequest,
) -> Result<Page<WebhookAttempt>, StoreError> {
    let webhook = number_of(connection, app, webhook)?;
    let cursors = CursorCodec { list: "attempts", owner: webhook.0 };
    let before = cursors.decode_number(page)?.unwrap_or(i64::MAX);
    let rows = connection
        .prepare_cached(&format!(
            "select {MESSAGE_COLUMNS} from webhook_messages where webhook_no = ?1 and no < ?2
             order by no desc limit ?3"
        ))?
        .query_map([webhook.0, before, rows_wanted(page)], message_at)?
        .collect::<Result<Vec<_>, _>>()?;
    Ok(cursors.page(rows, page))
}

/// Creates a test message.
pub(super) fn test(
    tx: &mut WriteTx<'_>,
    app: AppNo,
    id: WebhookId,
    message: MessageMade,
    at: Timestamp,
) -> Result<(), StoreError> {
    let webhook = number_of(tx, app, id)?;
    require_room(tx, webhook.0)?;
    tx.prepare_insert(
        "insert into webhook_messages (no, webhook_no, id, type, at, detail, started_at, due_at,
         claimable_at, created_at) values (?1, ?2, ?3, ?4, ?5, ?6, ?5, ?5, ?5, ?5)",
    )?
    .insert(
        app,
        params![
            webhook.0,
            message.id.0.as_bytes(),
            event_type_code(WebhookEventType::WebhookTest),
            at.as_ms(),
            id.to_string(),
        ],
    )?;
    tx.changed(Change::Events(app));
    Ok(())
}

/// Restarts a message, which is then due at once. Does nothing if an attempt is running.
pub(super) fn redeliver(
    tx: &mut WriteTx<'_>,
    app: AppNo,
    webhook: WebhookId,
    id: WebhookMessageId,
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
    let is_pending = state == 0;
    if is_pending && is_claimed {
        return Ok(());
    }
    // A pending message is already counted against the limit of pending messages.
    if !is_pending {
        require_room(tx, webhook.0)?;
    }
    tx.prepare_cached(
        "update webhook_messages set state = 0, attempts = 0, claim = null, started_at = ?3,
         due_at = ?3, claimable_at = ?3 where webhook_no = ?1 and id = ?2",
    )?
    .execute(params![webhook.0, id.0.as_bytes(), at.as_ms()])?;
    tx.changed(Change::Events(app));
    Ok(())
}

/// The messages of a webhook to recover.
pub(super) struct Recovery {
    webhook: WebhookNo,
    /// Messages that were created before this time are not recovered.
    since: Timestamp,
    /// The numbers of failed messages, oldest first. The list has at most one number more than
    /// [`MESSAGES_PENDING_MAX`]. The additional number shows that not all messages can be recovered
    /// now.
    failed: Vec<i64>,
}

/// Lists the failed messages of a webhook that were created at `since` or later. Leaves out test
/// messages and messages about erased devices and notifications.
pub(super) fn find_failed(
    connection: &Connection,
    app: AppNo,
    webhook: WebhookId,
    since: Timestamp,
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

/// Makes the pending retries of a webhook due at once. Then restarts the failed messages, until the
/// webhook has [`MESSAGES_PENDING_MAX`] pending messages.
pub(super) fn recover(
    tx: &mut WriteTx<'_>,
    app: AppNo,
    recovery: &Recovery,
    at: Timestamp,
) -> Result<WebhookRecovered, StoreError> {
    let Recovery { webhook, since, failed } = recovery;
    let (enabled, pending) = read_state(tx, webhook.0)?;
    if !enabled {
        return Err(disabled());
    }
    let retried = tx
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
    let to_restart = &failed[..failed.len().min(room)];
    let mut recovered = retried;
    if !to_restart.is_empty() {
        // The condition `state = 2` skips messages that another request restarted after
        // `find_failed` had listed them.
        recovered += tx
            .prepare_cached(&format!(
                "update webhook_messages set state = 0, attempts = 0, claim = null,
                 started_at = ?2, due_at = ?2, claimable_at = ?2 where no in {NUMBERS} and state = 2"
            ))?
            .execute(params![list_of(to_restart), at.as_ms()])?;
    }
    tx.changed(Change::Events(app));
    Ok(WebhookRecovered { recovered: recovered as u64, more: failed.len() > to_restart.len() })
}

/// Whether a webhook is enabled, and how many messages are pending.
fn read_state(tx: &Connection, webhook: i64) -> Result<(bool, i64), StoreError> {
    let state = tx
        .prepare_cached(
            "select enabled, (select count(*) from webhook_messages
             where webhook_no = ?1 and state = 0) from webhooks where no = ?1",
        )?
        .query_row([webhook], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(state)
}

/// The error of a request for a disabled webhook.
fn disabled() -> StoreError {
    StoreError::refused("id", "the webhook is disabled")
}

/// Checks that a webhook can get another pending message.
///
/// # Errors
/// `Refused` when the webhook is disabled or has too many pending messages.
fn require_room(tx: &Connection, webhook: i64) -> Result<(), StoreError> {
    let (enabled, pending) = read_state(tx, webhook)?;
    if !enabled {
        return Err(disabled());
    }
    if pending >= MESSAGES_PENDING_MAX {
        return Err(StoreError::refused("id", "the webhook has too many messages waiting already"));
    }
    Ok(())
}

/// Reads a message from a row of [`MESSAGE_COLUMNS`]. Returns its number and the message with its
/// last attempt.
fn message_at(row: &Row<'_>) -> sql::Result<(i64, WebhookAttempt)> {
    let time = |column| row.get::<Option<i64>>(column).map(|at| at.map(Timestamp));
    let event = EventRow::read(row, 2)?;
    let outcome = match row.get::<i64>(7)? {
        0 => WebhookOutcome::Pending,
        1 => WebhookOutcome::Delivered,
        _ => WebhookOutcome::Failed,
    };
    let latency: Option<i64> = row.get(11)?;
    let message = WebhookAttempt {
        id: WebhookMessageId(uuid_at(row, 1)?),
        event: event.event_type().ok_or_else(|| unexpected_value(2, Type::Integer))?,
        outcome,
        attempts: row.get(8)?,
        status: row.get(9)?,
        reason: row.get(10)?,
        latency_ms: latency.map(i64::unsigned_abs),
        created_at: Timestamp(row.get(12)?),
        last_attempt_at: time(13)?,
        next_attempt_at: if outcome == WebhookOutcome::Pending { time(14)? } else { None },
    };
    Ok((row.get(0)?, message))
}

/// The most events that a claim scans.
const EVENTS_SCANNED_MAX: i64 = 1_000;

/// Reads which webhooks have work now, and when the next webhook has work. Reads three index
/// positions for each enabled webhook, independent of the length of its queue.
pub(super) fn work(connection: &Connection, now: Timestamp) -> Result<WebhookWork, StoreError> {
    let mut webhooks = connection.prepare_cached(concat!(
        "select w.no,
         (select min(m.claimable_at) from webhook_messages m indexed by webhook_messages_pending
          where m.webhook_no = w.no and m.state = 0),
         exists (select 1 from events e where e.app_no = w.app_no and e.no > w.cursor)
          and not exists (select 1 from webhook_messages m indexed by webhook_messages_pending
           where m.webhook_no = w.no and m.state = 0 limit 1 offset ?1)
         from webhooks w join apps a on a.no = w.app_no
         where w.enabled = 1 and a.status = 'active' order by ",
        seq_of!("w.no")
    ))?;
    let mut rows = webhooks.query([MESSAGES_PENDING_MAX - 1])?;
    let mut work = WebhookWork::default();
    while let Some(row) = rows.next()? {
        let due = row.get::<Option<i64>>(1)?.map(Timestamp);
        let has_new_events: bool = row.get(2)?;
        if has_new_events || due.is_some_and(|due| due <= now) {
            work.ready.push(WebhookNo(row.get(0)?));
        } else {
            work.next_at = work.next_at.into_iter().chain(due).min();
        }
    }
    Ok(work)
}

/// A webhook whose messages are claimed.
struct Target {
    app: AppNo,
    /// The webhook as the engine gets it, still without messages.
    claimed: ClaimedWebhook,
    /// The bits of the event types that the webhook subscribes to.
    subscribed_types: i64,
    /// The number of the last event for which messages were created.
    cursor: i64,
}

/// Creates messages from new events of a webhook, and claims the messages that are due. Returns
/// `None` if the webhook is disabled or deleted, or its application is not active.
pub(super) fn claim(
    tx: &Connection,
    claim: &WebhookClaim,
) -> Result<Option<ClaimedWebhook>, StoreError> {
    let Some(target) = read_target(tx, claim)? else { return Ok(None) };
    create_from_events(tx, claim, &target)?;
    let due = tx
        .prepare_cached(&format!(
            "select no, id, attempts, started_at, {EVENT_COLUMNS}
             from webhook_messages indexed by webhook_messages_pending
             where webhook_no = ?1 and state = 0 and claimable_at <= ?2
             order by claimable_at limit ?3"
        ))?
        .query_map(params![claim.webhook.0, claim.now.as_ms(), claim.limit], |row| {
            let id = WebhookMessageId(uuid_at(row, 1)?);
            let started_at = Timestamp(row.get(3)?);
            Ok((MessageNo(row.get(0)?), id, row.get(2)?, started_at, EventRow::read(row, 4)?))
        })?
        .collect::<Result<Vec<(_, _, u32, _, _)>, _>>()?;
    let mut claimed = target.claimed;
    for (no, id, attempts, started_at, event) in due {
        let Some(data) = render(tx, &event)? else {
            end_erased(tx, no, claim.now)?;
            continue;
        };
        tx.prepare_cached(
            "update webhook_messages set claim = ?2, claimable_at = ?3 where no = ?1",
        )?
        .execute([no.0, claim.claim, claim.lease_until.as_ms()])?;
        let at = event.at;
        claimed.messages.push(ClaimedMessage { no, id, at, data, attempts, started_at });
    }
    Ok(Some(claimed))
}

fn read_target(tx: &Connection, claim: &WebhookClaim) -> Result<Option<Target>, StoreError> {
    let target = tx
        .prepare_cached(
            "select a.no, a.id, w.id, w.url, w.sealed,
             case when w.previous_until > ?2 then w.previous_sealed end, w.events, w.cursor
             from webhooks w join apps a on a.no = w.app_no
             where w.no = ?1 and w.enabled = 1 and a.status = 'active'",
        )?
        .query_row([claim.webhook.0, claim.now.as_ms()], |row| {
            Ok(Target {
                app: AppNo(row.get(0)?),
                claimed: ClaimedWebhook {
                    app: AppId(uuid_at(row, 1)?),
                    id: WebhookId(uuid_at(row, 2)?),
                    url: row.get(3)?,
                    sealed: row.get(4)?,
                    previous_sealed: row.get(5)?,
                    messages: Vec::new(),
                },
                subscribed_types: row.get(6)?,
                cursor: row.get(7)?,
            })
        })
        .optional()?;
    Ok(target)
}

/// Creates messages from the events that the webhook has not read, until
/// [`MESSAGES_PENDING_MAX`] messages are pending.
fn create_from_events(
    tx: &Connection,
    claim: &WebhookClaim,
    target: &Target,
) -> Result<(), StoreError> {
    let pending: i64 = tx
        .prepare_cached(
            "select count(*) from webhook_messages indexed by webhook_messages_pending
             where webhook_no = ?1 and state = 0",
        )?
        .query_row([claim.webhook.0], |row| row.get(0))?;
    let room = usize::try_from(MESSAGES_PENDING_MAX - pending).unwrap_or(0);
    let mut ids = claim.ids.iter().take(room);
    let events = tx
        .prepare_cached(&format!(
            "select no, {EVENT_COLUMNS} from events where app_no = ?1 and no > ?2 order by no limit ?3"
        ))?
        .query_map([target.app.0, target.cursor, EVENTS_SCANNED_MAX], |row| {
            Ok((row.get(0)?, EventRow::read(row, 1)?))
        })?
        .collect::<Result<Vec<(i64, EventRow)>, _>>()?;
    let mut cursor = target.cursor;
    for (no, event) in &events {
        if target.subscribed_types & (1 << event.kind) != 0 {
            let Some(id) = ids.next() else { break };
            insert(tx, target.app, claim, *id, event)?;
        }
        cursor = *no;
    }
    if cursor > target.cursor {
        tx.prepare_cached("update webhooks set cursor = ?2 where no = ?1")?
            .execute([claim.webhook.0, cursor])?;
    }
    Ok(())
}

fn insert(
    tx: &Connection,
    app: AppNo,
    claim: &WebhookClaim,
    id: WebhookMessageId,
    event: &EventRow,
) -> Result<(), StoreError> {
    tx.prepare_insert(
        "insert into webhook_messages (no, webhook_no, id, type, at, notification_no, device_key,
         detail, started_at, due_at, claimable_at, created_at, user_no)
         values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?9, ?9, ?9, ?10)",
    )?
    .insert(
        app,
        params![
            claim.webhook.0,
            id.0.as_bytes(),
            event.kind,
            event.at.as_ms(),
            event.notification.map(|no| no.0),
            event.device.map(|key| key.0),
            event.detail,
            claim.now.as_ms(),
            event.user.map(|user| user.0),
        ],
    )?;
    Ok(())
}

/// Releases the claims of all messages.
pub(super) fn release(tx: &Connection) -> Result<(), StoreError> {
    tx.prepare_cached(
        "update webhook_messages set claim = null, claimable_at = due_at
         where state = 0 and claim is not null",
    )?
    .execute([])?;
    Ok(())
}

/// Ends a message whose device or notification was erased: it has no content to send.
fn end_erased(tx: &Connection, no: MessageNo, at: Timestamp) -> Result<(), StoreError> {
    tx.prepare_cached(
        "update webhook_messages set state = 2, claim = null, reason = ?2, last_attempt_at = ?3
         where no = ?1",
    )?
    .execute(params![no.0, MESSAGE_ERASED, at.as_ms()])?;
    Ok(())
}

/// Writes the result of an attempt, if the message still has the claim of the attempt. If the
/// result disables the webhook, returns the reason.
pub(super) fn settle(
    tx: &Connection,
    outcome: &AttemptOutcome,
) -> Result<Option<&'static str>, StoreError> {
    let (state, due_at) = match outcome.step {
        MessageStep::Again { due_at } => (0, Some(due_at.as_ms())),
        MessageStep::Delivered => (1, None),
        MessageStep::Failed => (2, None),
    };
    let updated = tx
        .prepare_cached(
            "update webhook_messages set state = ?3, attempts = attempts + 1, claim = null,
             due_at = coalesce(?4, due_at), claimable_at = coalesce(?4, claimable_at),
             status = ?5, reason = ?6, latency_ms = ?7, last_attempt_at = ?8
             where no = ?1 and claim = ?2 and state = 0",
        )?
        .execute(params![
            outcome.message.0,
            outcome.claim,
            state,
            due_at,
            outcome.status,
            outcome.reason,
            i64::try_from(outcome.latency_ms).unwrap_or(i64::MAX),
            outcome.at.as_ms(),
        ])?;
    if updated == 0 {
        return Ok(None);
    }
    update_webhook(tx, outcome)
}

/// Updates the webhook after an attempt. If the result disables the webhook, returns the reason.
fn update_webhook(
    tx: &Connection,
    outcome: &AttemptOutcome,
) -> Result<Option<&'static str>, StoreError> {
    let (app, has_same_url, failing_since) = tx
        .prepare_cached("select app_no, url = ?2, failing_since from webhooks where no = ?1")?
        .query_row(params![outcome.webhook.0, outcome.url], |row| {
            let failing_since = row.get::<Option<i64>>(2)?.map(Timestamp);
            Ok((AppNo(row.get(0)?), row.get::<bool>(1)?, failing_since))
        })?;
    if !has_same_url {
        return Ok(None);
    }
    let is_failing = outcome.step != MessageStep::Delivered;
    if failing_since.is_some() != is_failing {
        tx.prepare_cached("update webhooks set failing_since = ?2 where no = ?1")?
            .execute(params![outcome.webhook.0, is_failing.then_some(outcome.at.as_ms())])?;
    }
    let is_past_limit =
        is_failing && failing_since.is_some_and(|since| since <= outcome.failing_before);
    let reason = if outcome.is_gone {
        WEBHOOK_GONE
    } else if is_past_limit {
        WEBHOOK_FAILING
    } else {
        return Ok(None);
    };
    disable(tx, outcome.webhook, Some(reason), outcome.at)?;
    crate::store::event::refresh_subscriptions(tx, app)?;
    Ok(Some(reason))
}
