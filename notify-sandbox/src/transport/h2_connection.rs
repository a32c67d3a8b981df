//! One HTTP/2 connection: its stream limit, its streams, and the faults that only HTTP/2 has.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::{Bytes, BytesMut};
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use h2::server::{Builder, SendResponse};
use h2::{Reason, RecvStream, SendStream};
use http::{Request, Response};
use tokio::io::{AsyncRead, AsyncWrite};

use super::HANDSHAKE_TIMEOUT;
use super::wire::{Wire, tap};
use crate::sandbox::dress::Tail;
use crate::sandbox::exchange::{
    BODY_BYTES_MAX, Call, Deed, Peer, StreamLimit, Verdict, exchange, starts_unlimited,
};
use crate::sandbox::scene::Scene;

/// The most that a client may be allowed to send ahead (RFC 9113 section 6.9.1).
const WINDOW_BYTES_MAX: u32 = (1 << 31) - 1;

/// Bytes a client may send ahead on all streams together.
const CONNECTION_WINDOW_BYTES: u32 = 1 << 24;

/// Streams that we reset and whose late frames are still put up with.
const RESET_STREAMS_MAX: usize = 10_000;

/// What a finished exchange asks of its connection.
enum After {
    Limit(StreamLimit),
    /// The script wants `GOAWAY` in the place of the answer of `stream`.
    Goaway {
        stream: u32,
        last: Option<u32>,
        reason: String,
        respond: SendResponse<Bytes>,
    },
    /// It came above the last stream of a `GOAWAY` that was sent before its turn came.
    Unprocessed(SendResponse<Bytes>),
    Cut,
}

/// The last stream before any `GOAWAY`.
const STREAM_MAX: u32 = u32::MAX;

/// Serves until the client leaves or a fault ends it.
pub(super) async fn serve<S>(scene: Arc<Scene>, number: u64, stream: S)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut settings = scene.settings.subscribe();
    let (tapped, wire) = tap(stream);
    let window = {
        let settings = settings.borrow_and_update();
        wire.announce_streams(settings.max_concurrent_streams_at_start);
        settings.stream_window_bytes
    };
    let handshake = Builder::new()
        .initial_window_size(window.min(WINDOW_BYTES_MAX))
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_concurrent_reset_streams(RESET_STREAMS_MAX)
        .handshake(tapped);
    let handshake = tokio::time::timeout(HANDSHAKE_TIMEOUT, handshake);
    let Ok(Ok(mut connection)) = handshake.await else { return };
    let mut streams = Streams::new(scene, number, wire);
    loop {
        tokio::select! {
            // What is finished first: its answers then go out in one write.
            biased;
            Some(after) = streams.open.next(), if !streams.open.is_empty() => {
                if !streams.finish(after) {
                    return;
                }
            }
            Ok(()) = settings.changed() => streams.settings_changed(),
            accepted = connection.accept() => match accepted {
                Some(Ok((request, respond))) => {
                    // A stream that was reset just before this one came leaves its room to it.
                    while let Some(Some(after)) = streams.open.next().now_or_never() {
                        if !streams.finish(after) {
                            return;
                        }
                    }
                    streams.take(request, respond);
                }
                Some(Err(_)) | None => return,
            },
        }
    }
}

/// The streams of a connection.
struct Streams {
    scene: Arc<Scene>,
    peer: Arc<Peer>,
    wire: Wire,
    open: FuturesUnordered<BoxFuture<'static, After>>,
    is_proved: bool,
    announced: u32,
    /// The last stream that is processed; a `GOAWAY` lowers it, for streams that are open, too.
    last: Arc<AtomicU32>,
    /// Streams that are neither answered nor reset; dropping their handles would reset them.
    unanswered: Vec<SendResponse<Bytes>>,
}

impl Streams {
    fn new(scene: Arc<Scene>, number: u64, wire: Wire) -> Self {
        let announced = scene.settings.borrow().max_concurrent_streams_at_start;
        Self {
            scene,
            peer: Arc::new(Peer::new(number)),
            wire,
            open: FuturesUnordered::new(),
            is_proved: false,
            announced,
            last: Arc::new(AtomicU32::new(STREAM_MAX)),
            unanswered: Vec::new(),
        }
    }

    fn take(&mut self, request: Request<RecvStream>, mut respond: SendResponse<Bytes>) {
        let stream = respond.stream_id().as_u32();
        if stream > self.last.load(Ordering::Relaxed) {
            self.unanswered.push(respond);
            return;
        }
        let limit = self.wire.acknowledged_streams().unwrap_or(u32::MAX);
        if self.open.len() >= usize::try_from(limit).unwrap_or(usize::MAX) {
            self.scene.journal.stream_refused();
            respond.send_reset(Reason::REFUSED_STREAM);
            return;
        }
        let (head, body) = request.into_parts();
        if stream == 1 && starts_unlimited(&head) {
            self.limit(StreamLimit::Raise);
        }
        let (scene, peer) = (Arc::clone(&self.scene), Arc::clone(&self.peer));
        let last = Arc::clone(&self.last);
        self.open.push(Box::pin(async move {
            let Ok(body) = read(body).await else { return After::Limit(StreamLimit::Keep) };
            if stream > last.load(Ordering::Relaxed) {
                return After::Unprocessed(respond);
            }
            let call = Call { head, body, stream };
            let verdict = exchange(&scene, &peer, &call);
            act(&scene, verdict, stream, respond).await
        }));
    }

