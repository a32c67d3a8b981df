//! The event stream of an application (`text/event-stream`), from any position in its log. It ends
//! when the client disconnects or reads too slowly, when its key is revoked or expires, when the session
//! of its operator ends, or when the server stops. A client that reconnects with the last `id` misses nothing.

use std::collections::HashMap;
use std::convert::Infallible;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::poll_fn;
use http::{HeaderName, HeaderValue, header};
use notify_core::{Query, StreamQuery, Timestamp};
use tokio::sync::mpsc;
use tokio::time::{Instant, Interval};
use tokio_util::sync::CancellationToken;
use warp::Reply;
use warp::reply::Response;

use crate::api::Api;
use crate::api::caller::ConsoleSession;
use crate::api::error::ApiError;
use crate::api::request_ctx::RequestCtx;
use crate::error_chain::error_chain;
use crate::keys::{KeyKind, key_hash};
use crate::signal::Waiter;
use crate::store::{AppNo, EventCursor, EventPage, EventTypes, STREAM_WANTED_MS, StoreError};

/// The maximum number of streams of one application.
const STREAMS_PER_APP_MAX: usize = 10;
/// The maximum number of streams of the server.
const STREAMS_MAX: usize = 500;
/// `Retry-After` when there are too many streams, in seconds.
const RETRY_SECONDS: u64 = 10;
/// The maximum number of buffered chunks of a stream. A chunk contains the events of one read of
/// the log.
const CHUNKS_BUFFERED_MAX: usize = 4;
/// How long a client may stop reading before the stream ends.
const SLOW_CLIENT_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval of comments that show that the stream is alive.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(15);
/// Interval at which a stream checks that its reader may still read, and reads the log. The stream has
/// to poll, because nothing wakes it when another server of the same database writes events.
const POLL_INTERVAL: Duration = Duration::from_secs(2);
/// Interval at which an open stream extends the retention of events, in milliseconds.
const EXTEND_RETENTION_EVERY_MS: i64 = 3_600_000;
/// Minimum time between two reads of the log. It is real time even with a manual clock, since it
/// limits the load of the machine.
const READ_INTERVAL_MIN: Duration = Duration::from_millis(50);

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const API_KEY: HeaderName = HeaderName::from_static("x-api-key");
const X_ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// All open streams.
pub(crate) struct Streams {
    open: Mutex<HashMap<AppNo, usize>>,
    stopping: CancellationToken,
}

/// The permit of one stream, released on drop.
struct StreamPermit {
    streams: Arc<Streams>,
    app: AppNo,
}

impl Streams {
    pub(crate) fn new(stopping: CancellationToken) -> Arc<Self> {
        Arc::new(Self { open: Mutex::default(), stopping })
    }

    fn acquire(self: &Arc<Self>, app: AppNo) -> Option<StreamPermit> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let total: usize = open.values().sum();
        let app_streams = open.entry(app).or_default();
        if *app_streams >= STREAMS_PER_APP_MAX || total >= STREAMS_MAX {
            return None;
        }
        *app_streams += 1;
        Some(StreamPermit { streams: self.clone(), app })
    }
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        let mut open = self.streams.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(app_streams) = open.get_mut(&self.app) {
            *app_streams -= 1;
            if *app_streams == 0 {
                open.remove(&self.app);
            }
        }
    }
}

/// Who reads a stream, which decides how long it stays open.
pub(crate) enum StreamReader {
    /// An application, by the hash of its API key.
    ApiKey([u8; 32]),
    /// An operator on a page of the console.
    #[cfg_attr(
        not(feature = "console"),
        expect(dead_code, reason = "only the console has operators")
    )]
    Operator(Arc<ConsoleSession>),
}

impl StreamReader {
    /// Whether the stream may stay open. Another server may have revoked the key or ended the session.
    async fn is_valid(&self, api: &Api) -> Result<bool, StoreError> {
        match self {
            Self::ApiKey(hash) => {
                let access = api.store.find_app_by_key(*hash).await?;
                Ok(access.is_some_and(|access| access.is_valid(api.clock.now())))
            }
            Self::Operator(session) => session.is_valid(api).await,
        }
    }

