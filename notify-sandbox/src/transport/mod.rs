//! Accepts connections and finds out what they speak: TLS by its first byte (0x16), HTTP/2 with
//! prior knowledge by its preface, else HTTP/1.1. Over TLS the protocol that was negotiated decides,
//! where one was: aioapns offers none and speaks HTTP/2, which APNs takes.

mod h1_connection;
mod h2_connection;
mod rewind;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::scene::Scene;
use rewind::Rewind;

/// How long a client may take until it has said what it speaks.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// How long to wait when no connection can be accepted, for want of file descriptors mostly.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);

/// The first byte of a TLS record that holds a handshake.
const TLS_HANDSHAKE: u8 = 0x16;

/// Accepts until it is stopped.
pub(super) async fn accept(
    listener: TcpListener,
    scene: Arc<Scene>,
    stopping: CancellationToken,
    tasks: TaskTracker,
) {
    loop {
        let accepted = tokio::select! {
            () = stopping.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, _)) = accepted else {
            tokio::time::sleep(ACCEPT_RETRY).await;
            continue;
        };
        let connection = serve(Arc::clone(&scene), stream);
        let (stopping, cut) = (stopping.clone(), scene.until_cut());
        tasks.spawn(async move {
            // Boxed: the state of a TLS connection is large.
            let connection = Box::pin(cut.run_until_cancelled_owned(connection));
            stopping.run_until_cancelled(connection).await;
        });
    }
}

/// Serves one connection. Whatever ends it is the client's to notice.
async fn serve(scene: Arc<Scene>, stream: TcpStream) {
    // Small frames must not wait for each other.
    let _ = stream.set_nodelay(true);
    let Some((first, stream)) = first_bytes(stream).await else { return };
    if first[0] != TLS_HANDSHAKE {
        return serve_http(scene, &first == b"PRI", stream).await;
    }
    let certificate = scene.settings.borrow().certificate;
    let acceptor = TlsAcceptor::from(Arc::clone(scene.credentials.tls.get(certificate)));
    let handshake = tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream));
    let Ok(Ok(stream)) = handshake.await else { return scene.journal.handshake_failed() };
    let is_h2 = stream.get_ref().1.alpn_protocol().map(|protocol| protocol == b"h2");
    if let Some(is_h2) = is_h2 {
        return serve_http(scene, is_h2, stream).await;
    }
    let Some((first, stream)) = first_bytes(stream).await else { return };
    serve_http(scene, &first == b"PRI", stream).await;
}

async fn first_bytes<S: AsyncRead + Unpin>(mut stream: S) -> Option<([u8; 3], Rewind<S>)> {
    let mut first = [0; 3];
    let read = tokio::time::timeout(HANDSHAKE_TIMEOUT, stream.read_exact(&mut first));
    read.await.ok()?.ok()?;
    Some((first, Rewind::new(first, stream)))
}

async fn serve_http<S>(scene: Arc<Scene>, is_h2: bool, stream: S)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let number = scene.next_connection();
    if is_h2 {
        h2_connection::serve(scene, number, stream).await;
    } else {
        h1_connection::serve(scene, number, stream).await;
    }
}
