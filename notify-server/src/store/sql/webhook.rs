//! Webhooks: what callers do with them. Their messages are in the folder beside.

mod claim;
mod message;

use async_trait::async_trait;
use notify_core::{
    NewWebhook, Success, Timestamp, Webhook, WebhookAttempt, WebhookChange, WebhookId,
    WebhookMessageId, WebhookRecovered,
};

use super::SqlStore;
use super::cursor::{Listing, rows_wanted};
use super::event;
use super::row::{count_at, live_app, uuid_at};
use super::writer::WriteTx;
use crate::store::sql::{self, Connection, OptionalExtension, Row, params};
use crate::store::{
    AppNo, AttemptOutcome, Change, ClaimedWebhook, Done, EventTypes, MessageMade, Once, Page,
    PageRequest, SealedSecret, StoreError, WEBHOOK_DISABLED, WEBHOOKS_MAX, WebhookClaim, WebhookNo,
    WebhookStore, WebhookWork,
};

/// Columns as [`webhook_of`] reads them.
const WEBHOOK: &str = "w.no, w.id, w.url, w.events, w.description, w.enabled, w.disabled_reason, \
    w.failing_since, w.dropped, w.previous_until, w.created_at, w.updated_at, \
    (select count(*) from webhook_messages m where m.webhook_no = w.no and m.state = 0)";

#[async_trait]
impl WebhookStore for SqlStore {
    async fn create_webhook(
        &self,
        app: AppNo,
        webhook: NewWebhook,
        secret: SealedSecret,
        at: Timestamp,
        once: Option<Once>,
    ) -> Result<Done<SealedSecret>, StoreError> {
        self.write_once(app, once, move |tx| {
            live_app(tx, app)?;
            create(tx, app, &webhook, &secret, at)?;
            Ok(secret)
        })
        .await
    }

    async fn webhook(
        &self,
        app: AppNo,
        id: WebhookId,
        now: Timestamp,
    ) -> Result<Webhook, StoreError> {
        self.read(move |connection| {
            let sql = format!("select {WEBHOOK} from webhooks w where w.app_no = ?1 and w.id = ?2");
            let found = connection
                .prepare_cached(&sql)?
                .query_row(params![app.0, id.0.as_bytes()], |row| webhook_of(row, now))
                .optional()?;
            found.map(|(_, webhook)| webhook).ok_or(StoreError::NotFound)
        })
        .await
    }

    async fn list_webhooks(
        &self,
        app: AppNo,
        page: PageRequest,
        now: Timestamp,
    ) -> Result<Page<Webhook>, StoreError> {
        self.read(move |connection| {
            live_app(connection, app)?;
            let listing = Listing { name: "webhooks", of: app.0 };
            let after = listing.number(&page)?.unwrap_or(0);
            let rows = connection
                .prepare_cached(&format!(
                    "select {WEBHOOK} from webhooks w where w.app_no = ?1 and w.no > ?2
                     order by w.no limit ?3"
                ))?
                .query_map([app.0, after, rows_wanted(&page)], |row| webhook_of(row, now))?
                .collect::<Result<Vec<_>, _>>()?;
            Ok(listing.page(rows, &page))
        })
        .await
    }

    async fn change_webhook(
        &self,
        app: AppNo,
        id: WebhookId,
        change: WebhookChange,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        self.write(move |tx| self::change(tx, app, id, &change, at)).await
    }

    async fn delete_webhook(&self, app: AppNo, id: WebhookId) -> Result<(), StoreError> {
        self.write(move |tx| {
            let no = number_of(tx, app, id)?;
            for sql in [
                "delete from webhook_messages where webhook_no = ?1",
                "delete from webhooks where no = ?1",
            ] {
                tx.prepare_cached(sql)?.execute([no.0])?;
            }
            event::note_wanted(tx, app)
        })
        .await
    }

