//! Webhooks and their messages.

mod message;

use notify_core::{
    AppId, NewWebhook, Success, Timestamp, Webhook, WebhookAttempt, WebhookChange, WebhookData,
    WebhookId, WebhookMessageId, WebhookRecovered,
};
use serde::{Deserialize, Serialize};

use crate::store::page::{CursorCodec, rows_wanted};
use crate::store::sql::row::{count_at, require_app, uuid_at};
use crate::store::sql::writer::WriteTx;
use crate::store::sql::{self, Connection, OptionalExtension, Row, WriteScope, params};
use crate::store::{
    AppNo, Change, EventTypes, Idempotent, IdempotentRequest, Operation, Page, PageRequest, Store,
    StoreError, event,
};

/// The most webhooks of an application.
pub const WEBHOOKS_MAX: u64 = 20;
/// The most pending messages of a webhook. Events beyond them stay in the event log, within the
/// limits of the log.
pub const MESSAGES_PENDING_MAX: i64 = 1_000;
/// How long a finished message is kept, in milliseconds: 7 days.
pub const MESSAGES_KEPT_MS: i64 = 7 * 86_400_000;
/// The reason of messages that end because their webhook was disabled.
pub const WEBHOOK_DISABLED: &str = "webhook_disabled";
/// The reason of a webhook that is disabled because its endpoint responded with 410.
pub const WEBHOOK_GONE: &str = "gone";
/// The reason of a webhook that is disabled because it failed for too long.
pub const WEBHOOK_FAILING: &str = "failing";
/// The reason of messages that end because the device or notification that they are about was
/// erased.
pub const MESSAGE_ERASED: &str = "erased";

/// Number of a webhook.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WebhookNo(pub i64);

/// Number of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MessageNo(pub i64);

/// A webhook and its sealed secret, as stored for a replay of the request that created it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealedSecret {
    /// The webhook.
    pub id: WebhookId,
    /// The secret, sealed.
    pub sealed: Vec<u8>,
}

/// A new secret for a webhook.
#[derive(Debug, Clone)]
pub struct SecretRotation {
    /// The new secret.
    pub secret: SealedSecret,
    /// When the new secret replaces the previous secret.
    pub at: Timestamp,
    /// Until when messages are also signed with the previous secret.
    pub previous_until: Timestamp,
}

/// A new message, as stored for a replay of the request that created it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageMade {
    /// The id of the message.
    pub id: WebhookMessageId,
}

/// The work of the webhook engine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WebhookWork {
    /// Webhooks with due messages or unread events.
    pub ready: Vec<WebhookNo>,
    /// When the next message becomes claimable.
    pub next_at: Option<Timestamp>,
}

/// A claim of messages of one webhook.
#[derive(Debug, Clone)]
pub struct WebhookClaim {
    /// The webhook.
    pub webhook: WebhookNo,
    /// Now.
    pub now: Timestamp,
    /// End of the lease.
    pub lease_until: Timestamp,
    /// Identifies this claim among the claims of all processes.
    pub claim: i64,
    /// The most messages to claim.
    pub limit: u32,
    /// Ids for the messages that the claim creates from events.
    pub ids: Vec<WebhookMessageId>,
}

/// Claimed messages of one webhook, and the data for sending them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimedWebhook {
    /// The application. The secrets are sealed for it.
    pub app: AppId,
    /// The webhook.
    pub id: WebhookId,
    /// The URL of the endpoint.
    pub url: String,
    /// The secret, sealed.
    pub sealed: Vec<u8>,
    /// The previous secret, sealed, while messages are also signed with it.
    pub previous_sealed: Option<Vec<u8>>,
    /// The messages.
    pub messages: Vec<ClaimedMessage>,
}

/// A message to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimedMessage {
    /// Internal number.
    pub no: MessageNo,
    /// The id of the message, sent as `webhook-id`.
    pub id: WebhookMessageId,
    /// When the event was written.
    pub at: Timestamp,
    /// The payload.
    pub data: WebhookData,
    /// The number of attempts so far.
    pub attempts: u32,
    /// The start of the retry schedule.
    pub started_at: Timestamp,
}

/// What happens to a message after an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageStep {
    /// The endpoint accepted it.
    Delivered,
    /// The attempt failed, and the message is tried again.
    Again {
        /// When the next attempt is due.
        due_at: Timestamp,
    },
    /// The message failed and is not tried again.
    Failed,
}

