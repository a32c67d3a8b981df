//! Accepts connections and detects their protocol: TLS by its first byte, HTTP/2 with prior knowledge
//! by its preface, or else HTTP/1.1. Over TLS the negotiated protocol decides. Without one the preface
//! does, since aioapns offers none and speaks HTTP/2, which APNs accepts.

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

/// How long a client may take until its protocol is known.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// How long to wait after a failed accept, mostly for a file descriptor.
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
        let accepted = tokio::select! {
            () = shutdown.cancelled() => return,
            accepted = listener.accept() => accepted,
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
        });
    }
}

/// Serves one connection. Its errors are left to the client.
async fn serve(state: Arc<SandboxState>, stream: TcpStream) {
    // Small frames must not wait for each other.
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

/// The first bytes of a stream, and the stream with them.
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
