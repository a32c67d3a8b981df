//! Accepts connections and detects their protocol.
//!
//! The first byte identifies TLS. Over TLS, the protocol that ALPN negotiated is used. Without TLS or
//! without ALPN, a connection that starts with the HTTP/2 preface is HTTP/2, and any other connection
//! is HTTP/1.1. The client library aioapns sends HTTP/2 over TLS without ALPN, and APNs accepts it.

mod frame_filter;
mod http1;
mod http2;

#[cfg(test)]
pub(crate) use frame_filter::{FrameInjector, filter};

use std::io::Cursor;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::state::SandboxState;

/// How long a client may take for each of: its first bytes, the TLS handshake, the HTTP/2 handshake
/// and the head of an HTTP/1.1 request.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// How long to wait after a failed accept. Most of these failures mean that the process has no free
/// file descriptor.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);

/// The first byte of a TLS record with a handshake.
const TLS_HANDSHAKE: u8 = 0x16;

/// Accepts connections until `shutdown`.
pub(crate) async fn accept(
    listener: TcpListener,
    state: Arc<SandboxState>,
    shutdown: CancellationToken,
    tasks: TaskTracker,
) {
    loop {
        let next = async {
            let permit = Arc::clone(&state.connection_permits).acquire_owned().await;
            (permit.expect("the semaphore is never closed"), listener.accept().await)
        };
        let (permit, accepted) = tokio::select! {
            () = shutdown.cancelled() => return,
            next = next => next,
        };
        let Ok((stream, _)) = accepted else {
            tokio::time::sleep(ACCEPT_RETRY).await;
            continue;
        };
        let connection = serve(Arc::clone(&state), stream);
        let (shutdown, dropped) = (shutdown.clone(), state.drop_signal());
        tasks.spawn(async move {
            // Boxed, since the state of a TLS connection is large.
            let connection = Box::pin(dropped.run_until_cancelled_owned(connection));
            shutdown.run_until_cancelled(connection).await;
            drop(permit);
        });
    }
}

/// Serves one connection. An error ends the connection, and only the client sees it.
async fn serve(state: Arc<SandboxState>, stream: TcpStream) {
    // Nagle's algorithm would delay small frames.
    let _ = stream.set_nodelay(true);
    let Some((first, stream)) = peek(stream).await else { return };
    if first[0] != TLS_HANDSHAKE {
        return serve_http(state, is_http2(first), stream).await;
    }
    let certificate = state.settings.borrow().certificate;
    let acceptor = TlsAcceptor::from(Arc::clone(state.credentials.tls.get(certificate)));
    let handshake = tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream));
    let Ok(Ok(stream)) = handshake.await else { return state.log.handshake_failed() };
    let negotiated = stream.get_ref().1.alpn_protocol().map(|protocol| protocol == b"h2");
    if let Some(is_http2) = negotiated {
        return serve_http(state, is_http2, stream).await;
    }
    let Some((first, stream)) = peek(stream).await else { return };
    serve_http(state, is_http2(first), stream).await;
}

/// Reads the first bytes of `stream`. Returns them and a stream that yields them again. `None` when the
/// stream ends or [`HANDSHAKE_TIMEOUT`] passes before.
async fn peek<S>(mut stream: S) -> Option<([u8; 3], impl AsyncRead + AsyncWrite + Unpin)>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut first = [0; 3];
    let read = tokio::time::timeout(HANDSHAKE_TIMEOUT, stream.read_exact(&mut first));
    read.await.ok()?.ok()?;
    let (reader, writer) = tokio::io::split(stream);
    Some((first, tokio::io::join(Cursor::new(first).chain(reader), writer)))
}

fn is_http2(first: [u8; 3]) -> bool {
    &first == b"PRI"
}

async fn serve_http<S>(state: Arc<SandboxState>, is_http2: bool, stream: S)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let number = state.next_connection();
    if is_http2 {
        http2::serve(state, number, stream).await;
    } else {
        http1::serve(state, number, stream).await;
    }
}
