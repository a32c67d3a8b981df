//! One connection: TLS, HTTP/1 or HTTP/2, its timeouts and its socket.

use std::io;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::api::json_reply::{JSON_CONTENT_TYPE, NO_STORE};
use crate::api::pipeline::Port;
use crate::api::pipeline::head::{HEADER_BYTES_MAX, HEADERS_MAX};
use crate::api::server::limits::Limits;
use crate::api::server::permits::ConnPermit;
use crate::api::server::request_stream::{RequestStream, expects_continue, until_closing};
use crate::api::server::state::ServerState;
use crate::api::server::streams::{Builder, StreamExecutor};
use crate::api::server::timeouts::{Action, ConnTimeouts, after};
use crate::api::server::transfer::Transfers;

/// How long clients may read responses after the server began to stop: as long as an authenticated
/// caller may send a body.
const STOP_GRACE: Duration = Duration::from_secs(5);
/// How long a connection stays open after `closing` was cancelled, so that a client that has just connected
/// can still send its request and get a response instead of a reset.
const LAST_REQUEST_WAIT: Duration = Duration::from_millis(100);
/// A silent HTTP/2 client gets a ping after the write timeout divided by this number. The client
/// has the rest of the write timeout to respond.
const HTTP2_PING_SHARE: u32 = 3;
/// Shortest and longest interval between two checks of a connection's timeouts.
const CHECK_INTERVAL_MIN: Duration = Duration::from_millis(20);
const CHECK_INTERVAL_MAX: Duration = Duration::from_secs(1);
/// The factor by which hyper's limits of a head are higher than ours. A head that exceeds only our
/// limits gets its error from the pipeline.
const PARSER_SLACK: usize = 4;

/// An accepted connection.
pub(super) struct Connection {
    pub(super) stream: TcpStream,
    pub(super) peer: IpAddr,
    pub(super) port: Port,
    pub(super) permit: ConnPermit,
}

/// Makes hyper's builder with our limits. hyper's timeouts need a timer.
pub(super) fn builder(limits: &Limits) -> Builder {
    let mut builder = Builder::new(StreamExecutor);
    let ping_every = limits.write_timeout / HTTP2_PING_SHARE;
    builder
        .http1()
        .timer(TokioTimer::new())
        // `ConnTimeouts` distinguishes an idle connection from a slow head.
        .header_read_timeout(None)
        .max_buf_size(HEADER_BYTES_MAX * PARSER_SLACK)
        .max_headers(HEADERS_MAX * PARSER_SLACK)
        .keep_alive(true);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(u32::try_from(HEADER_BYTES_MAX * PARSER_SLACK).unwrap_or(u32::MAX))
        .keep_alive_interval(ping_every)
        .keep_alive_timeout(limits.write_timeout.saturating_sub(ping_every));
    builder
}

impl Connection {
    /// Serves the connection until it ends.
    pub(super) async fn run(self, state: &Arc<ServerState>, builder: &Builder) {
        let Self { stream, peer, port, permit } = self;
        match &state.tls {
            None => drive(stream, (peer, port), state, builder).await,
            Some(acceptor) => {
                let limit = state.limits.header_timeout;
                let handshake = tokio::time::timeout(limit, acceptor.accept(stream));
                let result = tokio::select! {
                    result = handshake => result,
                    () = after(&state.closing, LAST_REQUEST_WAIT) => return,
                };
                match result {
                    Ok(Ok(stream)) => drive(stream, (peer, port), state, builder).await,
                    Ok(Err(error)) => tracing::debug!(%error, "TLS handshake failed"),
                    Err(_) => tracing::debug!("TLS handshake timed out"),
                }
            }
        }
        drop(permit);
    }
}

/// Reads the rest of a body without delaying its response. The connection counts as in use meanwhile.
fn spawn_discarding(
    discarding: impl Future<Output = ()> + Send + 'static,
    closing: CancellationToken,
    in_flight: InFlight,
) {
    tokio::spawn(async move {
        until_closing(discarding, &closing).await;
        drop(in_flight);
    });
}

