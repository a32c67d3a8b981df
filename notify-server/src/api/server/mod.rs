//! Accepts connections and serves them with hyper. warp's own server is not used, because it has no
//! TLS, no header timeout and no limits of connections.
//!
//! The server stops in these steps:
//!
//! ```text
//! stop ──▶ accept the queue, then no new connections ──▶ new requests get 503 ──▶ requests in flight
//! end (or the grace period does) ──▶ connections close
//! ```
//!
//! A request that has arrived gets its 503, even if its connection is idle or still in the listener's queue.
//! After a reset, its client would not know whether the request had an effect. Only connections above
//! the limits are reset.

mod connection;
mod request_stream;
mod transfer;

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::{AbortHandle, Abortable};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::connection::Connection;
pub(crate) use self::connection::after;
pub(crate) use self::request_stream::RequestStream;
pub(crate) use self::transfer::{MinRate, ResponseBody};
use crate::api::pipeline::{PRUNE_INTERVAL, Pipeline, Port};
use crate::config::Networks;
use crate::telemetry::LogThrottle;

/// Shortest and longest pause after a failed accept, for example when the process has no file
/// descriptors left.
const ACCEPT_PAUSE_MIN: Duration = Duration::from_millis(50);
const ACCEPT_PAUSE_MAX: Duration = Duration::from_secs(1);
/// The maximum number of connections that a stop accepts from the queue of a listener, which is shorter.
/// Without a limit, clients that reconnect would delay the stop.
const QUEUE_MAX: usize = 1_024;

/// The maximum numbers of connections to `--admin-listen` and to `--console-listen`. They use descriptors of
/// the reserve that `descriptors.rs` keeps.
const ADMIN_CONNECTIONS_MAX: usize = 32;
const CONSOLE_CONNECTIONS_MAX: usize = 32;

/// The limits of connections.
#[derive(Debug, Clone)]
pub(crate) struct Limits {
    /// Time for the TLS handshake, and for each request's head.
    pub(crate) header_timeout: Duration,
    /// How long a connection may be without a request.
    pub(crate) idle_timeout: Duration,
    /// How long a client may stop reading.
    pub(crate) write_timeout: Duration,
    /// The maximum number of connections.
    pub(crate) connections_max: usize,
    /// The maximum number of connections from one address; 0 means no limit. One address never gets
    /// more than half of all connections if there is a limit. Trusted proxies are not limited.
    pub(crate) connections_per_address_max: usize,
    /// Proxies whose connections carry many clients.
    pub(crate) trusted_proxies: Networks,
}

/// The state that all connections share.
pub(crate) struct ServerState {
    /// Handles requests.
    pub(crate) pipeline: Arc<Pipeline>,
    /// The limits of connections.
    pub(crate) limits: Limits,
    /// Does the TLS handshake, if TLS is configured.
    pub(crate) tls: Option<TlsAcceptor>,
    /// Cancelled when the server stops: it accepts only what is in the queues of its listeners, and refuses
    /// new requests.
    pub(crate) stopping: CancellationToken,
    /// Cancelled when the requests in flight or the grace period have ended: closes the
    /// connections.
    pub(crate) closing: CancellationToken,
    /// Tracks the tasks that accept connections, so that the stop can wait until each has accepted its queue.
    pub(crate) listeners: TaskTracker,
    /// Tracks all connections, so that the stop can wait for them.
    pub(crate) connections: TaskTracker,
    /// Tracks all requests in flight, so that the stop can wait for them before it closes
    /// connections.
    pub(crate) requests: TaskTracker,
    /// The permits of connections to `--listen`.
    permits: ConnPermits,
    /// The permits of connections to `--admin-listen`. Operators and collectors of metrics reach it even
    /// when the clients of the API use up theirs.
    admin_permits: ConnPermits,
    /// The permits of connections to `--console-listen`.
    console_permits: ConnPermits,
}

impl ServerState {
    pub(crate) fn new(
        pipeline: Arc<Pipeline>,
        limits: Limits,
        tls: Option<TlsAcceptor>,
        stopping: CancellationToken,
    ) -> Arc<Self> {
        let of_admin = Limits { connections_max: ADMIN_CONNECTIONS_MAX, ..limits.clone() };
        let of_console = Limits { connections_max: CONSOLE_CONNECTIONS_MAX, ..limits.clone() };
        Arc::new(Self {
            pipeline,
            tls,
            stopping,
            closing: CancellationToken::new(),
            listeners: TaskTracker::new(),
            connections: TaskTracker::new(),
            requests: TaskTracker::new(),
            permits: ConnPermits::new(&limits),
            admin_permits: ConnPermits::new(&of_admin),
            console_permits: ConnPermits::new(&of_console),
            limits,
        })
    }