    async fn rotate_webhook(
        &self,
        app: AppNo,
        secret: SealedSecret,
        (at, previous_until): (Timestamp, Timestamp),
        once: Option<Once>,
    ) -> Result<Done<SealedSecret>, StoreError> {
        self.write_once(app, once, move |tx| {
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

    async fn test_webhook(
        &self,
        app: AppNo,
        id: WebhookId,
        message: MessageMade,
        at: Timestamp,
        once: Option<Once>,
    ) -> Result<Done<MessageMade>, StoreError> {
        self.write_once(app, once, move |tx| {
            message::test(tx, app, id, message, at)?;
            Ok(message)
        })
        .await
    }

    async fn redeliver_message(
        &self,
        app: AppNo,
        (webhook, id): (WebhookId, WebhookMessageId),
        at: Timestamp,
        once: Option<Once>,
    ) -> Result<Done<Success>, StoreError> {
        self.write_once(app, once, move |tx| {
            message::redeliver(tx, app, (webhook, id), at)?;
            Ok(Success { success: true })
        })
        .await
    }

    async fn recover_messages(
        &self,
        app: AppNo,
        (webhook, since): (WebhookId, Timestamp),
        at: Timestamp,
        once: Option<Once>,
    ) -> Result<Done<WebhookRecovered>, StoreError> {
        // Looked for beside the writer: there may be many messages.
        let recovery =
            self.read(move |connection| message::to_recover(connection, app, (webhook, since)));
        let recovery = recovery.await?;
        self.write_once(app, once, move |tx| message::recover(tx, app, &recovery, at)).await
    }

    async fn webhook_attempt(
        &self,
        app: AppNo,
        webhook: WebhookId,
        id: WebhookMessageId,
    ) -> Result<WebhookAttempt, StoreError> {
        self.read(move |connection| message::read(connection, app, (webhook, id))).await
    }

    async fn list_webhook_attempts(
        &self,
        app: AppNo,
        webhook: WebhookId,
        page: PageRequest,
    ) -> Result<Page<WebhookAttempt>, StoreError> {
        self.read(move |connection| message::list(connection, app, webhook, &page)).await
    }

    async fn webhook_work(&self, now: Timestamp) -> Result<WebhookWork, StoreError> {
        self.read(move |connection| claim::work(connection, now)).await
    }

    async fn claim_messages(
        &self,
        claim: WebhookClaim,
    ) -> Result<Option<ClaimedWebhook>, StoreError> {
        self.write(move |tx| claim::claim(tx, &claim)).await
    }

    async fn release_messages(&self) -> Result<(), StoreError> {
        self.write(|tx| claim::release(tx)).await
    }

    async fn settle_message(
        &self,
        outcome: AttemptOutcome,
    ) -> Result<Option<&'static str>, StoreError> {
        self.write(move |tx| claim::settle(tx, &outcome)).await
    }
}

fn create(
    tx: &mut WriteTx<'_>,
    app: AppNo,
    webhook: &NewWebhook,
    secret: &SealedSecret,
    at: Timestamp,
) -> Result<(), StoreError> {
    let there: u64 = tx
        .prepare_cached("select count(*) from webhooks where app_no = ?1")?
        .query_row([app.0], |row| count_at(row, 0))?;
    if there >= WEBHOOKS_MAX {
        let what = format!("an application has at most {WEBHOOKS_MAX} webhooks");
        return Err(StoreError::refused("url", &what));
    }
    let cursor = event::last(tx, app)?;
    tx.prepare_insert(
        "insert into webhooks (no, app_no, id, url, description, events, enabled, sealed, cursor,
         created_at, updated_at) values (?1, ?2, ?3, ?4, ?5, ?6, 1, ?7, ?8, ?9, ?9)",
    )?
    .row(
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
    event::note_wanted(tx, app)
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
    event::note_wanted(tx, app)?;
    tx.changed(Change::EventsDue(app));
    Ok(())
}

/// Disables a webhook and ends what waits for it; [`MESSAGES_PENDING_MAX`] rows at most, and those
/// that are redelivered.
///
/// [`MESSAGES_PENDING_MAX`]: crate::store::MESSAGES_PENDING_MAX
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

/// The number of a webhook of the application.
fn number_of(connection: &Connection, app: AppNo, id: WebhookId) -> Result<WebhookNo, StoreError> {
    connection
        .prepare_cached("select no from webhooks where app_no = ?1 and id = ?2")?
        .query_row(params![app.0, id.0.as_bytes()], |row| row.get(0).map(WebhookNo))
        .optional()?
        .ok_or(StoreError::NotFound)
}

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
