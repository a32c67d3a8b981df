//! The accept loop: our own over hyper, because warp's has no TLS, no header timeout and no caps.
//!
//! ```text
//! stop ──▶ no new connections ──▶ new requests get 503 ──▶ requests in flight end (or grace is
//! over) ──▶ connections close
//! ```

mod connection;
mod connection_limits;
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
pub(crate) use self::connection_limits::network;
use self::connection_limits::{FreePlace, Occasional, Places};
pub(crate) use self::transfer::{PIECE_BYTES_MAX, Piece, Transfer};
use crate::api::pipeline::{Front, TIDY_EVERY};
use crate::config::Networks;

/// Shortest and longest pause after failed accepts: out of descriptors, which connections that end
/// give back.
const ACCEPT_PAUSE_MIN: Duration = Duration::from_millis(50);
const ACCEPT_PAUSE_MAX: Duration = Duration::from_secs(1);

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
    /// Most connections of one address; 0 is no limit, and half of all is the most otherwise.
    /// Trusted proxies have none.
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
    let builder = Arc::new(connection::builder(&serving.limits));
    let places = Arc::new(Places::new(&serving.limits));
    let mut tidy = tokio::time::interval(TIDY_EVERY);
    let (mut crowded, mut failing) = (Occasional::default(), Occasional::default());
    let mut pause = ACCEPT_PAUSE_MIN;
    loop {
        let mut accepting = pin!(accept(&listener, &places, &mut crowded));
        let accepted = loop {
            tokio::select! {
                () = serving.stopping.cancelled() => return,
                _ = tidy.tick() => serving.front.tidy(),
                accepted = &mut accepting => break accepted,
            }
        };
        match accepted {
            Ok(Accepted { stream, peer, place }) => {
                pause = ACCEPT_PAUSE_MIN;
                // Answers are written whole; waiting to fill a packet only delays them.
                let _ = stream.set_nodelay(true);
                if let Some(place) = places.take(place, peer.ip(), &serving.limits) {
                    let connection = Connection { stream, peer: peer.ip(), place };
                    let (serving, builder) = (serving.clone(), builder.clone());
                    let (connections, places) = (serving.connections.clone(), places.clone());
                    connections
                        .spawn(async move { connection.run(&serving, &builder, &places).await });
                }
            }
            Err(error) => {
                if failing.is_due() {
                    tracing::warn!(%error, "connections cannot be accepted: they wait");
                }
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(ACCEPT_PAUSE_MAX);
            }
        }
    }
}

/// A connection that came in, with a place for it.
struct Accepted {
    stream: TcpStream,
    peer: SocketAddr,
    place: FreePlace,
}

/// The next connection. While it waits for a place, no other is taken out of the listener's queue.
async fn accept(
    listener: &TcpListener,
    places: &Places,
    crowded: &mut Occasional,
) -> std::io::Result<Accepted> {
    let (stream, peer) = listener.accept().await?;
    let place = places.free(crowded).await;
    let place = place.ok_or_else(|| std::io::Error::other("there are no places"))?;
    Ok(Accepted { stream, peer, place })
}

/// The address as a browser would write it.
pub(crate) fn origin(address: SocketAddr, is_tls: bool) -> String {
    format!("{}://{address}", if is_tls { "https" } else { "http" })
}

/// hyper's builder for both protocols.
pub(crate) type Builder = auto::Builder<StreamExecutor>;

// Runs the streams of HTTP/2 connections, each so that it can be ended alone: dropped before its
// answer is over, hyper resets it.

tokio::task_local! {
    static STREAM: AbortHandle;
}

/// Spawns a task for each stream.
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

/// Ends the stream in whose task this is called.
fn current_stream() -> Option<AbortHandle> {
    STREAM.try_with(Clone::clone).ok()
}