/// The result of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptOutcome {
    /// The webhook.
    pub webhook: WebhookNo,
    /// The message.
    pub message: MessageNo,
    /// The claim of the attempt.
    pub claim: i64,
    /// What happens next.
    pub step: MessageStep,
    /// The HTTP status of the response, if there was one.
    pub status: Option<u16>,
    /// Why the attempt failed, as a code.
    pub reason: Option<&'static str>,
    /// The duration of the attempt, in milliseconds.
    pub latency_ms: u64,
    /// When the attempt was made.
    pub at: Timestamp,
    /// The URL that the message was sent to. If the URL of the webhook has changed since, the
    /// result affects the message and not the webhook.
    pub url: String,
    /// Whether the endpoint responded with 410, which disables the webhook.
    pub is_gone: bool,
    /// A failure disables the webhook if it has been failing since before this time.
    pub failing_before: Timestamp,
}

/// The columns that [`webhook_of`] reads.
const WEBHOOK_COLUMNS: &str = "w.no, w.id, w.url, w.events, w.description, w.enabled, w.disabled_reason, \
    w.failing_since, w.dropped, w.previous_until, w.created_at, w.updated_at, \
    (select count(*) from webhook_messages m where m.webhook_no = w.no and m.state = 0)";

impl Store {
    /// Creates a webhook, which receives events from now on. An application has at most
    /// [`WEBHOOKS_MAX`].
    pub async fn create_webhook(
        &self,
        app: AppNo,
        webhook: NewWebhook,
        secret: SealedSecret,
        at: Timestamp,
        once: Option<IdempotentRequest>,
    ) -> Result<Idempotent<SealedSecret>, StoreError> {
        self.write_once(Operation::CreateWebhook, app, once, move |tx| {
            require_app(tx, app)?;
            create(tx, app, &webhook, &secret, at)?;
            Ok(secret)
        })
        .await
    }

    /// Reads a webhook.
    pub async fn webhook(
        &self,
        app: AppNo,
        id: WebhookId,
        now: Timestamp,
    ) -> Result<Webhook, StoreError> {
        self.read(move |connection| {
            let sql = format!(
                "select {WEBHOOK_COLUMNS} from webhooks w where w.app_no = ?1 and w.id = ?2"
            );
            let row = connection
                .prepare_cached(&sql)?
                .query_row(params![app.0, id.0.as_bytes()], |row| webhook_of(row, now))
                .optional()?;
            row.map(|(_, webhook)| webhook).ok_or(StoreError::NotFound)
        })
        .await
    }

    /// Lists webhooks, oldest first.
    pub async fn list_webhooks(
        &self,
        app: AppNo,
        page: PageRequest,
        now: Timestamp,
    ) -> Result<Page<Webhook>, StoreError> {
        self.read(move |connection| {
            require_app(connection, app)?;
            let cursors = CursorCodec { list: "webhooks", owner: app.0 };
            let after = cursors.decode_number(&page)?.unwrap_or(0);
            let rows = connection
                .prepare_cached(&format!(
                    "select {WEBHOOK_COLUMNS} from webhooks w where w.app_no = ?1 and w.no > ?2
                     order by w.no limit ?3"
                ))?
                .query_map([app.0, after, rows_wanted(&page)], |row| webhook_of(row, now))?
                .collect::<Result<Vec<_>, _>>()?;
            Ok(cursors.page(rows, &page))
        })
        .await
    }

    /// Changes a webhook. Disabling a webhook ends its pending messages. Enabling it resets its
    /// failures, and it receives events from then on. A new URL also resets its failures.
    pub async fn change_webhook(
        &self,
        app: AppNo,
        id: WebhookId,
        change: WebhookChange,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        self.write_to(WriteScope::app(app), Operation::ChangeWebhook, move |tx| {
            self::change(tx, app, id, &change, at)
        })
        .await
    }

    /// Deletes a webhook with its messages.
    pub async fn delete_webhook(&self, app: AppNo, id: WebhookId) -> Result<(), StoreError> {
        self.write_to(WriteScope::app(app), Operation::DeleteWebhook, move |tx| {
            let no = number_of(tx, app, id)?;
            for sql in [
                "delete from webhook_messages where webhook_no = ?1",
                "delete from webhooks where no = ?1",
            ] {
                tx.prepare_cached(sql)?.execute([no.0])?;
            }
            event::refresh_subscriptions(tx, app)
        })
        .await
    }

