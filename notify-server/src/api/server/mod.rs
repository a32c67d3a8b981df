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
mod limits;
pub(crate) mod min_rate;
mod permits;
pub(crate) mod request_stream;
mod state;
mod streams;
pub(crate) mod timeouts;
pub(crate) mod transfer;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};

use self::connection::Connection;
pub(crate) use self::limits::Limits;
use self::permits::FreePermit;
pub(crate) use self::state::ServerState;
use self::streams::Builder;
use crate::api::pipeline::{PRUNE_INTERVAL, Port};
use crate::telemetry::LogThrottle;

/// Shortest and longest pause after a failed accept, for example when the process has no file
/// descriptors left.
const ACCEPT_PAUSE_MIN: Duration = Duration::from_millis(50);
const ACCEPT_PAUSE_MAX: Duration = Duration::from_secs(1);
/// The maximum number of connections that a stop accepts from the queue of a listener, which is shorter.
/// Without a limit, clients that reconnect would delay the stop.
const QUEUE_MAX: usize = 1_024;

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
