//! Accepts connections and serves them with hyper. warp's server has no TLS, no header timeout and
//! no limits of connections.
//!
//! ```text
//! stop ──▶ no new connections ──▶ new requests get 503 ──▶ requests in flight end (or the grace
//! period does) ──▶ connections close
//! ```

mod connection;
mod connection_permits;
pub(crate) mod min_rate;
mod monitored_io;
mod transfer;

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{AbortHandle, Abortable};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::connection::Connection;
pub(crate) use self::connection_permits::network;
use self::connection_permits::{ConnPermits, FreePermit, LogThrottle};
pub(crate) use self::transfer::{PIECE_BYTES_MAX, Piece, Transfer};
use crate::api::pipeline::{PRUNE_INTERVAL, Pipeline};
use crate::config::Networks;

/// Shortest and longest pause after a failed accept, for example when the process has no file
/// descriptors left.
const ACCEPT_PAUSE_MIN: Duration = Duration::from_millis(50);
const ACCEPT_PAUSE_MAX: Duration = Duration::from_secs(1);

/// The limits of connections.
#[derive(Debug, Clone)]
pub(crate) struct Limits {
    /// Time for the TLS handshake, and for each request's head.
    pub(crate) header_timeout: Duration,
    /// How long a connection may be without a request.
    pub(crate) idle_timeout: Duration,
    /// How long a client may stop reading.
    pub(crate) write_timeout: Duration,
    /// Most connections.
    pub(crate) connections_max: usize,
    /// Most connections of one address, at most half of all; 0 is no limit. Trusted proxies are not
    /// limited.
    pub(crate) connections_per_address_max: usize,
    /// Proxies whose connections carry many clients.
    pub(crate) trusted_proxies: Networks,
}

/// The state that all connections share.
pub(crate) struct ServerState {
    /// Handles requests.
    pub(crate) pipeline: Arc<Pipeline>,
    /// Limits.
    pub(crate) limits: Limits,
    /// TLS, if it is configured.
    pub(crate) tls: Option<TlsAcceptor>,
    /// Ends accepting, and refuses new requests.
    pub(crate) stopping: CancellationToken,
    /// Closes idle connections.
    pub(crate) closing: CancellationToken,
    /// All connections, to wait for.
    pub(crate) connections: TaskTracker,
    /// All requests in flight, to wait for before connections are closed.
    pub(crate) requests: TaskTracker,
}

/// Accepts connections until `stopping`; they stay open after that until [`ServerState::closing`].
pub(crate) async fn serve(listener: TcpListener, state: Arc<ServerState>) {
    let builder = Arc::new(connection::builder(&state.limits));
    let permits = Arc::new(ConnPermits::new(&state.limits));
    let mut prune = tokio::time::interval(PRUNE_INTERVAL);
    let (mut crowded, mut failing) = (LogThrottle::default(), LogThrottle::default());
    let mut pause = ACCEPT_PAUSE_MIN;
    loop {
        let mut accepting = pin!(accept(&listener, &permits, &mut crowded));
        let accepted = loop {
            tokio::select! {
                () = state.stopping.cancelled() => return,
                _ = prune.tick() => state.pipeline.prune(),
                accepted = &mut accepting => break accepted,
            }
        };
        match accepted {
            Ok(Accepted { stream, peer, permit }) => {
                pause = ACCEPT_PAUSE_MIN;
                // Responses are written as a whole; waiting to fill a packet only delays them.
                let _ = stream.set_nodelay(true);
                if let Some(permit) = permits.assign(permit, peer.ip(), &state.limits) {
                    let connection = Connection { stream, peer: peer.ip(), permit };
                    let connections = state.connections.clone();
                    let (state, builder) = (state.clone(), builder.clone());
                    let permits = permits.clone();
                    connections
                        .spawn(async move { connection.run(&state, &builder, &permits).await });
                }
            }
            Err(error) => {
                if failing.is_due() {
                    tracing::warn!(%error, "accepting connections failed, will retry");
                }
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(ACCEPT_PAUSE_MAX);
            }
        }
    }
}

/// An accepted connection with its permit.
struct Accepted {
    stream: TcpStream,
    peer: SocketAddr,
    permit: FreePermit,
}

/// Accepts the next connection. While it waits for a permit, others stay in the listener's queue.
async fn accept(
    listener: &TcpListener,
    permits: &ConnPermits,
    crowded: &mut LogThrottle,
) -> std::io::Result<Accepted> {
    let (stream, peer) = listener.accept().await?;
    let permit = permits.acquire(crowded).await;
    let permit = permit.ok_or_else(|| std::io::Error::other("there are no permits"))?;
    Ok(Accepted { stream, peer, permit })
}

/// The address as an origin: scheme, host and port.
pub(crate) fn origin(address: SocketAddr, is_tls: bool) -> String {
    format!("{}://{address}", if is_tls { "https" } else { "http" })
}

/// hyper's builder of HTTP/1 and HTTP/2 connections.
pub(crate) type Builder = auto::Builder<StreamExecutor>;

// Each stream of an HTTP/2 connection runs in a task that can be aborted: hyper resets a stream
// that is dropped before the end of its response.

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
