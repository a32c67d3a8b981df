//! `notify tail`: a line for each event, as it happens.

use clap::Args;
use notify_client::{
    Streamed,
    notify_core::{StreamQuery, WebhookEventType},
};
use serde_json::Value;

use crate::{failure::Failure, output, session::Session};

/// `notify tail`.
#[derive(Debug, Args)]
pub(crate) struct Tail {
    /// A type to show, such as `notification.failed`; several may be given. Every type without it.
    #[arg(long = "type", value_name = "TYPE")]
    types: Vec<String>,
    /// Go on after the event of this cursor.
    #[arg(long, value_name = "CURSOR")]
    since: Option<String>,
    /// Print each event as JSON, with its cursor.
    #[arg(long)]
    json: bool,
}

/// Runs the command until it is interrupted.
pub(crate) async fn run(args: Tail, session: &mut Session) -> Result<(), Failure> {
    let types = args.types.iter().map(|word| {
        WebhookEventType::from_word(word)
            .ok_or_else(|| Failure::Usage(format!("--type: there is no type `{word}`")))
    });
    let types = types.collect::<Result<Vec<_>, _>>()?;
    let json = args.json || session.out.is_asked_for_json();
    let mut events = session.notify()?.stream(StreamQuery { cursor: args.since, types });
    // One for the whole run: a signal that comes while a line is written must not be lost.
    let mut interrupted = std::pin::pin!(tokio::signal::ctrl_c());
    loop {
        let shown = tokio::select! {
            shown = events.next() => shown,
            _ = &mut interrupted => return Ok(()),
        };
        let Some(shown) = shown else { return Ok(()) };
        match shown? {
            Streamed::Event { cursor, event } => {
                let value = serde_json::to_value(&event)
                    .expect("our models have string keys and finite numbers");
                if json {
                    session.out.json_line(&with_cursor(value, &cursor))?;
                } else {
                    session.out.line(&line(&value, event.data.kind(), &cursor))?;
                }
            }
            Streamed::Reset => output::talk("events in between are not kept any more"),
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
