//! The event stream: `text/event-stream` of an application, from any place in its log on. It lasts
//! until its reader goes, is too slow, loses its key, or the server stops; whoever comes back with
//! the last `id` misses nothing.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, header};
use notify_core::{AppStatus, Query, StreamQuery, Timestamp};
use tokio::sync::mpsc;
use tokio::time::{Instant, Interval};
use tokio_util::sync::CancellationToken;

use crate::api::Api;
use crate::api::error::ApiError;
use crate::api::request_ctx::Ctx;
use crate::causes::with_causes;
use crate::changes::Heard;
use crate::keys::{KeyKind, key_hash};
use crate::store::{AppNo, EventSlice, EventTypes, ReadFrom, STREAM_WANTED_MS, StoreError};

/// Most streams of one application, and of the server.
const STREAMS_PER_APP_MAX: usize = 10;
const STREAMS_MAX: usize = 500;
/// When who found no place may come again, in seconds.
const RETRY_SECONDS: u64 = 10;
/// Chunks that wait for a reader; each holds at most one read of the log.
const CHUNKS_WAITING_MAX: usize = 4;
/// How long a reader may take nothing before it is cut.
const SLOW_READER_WAIT: Duration = Duration::from_secs(10);
/// Time between two comments that show that the stream lives.
const HEARTBEAT_EVERY: Duration = Duration::from_secs(15);
/// Time between two looks whether the key still opens the application, and whether another server of
/// the same database wrote something: of that nobody here is told.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// How often a stream that lives has its application's events kept on, in milliseconds.
const WANTED_EVERY_MS: i64 = 3_600_000;
/// Least time between two reads of the log. Real time: it paces the machine.
const READ_EVERY: Duration = Duration::from_millis(50);

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// The streams that are open.
pub(crate) struct Streams {
    open: Mutex<HashMap<AppNo, usize>>,
    stopping: CancellationToken,
}

/// A stream's place among the open ones; given back when it is dropped.
struct Place(Arc<Streams>, AppNo);

impl Streams {
    pub(crate) fn new(stopping: CancellationToken) -> Arc<Self> {
        Arc::new(Self { open: Mutex::default(), stopping })
    }

    fn take(self: &Arc<Self>, app: AppNo) -> Option<Place> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let all: usize = open.values().sum();
        let its = open.entry(app).or_default();
        if *its >= STREAMS_PER_APP_MAX || all >= STREAMS_MAX {
            return None;
        }
        *its += 1;
        Some(Place(self.clone(), app))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.0.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(its) = open.get_mut(&self.1) {
            *its -= 1;
            if *its == 0 {
                open.remove(&self.1);
            }
        }
    }
}

/// The rest of an answer that comes in pieces; the front takes it out of the extensions.
#[derive(Clone)]
pub(crate) struct Rest(Arc<Mutex<Option<mpsc::Receiver<Bytes>>>>);

impl Rest {
    /// The pieces, once.
    pub(crate) fn take(&self) -> Option<mpsc::Receiver<Bytes>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// `GET /v1/events/stream`.
pub(crate) async fn stream(ctx: Ctx) -> http::Response<Bytes> {
    open(&ctx).await.unwrap_or_else(ApiError::into_response)
}

async fn open(ctx: &Ctx) -> Result<http::Response<Bytes>, ApiError> {
    let query = StreamQuery::parse(&ctx.query()?, ctx.at())?;
    let last = ctx.header(&LAST_EVENT_ID).map(HeaderValue::to_str).transpose();
    let last = last.map_err(|_| ApiError::invalid("Last-Event-ID", "must be visible ASCII"))?;
    let cursor = last.filter(|last| !last.is_empty()).map(str::to_owned).or(query.cursor);
    let key = ctx.header(&API_KEY).and_then(|key| key.to_str().ok());
    let key = key.and_then(|key| key_hash(KeyKind::Api, key)).ok_or(ApiError::Unauthorized)?;
    let (api, app) = (ctx.api().clone(), ctx.app_no());
    let place = api.streams.take(app);
    let place = place.ok_or(ApiError::RateLimited { retry_after_seconds: RETRY_SECONDS })?;
    api.store.want_events(app, ctx.at().plus_ms(STREAM_WANTED_MS), ctx.at()).await?;
    let from = cursor.map_or(ReadFrom::End, ReadFrom::After);
    let types = EventTypes::of(&query.types);
    // Before the first read: what is written after it is heard of.
    let happened = api.webhooks.happened().subscribe(app);
    // Read before the head, so that a cursor which is none is refused with 400.
    let first = api.store.read_events(app, from, types).await?;
    let (pieces, rest) = mpsc::channel(CHUNKS_WAITING_MAX);
    let wanted_again_at = ctx.at().plus_ms(WANTED_EVERY_MS);
    let reader = Reader { api, app, key, types, pieces, happened, wanted_again_at, _place: place };
    tokio::spawn(reader.run(first));
    let mut response = http::Response::new(Bytes::new());
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response.extensions_mut().insert(Rest(Arc::new(Mutex::new(Some(rest)))));
    Ok(response)
}

/// One stream.
struct Reader {
    api: Arc<Api>,
    app: AppNo,
    key: [u8; 32],
    types: EventTypes,
    pieces: mpsc::Sender<Bytes>,
    happened: Heard,
    wanted_again_at: Timestamp,
    _place: Place,
}

/// What a stream does from time to time.
struct Beats {
    alive: Interval,
    look: Interval,
}

impl Reader {
    async fn run(mut self, first: EventSlice) {
        let (stopping, pieces) = (self.api.streams.stopping.clone(), self.pieces.clone());
        tokio::select! {
            () = stopping.cancelled() => {}
            () = pieces.closed() => {}
            ended = self.tell(first) => if let Err(error) = ended {
                tracing::warn!(cause = with_causes(&error), "a stream ended: storage failed");
            },
        }
    }

