//! An HTTP/2 connection: its stream limit, its streams, and the faults of HTTP/2.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::{Bytes, BytesMut};
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use h2::server::{Builder, SendResponse};
use h2::{Reason, RecvStream, SendStream};
use http::Response;
use tokio::io::{AsyncRead, AsyncWrite};

use super::HANDSHAKE_TIMEOUT;
use super::frame_filter::{FrameInjector, filter};
use crate::handler::{
    ConnState, Context, Reaction, Request, StreamLimit, TransportAction, handle,
    skips_initial_stream_limit,
};
use crate::rules::TrailingBytes;
use crate::state::SandboxState;

/// The largest flow-control window (RFC 9113 section 6.9.1).
const WINDOW_BYTES_MAX: u32 = (1 << 31) - 1;

/// The flow-control window of a connection, in bytes.
const CONNECTION_WINDOW_BYTES: u32 = 1 << 24;

/// The number of reset streams whose late frames are tolerated.
const RESET_STREAMS_MAX: usize = 10_000;

/// What the connection does after a request.
enum Completion {
    ChangeLimit(StreamLimit),
    /// Sends `GOAWAY` in place of the response on `stream`.
    Goaway {
        stream: u32,
        last: Option<u32>,
        reason: String,
        respond: SendResponse<Bytes>,
    },
    /// Keeps the stream without a response: a `GOAWAY` excluded it before it was processed.
    Unprocessed(SendResponse<Bytes>),
    /// Closes the connection.
    Cut,
}

/// The last stream to process before the connection sends a `GOAWAY`: there is no limit.
const STREAM_MAX: u32 = u32::MAX;

/// Serves a connection until the client leaves or a fault ends it.
pub(super) async fn serve<S>(state: Arc<SandboxState>, number: u64, stream: S)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut settings = state.settings.subscribe();
    let (filtered, injector) = filter(stream);
    let window = {
        let settings = settings.borrow_and_update();
        injector.announce_streams(settings.max_concurrent_streams_at_start);
        settings.stream_window_bytes
    };
    let handshake = Builder::new()
        .initial_window_size(window.min(WINDOW_BYTES_MAX))
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_concurrent_reset_streams(RESET_STREAMS_MAX)
        .handshake(filtered);
    let handshake = tokio::time::timeout(HANDSHAKE_TIMEOUT, handshake);
    let Ok(Ok(mut connection)) = handshake.await else { return };
    let mut streams = Streams::new(state, number, injector);
    loop {
        tokio::select! {
            // Finished requests first, so that their responses go out in one write.
            biased;
            Some(completion) = streams.open.next(), if !streams.open.is_empty() => {
                if !streams.finish(completion) {
                    return;
                }
            }
            Ok(()) = settings.changed() => streams.announce_limit(),
            accepted = connection.accept() => match accepted {
                Some(Ok((request, respond))) => {
                    // A stream that the client has just reset does not count against the limit.
                    while let Some(Some(completion)) = streams.open.next().now_or_never() {
                        if !streams.finish(completion) {
                            return;
                        }
                    }
                    streams.accept(request, respond);
                }
                Some(Err(_)) | None => return,
            },
        }
    }
}

/// The streams of a connection.
struct Streams {
    state: Arc<SandboxState>,
    conn: Arc<ConnState>,
    injector: FrameInjector,
    open: FuturesUnordered<BoxFuture<'static, Completion>>,
    /// Whether the full stream limit applies instead of the initial one.
    has_full_limit: bool,
    /// The stream limit that was announced last.
    announced: u32,
    /// The last stream to process. A `GOAWAY` lowers it, which also affects open streams.
    last: Arc<AtomicU32>,
    /// The handles of streams that get neither a response nor a reset. Dropping a handle would reset
    /// its stream.
    unanswered: Vec<SendResponse<Bytes>>,
}

impl Streams {
    fn new(state: Arc<SandboxState>, number: u64, injector: FrameInjector) -> Self {
        let announced = state.settings.borrow().max_concurrent_streams_at_start;
        Self {
            state,
            conn: Arc::new(ConnState::new(number)),
            injector,
            open: FuturesUnordered::new(),
            has_full_limit: false,
            announced,
            last: Arc::new(AtomicU32::new(STREAM_MAX)),
            unanswered: Vec::new(),
        }
    }

    fn accept(&mut self, request: http::Request<RecvStream>, mut respond: SendResponse<Bytes>) {
        let stream = respond.stream_id().as_u32();
        if stream > self.last.load(Ordering::Relaxed) {
            self.unanswered.push(respond);
            return;
        }
        let limit = self.injector.acknowledged_streams().unwrap_or(u32::MAX);
        if self.open.len() >= usize::try_from(limit).unwrap_or(usize::MAX) {
            self.state.log.stream_refused();
            respond.send_reset(Reason::REFUSED_STREAM);
            return;
        }
        let (head, body) = request.into_parts();
        if stream == 1 && skips_initial_stream_limit(&head) {
            self.change_limit(StreamLimit::Raise);
        }
        let (state, conn) = (Arc::clone(&self.state), Arc::clone(&self.conn));
        let last = Arc::clone(&self.last);
        self.open.push(Box::pin(async move {
            let Ok(body) = read_body(body, state.body_bytes_max).await else {
                return Completion::ChangeLimit(StreamLimit::Keep);
            };
            if stream > last.load(Ordering::Relaxed) {
                return Completion::Unprocessed(respond);
            }
            let request = Request { head, body, stream };
            let reaction = handle(Context { state: &state, conn: &conn, request: &request });
            perform(&state, reaction, stream, respond).await
        }));
    }

