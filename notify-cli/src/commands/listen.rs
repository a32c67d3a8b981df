//! `notify listen`: forwards events to a url as if it were a webhook, without a public address.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use clap::Args;
use futures_util::{StreamExt, future::BoxFuture, stream::FuturesUnordered};
use notify_client::{
    Error, EventStream, StreamItem,
    notify_core::{StreamQuery, WebhookData, WebhookEvent},
};
use secrecy::ExposeSecret;
use serde_json::Value;
use tokio::sync::mpsc;
use uuid::Uuid;

use super::{
    endpoint::{Endpoint, PostResult, SecretArgs},
    tail::{parse_types, print_interruption, with_cursor, without_fraction},
};
use crate::{
    failure::Failure,
    output::{Output, print_message},
    session::Session,
};

/// Most requests at the same time, as many as the server has to one webhook. While so many are in progress,
/// no event is read, so that memory stays bounded.
const IN_PROGRESS_MAX: usize = 8;
/// Most events that were read and wait for their turn.
const READ_AHEAD_MAX: usize = 1;
/// How long the command waits at its end for requests in progress.
const STOP_WAIT: Duration = Duration::from_secs(2);
/// The namespace of the ids of messages, a random UUID. The same event has the same id in each run, so that
/// a receiver recognises a repetition.
const MESSAGE_IDS: Uuid = Uuid::from_u128(0x5e0b_7c6e_2f0d_4f0b_9a55_0c1d_7b7e_41a3);

const LISTEN_HELP: &str = "\
Each event is posted once, with the body, the headers and the signature of a message to a webhook.
The line of an event shows its time, its type, the id of its subject, the status of the answer and
the duration. An event that the url does not accept with 2xx is not sent again.

If the connection to the server is lost, the command connects again and continues where it stopped.
Ctrl-C ends it, with status 0.

Examples:
  notify listen --forward-to http://localhost:3000/hooks/notify
  notify listen --events notification.failed,device.unregistered

`notify trigger` posts example events.";

/// `notify listen`.
#[derive(Debug, Args)]
#[command(after_help = LISTEN_HELP)]
pub(crate) struct Listen {
    /// Url that gets the events; without a scheme it is http. Unless given, events are only printed.
    #[arg(long, value_name = "URL")]
    forward_to: Option<String>,
    /// Types of events, such as `notification.failed`, separated by commas (default: every type).
    #[arg(long, value_name = "TYPE", value_delimiter = ',')]
    events: Vec<String>,
    /// Start after the event with this cursor.
    #[arg(long, value_name = "CURSOR")]
    since: Option<String>,
    #[command(flatten)]
    secret: SecretArgs,
}

/// Runs the command until it is interrupted.
pub(crate) async fn run(args: Listen, session: &mut Session) -> Result<(), Failure> {
    let types = parse_types("--events", &args.events)?;
    let (secret, is_new) = args.secret.get_or_generate();
    let endpoint = args.forward_to.as_deref();
    let endpoint = endpoint.map(|url| Endpoint::new("--forward-to", url, &secret, session));
    let endpoint = endpoint.transpose()?.map(Arc::new);
    let query = StreamQuery { cursor: args.since.clone(), types };
    let stream = session.client()?.stream(query).on_interruption(print_interruption);
    if let Some(endpoint) = &endpoint {
        let secret = if is_new {
            format!(", signed with the secret {}", secret.expose_secret())
        } else {
            String::new()
        };
        print_message(&format!("forwarding to {}{secret}", endpoint.url()));
    }
    let mut listener = Listener {
        endpoint,
        is_json: session.out.is_json_requested(),
        out: &mut session.out,
        is_connected: false,
        in_progress: FuturesUnordered::new(),
        position: Position { started: VecDeque::new(), last: args.since },
        counts: Counts::default(),
    };
    let outcome = listener.listen(read(stream)).await;
    let drained = listener.drain().await;
    if listener.is_connected {
        listener.summarise();
    }
    outcome.and(drained)
}

/// An item that the reader of the stream hands over.
enum StreamMessage {
    /// The stream is open: events from now on are not missed.
    Connected,
    Event(Box<ReceivedEvent>),
    /// Events were missed: they are older than those that the server keeps.
    Reset,
    Failed(Error),
}

/// A received event.
struct ReceivedEvent {
    cursor: String,
    event: WebhookEvent,
    body: String,
}