/// Timeouts are checked four times within the shortest of them, which is precise enough and cheap.
fn check_interval(limits: &Limits) -> Duration {
    let shortest = limits.header_timeout.min(limits.idle_timeout).min(limits.write_timeout);
    (shortest / 4).clamp(CHECK_INTERVAL_MIN, CHECK_INTERVAL_MAX)
}

/// Handles the requests of a connection, after the TLS handshake if there is one, and checks its
/// timeouts.
async fn drive<S>(
    stream: S,
    (peer, port): (IpAddr, Port),
    state: &Arc<ServerState>,
    builder: &Builder,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (limits, permits) = (&state.limits, state.permits(port));
    let timeouts = Arc::new(ConnTimeouts::new(limits));
    let is_shared = limits.trusted_proxies.contains(peer.to_canonical());
    let transfers = Arc::new(Transfers::new(timeouts.clone(), limits.write_timeout, is_shared));
    let io = TokioIo::new(MonitoredIo::new(stream, timeouts.clone()));
    let service = service_fn(|request: http::Request<hyper::body::Incoming>| {
        let (pipeline, timeouts) = (state.pipeline.clone(), timeouts.clone());
        let is_http2 = request.version() == http::Version::HTTP_2;
        let has_expectation = expects_continue(request.headers());
        let guard = InFlight::start(timeouts.clone(), is_http2);
        let token = state.requests.token();
        // Over HTTP/1, which has one response at a time, the socket shows whether the client reads.
        let transfers = is_http2.then(|| transfers.clone());
        let closing = state.closing.clone();
        async move {
            let (parts, incoming) = request.into_parts();
            let mut stream = RequestStream::new(incoming);
            let request = http::Request::from_parts(parts, &mut stream);
            let mut response = pipeline.handle(request, peer, port).await;
            let rest = stream.discard(is_http2, has_expectation, response.headers_mut());
            if let Some(discarding) = rest {
                spawn_discarding(discarding, closing, InFlight::start(timeouts, is_http2));
            }
            if let Some(transfers) = transfers {
                response.body_mut().track(transfers.start());
            }
            response.body_mut().attach_guard((guard, token));
            Ok::<_, std::convert::Infallible>(response)
        }
    });
    let mut builder = builder.clone();
    builder.http2().max_concurrent_streams(permits.streams_max(peer, is_shared));
    let mut connection = pin!(builder.serve_connection(io, service));
    let mut check = tokio::time::interval(check_interval(limits));
    let mut cut_off = pin!(after(&state.stopping, STOP_GRACE));
    let (mut is_draining, mut is_cut_off) = (false, false);
    let mut closing = pin!(after(&state.closing, LAST_REQUEST_WAIT));
    loop {
        tokio::select! {
            biased;
            result = connection.as_mut() => {
                if let Err(error) = result {
                    tracing::debug!(error, "connection failed");
                }
                return;
            }
            () = closing.as_mut(), if !is_draining => {
                // hyper closes an idle connection without reading from its socket. A request that
                // has arrived since the poll above is read first.
                if futures_util::poll!(connection.as_mut()).is_ready() {
                    return;
                }
                connection.as_mut().graceful_shutdown();
                is_draining = true;
            }
            () = cut_off.as_mut(), if !is_cut_off => {
                transfers.abort_all();
                is_cut_off = true;
            }
            _ = check.tick() => {
                let action = timeouts.action(limits, permits.idle_timeout(limits));
                if action == Action::Close || !transfers.abort_stuck() {
                    return;
                }
                if action == Action::Drain && !is_draining {
                    connection.as_mut().graceful_shutdown();
                    is_draining = true;
                }
            }
        }
    }
}

/// A guard that counts a request as in flight until the guard is dropped. It is also dropped when
/// the client disconnects.
struct InFlight(Arc<ConnTimeouts>);

