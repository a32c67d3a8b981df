//! `notify webhooks`.

use clap::Subcommand;
use notify_client::{
    Client,
    notify_core::{CreateWebhook, Timestamp, UpdateWebhook, WebhookId, WebhookOutcome},
};

use super::paging::{PageArgs, show_all};
use crate::{
    confirm::{self, Consent},
    failure::Failure,
    input,
    output::{self, view},
    session::{Session, known},
};

/// `notify webhooks`.
#[derive(Debug, Subcommand)]
pub(crate) enum Webhooks {
    /// Create a webhook, and print its secret, which is shown only once.
    Create {
        /// Where messages go.
        hook_url: String,
        /// Type of events to send, such as `notification.failed`; repeatable. Every type unless
        /// given.
        #[arg(long = "event", value_name = "TYPE")]
        events: Vec<String>,
        /// What it is for.
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
        /// Where messages go.
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
        /// What it is for.
        #[arg(long, group = "change")]
        description: Option<String>,
        /// Send events again, those from now on; `recover` sends the messages that failed before.
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
        consent: Consent,
    },
    /// Replace the secret of a webhook, and print the new one, which is shown only once. For 24 hours
    /// messages carry signatures of both.
    Rotate {
        /// Its id.
        id: String,
    },
    /// Send a test event to a webhook, and show the result.
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
    /// Send the messages now that failed since a time or wait for a retry.
    Recover {
        /// Id of the webhook.
        id: String,
        /// Messages made since then: `6h`, `2d`, a day or a time like 2026-05-01T09:00:00Z.
        #[arg(long, value_name = "TIME", value_parser = input::instant_past)]
        since: Timestamp,
    },
    /// Queue a message to be sent now, whether it was delivered, failed or waits for a retry; `attempts`
    /// shows the outcome.
    Redeliver {
        /// Id of the webhook.
        id: String,
        /// Id of the message, as `attempts` lists it.
        message_id: String,
    },
}

/// Runs the command.
pub(crate) async fn run(command: Webhooks, session: &mut Session) -> Result<(), Failure> {
    let notify = session.notify()?;
    let webhooks = notify.webhooks();
    match command {
        Webhooks::Create { hook_url, events, description } => {
            let made = CreateWebhook { url: hook_url, events, description };
            session.out.show(&webhooks.create(&made).await?, &view::WEBHOOK_CREATED)
        }
        Webhooks::List(page) if page.all => {
            show_all(webhooks.all(&page.query()), session, &view::WEBHOOKS).await
        }
        Webhooks::List(page) => {
            session.out.show(&webhooks.list(&page.query()).await?, &view::WEBHOOKS)
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
        Webhooks::Delete { id, consent } => {
            let id = hook(&id)?;
            if consent.is_to_be_asked()? {
                ask_to_delete(&notify, id).await?;
            }
            webhooks.delete(id).await.map_err(Failure::of_id("webhook", &id))?;
            session.out.done()
        }
        Webhooks::Rotate { id } => {
            let rotated =
                webhooks.rotate(hook(&id)?).await.map_err(Failure::of_id("webhook", &id))?;
            session.out.show(&rotated, &view::WEBHOOK_CREATED)
        }
        Webhooks::Test { id } => test(&id, session).await,
        Webhooks::Attempts { id, page } if page.all => {
            let pages = webhooks.all_attempts(hook(&id)?, &page.query());
            show_all(pages, session, &view::WEBHOOK_ATTEMPTS)
                .await
                .map_err(Failure::of_id("webhook", &id))
        }
        Webhooks::Attempts { id, page } => {
            let page = webhooks
                .attempts(hook(&id)?, &page.query())
                .await
                .map_err(Failure::of_id("webhook", &id))?;
            session.out.show(&page, &view::WEBHOOK_ATTEMPTS)
        }
        Webhooks::Recover { id, since } => {
            let recovered = webhooks
                .recover(hook(&id)?, since)
                .await
                .map_err(Failure::of_id("webhook", &id))?;
            session.out.show(&recovered, &view::WEBHOOK_RECOVERED)
        }
        Webhooks::Redeliver { id, message_id } => redeliver(&id, &message_id, session).await,
    }
}

async fn update(id: &str, change: &UpdateWebhook, session: &mut Session) -> Result<(), Failure> {
    let updated = session.notify()?.webhooks().update(hook(id)?, change).await;
    updated.map_err(Failure::of_id("webhook", &id))?;
    session.out.done()?;
    if change.enabled == Some(true) {
        session.out.flush()?;
        output::talk(&format!(
            "events that happened while it was disabled were not kept; `notify webhooks recover {id} \
             --since TIME` sends the messages that failed"
        ));
    }
    Ok(())
}

/// The status by which an endpoint ends its webhook, also when it is tested.
const GONE: u16 = 410;

async fn test(id: &str, session: &mut Session) -> Result<(), Failure> {
    let attempt = session.notify()?.webhooks().test(hook(id)?).await;
    let attempt = attempt.map_err(Failure::of_id("webhook", &id))?;
    session.out.show(&attempt, &view::WEBHOOK_ATTEMPT)?;
    match attempt.outcome {
        WebhookOutcome::Delivered => Ok(()),
        WebhookOutcome::Pending | WebhookOutcome::Failed => {
            let status = attempt.status.map(|status| format!(": status {status}"));
            let status = status.or(attempt.reason.map(|reason| format!(": {reason}")));
            let what = "the endpoint did not accept the message";
            let then = match attempt.status {
                Some(GONE) => format!(
                    "; the server disabled the webhook: `notify webhooks update {id} --enable` sends \
                     events again"
                ),
                _ => String::new(),
            };
            Err(Failure::Unwell(format!("{what}{}{then}", status.unwrap_or_default())))
        }
    }
}

async fn redeliver(id: &str, message_id: &str, session: &mut Session) -> Result<(), Failure> {
    let (hook, message) = (hook(id)?, known("message", message_id)?);
    let sent = session.notify()?.webhooks().redeliver(hook, message).await;
    let unknown = format!("no webhook `{id}` has a message with the id `{message_id}`");
    sent.map_err(Failure::when_not_found(unknown))?;
    if session.out.is_for_people() {
        let queued = format!("queued; see `notify webhooks attempts {id}`\n");
        return session.out.text(queued.as_bytes());
    }
    session.out.done()
}

async fn ask_to_delete(notify: &Client, id: WebhookId) -> Result<(), Failure> {
    let webhook = notify.webhooks().get(id).await.map_err(Failure::of_id("webhook", &id))?;
    confirm::ask(&format!(
        "Delete the webhook to {} with its secret and its messages ({} pending)? This cannot be \
         undone.",
        webhook.url, webhook.pending
    ))
}

fn hook(id: &str) -> Result<WebhookId, Failure> {
    known("webhook", id)
}
