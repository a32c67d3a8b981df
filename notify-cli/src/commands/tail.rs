//! `notify tail`: prints events as they happen, one on each line.

use std::time::Duration;

use clap::Args;
use notify_client::{
    Error, StreamItem,
    notify_core::{StreamQuery, WebhookEventType},
};
use serde_json::Value;

use crate::{failure::Failure, output, session::Session};

/// `notify tail`.
#[derive(Debug, Args)]
pub(crate) struct Tail {
    /// Type of events to show, such as `notification.failed`; repeatable (default: every type).
    #[arg(long = "type", value_name = "TYPE")]
    types: Vec<String>,
    /// Start after the event with this cursor.
    #[arg(long, value_name = "CURSOR")]
    since: Option<String>,
    /// Print each event as JSON, with its cursor.
    #[arg(long)]
    json: bool,
}

/// Runs the command until it is interrupted.
pub(crate) async fn run(args: Tail, session: &mut Session) -> Result<(), Failure> {
    let types = parse_types("--type", &args.types)?;
    let json = args.json || session.out.is_json_requested();
    let query = StreamQuery { cursor: args.since, types };
    let mut events = session.client()?.stream(query).on_interruption(print_interruption);
    if session.out.is_human_readable() {
        output::print_message("waiting for events");
    }
    // One future for all signals, so that a signal during output is not lost.
    let mut interrupted = std::pin::pin!(tokio::signal::ctrl_c());
    loop {
        let item = tokio::select! {
            item = events.next() => item,
            _ = &mut interrupted => return Ok(()),
        };
        let Some(item) = item else { return Ok(()) };
        match item? {
            StreamItem::Event { cursor, event } => {
                let value = serde_json::to_value(&event)
                    .expect("our models have string keys and finite numbers");
                if json {
                    session.out.json_line(&with_cursor(value, &cursor))?;
                } else if session.out.is_human_readable() {
                    session.out.line(&human_readable(&value, event.data.kind()))?;
                } else {
                    session.out.line(&plain_line(&value, event.data.kind(), &cursor))?;
                }
            }
            StreamItem::Reset => {
                output::print_message("the server no longer has the skipped events")
            }
            _ => {}
        }
    }
}

/// Parses names of types. `option` is the option with the names.
pub(super) fn parse_types(
    option: &str,
    names: &[String],
) -> Result<Vec<WebhookEventType>, Failure> {
    let types = names.iter().map(|name| {
        WebhookEventType::parse_subscribable(name).map_err(|_| {
            let all = WebhookEventType::SUBSCRIBABLE_NAMES.join(", ");
            Failure::Usage(format!("{option}: unknown type `{name}`: give one of {all}"))
        })
    });
    types.collect()
}

/// Prints that the stream was interrupted, and when it connects again.
pub(super) fn print_interruption(error: &Error, delay: Duration) {
    output::print_message(&format!("{error}; connecting again in {} s", delay.as_secs()));
}

pub(super) fn with_cursor(mut event: Value, cursor: &str) -> Value {
    event["cursor"] = cursor.into();
    event
}

/// An event as a line for programs: time, type, data and cursor.
fn plain_line(event: &Value, kind: &str, cursor: &str) -> String {
    let timestamp = event["timestamp"].as_str().unwrap_or_default();
    format!("{timestamp}  {kind}  {}  {cursor}", event["data"])
}

/// An event as a line for people: time, type, and the fields of the data, without zeros and nulls.
fn human_readable(event: &Value, kind: &str) -> String {
    let timestamp = event["timestamp"].as_str().unwrap_or_default();
    let mut line = format!("{}  {kind}", without_fraction(timestamp));
    let mut data = event["data"].clone();
    // The status of a failed notification is `completed`, which would seem to contradict the event's type.
    if kind == "notification.failed"
        && let Some(fields) = data.as_object_mut()
    {
        fields.remove("status");
    }
    add_fields(&mut line, "", &data);
    line
}

/// A timestamp without fractions of a second, which people do not need.
pub(super) fn without_fraction(timestamp: &str) -> String {
    match timestamp.split_once('.') {
        Some((seconds, _)) => format!("{seconds}Z"),
        None => timestamp.to_owned(),
    }
}

/// Appends the fields of an object, and then those of its nested objects. Counts of users and counts of devices
/// have the same names, so those of users have a prefix.
fn add_fields(line: &mut String, prefix: &str, data: &Value) {
    let fields = || data.as_object().into_iter().flatten();
    for (name, value) in fields() {
        match value {
            Value::Null | Value::Object(_) => {}
            Value::Number(count) if count.as_u64() == Some(0) => {}
            Value::String(text) if !text.contains(char::is_whitespace) => {
                line.push_str(&format!("  {prefix}{name}={text}"));
            }
            other => line.push_str(&format!("  {prefix}{name}={other}")),
        }
    }
    for (name, value) in fields().filter(|(_, value)| value.is_object()) {
        add_fields(line, if name == "users" { "users." } else { "" }, value);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_human_readable_line_has_no_zeros_and_no_cursor() {
        let counts = json!({"canceled": 0, "excluded": 0, "sent": 1, "targeted": 1});
        for (data, kind, text) in [
            (
                json!({"counts": counts, "notification_id": "n-1", "status": "completed"}),
                "notification.completed",
                "2026-01-02T03:04:05Z  notification.completed  \
                 notification_id=n-1  status=completed  sent=1  targeted=1",
            ),
            (
                json!({"counts": {"sent": 1, "unknown": 1}, "notification_id": "n-1",
                    "users": {"named": 2, "reached": 1, "unknown": 1, "pending": 0}}),
                "notification.completed",
                "2026-01-02T03:04:05Z  notification.completed  notification_id=n-1  sent=1  \
                 unknown=1  users.named=2  users.reached=1  users.unknown=1",
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
            assert_eq!(human_readable(&event, kind), text);
        }
    }
}