/// Reads a stream in a task of its own, so that waiting for other things does not interrupt a read.
fn read(mut stream: EventStream) -> mpsc::Receiver<StreamMessage> {
    let (items, receiver) = mpsc::channel(READ_AHEAD_MAX);
    tokio::spawn(async move {
        let connected = stream
            .connect()
            .await
            .map_or_else(StreamMessage::Failed, |()| StreamMessage::Connected);
        if items.send(connected).await.is_err() {
            return;
        }
        while let Some(item) = stream.next().await {
            let item = match item {
                Ok(StreamItem::Event { cursor, event }) => {
                    let body = stream.body().unwrap_or_default().to_owned();
                    StreamMessage::Event(Box::new(ReceivedEvent { cursor, event, body }))
                }
                Ok(StreamItem::Reset) => StreamMessage::Reset,
                Ok(_) => continue,
                Err(error) => StreamMessage::Failed(error),
            };
            if items.send(item).await.is_err() {
                return;
            }
        }
    });
    receiver
}

/// The running command.
struct Listener<'o> {
    endpoint: Option<Arc<Endpoint>>,
    is_json: bool,
    /// Whether the stream was ever open.
    is_connected: bool,
    out: &'o mut Output,
    in_progress: FuturesUnordered<BoxFuture<'static, (Box<ReceivedEvent>, PostResult)>>,
    position: Position,
    counts: Counts,
}

/// Numbers of events.
#[derive(Debug, Default)]
struct Counts {
    events: u64,
    accepted: u64,
    failed: u64,
}

impl Listener<'_> {
    /// Processes events until the command is interrupted or the stream ends.
    async fn listen(&mut self, mut items: mpsc::Receiver<StreamMessage>) -> Result<(), Failure> {
        // One future for all signals, so that a signal during output is not lost.
        let mut interrupted = std::pin::pin!(tokio::signal::ctrl_c());
        loop {
            let item = tokio::select! {
                _ = &mut interrupted => return Ok(()),
                Some((received, posted)) = self.in_progress.next() => {
                    self.end(&received, Some(&posted))?;
                    continue;
                }
                item = items.recv(), if self.in_progress.len() < IN_PROGRESS_MAX => item,
            };
            match item {
                None => return Ok(()),
                Some(StreamMessage::Connected) => {
                    self.is_connected = true;
                    print_message("waiting for events; Ctrl-C ends");
                }
                Some(StreamMessage::Reset) => {
                    print_message("the server no longer has the skipped events")
                }
                // The stream continues after an event that this version cannot read.
                Some(StreamMessage::Failed(error @ Error::Decode { .. })) => {
                    print_message(&error.to_string())
                }
                Some(StreamMessage::Failed(error)) => return Err(error.into()),
                Some(StreamMessage::Event(received)) => self.begin(received)?,
            }
        }
    }

    fn begin(&mut self, received: Box<ReceivedEvent>) -> Result<(), Failure> {
        self.counts.events += 1;
        self.position.start(received.cursor.clone());
        let Some(endpoint) = self.endpoint.clone() else { return self.end(&received, None) };
        self.in_progress.push(Box::pin(async move {
            let posted = endpoint.post(&message_id(&received), received.body.clone()).await;
            (received, posted)
        }));
        Ok(())
    }

    fn end(
        &mut self,
        received: &ReceivedEvent,
        posted: Option<&PostResult>,
    ) -> Result<(), Failure> {
        self.position.end(&received.cursor);
        match posted.map(PostResult::is_accepted) {
            Some(true) => self.counts.accepted += 1,
            Some(false) => self.counts.failed += 1,
            None => {}
        }
        if !self.is_json {
            let line = event_line(&received.event);
            return match posted {
                Some(posted) => self.out.line(&format!("{line}  {}", posted.line())),
                None => self.out.line(&line),
            };
        }
        let event: Value = serde_json::from_str(&received.body).unwrap_or_default();
        let mut line = with_cursor(event, &received.cursor);
        if let Some(posted) = posted {
            line["webhook_id"] = message_id(received).into();
            posted.add_to(&mut line);
        }
        self.out.json_line(&line)
    }

    /// Waits for the requests in progress, but not longer than [`STOP_WAIT`].
    async fn drain(&mut self) -> Result<(), Failure> {
        let deadline = tokio::time::Instant::now() + STOP_WAIT;
        while let Ok(Some((received, posted))) =
            tokio::time::timeout_at(deadline, self.in_progress.next()).await
        {
            self.end(&received, Some(&posted))?;
        }
        Ok(())
    }

    fn summarise(&self) {
        let Counts { events, accepted, failed } = self.counts;
        let mut line = format!("{events} {}", if events == 1 { "event" } else { "events" });
        if self.endpoint.is_some() {
            line.push_str(&format!(": {accepted} accepted, {failed} not accepted"));
            if !self.in_progress.is_empty() {
                line.push_str(&format!(", {} without an answer yet", self.in_progress.len()));
            }
        }
        if let Some(cursor) = &self.position.last {
            line.push_str(&format!("; --since {cursor} continues from here"));
        }
        print_message(&line);
    }
}

