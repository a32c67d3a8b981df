//! `notify trigger`: posts example events to a url, and tests webhooks of the application. The installation
//! gets no example data (docs/decisions.md, "Why does `trigger` post example events itself?").

use clap::Args;
use notify_client::notify_core::{
    DeviceId, NotificationId, PageQuery, Timestamp, UserId, Webhook, WebhookAttempt, WebhookEvent,
    WebhookEventType, WebhookId, WebhookOutcome,
};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{
    endpoint::{Endpoint, SecretArgs},
    example_events::{Subjects, data, how_to_make_it_happen},
    listen::event_line,
};
use crate::{
    failure::Failure,
    output::view,
    session::{LARGE_PAGE, Session, parse_caller_id, parse_id},
};

const TRIGGER_HELP: &str = "\
With --to, the command posts an example event from this machine, signed with --secret. It needs no
server, and no server records the event. Without --to, the server sends the event `webhook.test` to
each enabled webhook of the application. The server sends no example event of another type, because
a receiver could not distinguish it from a real one; `--list` shows how to make each event happen
for real.

Examples:
  export NOTIFY_WEBHOOK_SECRET=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw
  notify trigger notification.failed --to http://localhost:3000/hooks/notify
  notify trigger --all --to http://localhost:3000/hooks/notify --device phone-1
  notify trigger webhook.test

Exit status: 0 if every event was accepted with 2xx, otherwise 1.";

/// `notify trigger`.
#[derive(Debug, Args)]
#[command(
    after_help = TRIGGER_HELP,
    group = clap::ArgGroup::new("what").required(true).args(["types", "all", "list"]),
)]
pub(crate) struct Trigger {
    /// Types of the events, such as `notification.failed`.
    #[arg(value_name = "EVENT")]
    types: Vec<String>,
    /// One event of each type.
    #[arg(long, requires = "to")]
    all: bool,
    /// List the types, and how to make each event happen for real.
    #[arg(long)]
    list: bool,
    /// Url that gets the events; without a scheme it is http.
    #[arg(long, value_name = "URL", conflicts_with = "list")]
    to: Option<String>,
    /// With `webhook.test`: only this webhook, which must be enabled.
    #[arg(long, value_name = "ID", conflicts_with_all = ["to", "list"])]
    webhook: Option<String>,
    #[command(flatten)]
    secret: SecretArgs,
    /// Id of the notification in the events (default: a new id).
    #[arg(long, value_name = "ID", requires = "to")]
    notification: Option<String>,
    /// Id of the device in the events (default: `example-device`).
    #[arg(long, value_name = "DEVICE_ID", requires = "to")]
    device: Option<String>,
    /// Id of the user in the events (default: null).
    #[arg(long, value_name = "USER_ID", requires = "to")]
    user: Option<String>,
    /// The `webhook-id` of the events (default: new ids). A repeated id is a repeated message, which a
    /// receiver should recognise.
    #[arg(long, value_name = "ID", requires = "to")]
    webhook_id: Option<String>,
}

/// Runs the command.
pub(crate) async fn run(args: Trigger, session: &mut Session) -> Result<(), Failure> {
    if args.list {
        return list(session);
    }
    let types = if args.all {
        WebhookEventType::ALL.to_vec()
    } else {
        args.types.iter().map(|name| parse_type(name)).collect::<Result<_, _>>()?
    };
    match args.to.clone() {
        Some(url) => post(args, &url, &types, session).await,
        None => test(args.webhook.as_deref(), &types, session).await,
    }
}

fn parse_type(name: &str) -> Result<WebhookEventType, Failure> {
    name.parse().map_err(|_| {
        let all = WebhookEventType::NAMES.join(", ");
        Failure::Usage(format!("unknown type `{name}`: give one of {all}"))
    })
}

fn list(session: &mut Session) -> Result<(), Failure> {
    let types = WebhookEventType::ALL.into_iter();
    let types = types.map(|kind| json!({"type": kind, "how": how_to_make_it_happen(kind)}));
    session.out.show(&json!({"types": types.collect::<Vec<_>>()}), &view::EVENT_TYPES)
}

