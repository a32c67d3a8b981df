//! One connection: TLS, HTTP/1 or HTTP/2, watched until it ends.

use std::net::IpAddr;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use crate::api::pipeline::{HEADER_BYTES_MAX, HEADERS_MAX};
use crate::api::server::connection_limits::{Place, Places};
use crate::api::server::min_rate::Pace;
use crate::api::server::monitored_io::Watched;
use crate::api::server::transfer::Transfers;
use crate::api::server::{Builder, Limits, Serving, StreamExecutor};

/// How long answers that wait for their client may take once the server stops: as long as the body of
/// a caller with a key.
const STOPPING_WAIT: Duration = Duration::from_secs(5);
/// Part of the write timeout after which an HTTP/2 client that sends nothing gets a ping; the rest is
/// the time for its answer.
const HTTP2_PING_PART: u32 = 3;
/// Shortest and longest time between two looks at what a connection does.
const WATCH_MIN: Duration = Duration::from_millis(20);
const WATCH_MAX: Duration = Duration::from_secs(1);
/// How many times our own limits the parser takes, so that the front can answer in our form.
const PARSER_SLACK: usize = 4;

/// An accepted connection.
pub(super) struct Connection {
    pub(super) stream: TcpStream,
    pub(super) peer: IpAddr,
    pub(super) place: Place,
}

/// hyper's builder with our limits; timeouts count only where a timer is set.
pub(super) fn builder(limits: &Limits) -> Builder {
    let mut builder = Builder::new(StreamExecutor);
    let ping_every = limits.write_timeout / HTTP2_PING_PART;
    builder
        .http1()
        .timer(TokioTimer::new())
        // Ours is `Activity`, which tells an idle connection from a slow head.
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
    /// Serves it until it ends.
    pub(super) async fn run(self, serving: &Arc<Serving>, builder: &Builder, places: &Places) {
        let Self { stream, peer, place } = self;
        match &serving.tls {
            None => drive(stream, peer, serving, (builder, places)).await,
            Some(acceptor) => {
                let handshake = acceptor.accept(stream);
                let limit = serving.limits.header_timeout;
                match tokio::time::timeout(limit, handshake).await {
                    Ok(Ok(stream)) => drive(stream, peer, serving, (builder, places)).await,
                    Ok(Err(error)) => tracing::debug!(%error, "no TLS"),
                    Err(_) => tracing::debug!("TLS took too long"),
                }
            }
        }
        drop(place);
    }
}

async fn drive<S>(
    stream: S,
    peer: IpAddr,
    serving: &Arc<Serving>,
    (builder, places): (&Builder, &Places),
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let limits = &serving.limits;
    let activity = Arc::new(Activity::new(limits));
    let is_shared = limits.trusted_proxies.contains(peer.to_canonical());
    let transfers = Transfers::new(activity.clone(), limits.write_timeout, is_shared);
    let transfers = Arc::new(transfers);
    let io = TokioIo::new(Watched::new(stream, activity.clone()));
    let service = service_fn(|request: http::Request<hyper::body::Incoming>| {
        let (front, activity) = (serving.front.clone(), activity.clone());
        let is_http2 = request.version() == http::Version::HTTP_2;
        activity.request_begins(is_http2);
        let guard = InFlight(activity);
        let token = serving.requests.token();
        // HTTP/1 answers one request after the other, and the socket shows who does not read.
        let transfers = is_http2.then(|| transfers.clone());
        async move {
            let Ok(mut answer) = front.answer(request, peer).await;
            let body = answer.body_mut();
            if let Some(transfers) = transfers {
                body.watch(transfers.begin());
            }
            body.hold((guard, token));
            Ok::<_, std::convert::Infallible>(answer)
        }
    });
    let mut builder = builder.clone();
    builder.http2().max_concurrent_streams(places.streams_max(peer, is_shared));
    let mut connection = pin!(builder.serve_connection(io, service));
    // A quarter of the shortest limit is close enough, and cheap.
    let shortest = limits.header_timeout.min(limits.idle_timeout).min(limits.write_timeout);
    let mut watch = tokio::time::interval((shortest / 4).clamp(WATCH_MIN, WATCH_MAX));
    let mut is_retiring = false;
    let mut cut_off = pin!(async {
        serving.stopping.cancelled().await;
        tokio::time::sleep(STOPPING_WAIT).await;
    });
    let mut is_cut_off = false;
    loop {
        tokio::select! {
            biased;
            ended = connection.as_mut() => {
                if let Err(error) = ended {
                    tracing::debug!(error, "a connection ended early");
                }
                return;
            }
            () = serving.closing.cancelled(), if !is_retiring => {
                // hyper closes an idle connection without a look at its socket. A request that is there
                // already is read first, so that it is answered and not reset.
                tokio::task::yield_now().await;
                if futures_util::poll!(connection.as_mut()).is_ready() {
                    return;
                }
                connection.as_mut().graceful_shutdown();
                is_retiring = true;
            }
            () = cut_off.as_mut(), if !is_cut_off => {
                transfers.end_all();
                is_cut_off = true;
            }
            _ = watch.tick() => match activity.verdict(limits, places.idle_timeout(limits)) {
                Verdict::Cut => return,
                _ if transfers.end_stuck() => return,
                Verdict::Fine => {}
                Verdict::Retire if is_retiring => {}
                Verdict::Retire => {
                    connection.as_mut().graceful_shutdown();
                    is_retiring = true;
                }
            },
        }
    }
}