    /// Performs `completion`. Returns false when the connection must be closed.
    fn finish(&mut self, completion: Completion) -> bool {
        match completion {
            Completion::ChangeLimit(limit) => self.change_limit(limit),
            Completion::Cut => return false,
            Completion::Unprocessed(respond) => self.unanswered.push(respond),
            Completion::Goaway { stream, last, reason, mut respond } => {
                // By default the frame declares exactly the processed streams. A lower stream than the
                // last processed one is then declared as processed too, so it needs its own reset.
                let processed = self.conn.processed();
                if last.is_none() && stream <= processed {
                    respond.send_reset(Reason::REFUSED_STREAM);
                } else {
                    self.unanswered.push(respond);
                }
                let last = last.unwrap_or(processed);
                let debug = serde_json::json!({ "reason": reason }).to_string().into_bytes();
                let previous = self.last.fetch_min(last, Ordering::Relaxed);
                // A later GOAWAY must not raise the last stream (RFC 9113 section 6.8).
                self.injector.goaway(last.min(previous), debug);
            }
        }
        true
    }

    fn change_limit(&mut self, limit: StreamLimit) {
        match limit {
            StreamLimit::Keep => return,
            StreamLimit::Raise => self.has_full_limit = true,
            StreamLimit::Lower => self.has_full_limit = false,
        }
        self.announce_limit();
    }

    /// Announces the stream limit that the settings give, unless it is announced already.
    fn announce_limit(&mut self) {
        let limit = {
            let settings = self.state.settings.borrow();
            if self.has_full_limit {
                settings.max_concurrent_streams
            } else {
                settings.max_concurrent_streams_at_start
            }
        };
        if limit != self.announced {
            self.announced = limit;
            self.injector.announce_streams(limit);
        }
    }
}

/// Performs a reaction on its stream. Returns what remains to do on the connection.
async fn perform(
    state: &SandboxState,
    reaction: Reaction,
    stream: u32,
    mut respond: SendResponse<Bytes>,
) -> Completion {
    if reaction.delay_ms > 0 {
        tokio::select! {
            () = state.clock.sleep_ms(reaction.delay_ms) => {}
            () = client_reset(&mut respond) => return Completion::ChangeLimit(StreamLimit::Keep),
        }
    }
    match reaction.action {
        // An error means that the client has reset the stream, so the response is not needed.
        TransportAction::Respond(response) => {
            let sent = send(&mut respond, response, reaction.trailing.count == 0);
            if let Ok(Some(stream)) = sent {
                send_trailing(state, stream, reaction.trailing).await;
            }
        }
        TransportAction::Silence => client_reset(&mut respond).await,
        TransportAction::Reset => respond.send_reset(Reason::INTERNAL_ERROR),
        TransportAction::Refuse => respond.send_reset(Reason::REFUSED_STREAM),
        TransportAction::Goaway { last, reason } => {
            return Completion::Goaway { stream, last, reason, respond };
        }
        TransportAction::Cut => return Completion::Cut,
    }
    Completion::ChangeLimit(reaction.limit)
}

/// Returns when the client resets the stream or the connection ends.
async fn client_reset(respond: &mut SendResponse<Bytes>) {
    let _ = poll_fn(|cx| respond.poll_reset(cx)).await;
}

/// Sends a response. Returns its stream for more data unless the response `ends` here.
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

/// Sends the trailing bytes at the scripted pace, and never faster than the client reads.
async fn send_trailing(
    state: &SandboxState,
    mut stream: SendStream<Bytes>,
    mut trailing: TrailingBytes,
) {
    while trailing.count > 0 {
        if trailing.every_ms > 0 {
            tokio::select! {
                () = state.clock.sleep_ms(trailing.every_ms) => {}
                _ = poll_fn(|cx| stream.poll_reset(cx)) => return,
            }
        }
        stream.reserve_capacity(trailing.next_len());
        let Some(Ok(capacity)) = poll_fn(|cx| stream.poll_capacity(cx)).await else { return };
        let chunk = trailing.take(capacity);
        if stream.send_data(chunk, trailing.count == 0).is_err() {
            return;
        }
    }
}

/// Reads a body to its end, or until it exceeds `bytes_max`.
async fn read_body(mut body: RecvStream, bytes_max: usize) -> Result<Bytes, h2::Error> {
    let mut whole = BytesMut::new();
    while let Some(chunk) = body.data().await {
        let chunk = chunk?;
        body.flow_control().release_capacity(chunk.len())?;
        if whole.is_empty() && body.is_end_stream() {
            return Ok(chunk);
        }
        whole.extend_from_slice(&chunk);
        if whole.len() > bytes_max {
            break;
        }
    }
    Ok(whole.freeze())
}
