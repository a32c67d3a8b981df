//! `notify webhooks`.

use clap::Subcommand;
use notify_client::{
    Client,
    notify_core::{CreateWebhook, Timestamp, UpdateWebhook, WebhookId, WebhookOutcome},
};

use super::paging::{self, PageArgs};
use crate::{
    confirm::{self, ConfirmArgs},
    failure::Failure,
    input,
    output::{self, view},
    session::{Session, parse_id},
};

/// `notify webhooks`.
#[derive(Debug, Subcommand)]
pub(crate) enum Webhooks {
    /// Create a webhook and print its secret, which is shown only once.
    Create {
        /// Address that receives the messages.
        hook_url: String,
        /// Type of events to send, such as `notification.failed`; repeatable. Every type unless
        /// given.
        #[arg(long = "event", value_name = "TYPE")]
        events: Vec<String>,
        /// Its purpose.
        #[arg(long)]
        description: Option<String>,
    },
    /// List webhooks.
    List(PageArgs),
    /// Change, disable or enable a webhook.
    #[command(group = clap::ArgGroup::new("change").required(true).multiple(true))]
    Update {
        /// Its id.
        id: String,
        /// Address that receives the messages.
        #[arg(long, group = "change")]
        hook_url: Option<String>,
        /// Type of events to send; repeatable. Replaces the earlier types.
        #[arg(
            long = "event",
            value_name = "TYPE",
            conflicts_with = "every_event",
            group = "change"
        )]
        events: Vec<String>,
        /// Send events of every type.
        #[arg(long, group = "change")]
        every_event: bool,
        /// Its purpose.
        #[arg(long, group = "change")]
        description: Option<String>,
        /// Send events again, from now on; `recover` sends the messages that failed before.
        #[arg(long, conflicts_with = "disable", group = "change")]
        enable: bool,
        /// Send no more events.
        #[arg(long, group = "change")]
        disable: bool,
    },
    /// Delete a webhook with its messages.
    Delete {
        /// Its id.
        id: String,
        #[command(flatten)]
        confirm: ConfirmArgs,
    },
    /// Replace the secret of a webhook and print the new one, which is shown only once. For 24 hours
    /// messages carry the signatures of both.
    Rotate {
        /// Its id.
        id: String,
    },
    /// Send a test event to a webhook and show the result.
    Test {
        /// Its id.
        id: String,
    },
    /// List the messages to a webhook with their last attempts.
    Attempts {
        /// Its id.
        id: String,
        #[command(flatten)]
        page: PageArgs,
    },
    /// Send the messages that failed since a given time or wait for a retry.
    Recover {
        /// Id of the webhook.
        id: String,
        /// Start of the period: `6h`, `2d`, a day or a time like 2026-05-01T09:00:00Z.
        #[arg(long, value_name = "TIME", value_parser = input::past_instant)]
        since: Timestamp,
    },
    /// Queue a message to be sent now, whether it was delivered, failed or waits for a retry. `attempts`
    /// shows the outcome.
    Redeliver {
        /// Id of the webhook.
        id: String,
        /// Id of the message, listed by `attempts`.
        message_id: String,
    },
}

