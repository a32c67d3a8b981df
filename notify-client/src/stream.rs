//! The event stream, read for as long as the caller likes: it connects again where it was.

use std::collections::VecDeque;
use std::time::Duration;

use notify_core::{StreamQuery, Timestamp, WebhookData, WebhookEvent};
use reqwest::Method;
use serde::Deserialize;
use serde_json::Value;

use crate::{Client, Error, call::Call};

/// How long nothing may come: the server sends a comment every 15 seconds.
const SILENCE_MAX: Duration = Duration::from_secs(45);
/// Longest wait that the server can ask for before it is connected to again.
const ASKED_MAX: Duration = Duration::from_secs(3_600);
/// Longest wait before it connects again, where the server asks for none.
const DELAY_MAX: Duration = Duration::from_secs(30);
/// Most bytes of one event; the server's are below 20 kB.
const EVENT_BYTES_MAX: usize = 1_048_576;
/// Longest life of a connection; what limits a call must not limit a stream.
const LIFE_MAX: Duration = Duration::from_secs(365 * 86_400);

/// What a stream shows.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Streamed {
    /// An event, and the cursor that goes on after it.
    Event {
        /// Its place.
        cursor: String,
        /// What happened.
        event: WebhookEvent,
    },
    /// Events after the last cursor are not kept any more, or never were; what follows begins with
    /// the oldest that is.
    Reset,
}

/// The events of an application as they happen.
///
/// ```no_run
/// # async fn example(notify: notify_client::Client) -> Result<(), notify_client::Error> {
/// let mut events = notify.stream(Default::default());
/// while let Some(shown) = events.next().await {
///     println!("{:?}", shown?);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "nothing is asked for before `next`"]
pub struct EventStream {
    client: Client,
    query: StreamQuery,
    response: Option<reqwest::Response>,
    bytes: Vec<u8>,
    waiting: VecDeque<Shown>,
    /// Attempts to connect since something came.
    attempts: u32,
    is_over: bool,
}

/// What a block of lines came to.
#[derive(Debug, PartialEq)]
enum Shown {
    /// Something to show.
    Streamed(Streamed),
    /// The place until which was read, though nothing was to be shown.
    Place(String),
    /// Nothing that this version can read, and its place.
    Unreadable(String),
}

impl Client {
    /// Shows what happens: `GET /v1/events/stream`. Without a cursor from now on.
    pub fn stream(&self, query: StreamQuery) -> EventStream {
        EventStream {
            client: self.clone(),
            query,
            response: None,
            bytes: Vec::new(),
            waiting: VecDeque::new(),
            attempts: 0,
            is_over: false,
        }
    }
}

impl EventStream {
    /// Where it goes on.
    #[must_use]
    pub fn cursor(&self) -> Option<&str> {
        self.query.cursor.as_deref()
    }

    /// What comes next. A connection that breaks is made anew where it was, for as long as it takes;
    /// `None` follows an error that another attempt cannot mend, such as a key that is refused. After
    /// [`Error::Decode`], an event that cannot be read, it goes on behind it.
    pub async fn next(&mut self) -> Option<Result<Streamed, Error>> {
        loop {
            match self.waiting.pop_front() {
                Some(Shown::Streamed(shown)) => {
                    if let Streamed::Event { cursor, .. } = &shown {
                        self.query.cursor = Some(cursor.clone());
                    }
                    return Some(Ok(shown));
                }
                Some(Shown::Place(cursor)) => {
                    self.query.cursor = Some(cursor);
                    continue;
                }
                Some(Shown::Unreadable(cursor)) => {
                    self.query.cursor = Some(cursor);
                    let source = "an event that is none".into();
                    return Some(Err(Error::Decode { status: 200, request_id: None, source }));
                }
                None => {}
            }
            if self.is_over {
                return None;
            }
            if let Err(error) = self.read().await {
                self.response = None;
                self.bytes.clear();
                if !error.is_retryable() {
                    self.is_over = true;
                    return Some(Err(error));
                }
                let delay = delay(self.attempts, &error);
                self.attempts = self.attempts.saturating_add(1);
                tracing::debug!(%error, "the stream broke off; connecting again");
                tokio::time::sleep(delay).await;
            }
        }
    }

    async fn read(&mut self) -> Result<(), Error> {
        if self.response.is_none() {
            let call = Call::<()>::v1(Method::GET, &["events", "stream"]);
            let call = call.filtered::<StreamQuery>(parameters(&self.query))?;
            self.response = Some(self.client.open(&call, LIFE_MAX).await?);
        }
        let Some(response) = &mut self.response else { return Ok(()) };
        let Ok(piece) = tokio::time::timeout(SILENCE_MAX, response.chunk()).await else {
            return Err(Error::transport(self.client.base_url(), "nothing came for too long"));
        };
        let Some(piece) = piece.map_err(Error::from_transport(self.client.base_url()))? else {
            return Err(Error::transport(self.client.base_url(), "the stream ended"));
        };
        self.attempts = 0;
        self.bytes.extend_from_slice(&piece);
        while let Some(end) = self.bytes.windows(2).position(|pair| pair == b"\n\n") {
            let block: Vec<u8> = self.bytes.drain(..end + 2).collect();
            self.waiting.extend(shown(&String::from_utf8_lossy(&block)));
        }
        if self.bytes.len() > EVENT_BYTES_MAX {
            return Err(Error::transport(self.client.base_url(), "an event is too large"));
        }
        Ok(())
    }
}

fn parameters(query: &StreamQuery) -> Vec<(&'static str, String)> {
    let types: Vec<&str> = query.types.iter().map(|kind| kind.as_str()).collect();
    let types = (!types.is_empty()).then(|| ("types", types.join(",")));
    types.into_iter().chain(query.cursor.clone().map(|cursor| ("cursor", cursor))).collect()
}

/// How long to wait before it connects again.
fn delay(attempts: u32, error: &Error) -> Duration {
    let asked = error.retry_after().unwrap_or_default().min(ASKED_MAX);
    Duration::from_secs(1 << attempts.min(5)).min(DELAY_MAX).max(asked)
}

/// What a block of lines shows; comments show nothing, and a block without an event its place.
fn shown(block: &str) -> Option<Shown> {
    let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name));
    match (field("event: "), field("id: ")) {
        (Some("reset"), _) => Some(Shown::Streamed(Streamed::Reset)),
        (Some(_), Some(cursor)) => {
            let (cursor, data) = (cursor.to_owned(), field("data: ").unwrap_or_default());
            Some(match event(data) {
                Some(event) => Shown::Streamed(Streamed::Event { cursor, event }),
                None => Shown::Unreadable(cursor),
            })
        }
        (None, Some(cursor)) => Some(Shown::Place(cursor.to_owned())),
        (_, None) => None,
    }
}

/// An event. One of a known type whose data this version cannot read, as one of a type that it does
/// not know.
fn event(text: &str) -> Option<WebhookEvent> {
    #[derive(Deserialize)]
    struct Any {
        #[serde(rename = "type")]
        kind: String,
        timestamp: String,
        #[serde(default)]
        data: Value,
    }
    serde_json::from_str(text).ok().or_else(|| {
        let Any { kind, timestamp, data } = serde_json::from_str(text).ok()?;
        let timestamp = timestamp.parse::<jiff::Timestamp>().ok()?;
        let timestamp = Timestamp::from_ms(timestamp.as_millisecond());
        Some(WebhookEvent { timestamp, data: WebhookData::Other { kind, data } })
    })
}

#[cfg(test)]
mod tests;