    /// Tells until the key is revoked or the reader does not keep up.
    async fn tell(&mut self, first: EventSlice) -> Result<(), StoreError> {
        let now = Instant::now();
        let mut beats = Beats {
            alive: tokio::time::interval_at(now + HEARTBEAT_EVERY, HEARTBEAT_EVERY),
            look: tokio::time::interval_at(now + LOOK_EVERY, LOOK_EVERY),
        };
        let mut slice = first;
        // Who breaks off before the first event knows where it was.
        let mut text = shown(&slice) + &place(&slice.cursor);
        loop {
            if !text.is_empty() && !self.send(text).await {
                return Ok(());
            }
            let read_at = Instant::now();
            if !slice.more && !self.wait(&mut beats, &slice.cursor).await? {
                return Ok(());
            }
            tokio::time::sleep_until(read_at + READ_EVERY).await;
            if slice.more && !self.is_open().await? {
                return Ok(());
            }
            let from = ReadFrom::After(slice.cursor);
            slice = self.api.store.read_events(self.app, from, self.types).await?;
            text = shown(&slice);
            if text.is_empty() && slice.more {
                // A long way through events of other types shows that it goes on.
                text = place(&slice.cursor);
            }
        }
    }

    /// Waits until it is time to read, and shows meanwhile that the stream lives; false when it does
    /// not any more.
    async fn wait(&mut self, beats: &mut Beats, cursor: &str) -> Result<bool, StoreError> {
        loop {
            tokio::select! {
                () = self.happened.changed() => return Ok(true),
                _ = beats.alive.tick() => {
                    if !self.send(place(cursor)).await {
                        return Ok(false);
                    }
                    self.want().await?;
                }
                _ = beats.look.tick() => return self.is_open().await,
            }
        }
    }

    /// Has events kept on, where it is time to.
    async fn want(&mut self) -> Result<(), StoreError> {
        let now = self.api.clock.now();
        if now < self.wanted_again_at {
            return Ok(());
        }
        self.wanted_again_at = now.plus_ms(WANTED_EVERY_MS);
        self.api.store.want_events(self.app, now.plus_ms(STREAM_WANTED_MS), now).await
    }

    /// Whether the key still opens the application, whoever revoked it.
    async fn is_open(&self) -> Result<bool, StoreError> {
        let access = self.api.store.open_with_key(self.key).await?;
        Ok(access.is_some_and(|access| access.app.status == AppStatus::Active))
    }

    /// Hands a piece on; false when the reader takes none.
    async fn send(&self, text: String) -> bool {
        self.pieces.send_timeout(text.into(), SLOW_READER_WAIT).await.is_ok()
    }
}

/// A comment with the place until which was read. By the standard of server-sent events a block without
/// `data` dispatches nothing, and its `id` counts.
fn place(cursor: &str) -> String {
    format!(":\nid: {cursor}\n\n")
}

/// A part of the log as the stream shows it.
fn shown(slice: &EventSlice) -> String {
    let mut text = String::new();
    if slice.reset {
        text.push_str("event: reset\ndata: {\"type\":\"reset\"}\n\n");
    }
    for event in &slice.events {
        let body = crate::webhooks::body(event.at, event.data.clone());
        let body = String::from_utf8_lossy(&body);
        let (cursor, kind) = (&event.cursor, event.data.kind());
        // JSON has no line ends of its own.
        let _ = write!(text, "id: {cursor}\nevent: {kind}\ndata: {body}\n\n");
    }
    text
}