impl InFlight {
    fn start(timeouts: Arc<ConnTimeouts>, is_http2: bool) -> Self {
        timeouts.record_request_start(is_http2);
        Self(timeouts)
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.record_request_end();
    }
}

/// A socket that reports reads and writes to the [`ConnTimeouts`] of its connection. It also
/// replaces the error responses that hyper sends for malformed requests: they do not pass the
/// pipeline, so they would lack a request id and a JSON body.
pub(super) struct MonitoredIo<S> {
    stream: S,
    timeouts: Arc<ConnTimeouts>,
    /// Our response that is being written instead of an error response of hyper.
    replacement: Option<ReplacementResponse>,
}

struct ReplacementResponse {
    bytes: Vec<u8>,
    written: usize,
}

impl<S> MonitoredIo<S> {
    pub(super) fn new(stream: S, timeouts: Arc<ConnTimeouts>) -> Self {
        Self { stream, timeouts, replacement: None }
    }
}

impl<S: AsyncWrite + Unpin> MonitoredIo<S> {
    fn poll_write_all(
        &mut self,
        cx: &mut Context<'_>,
        replacement: &mut ReplacementResponse,
    ) -> Poll<io::Result<()>> {
        while replacement.written < replacement.bytes.len() {
            let rest = &replacement.bytes[replacement.written..];
            let written = ready!(Pin::new(&mut self.stream).poll_write(cx, rest))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            replacement.written += written;
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for MonitoredIo<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        if buf.filled().len() > before {
            self.timeouts.record_read();
        }
        read
    }
}

/// Vectored writes are not supported: responses are small, and an error response of hyper itself
/// can be recognized because it is in a single buffer.
impl<S: AsyncWrite + Unpin> AsyncWrite for MonitoredIo<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let replacement = self.replacement.take().or_else(|| replacement_of(buf, &self.timeouts));
        let written = match replacement {
            None => Pin::new(&mut self.stream).poll_write(cx, buf),
            Some(mut replacement) => {
                let written = self.poll_write_all(cx, &mut replacement).map_ok(|()| buf.len());
                // hyper polls again with the same buffer, and the write continues.
                self.replacement = written.is_pending().then_some(replacement);
                written
            }
        };
        match &written {
            Poll::Pending => self.timeouts.record_stall(),
            Poll::Ready(Ok(bytes)) => self.timeouts.record_written(*bytes),
            Poll::Ready(Err(_)) => {}
        }
        written
    }

    /// hyper flushes once it has written everything. Over TLS the socket may not have accepted
    /// everything yet.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        match &flushed {
            Poll::Pending => self.timeouts.record_stall(),
            Poll::Ready(_) => self.timeouts.record_flush(),
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// The replacement of `response` if it is an error response that hyper itself sends for a malformed
/// request; `None` for our own responses, which always have a request id.
fn replacement_of(response: &[u8], timeouts: &ConnTimeouts) -> Option<ReplacementResponse> {
    if timeouts.in_flight() > 0 || !response.starts_with(b"HTTP/1.1 4") {
        return None;
    }
    let response = std::str::from_utf8(response).ok()?;
    if response.contains("x-request-id:") || !response.ends_with("\r\n\r\n") {
        return None;
    }
    let status_line = response.lines().next()?;
    let error = match status_line.get(9..12)? {
        "431" => "headers: are more than this server reads",
        "414" => "url: is longer than this server reads",
        _ => "request: is not HTTP",
    };
    let (id, body) = (Uuid::now_v7(), format!("{{\"errors\":[\"{error}\"]}}"));
    let bytes = format!(
        "{status_line}\r\ncontent-type: {JSON_CONTENT_TYPE}\r\nx-request-id: {id}\r\n\
         cache-control: {NO_STORE}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    Some(ReplacementResponse { bytes: bytes.into_bytes(), written: 0 })
}