    /// The permits of connections to an address.
    pub(super) fn permits(&self, port: Port) -> &ConnPermits {
        match port {
            Port::Main => &self.permits,
            Port::Admin => &self.admin_permits,
            Port::Console => &self.console_permits,
        }
    }
}

/// Accepts the connections of one address until [`ServerState::stopping`] is cancelled, and then those that
/// are already in the listener's queue. The accepted connections stay open until
/// [`ServerState::closing`] is cancelled.
pub(crate) async fn serve(listener: TcpListener, port: Port, state: Arc<ServerState>) {
    let acceptor = Acceptor { builder: Arc::new(connection::builder(&state.limits)), port, state };
    let state = &acceptor.state;
    let permits = state.permits(port);
    let mut prune = tokio::time::interval(PRUNE_INTERVAL);
    let (mut crowded_log, mut failure_log) = (LogThrottle::default(), LogThrottle::default());
    let mut pause = ACCEPT_PAUSE_MIN;
    // An accepted connection that waits for a permit. Further connections stay in the listener's queue.
    let mut waiting: Option<(TcpStream, SocketAddr)> = None;
    loop {
        tokio::select! {
            () = state.stopping.cancelled() => break,
            _ = prune.tick() => state.pipeline.prune(),
            permit = permits.acquire(&mut crowded_log), if waiting.is_some() => {
                let (Some((stream, peer)), Some(permit)) = (waiting.take(), permit) else { return };
                acceptor.start(stream, peer.ip(), permit);
            }
            accepted = listener.accept(), if waiting.is_none() => match accepted {
                Ok(connection) => {
                    pause = ACCEPT_PAUSE_MIN;
                    waiting = Some(connection);
                }
                Err(error) => {
                    if failure_log.try_acquire() {
                        tracing::warn!(%error, "accepting connections failed, will retry");
                    }
                    let _ = tokio::time::timeout(pause, state.stopping.cancelled()).await;
                    pause = (pause * 2).min(ACCEPT_PAUSE_MAX);
                }
            },
        }
    }
    for (stream, peer) in waiting.into_iter().chain(queued(listener)).take(QUEUE_MAX) {
        // A server that is full resets the connection.
        let Some(permit) = permits.try_acquire() else { return };
        acceptor.start(stream, peer.ip(), permit);
    }
}

/// Starts the accepted connections of one address.
struct Acceptor {
    builder: Arc<Builder>,
    port: Port,
    state: Arc<ServerState>,
}

impl Acceptor {
    fn start(&self, stream: TcpStream, peer: IpAddr, permit: FreePermit) {
        // Responses are written as a whole; waiting to fill a packet only delays them.
        let _ = stream.set_nodelay(true);
        let permits = self.state.permits(self.port);
        if let Some(permit) = permits.assign(permit, peer, &self.state.limits) {
            let connection = Connection { stream, peer, port: self.port, permit };
            let (state, builder) = (self.state.clone(), self.builder.clone());
            self.state.connections.spawn(async move { connection.run(&state, &builder).await });
        }
    }
}

/// Accepts the connections in the listener's queue, without waiting. A failure ends the iteration. tokio's
/// `accept` would wait for the next event, so the socket, which is non-blocking, is used without tokio.
fn queued(listener: TcpListener) -> impl Iterator<Item = (TcpStream, SocketAddr)> {
    let listener = listener.into_std().ok();
    std::iter::from_fn(move || {
        let (stream, peer) = listener.as_ref()?.accept().ok()?;
        stream.set_nonblocking(true).ok()?;
        Some((TcpStream::from_std(stream).ok()?, peer))
    })
}

/// The address as an origin: scheme, host and port.
pub(crate) fn origin(address: SocketAddr, is_tls: bool) -> String {
    format!("{}://{address}", if is_tls { "https" } else { "http" })
}

/// hyper's builder of HTTP/1 and HTTP/2 connections.
pub(crate) type Builder = auto::Builder<StreamExecutor>;

// Each stream of an HTTP/2 connection runs in a task that can be aborted. Aborting the task resets
// the stream, because hyper resets a stream that is dropped before the end of its response.

tokio::task_local! {
    static STREAM: AbortHandle;
}

/// Spawns an abortable task for each stream.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StreamExecutor;

