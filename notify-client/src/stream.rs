//! The event stream. After an interruption, it reconnects and continues after the last event.

use std::collections::VecDeque;
use std::time::Duration;

use notify_core::{StreamQuery, Timestamp, WebhookData, WebhookEvent};
use reqwest::Method;
use serde::Deserialize;
use serde_json::Value;

use crate::{Client, Error, call::Call};

/// Longest silence of a connection before it is reopened. The server sends at least its position every 15
/// seconds.
const IDLE_TIMEOUT: Duration = Duration::from_secs(45);
/// Longest `Retry-After` that a reconnection honours.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(3_600);
/// Longest delay before a reconnection without `Retry-After`.
const DELAY_MAX: Duration = Duration::from_secs(30);
/// Largest event, in bytes. Events of the server are smaller than 20 kB.
const EVENT_BYTES_MAX: usize = 1_048_576;
/// Longest life of a connection. The time limit of other calls would end a stream too early.
const LIFETIME_MAX: Duration = Duration::from_secs(365 * 86_400);

/// An item of an [`EventStream`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
#[allow(clippy::large_enum_variant, reason = "almost every item is an event")]
pub enum StreamItem {
    /// An event.
    Event {
        /// The position after this event, for [`StreamQuery::cursor`].
        cursor: String,
        /// The event.
        event: WebhookEvent,
    },
    /// The server no longer has the events after the last cursor, or never had them. The stream
    /// continues with the oldest event that the server has.
    Reset,
}

/// The events of an application, as they happen.
///
/// ```no_run
/// # async fn example(notify: notify_client::Client) -> Result<(), notify_client::Error> {
/// let mut events = notify.stream(Default::default());
/// while let Some(item) = events.next().await {
///     println!("{:?}", item?);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "no request is sent before `next`"]
pub struct EventStream {
    client: Client,
    query: StreamQuery,
    response: Option<reqwest::Response>,
    /// Received bytes that are not a whole block yet.
    buffer: Vec<u8>,
    /// Parsed blocks that `next` has not processed yet.
    blocks: VecDeque<Block>,
    /// The number of interruptions since bytes were last received.
    failures: u32,
    has_ended: bool,
}

/// A parsed block of the stream (a server-sent event).
#[derive(Debug, PartialEq)]
enum Block {
    Item(StreamItem),
    /// A position without an event: after events that the query filters out, and to keep the connection open.
    Cursor(String),
    /// An event that this version cannot decode, at this cursor.
    Undecodable(String),
}

impl Client {
    /// Streams events: `GET /v1/events/stream`. Without a cursor, it starts with the next event.
    pub fn stream(&self, query: StreamQuery) -> EventStream {
        EventStream {
            client: self.clone(),
            query,
            response: None,
            buffer: Vec::new(),
            blocks: VecDeque::new(),
            failures: 0,
            has_ended: false,
        }
    }
}

impl EventStream {
    /// The position from which a new stream would continue.
    #[must_use]
    pub fn cursor(&self) -> Option<&str> {
        self.query.cursor.as_deref()
    }

    /// Returns the next item. A lost connection is reopened at the last cursor, without a limit on the
    /// number of attempts. After an error that a retry cannot fix, such as a rejected key, the stream
    /// ends with `None`. After [`Error::Decode`], which is an event that cannot be decoded, the stream
    /// continues with the event after it.
    pub async fn next(&mut self) -> Option<Result<StreamItem, Error>> {
        loop {
            match self.blocks.pop_front() {
                Some(Block::Item(item)) => {
                    if let StreamItem::Event { cursor, .. } = &item {
                        self.query.cursor = Some(cursor.clone());
                    }
                    return Some(Ok(item));
                }
                Some(Block::Cursor(cursor)) => {
                    self.query.cursor = Some(cursor);
                    continue;
                }
                Some(Block::Undecodable(cursor)) => {
                    self.query.cursor = Some(cursor);
                    let source = "not an event".into();
                    return Some(Err(Error::Decode { status: 200, request_id: None, source }));
                }
                None => {}
            }
            if self.has_ended {
                return None;
            }
            if let Err(error) = self.receive().await {
                self.response = None;
                self.buffer.clear();
                if !error.is_retryable() {
                    self.has_ended = true;
                    return Some(Err(error));
                }
                let delay = reconnect_delay(self.failures, &error);
                self.failures = self.failures.saturating_add(1);
                tracing::debug!(%error, "the stream was interrupted; reconnecting");
                tokio::time::sleep(delay).await;
            }
        }
    }

    /// Receives bytes and parses the blocks that they complete.
    async fn receive(&mut self) -> Result<(), Error> {
        if self.response.is_none() {
            let call = Call::<()>::v1(Method::GET, &["events", "stream"]).query(&self.query)?;
            self.response = Some(self.client.open(&call, LIFETIME_MAX).await?);
        }
        let Some(response) = &mut self.response else { return Ok(()) };
        let base = self.client.base_url();
        let Ok(chunk) = tokio::time::timeout(IDLE_TIMEOUT, response.chunk()).await else {
            return Err(Error::transport(base, "the stream was silent for too long"));
        };
        let Some(chunk) = chunk.map_err(Error::from_transport(base))? else {
            return Err(Error::transport(base, "the stream ended"));
        };
        self.failures = 0;
        self.buffer.extend_from_slice(&chunk);
        while let Some(end) = self.buffer.windows(2).position(|pair| pair == b"\n\n") {
            let block: Vec<u8> = self.buffer.drain(..end + 2).collect();
            self.blocks.extend(parse_block(&String::from_utf8_lossy(&block)));
        }
        if self.buffer.len() > EVENT_BYTES_MAX {
            return Err(Error::transport(base, "an event is too large"));
        }
        Ok(())
    }
}

/// The delay before the stream connects again, after `failures` earlier interruptions and this error.
fn reconnect_delay(failures: u32, error: &Error) -> Duration {
    let retry_after = error.retry_after().unwrap_or_default().min(RETRY_AFTER_MAX);
    Duration::from_secs(1 << failures.min(5)).min(DELAY_MAX).max(retry_after)
}

/// Parses a block of lines. Returns `None` for a block without an event and without a position.
fn parse_block(block: &str) -> Option<Block> {
    let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name));
    match (field("event: "), field("id: ")) {
        (Some("reset"), _) => Some(Block::Item(StreamItem::Reset)),
        (Some(_), Some(cursor)) => {
            let (cursor, data) = (cursor.to_owned(), field("data: ").unwrap_or_default());
            Some(match parse_event(data) {
                Some(event) => Block::Item(StreamItem::Event { cursor, event }),
                None => Block::Undecodable(cursor),
            })
        }
        (None, Some(cursor)) => Some(Block::Cursor(cursor.to_owned())),
        (_, None) => None,
    }
}

/// Parses an event. Data that this version cannot decode becomes [`WebhookData::Other`], like the data
/// of an unknown type.
fn parse_event(text: &str) -> Option<WebhookEvent> {
    #[derive(Deserialize)]
    struct AnyEvent {
        #[serde(rename = "type")]
        kind: String,
        timestamp: String,
        #[serde(default)]
        data: Value,
    }
    if let Ok(event) = serde_json::from_str(text) {
        return Some(event);
    }
    let AnyEvent { kind, timestamp, data } = serde_json::from_str(text).ok()?;
    let timestamp: jiff::Timestamp = timestamp.parse().ok()?;
    let timestamp = Timestamp::from_ms(timestamp.as_millisecond());
    Some(WebhookEvent { timestamp, data: WebhookData::Other { kind, data } })
}

#[cfg(test)]
mod tests;