    /// Gives a webhook a new secret. Messages are also signed with the previous secret until
    /// [`SecretRotation::previous_until`].
    pub async fn rotate_webhook(
        &self,
        app: AppNo,
        rotation: SecretRotation,
        once: Option<IdempotentRequest>,
    ) -> Result<Idempotent<SealedSecret>, StoreError> {
        self.write_once(Operation::RotateWebhook, app, once, move |tx| {
            let SecretRotation { secret, at, previous_until } = rotation;
            let no = number_of(tx, app, secret.id)?;
            tx.prepare_cached(
                "update webhooks set previous_sealed = sealed, previous_until = ?3, sealed = ?2,
                 updated_at = ?4 where no = ?1",
            )?
            .execute(params![
                no.0,
                secret.sealed,
                previous_until.as_ms(),
                at.as_ms()
            ])?;
            Ok(secret)
        })
        .await
    }

    /// Creates a test message for an enabled webhook, due at once.
    pub async fn test_webhook(
        &self,
        app: AppNo,
        id: WebhookId,
        message: MessageMade,
        at: Timestamp,
        once: Option<IdempotentRequest>,
    ) -> Result<Idempotent<MessageMade>, StoreError> {
        self.write_once(Operation::TestWebhook, app, once, move |tx| {
            message::test(tx, app, id, message, at)?;
            Ok(message)
        })
        .await
    }

    /// Restarts a finished or pending message, which is then due at once. Does nothing if an
    /// attempt is running.
    pub async fn redeliver_message(
        &self,
        app: AppNo,
        webhook: WebhookId,
        id: WebhookMessageId,
        at: Timestamp,
        once: Option<IdempotentRequest>,
    ) -> Result<Idempotent<Success>, StoreError> {
        self.write_once(Operation::RedeliverMessage, app, once, move |tx| {
            message::redeliver(tx, app, webhook, id, at)?;
            Ok(Success { success: true })
        })
        .await
    }

    /// Restarts the failed messages that were created since `since`, oldest first, until the
    /// webhook has [`MESSAGES_PENDING_MAX`] pending messages. Also makes pending retries due at
    /// once. Test messages, and messages about erased devices and notifications, are left out.
    pub async fn recover_messages(
        &self,
        app: AppNo,
        webhook: WebhookId,
        since: Timestamp,
        at: Timestamp,
        once: Option<IdempotentRequest>,
    ) -> Result<Idempotent<WebhookRecovered>, StoreError> {
        // The search through many messages runs outside of the write transaction, which it would
        // delay.
        let recovery = self
            .read(move |connection| message::find_failed(connection, app, webhook, since))
            .await?;
        self.write_once(Operation::RecoverMessages, app, once, move |tx| {
            message::recover(tx, app, &recovery, at)
        })
        .await
    }

    /// Reads a message.
    pub async fn webhook_message(
        &self,
        app: AppNo,
        webhook: WebhookId,
        id: WebhookMessageId,
    ) -> Result<WebhookAttempt, StoreError> {
        self.read(move |connection| message::read(connection, app, webhook, id)).await
    }

    /// Lists the messages of a webhook, newest first.
    pub async fn list_webhook_messages(
        &self,
        app: AppNo,
        webhook: WebhookId,
        page: PageRequest,
    ) -> Result<Page<WebhookAttempt>, StoreError> {
        self.read_long(move |connection| message::list(connection, app, webhook, &page)).await
    }

    /// Reads the work for enabled webhooks of active applications.
    pub async fn webhook_work(&self, now: Timestamp) -> Result<WebhookWork, StoreError> {
        self.read(move |connection| message::work(connection, now)).await
    }

    /// Creates messages from the unread events of a webhook, until it has [`MESSAGES_PENDING_MAX`]
    /// pending messages. Then claims due messages, longest due first, as [`WebhookClaim`]
    /// describes. Messages about erased devices and notifications end. Returns `None` if the
    /// webhook is deleted or disabled.
    pub async fn claim_messages(
        &self,
        claim: WebhookClaim,
    ) -> Result<Option<ClaimedWebhook>, StoreError> {
        let scope = WriteScope::key(claim.webhook.0);
        self.write_to(scope, Operation::ClaimMessages, move |tx| message::claim(tx, &claim)).await
    }

    /// Releases all claims. Called when a server starts and no other server can use the database:
    /// all claims are then those of an earlier process.
    pub async fn release_messages(&self) -> Result<(), StoreError> {
        self.write(Operation::ReleaseMessages, |tx| message::release(tx)).await
    }

    /// Commits the result of an attempt, unless the message was claimed again or has ended. If the
    /// result disables the webhook, returns the reason.
    pub async fn settle_message(
        &self,
        outcome: AttemptOutcome,
    ) -> Result<Option<&'static str>, StoreError> {
        let scope = WriteScope::key(outcome.webhook.0);
        self.write_to(scope, Operation::SettleMessage, move |tx| message::settle(tx, &outcome))
            .await
    }
}