/// Posts an example of each type.
async fn post(
    args: Trigger,
    url: &str,
    types: &[WebhookEventType],
    session: &mut Session,
) -> Result<(), Failure> {
    let Some(secret) = args.secret.get() else {
        return Err(Failure::Usage(
            "no secret: give --secret or set NOTIFY_WEBHOOK_SECRET to the secret with which the receiver \
             verifies messages"
                .to_owned(),
        ));
    };
    let endpoint = Endpoint::new("--to", url, &secret, session)?;
    let subjects = Subjects {
        notification: args
            .notification
            .map(|id| parse_caller_id("--notification", &id, NotificationId::new))
            .transpose()?,
        device: args
            .device
            .map(|id| parse_caller_id("--device", &id, DeviceId::new))
            .transpose()?,
        user: args.user.map(|id| parse_caller_id("--user", &id, UserId::new)).transpose()?,
    };
    let mut refused = 0;
    for kind in types {
        let timestamp = Timestamp::from_ms(jiff::Timestamp::now().as_millisecond());
        let event = WebhookEvent { timestamp, data: data(*kind, &subjects) };
        let body = serde_json::to_string(&event).expect("our models are JSON");
        let id = args.webhook_id.clone().unwrap_or_else(|| Uuid::now_v7().to_string());
        let posted = endpoint.post(&id, body.clone()).await;
        refused += usize::from(!posted.is_accepted());
        if session.out.is_json_requested() {
            let mut line: Value = serde_json::from_str(&body).expect("the command wrote it");
            line["webhook_id"] = id.into();
            posted.add_to(&mut line);
            session.out.json_line(&line)?;
        } else {
            session.out.line(&format!("{}  {}", event_line(&event), posted.line()))?;
        }
    }
    check(refused, types.len())
}

/// Lets the server test webhooks.
async fn test(
    webhook: Option<&str>,
    types: &[WebhookEventType],
    session: &mut Session,
) -> Result<(), Failure> {
    if let Some(kind) = types.iter().find(|kind| **kind != WebhookEventType::WebhookTest) {
        return Err(Failure::Usage(format!(
            "the server sends `{kind}` only after it happened (`notify trigger --list` shows how to make \
             it happen); --to URL posts an example of it from this machine"
        )));
    }
    let notify = session.client()?;
    let webhooks = notify.webhooks();
    let tested: Vec<Webhook> = match webhook {
        Some(id) => {
            let parsed: WebhookId = parse_id("webhook", id)?;
            vec![webhooks.get(parsed).await.map_err(Failure::unknown_id("webhook", &id))?]
        }
        // One page is enough: an application has at most 20 webhooks.
        None => {
            let query = PageQuery { limit: Some(LARGE_PAGE), cursor: None };
            let all = webhooks.list(&query).await?.webhooks;
            all.into_iter().filter(|webhook| webhook.enabled).collect()
        }
    };
    if tested.is_empty() {
        let message = "the application has no enabled webhook: `notify webhooks create` creates one, \
            and --to URL posts to a url without a webhook";
        return Err(Failure::NoMatch(message.to_owned()));
    }
    let mut refused = 0;
    for webhook in &tested {
        let attempt = webhooks.test(webhook.id).await?;
        refused += usize::from(attempt.outcome != WebhookOutcome::Delivered);
        if session.out.is_json_requested() {
            let mut line = serde_json::to_value(&attempt).expect("our models are JSON");
            line["webhook"] = webhook.url.as_str().into();
            session.out.json_line(&line)?;
        } else {
            session.out.line(&attempt_line(webhook, &attempt))?;
        }
    }
    check(refused, tested.len())
}

/// A test of a webhook in a line like that of an event.
fn attempt_line(webhook: &Webhook, attempt: &WebhookAttempt) -> String {
    let at = attempt.last_attempt_at.unwrap_or(attempt.created_at).to_rfc3339();
    let kind = attempt.event.as_str();
    let answer = match (attempt.status, &attempt.reason) {
        (Some(status), _) => status.to_string(),
        (None, Some(reason)) => format!("failed: {reason}"),
        (None, None) => attempt.outcome.to_string(),
    };
    let latency = attempt.latency_ms.map_or_else(String::new, |ms| format!("  {ms} ms"));
    format!("{at}  {kind:<22}  {}  {answer}{latency}", webhook.url)
}

fn check(refused: usize, all: usize) -> Result<(), Failure> {
    match refused {
        0 => Ok(()),
        _ => Err(Failure::CheckFailed(format!("{refused} of {all} events were not accepted"))),
    }
}