/// Runs the command.
pub(crate) async fn run(command: Webhooks, session: &mut Session) -> Result<(), Failure> {
    let notify = session.client()?;
    let webhooks = notify.webhooks();
    match command {
        Webhooks::Create { hook_url, events, description } => {
            let webhook = CreateWebhook { url: hook_url, events: Some(events), description };
            session.out.show(&webhooks.create(&webhook).await?, &view::WEBHOOK_CREATED)
        }
        Webhooks::List(page) => {
            let query = page.query();
            let (first, all) = (webhooks.list(&query), webhooks.all(&query));
            paging::show(page.all, first, all, session, &view::WEBHOOKS).await
        }
        Webhooks::Update { id, hook_url, events, every_event, description, enable, disable } => {
            let change = UpdateWebhook {
                url: hook_url,
                events: (every_event || !events.is_empty()).then_some(events),
                description,
                enabled: (enable || disable).then_some(enable),
            };
            update(&id, &change, session).await
        }
        Webhooks::Delete { id, confirm } => {
            let id = parse_webhook_id(&id)?;
            if confirm.is_required()? {
                confirm_delete(&notify, id).await?;
            }
            webhooks.delete(id).await.map_err(Failure::unknown_id("webhook", &id))?;
            session.out.done()
        }
        Webhooks::Rotate { id } => {
            let rotated = webhooks
                .rotate(parse_webhook_id(&id)?)
                .await
                .map_err(Failure::unknown_id("webhook", &id))?;
            session.out.show(&rotated, &view::WEBHOOK_CREATED)
        }
        Webhooks::Test { id } => test(&id, session).await,
        Webhooks::Attempts { id, page } => {
            let (hook, query) = (parse_webhook_id(&id)?, page.query());
            let first = webhooks.attempts(hook, &query);
            let all = webhooks.all_attempts(hook, &query);
            paging::show(page.all, first, all, session, &view::WEBHOOK_ATTEMPTS)
                .await
                .map_err(Failure::unknown_id("webhook", &id))
        }
        Webhooks::Recover { id, since } => {
            let recovered = webhooks
                .recover(parse_webhook_id(&id)?, since)
                .await
                .map_err(Failure::unknown_id("webhook", &id))?;
            session.out.show(&recovered, &view::WEBHOOK_RECOVERED)
        }
        Webhooks::Redeliver { id, message_id } => redeliver(&id, &message_id, session).await,
    }
}

async fn update(id: &str, change: &UpdateWebhook, session: &mut Session) -> Result<(), Failure> {
    let updated = session.client()?.webhooks().update(parse_webhook_id(id)?, change).await;
    updated.map_err(Failure::unknown_id("webhook", &id))?;
    session.out.done()?;
    if change.enabled == Some(true) {
        session.out.flush()?;
        output::print_message(&format!(
            "events that happened while it was disabled were not kept; `notify webhooks recover {id} \
             --since TIME` sends the messages that failed"
        ));
    }
    Ok(())
}

/// The status with which an endpoint refuses all further messages. The server then disables the webhook,
/// even after a test.
const GONE: u16 = 410;

async fn test(id: &str, session: &mut Session) -> Result<(), Failure> {
    let attempt = session.client()?.webhooks().test(parse_webhook_id(id)?).await;
    let attempt = attempt.map_err(Failure::unknown_id("webhook", &id))?;
    session.out.show(&attempt, &view::WEBHOOK_ATTEMPT)?;
    match attempt.outcome {
        WebhookOutcome::Delivered => Ok(()),
        WebhookOutcome::Pending | WebhookOutcome::Failed => {
            let status = attempt.status.map(|status| format!(": status {status}"));
            let status = status.or(attempt.reason.map(|reason| format!(": {reason}")));
            let hint = match attempt.status {
                Some(GONE) => format!(
                    "; the server disabled the webhook: `notify webhooks update {id} --enable` sends \
                     events again"
                ),
                _ => String::new(),
            };
            let status = status.unwrap_or_default();
            Err(Failure::CheckFailed(format!(
                "the endpoint did not accept the message{status}{hint}"
            )))
        }
    }
}

async fn redeliver(id: &str, message_id: &str, session: &mut Session) -> Result<(), Failure> {
    let (hook, message) = (parse_webhook_id(id)?, parse_id("message", message_id)?);
    let queued = session.client()?.webhooks().redeliver(hook, message).await;
    let unknown = format!("no webhook `{id}` has a message with the id `{message_id}`");
    queued.map_err(Failure::not_found(unknown))?;
    if session.out.is_human_readable() {
        let text = format!("queued; see `notify webhooks attempts {id}`\n");
        return session.out.text(text.as_bytes());
    }
    session.out.done()
}

async fn confirm_delete(notify: &Client, id: WebhookId) -> Result<(), Failure> {
    let webhook = notify.webhooks().get(id).await.map_err(Failure::unknown_id("webhook", &id))?;
    confirm::ask(&format!(
        "Delete the webhook to {} with its secret and its messages ({} pending)? This cannot be \
         undone.",
        webhook.url, webhook.pending
    ))
}

fn parse_webhook_id(id: &str) -> Result<WebhookId, Failure> {
    parse_id("webhook", id)
}
