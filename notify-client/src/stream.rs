//! The event stream. After an interruption, it reconnects and continues after the last event.

mod blocks;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;

use std::collections::VecDeque;
use std::time::Duration;

use notify_core::{StreamQuery, WebhookEvent};
use reqwest::Method;

use self::blocks::{Block, BlockReader, TooLarge};
use crate::{Client, Error, call::Call};

/// Longest silence of a connection before it is reopened. The server sends at least its position every 15
/// seconds.
const IDLE_TIMEOUT: Duration = Duration::from_secs(45);
/// Longest `Retry-After` that a reconnection honours.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(3_600);
/// Longest delay before a reconnection without `Retry-After`.
const DELAY_MAX: Duration = Duration::from_secs(30);
/// Largest block, in bytes. Events of the server are smaller than 20 kB.
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
        /// The position after this event, for the field `cursor` of a [`StreamQuery`].
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
#[must_use = "no request is sent before `next` or `connect`"]
pub struct EventStream {
    client: Client,
    query: StreamQuery,
    /// The JSON of the last event that `next` returned.
    body: Option<String>,
    on_interruption: InterruptionObserver,
    response: Option<reqwest::Response>,
    reader: BlockReader,
    /// Parsed blocks that `next` has not processed yet.
    blocks: VecDeque<Block>,
    /// The number of interruptions since bytes were last received.
    failures: u32,
    has_ended: bool,
}

/// The function that a user of the stream registered for interruptions, if any.
#[derive(Default)]
struct InterruptionObserver(Option<OnInterruption>);

/// Gets the cause of an interruption, and the delay until the stream connects again.
type OnInterruption = Box<dyn FnMut(&Error, Duration) + Send + Sync>;

impl std::fmt::Debug for InterruptionObserver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("InterruptionObserver").field(&self.0.is_some()).finish()
    }
}

impl Client {
    /// Streams events: `GET /v1/events/stream`. Without a cursor, it starts with the next event.
    pub fn stream(&self, query: StreamQuery) -> EventStream {
        EventStream {
            client: self.clone(),
            query,
            body: None,
            on_interruption: InterruptionObserver::default(),
            response: None,
            reader: BlockReader::new(EVENT_BYTES_MAX),
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

    /// The JSON of the last event that [`Self::next`] returned, byte by byte as the server sent it. It is
    /// the body of the message that a webhook gets for this event.
    #[must_use]
    pub fn body(&self) -> Option<&str> {
        self.body.as_deref()
    }

    /// Calls `observer` at each interruption, with its cause and the delay before the stream connects again.
    /// Without an observer, interruptions pass unnoticed.
    pub fn on_interruption(
        mut self,
        observer: impl FnMut(&Error, Duration) + Send + Sync + 'static,
    ) -> Self {
        self.on_interruption = InterruptionObserver(Some(Box::new(observer)));
        self
    }

    /// Connects, and waits for the position of the stream. A stream without a cursor contains every event
    /// after this call returns. Without this call, the first [`Self::next`] connects.
    ///
    /// # Errors
    /// An error that a retry cannot fix. The stream has then ended.
    pub async fn connect(&mut self) -> Result<(), Error> {
        while self.blocks.is_empty() && !self.has_ended {
            self.receive_or_wait().await?;
        }
        Ok(())
    }

    /// Returns the next item. A lost connection is reopened at the last cursor, without a limit on the
    /// number of attempts. After an error that a retry cannot fix, such as a rejected key, the stream
    /// ends with `None`. After [`Error::Decode`], which is an event that cannot be decoded, the stream
    /// continues with the event after it.
    pub async fn next(&mut self) -> Option<Result<StreamItem, Error>> {
        loop {
            match self.blocks.pop_front() {
                Some(Block::Event { cursor, event, body }) => {
                    self.query.cursor = Some(cursor.clone());
                    self.body = Some(body);
                    return Some(Ok(StreamItem::Event { cursor, event }));
                }
                Some(Block::Reset) => return Some(Ok(StreamItem::Reset)),
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
            if let Err(error) = self.receive_or_wait().await {
                return Some(Err(error));
            }
        }
    }

    /// Receives bytes. After a failure, waits until the stream may connect again, or ends the stream.
    async fn receive_or_wait(&mut self) -> Result<(), Error> {
        let Err(error) = self.receive().await else { return Ok(()) };
        self.response = None;
        self.reader = BlockReader::new(EVENT_BYTES_MAX);
        if !error.is_retryable() {
            self.has_ended = true;
            return Err(error);
        }
        let delay = reconnect_delay(self.failures, &error);
        self.failures = self.failures.saturating_add(1);
        tracing::debug!(%error, "the stream was interrupted; reconnecting");
        if let Some(observer) = &mut self.on_interruption.0 {
            observer(&error, delay);
        }
        tokio::time::sleep(delay).await;
        Ok(())
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
        let read = self.reader.read(&chunk, &mut self.blocks);
        read.map_err(|TooLarge| Error::transport(base, "an event is too large"))
    }
}

/// The delay before the stream connects again, after `failures` earlier interruptions and this error.
fn reconnect_delay(failures: u32, error: &Error) -> Duration {
    let retry_after = error.retry_after().unwrap_or_default().min(RETRY_AFTER_MAX);
    Duration::from_secs(1 << failures.min(5)).min(DELAY_MAX).max(retry_after)
}

#[cfg(test)]
mod tests;