    /// The position up to which the log was read. A block without `data` dispatches no event, but its `id`
    /// is remembered (HTML standard, section 9.2.6). A page of the console gets an event, because its script
    /// closes the stream while the page is hidden, and cannot read the remembered id.
    fn position(&self, cursor: &str) -> String {
        match self {
            Self::ApiKey(_) => format!(":\nid: {cursor}\n\n"),
            Self::Operator(_) => format!("id: {cursor}\nevent: position\ndata: {{}}\n\n"),
        }
    }
}

/// `GET /v1/events/stream`.
pub(crate) async fn stream(ctx: RequestCtx) -> Result<Response, ApiError> {
    let api_key = ctx.headers().get(&API_KEY).and_then(|value| value.to_str().ok());
    let key_hash =
        api_key.and_then(|key| key_hash(KeyKind::Api, key)).ok_or(ApiError::Unauthorized)?;
    open(&ctx, ctx.app_no(), StreamReader::ApiKey(key_hash)).await
}

/// Opens a stream of an application, with the query and the `Last-Event-ID` of the request.
///
/// # Errors
/// 400 for an invalid query, 429 if there are too many streams.
pub(crate) async fn open(
    ctx: &RequestCtx,
    app: AppNo,
    reader: StreamReader,
) -> Result<Response, ApiError> {
    let query = StreamQuery::parse(&ctx.query()?, ctx.received_at)?;
    let last_id = ctx.headers().get(&LAST_EVENT_ID).map(HeaderValue::as_bytes);
    // An id that is no cursor is an unknown position, whatever its bytes are.
    let last_id = last_id.map(|id| String::from_utf8_lossy(id).into_owned());
    let cursor = [last_id, query.cursor].into_iter().flatten().find(|cursor| !cursor.is_empty());
    let api = ctx.api.clone();
    let permit = api
        .streams
        .acquire(app)
        .ok_or(ApiError::RateLimited { retry_after_seconds: RETRY_SECONDS })?;
    api.store
        .keep_events_until(app, ctx.received_at.plus_ms(STREAM_WANTED_MS), ctx.received_at)
        .await?;
    let from = cursor.map_or(EventCursor::End, EventCursor::After);
    let types = EventTypes::of(&query.types);
    // The subscription starts before the first read, so that no event written after the read is
    // missed.
    let events_written = api.webhooks.notifier().subscribe(app);
    // The first read precedes the head of the response, so that its error has a status.
    let first = api.store.read_events(app, from, types).await?;
    let (sender, mut chunks) = mpsc::channel::<Bytes>(CHUNKS_BUFFERED_MAX);
    let extend_at = ctx.received_at.plus_ms(EXTEND_RETENTION_EVERY_MS);
    let stream =
        EventStream { api, app, reader, types, sender, events_written, extend_at, _permit: permit };
    tokio::spawn(stream.run(first));
    let chunks = poll_fn(move |cx| chunks.poll_recv(cx)).map(Ok::<_, Infallible>);
    let mut response = warp::reply::stream(chunks).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    // No proxy may hold the events back: `no-transform` keeps proxies from compressing them, and nginx
    // does not buffer a response with `X-Accel-Buffering: no`.
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store, no-transform"));
    headers.insert(X_ACCEL_BUFFERING, HeaderValue::from_static("no"));
    Ok(response)
}

/// One open stream.
struct EventStream {
    api: Arc<Api>,
    app: AppNo,
    reader: StreamReader,
    types: EventTypes,
    sender: mpsc::Sender<Bytes>,
    /// Wakes the stream when this server has written events.
    events_written: Waiter,
    /// The time of the next extension of the retention of events.
    extend_at: Timestamp,
    _permit: StreamPermit,
}