fn create(
    tx: &mut WriteTx<'_>,
    app: AppNo,
    webhook: &NewWebhook,
    secret: &SealedSecret,
    at: Timestamp,
) -> Result<(), StoreError> {
    let webhooks: u64 = tx
        .prepare_cached("select count(*) from webhooks where app_no = ?1")?
        .query_row([app.0], |row| count_at(row, 0))?;
    if webhooks >= WEBHOOKS_MAX {
        let what = format!("an application has at most {WEBHOOKS_MAX} webhooks");
        return Err(StoreError::refused("url", &what));
    }
    let cursor = event::last(tx, app)?;
    tx.prepare_insert(
        "insert into webhooks (no, app_no, id, url, description, events, enabled, sealed, cursor,
         created_at, updated_at) values (?1, ?2, ?3, ?4, ?5, ?6, 1, ?7, ?8, ?9, ?9)",
    )?
    .insert(
        app,
        params![
            app.0,
            secret.id.0.as_bytes(),
            webhook.url,
            webhook.description,
            EventTypes::of(&webhook.events).0,
            secret.sealed,
            cursor,
            at.as_ms(),
        ],
    )?;
    event::refresh_subscriptions(tx, app)
}

fn change(
    tx: &mut WriteTx<'_>,
    app: AppNo,
    id: WebhookId,
    change: &WebhookChange,
    at: Timestamp,
) -> Result<(), StoreError> {
    let no = number_of(tx, app, id)?;
    let types = change.events.as_deref().map(|events| EventTypes::of(events).0);
    tx.prepare_cached(
        "update webhooks set url = coalesce(?2, url), events = coalesce(?3, events),
         description = coalesce(?4, description), updated_at = ?5,
         failing_since = case when ?2 <> url then null else failing_since end
         where no = ?1",
    )?
    .execute(params![no.0, change.url, types, change.description, at.as_ms()])?;
    match change.enabled {
        Some(true) => {
            let cursor = event::last(tx, app)?;
            tx.prepare_cached(
                "update webhooks set cursor = case when enabled = 1 then cursor else ?2 end, enabled = 1,
                 disabled_reason = null, failing_since = null where no = ?1",
            )?
            .execute([no.0, cursor])?;
        }
        Some(false) => disable(tx, no, None, at)?,
        None => {}
    }
    event::refresh_subscriptions(tx, app)?;
    tx.changed(Change::Events(app));
    Ok(())
}

/// Disables a webhook and ends its pending messages, of which it has about [`MESSAGES_PENDING_MAX`]
/// at most.
fn disable(
    tx: &Connection,
    no: WebhookNo,
    reason: Option<&str>,
    at: Timestamp,
) -> Result<(), StoreError> {
    tx.prepare_cached("update webhooks set enabled = 0, disabled_reason = ?2 where no = ?1")?
        .execute(params![no.0, reason])?;
    tx.prepare_cached(
        "update webhook_messages set state = 2, claim = null, reason = ?2,
         last_attempt_at = coalesce(last_attempt_at, ?3) where webhook_no = ?1 and state = 0",
    )?
    .execute(params![no.0, WEBHOOK_DISABLED, at.as_ms()])?;
    Ok(())
}

/// Reads the number of a webhook by its id.
fn number_of(connection: &Connection, app: AppNo, id: WebhookId) -> Result<WebhookNo, StoreError> {
    connection
        .prepare_cached("select no from webhooks where app_no = ?1 and id = ?2")?
        .query_row(params![app.0, id.0.as_bytes()], |row| row.get(0).map(WebhookNo))
        .optional()?
        .ok_or(StoreError::NotFound)
}

/// Reads a webhook and its number from a row of [`WEBHOOK_COLUMNS`].
fn webhook_of(row: &Row<'_>, now: Timestamp) -> sql::Result<(i64, Webhook)> {
    let time = |column| row.get::<Option<i64>>(column).map(|at| at.map(Timestamp));
    let webhook = Webhook {
        id: WebhookId(uuid_at(row, 1)?),
        url: row.get(2)?,
        events: EventTypes(row.get(3)?).listed(),
        description: row.get(4)?,
        enabled: row.get(5)?,
        disabled_reason: row.get(6)?,
        failing_since: time(7)?,
        dropped: count_at(row, 8)?,
        previous_secret_until: time(9)?.filter(|until| *until > now),
        created_at: Timestamp(row.get(10)?),
        updated_at: Timestamp(row.get(11)?),
        pending: count_at(row, 12)?,
    };
    Ok((row.get(0)?, webhook))
}