impl<F> hyper::rt::Executor<F> for StreamExecutor
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, stream: F) {
        let (handle, registration) = AbortHandle::new_pair();
        tokio::spawn(STREAM.scope(handle, Abortable::new(stream, registration)));
    }
}

/// The handle that aborts the stream of the current task.
fn current_stream() -> Option<AbortHandle> {
    STREAM.try_with(Clone::clone).ok()
}

/// The divisor of the share of all connections that one address may have: 2 means half of them.
const ADDRESS_SHARE: usize = 2;
/// The maximum number of streams of one HTTP/2 connection.
const STREAMS_MAX: u32 = 100;
/// The number of streams that all connections from one address share: the more connections the
/// address has, the fewer streams a new connection gets. The reason is memory: a stream whose
/// response is not read takes about 13 kB.
const STREAMS_OF_ADDRESS: usize = 2_000;
/// The minimum number of streams of one HTTP/2 connection, regardless of how many connections its
/// address has.
const STREAMS_MIN: u32 = 4;
/// How long a connection may be idle while other connections wait for a permit.
const CROWDED_IDLE_TIMEOUT: Duration = Duration::from_secs(5);

/// The permits of all connections.
pub(super) struct ConnPermits {
    free: Arc<Semaphore>,
    by_address: Arc<Mutex<HashMap<IpAddr, usize>>>,
    connections_max: usize,
    address_max: usize,
    /// Whether connections wait for a permit.
    is_crowded: AtomicBool,
}

/// A permit that is not assigned to an address yet.
pub(super) struct FreePermit(OwnedSemaphorePermit);

/// The permit of a connection, released on drop.
pub(super) struct ConnPermit {
    by_address: Arc<Mutex<HashMap<IpAddr, usize>>>,
    address: IpAddr,
    _permit: OwnedSemaphorePermit,
}

impl ConnPermits {
    pub(super) fn new(limits: &Limits) -> Self {
        let half = (limits.connections_max / ADDRESS_SHARE).max(1);
        let address_max = match limits.connections_per_address_max {
            0 => usize::MAX,
            max => max.min(half),
        };
        let free = Arc::new(Semaphore::new(limits.connections_max.min(Semaphore::MAX_PERMITS)));
        let is_crowded = AtomicBool::new(false);
        let connections_max = limits.connections_max;
        Self { free, by_address: Arc::default(), connections_max, address_max, is_crowded }
    }

    /// Waits until a permit is free and returns it. The caller accepts no further connection in the
    /// meantime: new connections wait in the listener's queue. `None` if the semaphore is closed.
    pub(super) async fn acquire(&self, crowded_log: &mut LogThrottle) -> Option<FreePermit> {
        let permit = match self.try_acquire() {
            Some(permit) => permit,
            None => {
                if crowded_log.try_acquire() {
                    tracing::warn!(
                        connections_max = self.connections_max,
                        "the limit of connections is reached (--max-connections, the limit of open \
                         files, or that of --admin-listen or --console-listen): new ones wait"
                    );
                }
                self.is_crowded.store(true, Ordering::Relaxed);
                FreePermit(self.free.clone().acquire_owned().await.ok()?)
            }
        };
        self.is_crowded.store(false, Ordering::Relaxed);
        Some(permit)
    }

    /// A permit, if one is free.
    pub(super) fn try_acquire(&self) -> Option<FreePermit> {
        self.free.clone().try_acquire_owned().ok().map(FreePermit)
    }

    /// Assigns a permit to the address of a connection; `None` if the address has too many
    /// connections already.
    pub(super) fn assign(
        &self,
        permit: FreePermit,
        peer: IpAddr,
        limits: &Limits,
    ) -> Option<ConnPermit> {
        let address = network(peer);
        let is_capped = !limits.trusted_proxies.contains(peer.to_canonical());
        let mut by_address = self.by_address.lock().unwrap_or_else(PoisonError::into_inner);
        let open = by_address.get(&address).copied().unwrap_or_default();
        if is_capped && open >= self.address_max {
            return None;
        }
        by_address.insert(address, open + 1);
        Some(ConnPermit { by_address: self.by_address.clone(), address, _permit: permit.0 })
    }

    /// The maximum number of streams of a new HTTP/2 connection. `is_shared` means that the
    /// connection belongs to a trusted proxy, which carries the requests of many clients.
    pub(super) fn streams_max(&self, peer: IpAddr, is_shared: bool) -> u32 {
        if is_shared {
            return STREAMS_MAX;
        }
        let by_address = self.by_address.lock().unwrap_or_else(PoisonError::into_inner);
        let open = by_address.get(&network(peer)).copied().unwrap_or(1);
        let share = u32::try_from(STREAMS_OF_ADDRESS / open.max(1)).unwrap_or(u32::MAX);
        share.clamp(STREAMS_MIN, STREAMS_MAX)
    }

