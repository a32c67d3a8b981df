//! `notify tail`: a line for each event, as it happens.

use clap::Args;
use notify_client::{
    StreamItem,
    notify_core::{StreamQuery, WebhookEventType},
};
use serde_json::Value;

use crate::{failure::Failure, output, session::Session};

/// `notify tail`.
#[derive(Debug, Args)]
pub(crate) struct Tail {
    /// Type of events to show, such as `notification.failed`; repeatable. Every type unless given.
    #[arg(long = "type", value_name = "TYPE")]
    types: Vec<String>,
    /// Start after the event of this cursor.
    #[arg(long, value_name = "CURSOR")]
    since: Option<String>,
    /// Print each event as JSON, with its cursor.
    #[arg(long)]
    json: bool,
}

/// Runs the command until it is interrupted.
pub(crate) async fn run(args: Tail, session: &mut Session) -> Result<(), Failure> {
    let types = args.types.iter().map(|word| {
        WebhookEventType::from_word(word).ok_or_else(|| {
            let all = WebhookEventType::ALL.map(WebhookEventType::as_str).join(", ");
            Failure::Usage(format!("--type: there is no type `{word}`: give one of {all}"))
        })
    });
    let types = types.collect::<Result<Vec<_>, _>>()?;
    let json = args.json || session.out.is_asked_for_json();
    let mut events = session.notify()?.stream(StreamQuery { cursor: args.since, types });
    if session.out.is_for_people() {
        output::talk("waiting for events");
    }
    // One for the whole run: a signal that comes while a line is written must not be lost.
    let mut interrupted = std::pin::pin!(tokio::signal::ctrl_c());
    loop {
        let shown = tokio::select! {
            shown = events.next() => shown,
            _ = &mut interrupted => return Ok(()),
        };
        let Some(shown) = shown else { return Ok(()) };
        match shown? {
            StreamItem::Event { cursor, event } => {
                let value = serde_json::to_value(&event)
                    .expect("our models have string keys and finite numbers");
                if json {
                    session.out.json_line(&with_cursor(value, &cursor))?;
                } else if session.out.is_for_people() {
                    session.out.line(&for_people(&value, event.data.kind()))?;
                } else {
                    session.out.line(&line(&value, event.data.kind(), &cursor))?;
                }
            }
            StreamItem::Reset => output::talk("the server no longer has the events in between"),
            _ => {}
        }
    }
}

fn with_cursor(mut event: Value, cursor: &str) -> Value {
    event["cursor"] = cursor.into();
    event
}

fn line(event: &Value, kind: &str, cursor: &str) -> String {
    let timestamp = event["timestamp"].as_str().unwrap_or_default();
    format!("{timestamp}  {kind}  {}  {cursor}", event["data"])
}

/// When, what, and the data field by field; counts of zero and what is null are left out.
fn for_people(event: &Value, kind: &str) -> String {
    let timestamp = event["timestamp"].as_str().unwrap_or_default();
    // To the second: `2026-01-02T03:04:05.678Z`.
    let second = timestamp.split_once('.').map_or(timestamp.into(), |(at, _)| format!("{at}Z"));
    let mut line = format!("{second}  {kind}");
    let mut data = event["data"].clone();
    // Its status is that of the notification, which completed with failures: `failed  status=completed`
    // reads as a contradiction.
    if kind == "notification.failed"
        && let Some(fields) = data.as_object_mut()
    {
        fields.remove("status");
    }
    add_fields(&mut line, &data);
    line
}

/// What it is about comes first, then what is counted of it.
fn add_fields(line: &mut String, data: &Value) {
    let fields = || data.as_object().into_iter().flatten();
    for (name, value) in fields() {
        match value {
            Value::Null | Value::Object(_) => {}
            Value::Number(count) if count.as_u64() == Some(0) => {}
            Value::String(text) if !text.contains(char::is_whitespace) => {
                line.push_str(&format!("  {name}={text}"));
            }
            other => line.push_str(&format!("  {name}={other}")),
        }
    }
    fields().filter(|(_, value)| value.is_object()).for_each(|(_, value)| add_fields(line, value));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_line_for_people_holds_no_zeros_and_no_cursor() {
        let counts = json!({"canceled": 0, "excluded": 0, "sent": 1, "targeted": 1});
        for (data, kind, text) in [
            (
                json!({"counts": counts, "notification_id": "n-1", "status": "completed"}),
                "notification.completed",
                "2026-01-02T03:04:05Z  notification.completed  \
                 notification_id=n-1  status=completed  sent=1  targeted=1",
            ),
            (
                json!({"notification_id": "n-1", "reason": "no_such_device", "status": "completed"}),
                "notification.failed",
                "2026-01-02T03:04:05Z  notification.failed  notification_id=n-1  \
                 reason=no_such_device",
            ),
            (
                json!({"poll_id": "p", "answer_id": "a b", "device_id": null}),
                "poll.answered",
                "2026-01-02T03:04:05Z  poll.answered  answer_id=\"a b\"  poll_id=p",
            ),
        ] {
            let event = json!({"timestamp": "2026-01-02T03:04:05.678Z", "data": data});
            assert_eq!(for_people(&event, kind), text);
        }
    }
}
