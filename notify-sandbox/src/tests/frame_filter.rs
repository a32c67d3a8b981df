//! Injected frames, over connections that transfer a few bytes at a time.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};

use crate::transport::{FrameInjector, filter};

const REQUESTS: u32 = 20;

/// A header that is too large for one frame, so that its block continues in a second frame.
const LARGE_HEADER_BYTES: usize = 20_000;

/// A stream that reads and writes only a few bytes at a time. A stream with a small buffer would not work:
/// two ends that must both send an acknowledgement would wait for each other.
struct Chopped {
    inner: DuplexStream,
    bytes_max: usize,
}

impl AsyncRead for Chopped {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut few = vec![0; self.bytes_max.min(buffer.remaining())];
        let mut read = ReadBuf::new(&mut few);
        ready!(Pin::new(&mut self.inner).poll_read(cx, &mut read))?;
        buffer.put_slice(read.filled());
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Chopped {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let few = &bytes[..self.bytes_max.min(bytes.len())];
        Pin::new(&mut self.inner).poll_write(cx, few)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

/// Responds to each request, and announces a new limit before each response.
async fn serve(stream: Chopped, sender: tokio::sync::oneshot::Sender<FrameInjector>) {
    let (filtered, injector) = filter(stream);
    injector.announce_streams(1);
    sender.send(injector.clone()).unwrap();
    let mut connection = h2::server::handshake(filtered).await.unwrap();
    let mut limit = 1;
    while let Some(accepted) = connection.accept().await {
        let (_, mut respond) = accepted.unwrap();
        limit += 1;
        injector.announce_streams(limit);
        let large = "x".repeat(LARGE_HEADER_BYTES);
        let head = Response::builder().header("x-large", large).body(()).unwrap();
        let mut body = respond.send_response(head, false).unwrap();
        body.send_data(Bytes::from(vec![b'y'; 1_000]), true).unwrap();
    }
}

async fn check_responses_and_limits(bytes_max: usize) {
    let (near, far) = tokio::io::duplex(1 << 20);
    let far = Chopped { inner: far, bytes_max };
    let (sender, injector) = tokio::sync::oneshot::channel();
    let server = tokio::spawn(serve(far, sender));
    let (requests, connection) = h2::client::handshake(near).await.unwrap();
    let connection = tokio::spawn(connection);
    let injector = injector.await.unwrap();
    for sent in 1..=REQUESTS {
        let mut requests = requests.clone().ready().await.unwrap();
        let request = Request::get("https://example.com/").body(()).unwrap();
        let (answer, _) = requests.send_request(request, true).unwrap();
        let (head, mut body) = answer.await.unwrap().into_parts();
        assert_eq!(head.headers["x-large"].len(), LARGE_HEADER_BYTES);
        let mut length = 0;
        while let Some(chunk) = body.data().await {
            length += chunk.unwrap().len();
        }
        assert_eq!(length, 1_000);
        assert_eq!(requests.current_max_send_streams(), sent as usize + 1);
    }
    // The client acknowledged each SETTINGS frame in order. The last acknowledgement may still be on its way.
    assert!(injector.acknowledged_streams().is_some_and(|limit| limit >= REQUESTS));
    drop(requests);
    connection.await.unwrap().unwrap();
    server.await.unwrap();
}

#[tokio::test]
async fn frames_are_injected_wherever_the_bytes_are_split() {
    for bytes_max in [1, 7, 9, 10, 100, 65_536] {
        let exchange = check_responses_and_limits(bytes_max);
        let exchange = tokio::time::timeout(Duration::from_secs(30), exchange);
        exchange.await.unwrap_or_else(|_| panic!("stuck with {bytes_max} bytes"));
    }
}