/// The position up to which every event has been processed. Events may end in any order.
#[derive(Debug, Default)]
struct Position {
    /// The cursors of events after `last`, in the order of the stream, and whether the event has ended.
    started: VecDeque<(String, bool)>,
    last: Option<String>,
}

impl Position {
    fn start(&mut self, cursor: String) {
        self.started.push_back((cursor, false));
    }

    fn end(&mut self, cursor: &str) {
        if let Some((_, has_ended)) = self.started.iter_mut().find(|(known, _)| known == cursor) {
            *has_ended = true;
        }
        while self.started.front().is_some_and(|(_, has_ended)| *has_ended) {
            self.last = self.started.pop_front().map(|(cursor, _)| cursor);
        }
    }
}

/// The `webhook-id` of an event. Cursors of two servers can be equal, so the id depends on the body too.
fn message_id(received: &ReceivedEvent) -> String {
    let name = format!("{} {}", received.cursor, received.body);
    Uuid::new_v5(&MESSAGE_IDS, name.as_bytes()).to_string()
}

/// Time, type and subject of an event, for people.
pub(super) fn event_line(event: &WebhookEvent) -> String {
    let text = serde_json::to_value(event).expect("our models have string keys and finite numbers");
    let time = without_fraction(text["timestamp"].as_str().unwrap_or_default());
    format!("{time}  {:<22}  {}", event.data.kind(), subject(&event.data))
}

/// The id of the resource that an event is about. An event of an unknown type has none.
fn subject(data: &WebhookData) -> String {
    match data {
        WebhookData::NotificationCompleted(ended) | WebhookData::NotificationFailed(ended) => {
            ended.notification_id.to_string()
        }
        WebhookData::NotificationPaused(paused) => paused.notification_id.to_string(),
        WebhookData::DeviceUnregistered(device) => device.device_id.to_string(),
        WebhookData::PollAnswered(answered) => answered.poll_id.to_string(),
        WebhookData::EngagementOpened(engaged) | WebhookData::EngagementClicked(engaged) => {
            engaged.notification_id.to_string()
        }
        WebhookData::WebhookTest(tested) => tested.webhook_id.to_string(),
        _ => "-".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_position_follows_the_oldest_event_in_progress() {
        let mut position = Position::default();
        for cursor in ["a", "b", "c"] {
            position.start(cursor.to_owned());
        }
        for (ended, last) in [("b", None), ("a", Some("b")), ("c", Some("c"))] {
            position.end(ended);
            assert_eq!(position.last.as_deref(), last, "{ended}");
        }
        assert!(position.started.is_empty());
    }

    #[test]
    fn an_event_has_the_same_id_in_each_run_and_another_id_on_another_server() {
        let received = |cursor: &str, body: &str| ReceivedEvent {
            cursor: cursor.to_owned(),
            event: serde_json::from_str(EVENT).unwrap(),
            body: body.to_owned(),
        };
        let id = message_id(&received("c1", EVENT));
        assert_eq!(id, message_id(&received("c1", EVENT)));
        assert_ne!(id, message_id(&received("c2", EVENT)));
        assert_ne!(id, message_id(&received("c1", "{}")));
    }

    const EVENT: &str = r#"{"type":"notification.paused","timestamp":"2026-01-02T03:04:05.678Z",
        "data":{"notification_id":"n-1","reason":"requested"}}"#;

    #[test]
    fn a_line_has_time_type_and_subject() {
        let unknown = r#"{"type":"x.y","timestamp":"2026-01-02T03:04:05Z","data":{"id":1}}"#;
        for (event, line) in [
            (EVENT, "2026-01-02T03:04:05Z  notification.paused     n-1"),
            (unknown, "2026-01-02T03:04:05Z  x.y                     -"),
        ] {
            assert_eq!(event_line(&serde_json::from_str(event).unwrap()), line);
        }
    }
}