    /// Does what a finished exchange asks; false when the connection ends.
    fn finish(&mut self, after: After) -> bool {
        match after {
            After::Limit(limit) => self.limit(limit),
            After::Cut => return false,
            After::Unprocessed(respond) => self.unanswered.push(respond),
            After::Goaway { stream, last, reason, mut respond } => {
                // Without a wish: streams already processed stay processed, this one is not.
                let processed = self.peer.processed();
                if last.is_none() && stream <= processed {
                    respond.send_reset(Reason::REFUSED_STREAM);
                } else {
                    self.unanswered.push(respond);
                }
                let last = last.unwrap_or(processed);
                let debug = serde_json::json!({ "reason": reason }).to_string().into_bytes();
                let before = self.last.fetch_min(last, Ordering::Relaxed);
                // A later GOAWAY must not raise it again (RFC 9113 section 6.8).
                self.wire.goaway(last.min(before), debug);
            }
        }
        true
    }

    fn limit(&mut self, limit: StreamLimit) {
        match limit {
            StreamLimit::Keep => return,
            StreamLimit::Raise => self.is_proved = true,
            StreamLimit::Lower => self.is_proved = false,
        }
        self.settings_changed();
    }

    fn settings_changed(&mut self) {
        let wanted = {
            let settings = self.scene.settings.borrow();
            if self.is_proved {
                settings.max_concurrent_streams
            } else {
                settings.max_concurrent_streams_at_start
            }
        };
        if wanted != self.announced {
            self.announced = wanted;
            self.wire.announce_streams(wanted);
        }
    }
}

async fn act(
    scene: &Scene,
    verdict: Verdict,
    stream: u32,
    mut respond: SendResponse<Bytes>,
) -> After {
    if verdict.delay_ms > 0 {
        tokio::select! {
            () = scene.wait_ms(verdict.delay_ms) => {}
            () = given_up(&mut respond) => return After::Limit(StreamLimit::Keep),
        }
    }
    match verdict.deed {
        // A client that has given up meanwhile misses nothing.
        Deed::Answer(response) => {
            let sent = send(&mut respond, response, verdict.tail.bytes == 0);
            if let Ok(Some(stream)) = sent {
                pour(scene, stream, verdict.tail).await;
            }
        }
        Deed::Silence => given_up(&mut respond).await,
        Deed::Reset => respond.send_reset(Reason::INTERNAL_ERROR),
        Deed::Refuse => respond.send_reset(Reason::REFUSED_STREAM),
        Deed::Goaway { last, reason } => return After::Goaway { stream, last, reason, respond },
        Deed::Cut => return After::Cut,
    }
    After::Limit(verdict.limit)
}

/// Returns when the client resets the stream or the connection ends.
async fn given_up(respond: &mut SendResponse<Bytes>) {
    let _ = poll_fn(|cx| respond.poll_reset(cx)).await;
}

/// Sends a response; gives its stream where more is to come.
fn send(
    respond: &mut SendResponse<Bytes>,
    response: Response<Bytes>,
    ends: bool,
) -> Result<Option<SendStream<Bytes>>, h2::Error> {
    let (head, body) = response.into_parts();
    let head = Response::from_parts(head, ());
    let mut stream = respond.send_response(head, ends && body.is_empty())?;
    if !body.is_empty() {
        stream.send_data(body, ends)?;
    }
    Ok((!ends).then_some(stream))
}

/// Sends what comes after a body, as slowly as is wanted and as the client takes it.
async fn pour(scene: &Scene, mut stream: SendStream<Bytes>, mut tail: Tail) {
    while tail.bytes > 0 {
        if tail.every_ms > 0 {
            tokio::select! {
                () = scene.wait_ms(tail.every_ms) => {}
                _ = poll_fn(|cx| stream.poll_reset(cx)) => return,
            }
        }
        stream.reserve_capacity(tail.next_bytes());
        let Some(Ok(room)) = poll_fn(|cx| stream.poll_capacity(cx)).await else { return };
        let piece = tail.take(room);
        if stream.send_data(piece, tail.bytes == 0).is_err() {
            return;
        }
    }
}

/// Reads a body to its end, or to its limit.
async fn read(mut body: RecvStream) -> Result<Bytes, h2::Error> {
    let mut whole = BytesMut::new();
    while let Some(chunk) = body.data().await {
        let chunk = chunk?;
        body.flow_control().release_capacity(chunk.len())?;
        if whole.is_empty() && body.is_end_stream() {
            return Ok(chunk);
        }
        whole.extend_from_slice(&chunk);
        if whole.len() > BODY_BYTES_MAX {
            break;
        }
    }
    Ok(whole.freeze())
}