/// A request being answered; dropped with it, also when the client went away.
struct InFlight(Arc<Activity>);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.request_ends();
    }
}

// What a connection is doing, so that one that does nothing useful is closed: hyper alone bounds
// neither the time before a first byte nor a client that does not read.

/// The doings of one connection, in milliseconds since it began. 0 is "not now".
#[derive(Debug)]
pub(crate) struct Activity {
    began: Instant,
    in_flight: AtomicUsize,
    is_http2: AtomicBool,
    idle_since: AtomicU64,
    head_since: AtomicU64,
    write_timeout: Duration,
    socket: Mutex<Socket>,
}

/// Whether the socket takes what is written.
#[derive(Debug, Default)]
struct Socket {
    stall: Option<Stall>,
    /// How long it was full before, all in all.
    stalled: Duration,
}

/// The socket is full: from a write that it did not take until everything was written.
#[derive(Debug)]
struct Stall {
    since: Duration,
    pace: Pace,
}

/// What to do about a connection now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing.
    Fine,
    /// Close it politely: it has been idle for long.
    Retire,
    /// Cut it off.
    Cut,
}

impl Activity {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            began: Instant::now(),
            in_flight: AtomicUsize::new(0),
            is_http2: AtomicBool::new(false),
            idle_since: AtomicU64::new(1),
            // TLS and the first head have one time together.
            head_since: AtomicU64::new(1),
            write_timeout: limits.write_timeout,
            socket: Mutex::default(),
        }
    }

    /// A request's head is there.
    pub(super) fn request_begins(&self, is_http2: bool) {
        self.in_flight.fetch_add(1, Ordering::SeqCst);
        self.is_http2.store(is_http2, Ordering::Relaxed);
        self.head_since.store(0, Ordering::Relaxed);
    }

    /// A request has its answer.
    pub(super) fn request_ends(&self) {
        self.idle_since.store(self.now_ms(), Ordering::Relaxed);
        self.in_flight.fetch_sub(1, Ordering::SeqCst);
    }

    /// Bytes came in.
    pub(super) fn read(&self) {
        if self.in_flight.load(Ordering::SeqCst) == 0 {
            // The first byte of the next head starts its time; later ones do not prolong it.
            let now = self.now_ms();
            let _ = self.head_since.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// The socket took bytes.
    pub(super) fn wrote(&self, bytes: usize) {
        let now = self.began.elapsed();
        if let Some(stall) = &mut self.socket().stall {
            stall.pace.moved(now, bytes);
        }
    }

    /// The socket is full.
    pub(super) fn stalled(&self) {
        let now = self.began.elapsed();
        let begin = || Stall { since: now, pace: Pace::begin(now, self.write_timeout) };
        self.socket().stall.get_or_insert_with(begin);
    }

    /// The socket took everything.
    pub(super) fn flushed(&self) {
        let mut socket = self.socket();
        if let Some(stall) = socket.stall.take() {
            socket.stalled += self.began.elapsed().saturating_sub(stall.since);
        }
    }

    /// How long the connection has been open without the time in which its socket was full: what a
    /// stream does not get then is not its client's choice.
    pub(super) fn flowing(&self) -> Duration {
        let socket = self.socket();
        let now = socket.stall.as_ref().map_or_else(|| self.began.elapsed(), |stall| stall.since);
        now.saturating_sub(socket.stalled)
    }

    /// How many requests are being answered.
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::SeqCst)
    }

    /// What to do now, where a connection may be idle for that long.
    pub(super) fn verdict(&self, limits: &Limits, idle_timeout: Duration) -> Verdict {
        let now = self.began.elapsed();
        if self.socket().stall.as_ref().is_some_and(|stall| stall.pace.is_over(now)) {
            return Verdict::Cut;
        }
        if self.in_flight() > 0 {
            return Verdict::Fine;
        }
        // On HTTP/2 any frame reads bytes, so that the time of a head cannot be told; hyper's
        // limits on headers and the idle time bound those.
        let heads_count = !self.is_http2.load(Ordering::Relaxed);
        if heads_count && self.is_over(&self.head_since, limits.header_timeout) {
            return Verdict::Cut;
        }
        if self.is_over(&self.idle_since, idle_timeout) { Verdict::Retire } else { Verdict::Fine }
    }

    fn is_over(&self, since: &AtomicU64, limit: Duration) -> bool {
        let since = since.load(Ordering::Relaxed);
        let limit_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        since != 0 && self.now_ms().saturating_sub(since) > limit_ms
    }

    fn socket(&self) -> MutexGuard<'_, Socket> {
        self.socket.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// At least 1, so that 0 can mean "not now".
    fn now_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX).max(1)
    }
}