/// The intervals of a stream.
struct Intervals {
    heartbeat: Interval,
    poll: Interval,
}

impl EventStream {
    async fn run(mut self, first: EventPage) {
        let (stopping, sender) = (self.api.streams.stopping.clone(), self.sender.clone());
        tokio::select! {
            () = stopping.cancelled() => {}
            () = sender.closed() => {}
            result = self.send_events(first) => match result {
                // `NotFound`: the application was deleted.
                Ok(()) | Err(StoreError::NotFound) => {}
                Err(error) => {
                    tracing::warn!(cause = error_chain(&error), "event stream ended: storage failed");
                }
            },
        }
    }

    /// Sends events until the reader is no longer valid or reads too slowly.
    async fn send_events(&mut self, first: EventPage) -> Result<(), StoreError> {
        let now = Instant::now();
        let mut intervals = Intervals {
            heartbeat: tokio::time::interval_at(now + HEARTBEAT_INTERVAL, HEARTBEAT_INTERVAL),
            poll: tokio::time::interval_at(now + POLL_INTERVAL, POLL_INTERVAL),
        };
        let mut page = first;
        // The position is sent at once, so that a client that disconnects before the first event
        // can continue from there.
        let mut text = sse_events(&page) + &self.reader.position(&page.cursor);
        loop {
            if !text.is_empty() && !self.send(text).await {
                return Ok(());
            }
            let read_at = Instant::now();
            if !page.more && !self.wait(&mut intervals, &page.cursor).await? {
                return Ok(());
            }
            tokio::time::sleep_until(read_at + READ_INTERVAL_MIN).await;
            // `wait` checks the reader too, but it is not called while there are more events to read.
            if page.more && !self.reader.is_valid(&self.api).await? {
                return Ok(());
            }
            let from = EventCursor::After(page.cursor);
            page = self.api.store.read_events(self.app, from, self.types).await?;
            text = sse_events(&page);
            if text.is_empty() && page.more {
                // Shows progress through many events of other types.
                text = self.reader.position(&page.cursor);
            }
        }
    }

    /// Waits until it is time to read, and sends heartbeats in the meantime. Returns false when the
    /// stream has to end.
    async fn wait(&mut self, intervals: &mut Intervals, cursor: &str) -> Result<bool, StoreError> {
        loop {
            tokio::select! {
                () = self.events_written.changed() => return Ok(true),
                _ = intervals.heartbeat.tick() => {
                    if !self.send(self.reader.position(cursor)).await {
                        return Ok(false);
                    }
                    self.extend_retention().await?;
                }
                _ = intervals.poll.tick() => return self.reader.is_valid(&self.api).await,
            }
        }
    }

    /// Extends the retention of events if it is due.
    async fn extend_retention(&mut self) -> Result<(), StoreError> {
        let now = self.api.clock.now();
        if now < self.extend_at {
            return Ok(());
        }
        self.extend_at = now.plus_ms(EXTEND_RETENTION_EVERY_MS);
        self.api.store.keep_events_until(self.app, now.plus_ms(STREAM_WANTED_MS), now).await
    }

    /// Sends a chunk. Returns false when the client reads too slowly or has disconnected.
    async fn send(&self, text: String) -> bool {
        self.sender.send_timeout(text.into(), SLOW_CLIENT_TIMEOUT).await.is_ok()
    }
}

/// A part of the log as server-sent events.
fn sse_events(page: &EventPage) -> String {
    let mut text = String::new();
    if page.reset {
        text.push_str("event: reset\ndata: {\"type\":\"reset\"}\n\n");
    }
    for event in &page.events {
        let body = crate::webhooks::body(event.at, event.data.clone());
        let body = String::from_utf8_lossy(&body);
        let (cursor, kind) = (&event.cursor, event.data.kind());
        // JSON in this form contains no line breaks.
        let _ = write!(text, "id: {cursor}\nevent: {kind}\ndata: {body}\n\n");
    }
    text
}
