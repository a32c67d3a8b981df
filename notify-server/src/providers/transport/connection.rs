//! One HTTP/2 connection: the handle for requests, and the driver that sends and receives its bytes and
//! detects a dead peer.

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use h2::client::{self, SendRequest};
use h2::{Ping, PingPong};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep, timeout};

use super::{
    FIRST_RESPONSE_WAIT, MIN_RESPONSES_FOR_HEALTHY, PING_INTERVAL, PING_INTERVAL_IDLE,
    RESPONSE_HEADER_BYTES_MAX, SETTINGS_TIMEOUT, STREAMS_MAX,
};
use crate::providers::transport::response::TransportError;

/// Flow-control window of one connection, in bytes. It is large enough that a stream whose body is not
/// read does not block the others.
const CONNECTION_WINDOW_BYTES: u32 = 1_048_576;

/// Stream accounting of a connection, shared by its driver and its pool.
#[derive(Debug, Default)]
pub(super) struct StreamStats {
    /// The server's current stream limit, capped at [`STREAMS_MAX`].
    limit: AtomicUsize,
    /// Requests in flight.
    in_flight: AtomicUsize,
    /// Requests with a response.
    responses: AtomicUsize,
}

impl StreamStats {
    pub(super) fn limit(&self) -> usize {
        self.limit.load(Ordering::Relaxed)
    }

    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Whether the connection has had a response.
    fn has_response(&self) -> bool {
        self.responses.load(Ordering::Relaxed) > 0
    }

    /// Whether the connection has had so many responses that its end is not a failure, even if it ends
    /// soon. A server may replace a connection after a number of requests.
    pub(super) fn has_many_responses(&self) -> bool {
        self.responses.load(Ordering::Relaxed) >= MIN_RESPONSES_FOR_HEALTHY
    }

