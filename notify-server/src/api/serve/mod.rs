//! The accept loop: our own over hyper, because warp's has no TLS, no header timeout and no caps.
//!
//! ```text
//! stop ──▶ no new connections ──▶ new requests get 503 ──▶ requests in flight end (or grace is
//! over) ──▶ connections close
//! ```

mod activity;
mod connection;
mod stream;

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper_util::rt::TokioExecutor;
use hyper_util::server::conn::auto;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::connection::Connection;
use super::front::{Front, TIDY_EVERY};
use crate::config::Networks;

/// Pause after a failed accept: out of file descriptors, which connections that end give back.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// What one connection may take.
#[derive(Debug, Clone)]
pub(crate) struct Limits {
    /// Time for TLS, and for each request's head.
    pub(crate) header_timeout: Duration,
    /// How long a kept connection may be without a request.
    pub(crate) idle_timeout: Duration,
    /// How long a client may not take what is written to it.
    pub(crate) write_timeout: Duration,
    /// Most connections.
    pub(crate) connections_max: usize,
    /// Most connections of one address; 0 is no limit. Trusted proxies have none.
    pub(crate) connections_per_address_max: usize,
    /// Whose many connections are many clients'.
    pub(crate) trusted_proxies: Networks,
}

/// What serves connections.
pub(crate) struct Serving {
    /// Answers requests.
    pub(crate) front: Arc<Front>,
    /// Caps.
    pub(crate) limits: Limits,
    /// TLS, when it is configured.
    pub(crate) tls: Option<TlsAcceptor>,
    /// Ends accepting, and turns new requests away.
    pub(crate) stopping: CancellationToken,
    /// Closes kept connections.
    pub(crate) closing: CancellationToken,
    /// Every connection, to wait for.
    pub(crate) connections: TaskTracker,
    /// Every request being answered, to wait for before connections are closed.
    pub(crate) requests: TaskTracker,
}

/// Accepts until `stopping`; connections go on after that until [`Serving::closing`].
pub(crate) async fn serve(listener: TcpListener, serving: Arc<Serving>) {
    let builder = Arc::new(connection::builder(TokioExecutor::new()));
    let open = Arc::new(Open::default());
    let mut tidy = tokio::time::interval(TIDY_EVERY);
    loop {
        let accepted = tokio::select! {
            () = serving.stopping.cancelled() => return,
            _ = tidy.tick() => {
                serving.front.tidy();
                continue;
            }
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => {
                // Answers are written whole; waiting to fill a packet only delays them.
                let _ = stream.set_nodelay(true);
                if let Some(place) = open.take(peer.ip(), &serving.limits) {
                    let connection = Connection { stream, peer: peer.ip(), place };
                    let (serving, builder) = (serving.clone(), builder.clone());
                    let connections = serving.connections.clone();
                    connections.spawn(async move { connection.run(&serving, &builder).await });
                }
            }
            Err(error) => {
                tracing::warn!(%error, "a connection was not accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// The address as a browser would write it.
pub(crate) fn origin(address: SocketAddr, is_tls: bool) -> String {
    format!("{}://{address}", if is_tls { "https" } else { "http" })
}

/// hyper's builder for both protocols.
pub(crate) type Builder = auto::Builder<TokioExecutor>;

/// Connections now open, by address.
#[derive(Default)]
struct Open(Mutex<HashMap<IpAddr, usize>>, std::sync::atomic::AtomicUsize);

/// A connection's place among the open ones; given back when it is dropped.
pub(crate) struct Place(Arc<Open>, IpAddr);

impl Open {
    /// A place, or none when one of the caps is reached: the connection is closed at once.
    fn take(self: &Arc<Self>, peer: IpAddr, limits: &Limits) -> Option<Place> {
        use std::sync::atomic::Ordering;
        let mut by_address = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let of_peer = by_address.entry(peer).or_default();
        let per_address_max = limits.connections_per_address_max;
        let is_capped =
            per_address_max > 0 && !limits.trusted_proxies.contains(peer.to_canonical());
        let is_full = self.1.load(Ordering::Relaxed) >= limits.connections_max;
        if is_full || (is_capped && *of_peer >= per_address_max) {
            if *of_peer == 0 {
                by_address.remove(&peer);
            }
            return None;
        }
        *of_peer += 1;
        self.1.fetch_add(1, Ordering::Relaxed);
        Some(Place(self.clone(), peer))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut by_address = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(of_peer) = by_address.get_mut(&self.1) {
            *of_peer -= 1;
            if *of_peer == 0 {
                by_address.remove(&self.1);
            }
        }
        self.0.1.fetch_sub(1, std::sync::atomic::Ordering::Relaxed);
    }
}
