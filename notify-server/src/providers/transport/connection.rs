//! One HTTP/2 connection: the handle that requests go through and the driver that moves its bytes
//! and watches that it lives.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

use bytes::Bytes;
use h2::client::{self, SendRequest};
use h2::{Ping, PingPong};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, Sleep, sleep, timeout};

use super::{
    ANSWER_HEADER_BYTES_MAX, ANSWERS_OF_A_LIFE, PING_INTERVAL, PING_INTERVAL_IDLE, PROOF_WAIT,
    SETTINGS_TIMEOUT, STREAMS_MAX,
};
use crate::providers::transport::response::Failure;

/// Bytes of answers that may be under way on one connection. A stream that is not read must not
/// stop the others.
const CONNECTION_WINDOW_BYTES: u32 = 1_048_576;

/// What is known of a connection from outside; the driver keeps it.
#[derive(Debug, Default)]
pub(super) struct Load {
    /// The server's live stream limit, cut to [`STREAMS_MAX`].
    limit: AtomicUsize,
    /// Requests under way.
    in_flight: AtomicUsize,
    /// Requests answered.
    answers: AtomicUsize,
}

impl Load {
    pub(super) fn limit(&self) -> usize {
        self.limit.load(Ordering::Relaxed)
    }

    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Whether it ever answered.
    fn is_proven(&self) -> bool {
        self.answers.load(Ordering::Relaxed) > 0
    }

    /// Whether it answered so much that its end is no failure, however soon it came: a server may
    /// replace a connection after so many requests.
    pub(super) fn has_served(&self) -> bool {
        self.answers.load(Ordering::Relaxed) >= ANSWERS_OF_A_LIFE
    }

    pub(super) fn answered(&self) {
        self.answers.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes a stream when one is free. Called under the pool's lock alone, so that two cannot take
    /// the last one.
    pub(super) fn take(&self) -> bool {
        let is_free = self.in_flight() < self.limit();
        if is_free {
            self.in_flight.fetch_add(1, Ordering::Relaxed);
        }
        is_free
    }

    pub(super) fn give_back(&self) {
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A connection that requests may go through.
pub(super) struct Connection {
    pub(super) id: u64,
    pub(super) opened_at: Instant,
    pub(super) send: SendRequest<Bytes>,
    pub(super) load: Arc<Load>,
}

impl Connection {
    /// Whether it may raise its limit still, as APNs' does with its first answer. One that owes that
    /// for long is not waited for.
    pub(super) fn may_grow(&self) -> bool {
        !self.load.is_proven() && self.opened_at.elapsed() < PROOF_WAIT
    }
}

/// Moves the bytes of one connection.
pub(super) struct Driver<T> {
    connection: client::Connection<T, Bytes>,
    ping_pong: PingPong,
    load: Arc<Load>,
}

/// Speaks the preface and waits for the server's SETTINGS: until then its stream limit is not
/// known, and requests beyond it would be refused.
pub(super) async fn establish<T>(io: T) -> Result<(SendRequest<Bytes>, Driver<T>), Failure>
where
    T: AsyncRead + AsyncWrite + Unpin,
{
    let mut builder = client::Builder::new();
    builder
        .enable_push(false)
        .initial_max_send_streams(0)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_header_list_size(ANSWER_HEADER_BYTES_MAX);
    let settled = async {
        let (send, mut connection) = builder.handshake::<T, Bytes>(io).await?;
        poll_fn(|cx| {
            if let Poll::Ready(ended) = Pin::new(&mut connection).poll(cx) {
                let closed = h2::Error::from(h2::Reason::CONNECT_ERROR);
                return Poll::Ready(Err(ended.err().unwrap_or(closed)));
            }
            match connection.max_concurrent_send_streams() {
                0 => Poll::Pending,
                _ => Poll::Ready(Ok(())),
            }
        })
        .await?;
        Ok::<_, h2::Error>((send, connection))
    };
    let (send, mut connection) = match timeout(SETTINGS_TIMEOUT, settled).await {
        Ok(settled) => settled.map_err(|error| Failure::unsent_because("http2_failed", &error))?,
        Err(_) => return Err(Failure::unsent("settings_timeout")),
    };
    let ping_pong = connection.ping_pong().expect("taken once");
    let driver = Driver { connection, ping_pong, load: Arc::default() };
    driver.note_limit();
    Ok((send, driver))
}

impl<T: AsyncRead + AsyncWrite + Unpin> Driver<T> {
    pub(super) fn load(&self) -> Arc<Load> {
        Arc::clone(&self.load)
    }

    /// Tells whether the server's stream limit changed.
    fn note_limit(&self) -> bool {
        let limit = self.connection.max_concurrent_send_streams().min(STREAMS_MAX);
        self.load.limit.swap(limit, Ordering::Relaxed) != limit
    }

    /// Runs the connection to its end, a silent one to its cut. `limit_changed` is called whenever
    /// the server changes its stream limit.
    pub(super) async fn run(mut self, limit_changed: impl Fn()) {
        let mut watch = pin!(Watch::new());
        poll_fn(|cx| {
            loop {
                if Pin::new(&mut self.connection).poll(cx).is_ready() {
                    return Poll::Ready(());
                }
                if self.note_limit() {
                    limit_changed();
                }
                match watch.as_mut().poll(cx, &mut self.ping_pong, &self.load) {
                    Poll::Ready(Alive::Asked) => {}
                    Poll::Ready(Alive::No) => return Poll::Ready(()),
                    Poll::Pending => return Poll::Pending,
                }
            }
        })
        .await;
    }
}

/// Sees to it that a connection whose peer is gone does not hold requests for ever: half-open TCP
/// is a known cause of stalls.
struct Watch {
    timer: Pin<Box<Sleep>>,
    is_waiting: bool,
    last_sign: Instant,
}

/// What [`Watch`] found.
enum Alive {
    /// A ping went out; the connection has to be polled again to send it.
    Asked,
    /// No answer in time.
    No,
}

impl Watch {
    fn new() -> Self {
        Self { timer: Box::pin(sleep(PING_INTERVAL)), is_waiting: false, last_sign: Instant::now() }
    }

    fn poll(
        mut self: Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
        ping_pong: &mut PingPong,
        load: &Load,
    ) -> Poll<Alive> {
        if self.is_waiting && ping_pong.poll_pong(cx).is_ready() {
            self.is_waiting = false;
            self.last_sign = Instant::now();
            let next = self.last_sign + PING_INTERVAL;
            self.timer.as_mut().reset(next);
        }
        while self.timer.as_mut().poll(cx).is_ready() {
            if self.is_waiting {
                return Poll::Ready(Alive::No);
            }
            let now = Instant::now();
            self.timer.as_mut().reset(now + PING_INTERVAL);
            let is_due =
                load.in_flight() > 0 || now.duration_since(self.last_sign) >= PING_INTERVAL_IDLE;
            if is_due && ping_pong.send_ping(Ping::opaque()).is_ok() {
                self.is_waiting = true;
                return Poll::Ready(Alive::Asked);
            }
        }
        Poll::Pending
    }
}