    /// How long a connection may be idle: less than usual while other connections wait for a
    /// permit.
    pub(super) fn idle_timeout(&self, limits: &Limits) -> Duration {
        if self.is_crowded.load(Ordering::Relaxed) {
            limits.idle_timeout.min(CROWDED_IDLE_TIMEOUT)
        } else {
            limits.idle_timeout
        }
    }
}

impl Drop for ConnPermit {
    fn drop(&mut self) {
        let mut by_address = self.by_address.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(open) = by_address.get_mut(&self.address) {
            *open -= 1;
            if *open == 0 {
                by_address.remove(&self.address);
            }
        }
    }
}

/// The address that counts as one client: an IPv4 address as it is, an IPv6 address as its /64
/// network, which belongs to one household.
pub(crate) fn network(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => IpAddr::V6((u128::from(address) & !u128::from(u64::MAX)).into()),
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn limits(all: usize, of_address: usize) -> Limits {
        Limits {
            header_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(60),
            write_timeout: Duration::from_secs(15),
            connections_max: all,
            connections_per_address_max: of_address,
            trusted_proxies: "10.0.0.1".parse().unwrap(),
        }
    }

    async fn take(permits: &ConnPermits, peer: &str, limits: &Limits) -> Option<ConnPermit> {
        let free = permits.acquire(&mut LogThrottle::default()).await.unwrap();
        permits.assign(free, peer.parse().unwrap(), limits)
    }

    #[tokio::test]
    async fn no_address_gets_more_than_half_of_the_permits() {
        let limits = limits(8, 8_192);
        let permits = ConnPermits::new(&limits);
        let mut permits_held = Vec::new();
        for _ in 0..4 {
            permits_held.push(take(&permits, "1.1.1.1", &limits).await.unwrap());
        }
        assert!(take(&permits, "1.1.1.1", &limits).await.is_none());
        assert!(take(&permits, "::ffff:1.1.1.1", &limits).await.is_none(), "the same address");
        for _ in 0..4 {
            permits_held.push(take(&permits, "10.0.0.1", &limits).await.unwrap());
        }
        drop(permits_held);
        assert!(take(&permits, "1.1.1.1", &limits).await.is_some(), "permits are released");
    }

    #[tokio::test]
    async fn addresses_of_one_ipv6_network_share_permits() {
        let limits = limits(8, 1);
        let permits = ConnPermits::new(&limits);
        let _first = take(&permits, "2001:db8::1", &limits).await.unwrap();
        assert!(take(&permits, "2001:db8::2", &limits).await.is_none());
        assert!(take(&permits, "2001:db8:0:1::1", &limits).await.is_some(), "another network");
    }

    #[tokio::test]
    async fn waits_for_a_free_permit() {
        let limits = limits(1, 0);
        let permits = ConnPermits::new(&limits);
        let only = take(&permits, "1.1.1.1", &limits).await.unwrap();
        let mut warnings = LogThrottle::default();
        let mut waiting = Box::pin(permits.acquire(&mut warnings));
        assert!(waiting.as_mut().now_or_never().is_none());
        assert_eq!(permits.idle_timeout(&limits), CROWDED_IDLE_TIMEOUT);
        drop(only);
        assert!(waiting.await.is_some());
        assert_eq!(permits.idle_timeout(&limits), limits.idle_timeout);
        assert!(!warnings.try_acquire(), "the warning was logged once");
    }

    #[tokio::test]
    async fn more_connections_of_an_address_mean_fewer_streams_for_a_new_one() {
        let limits = limits(6_000, 0);
        let permits = ConnPermits::new(&limits);
        let (many, other) = ("1.1.1.1".parse().unwrap(), "1.1.1.2".parse().unwrap());
        let mut permits_held = Vec::new();
        for (connections, streams) in [(1, 100), (20, 100), (40, 50), (500, 4), (5_000, 4)] {
            while permits_held.len() < connections {
                permits_held.push(take(&permits, "1.1.1.1", &limits).await.unwrap());
            }
            assert_eq!(permits.streams_max(many, false), streams, "{connections}");
            assert_eq!(permits.streams_max(many, true), STREAMS_MAX, "a proxy's");
            assert_eq!(permits.streams_max(other, false), STREAMS_MAX, "another address");
        }
    }
}
