//! The event stream, read for as long as the caller likes: it connects again where it was.

use std::collections::VecDeque;
use std::time::Duration;

use notify_core::{StreamQuery, WebhookEvent};
use reqwest::Method;

use crate::{Client, Error, call::Call};

/// How long nothing may come: the server sends a comment every 15 seconds.
const SILENCE_MAX: Duration = Duration::from_secs(45);
/// Longest wait before it connects again.
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
    waiting: VecDeque<Streamed>,
    /// Attempts to connect since something came.
    attempts: u32,
    is_over: bool,
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
    /// `None` follows an error that another attempt cannot mend, such as a key that is refused.
    pub async fn next(&mut self) -> Option<Result<Streamed, Error>> {
        loop {
            if let Some(shown) = self.waiting.pop_front() {
                if let Streamed::Event { cursor, .. } = &shown {
                    self.query.cursor = Some(cursor.clone());
                }
                return Some(Ok(shown));
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
                let delay = Duration::from_secs(1 << self.attempts.min(5)).min(DELAY_MAX);
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
            return Err(Error::Transport("nothing came for too long".into()));
        };
        let Some(piece) = piece.map_err(Error::from_transport)? else {
            return Err(Error::Transport("the stream ended".into()));
        };
        self.attempts = 0;
        self.bytes.extend_from_slice(&piece);
        while let Some(end) = self.bytes.windows(2).position(|pair| pair == b"\n\n") {
            let block: Vec<u8> = self.bytes.drain(..end + 2).collect();
            self.waiting.extend(shown(&String::from_utf8_lossy(&block)));
        }
        if self.bytes.len() > EVENT_BYTES_MAX {
            return Err(Error::Transport("an event is too large".into()));
        }
        Ok(())
    }
}

fn parameters(query: &StreamQuery) -> Vec<(&'static str, String)> {
    let types: Vec<&str> = query.types.iter().map(|kind| kind.as_str()).collect();
    let types = (!types.is_empty()).then(|| ("types", types.join(",")));
    types.into_iter().chain(query.cursor.clone().map(|cursor| ("cursor", cursor))).collect()
}

/// What a block of lines shows; comments and what cannot be read show nothing.
fn shown(block: &str) -> Option<Streamed> {
    let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name));
    match (field("event: ")?, field("id: ")) {
        ("reset", _) => Some(Streamed::Reset),
        (_, Some(cursor)) => {
            let event = serde_json::from_str(field("data: ")?).ok()?;
            Some(Streamed::Event { cursor: cursor.to_owned(), event })
        }
        (_, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_events_resets_or_nothing() {
        let event = "id: c1\nevent: webhook.test\ndata: {\"type\":\"x.y\",\
            \"timestamp\":\"2026-01-02T03:04:05Z\",\"data\":{}}\n\n";
        let Some(Streamed::Event { cursor, event }) = shown(event) else { panic!("an event") };
        assert_eq!((cursor.as_str(), event.data.kind()), ("c1", "x.y"));
        assert_eq!(shown("event: reset\ndata: {}\n\n"), Some(Streamed::Reset));
        for block in [": \n\n", "id: c1\n\n", "id: c1\nevent: x\ndata: {\n\n"] {
            assert_eq!(shown(block), None, "{block}");
        }
    }
}