    /// Records a response.
    pub(super) fn record_response(&self) {
        self.responses.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes a stream if one is free, and returns whether it did. The caller holds the lock of the pool, so
    /// that two callers cannot both take the last stream.
    pub(super) fn try_acquire(&self) -> bool {
        let is_free = self.in_flight() < self.limit();
        if is_free {
            self.in_flight.fetch_add(1, Ordering::Relaxed);
        }
        is_free
    }

    pub(super) fn release(&self) {
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

/// An open connection of a pool.
pub(super) struct Connection {
    pub(super) id: u64,
    pub(super) opened_at: Instant,
    pub(super) send: SendRequest<Bytes>,
    pub(super) stats: Arc<StreamStats>,
}

impl Connection {
    /// Whether the connection may soon raise its stream limit, as APNs does with the first response. This
    /// is not so if the first response has been missing for [`FIRST_RESPONSE_WAIT`].
    pub(super) fn may_grow(&self) -> bool {
        !self.stats.has_response() && self.opened_at.elapsed() < FIRST_RESPONSE_WAIT
    }
}

/// A byte stream without vectored writes. With vectored writes, h2 sends the body of each request with
/// a system call of its own if the body has 256 bytes or more. Without them, h2 copies bodies of less
/// than 1,024 bytes to its buffer of 16 KiB, and sends many requests with one system call.
struct Unvectored<T>(T);

impl<T: AsyncRead + Unpin> AsyncRead for Unvectored<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Unvectored<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

/// Sends and receives the bytes of one connection.
pub(super) struct Driver<T> {
    connection: client::Connection<Unvectored<T>, Bytes>,
    ping_pong: PingPong,
    stats: Arc<StreamStats>,
}

/// Sends the preface and waits for the server's SETTINGS. Before that the stream limit of the server is
/// unknown, and the server would refuse requests beyond it.
pub(super) async fn establish<T>(io: T) -> Result<(SendRequest<Bytes>, Driver<T>), TransportError>
where
    T: AsyncRead + AsyncWrite + Unpin,
{
    let mut builder = client::Builder::new();
    builder
        .enable_push(false)
        .initial_max_send_streams(0)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_header_list_size(RESPONSE_HEADER_BYTES_MAX);
    let handshake = async {
        let (send, mut connection) = builder.handshake::<_, Bytes>(Unvectored(io)).await?;
        poll_fn(|cx| {
            if let Poll::Ready(result) = Pin::new(&mut connection).poll(cx) {
                // The connection ended before the server sent SETTINGS.
                let connect_error = h2::Error::from(h2::Reason::CONNECT_ERROR);
                return Poll::Ready(Err(result.err().unwrap_or(connect_error)));
            }
            // The limit is 0 until SETTINGS arrives, because of `initial_max_send_streams` above.
            match connection.max_concurrent_send_streams() {
                0 => Poll::Pending,
                _ => Poll::Ready(Ok(())),
            }
        })
        .await?;
        Ok::<_, h2::Error>((send, connection))
    };
    let (send, mut connection) = match timeout(SETTINGS_TIMEOUT, handshake).await {
        Ok(result) => {
            result.map_err(|error| TransportError::unsent_because("http2_failed", &error))?
        }
        Err(_) => return Err(TransportError::unsent("settings_timeout")),
    };
    let ping_pong = connection.ping_pong().expect("it is taken only once");
    let driver = Driver { connection, ping_pong, stats: Arc::default() };
    driver.update_limit();
    Ok((send, driver))
}

impl<T: AsyncRead + AsyncWrite + Unpin> Driver<T> {
    pub(super) fn stats(&self) -> Arc<StreamStats> {
        Arc::clone(&self.stats)
    }

    /// Reads the server's stream limit. Returns whether it changed.
    fn update_limit(&self) -> bool {
        let limit = self.connection.max_concurrent_send_streams().min(STREAMS_MAX);
        self.stats.limit.swap(limit, Ordering::Relaxed) != limit
    }

    /// Runs the connection until it ends or a ping times out. `limit_changed` is called whenever the server
    /// changes its stream limit.
    pub(super) async fn run(mut self, limit_changed: impl Fn()) {
        let mut keep_alive = pin!(KeepAlive::new());
        poll_fn(|cx| {
            loop {
                if Pin::new(&mut self.connection).poll(cx).is_ready() {
                    return Poll::Ready(());
                }
                if self.update_limit() {
                    limit_changed();
                }
                match keep_alive.as_mut().poll(cx, &mut self.ping_pong, &self.stats) {
                    Poll::Ready(Liveness::PingSent) => {}
                    Poll::Ready(Liveness::Dead) => return Poll::Ready(()),
                    Poll::Pending => return Poll::Pending,
                }
            }
        })
        .await;
    }
}

/// Detects a dead peer with pings, so that requests do not wait forever on a half-open TCP connection.
struct KeepAlive {
    timer: Pin<Box<Sleep>>,
    /// Whether a ping was sent whose pong has not arrived.
    awaits_pong: bool,
    last_pong_at: Instant,
}

/// An event of [`KeepAlive`].
enum Liveness {
    /// A ping was queued; the connection must be polled again to send it.
    PingSent,
    /// No pong arrived in time.
    Dead,
}

impl KeepAlive {
    fn new() -> Self {
        Self {
            timer: Box::pin(sleep(PING_INTERVAL)),
            awaits_pong: false,
            last_pong_at: Instant::now(),
        }
    }

    /// Returns the next event. Without one, the task is woken for the pong or the next ping.
    fn poll(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        ping_pong: &mut PingPong,
        stats: &StreamStats,
    ) -> Poll<Liveness> {
        if self.awaits_pong && ping_pong.poll_pong(cx).is_ready() {
            self.awaits_pong = false;
            self.last_pong_at = Instant::now();
            let next = self.last_pong_at + PING_INTERVAL;
            self.timer.as_mut().reset(next);
        }
        while self.timer.as_mut().poll(cx).is_ready() {
            if self.awaits_pong {
                return Poll::Ready(Liveness::Dead);
            }
            let now = Instant::now();
            self.timer.as_mut().reset(now + PING_INTERVAL);
            let is_ping_due = stats.in_flight() > 0
                || now.duration_since(self.last_pong_at) >= PING_INTERVAL_IDLE;
            if is_ping_due && ping_pong.send_ping(Ping::opaque()).is_ok() {
                self.awaits_pong = true;
                return Poll::Ready(Liveness::PingSent);
            }
        }
        Poll::Pending
    }
}
