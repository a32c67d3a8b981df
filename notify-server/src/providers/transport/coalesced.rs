//! A socket that is read in larger steps.

use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// How long the next read waits after a read that emptied the buffer of the socket.
const READ_INTERVAL: Duration = Duration::from_millis(1);

/// A socket that is read at most once per [`READ_INTERVAL`], unless its buffer is full. Many responses
/// then share one wake-up and one system call. Without this, an engine that is not busy wakes up for
/// almost every response, which costs a tenth of the CPU of a fan-out. A response waits at most
/// this long, and only if another one arrived just before it.
pub(super) struct Coalesced<T> {
    io: T,
    timer: Pin<Box<Sleep>>,
    /// Whether the next read waits for the timer.
    is_waiting: bool,
}

impl<T> Coalesced<T> {
    pub(super) fn new(io: T) -> Self {
        Self { io, timer: Box::pin(sleep(READ_INTERVAL)), is_waiting: false }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Coalesced<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.is_waiting {
            if self.timer.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            self.is_waiting = false;
        }
        let filled_before = buf.filled().len();
        let result = Pin::new(&mut self.io).poll_read(cx, buf);
        let has_read = buf.filled().len() > filled_before;
        if has_read && buf.remaining() > 0 {
            self.timer.as_mut().reset(Instant::now() + READ_INTERVAL);
            self.is_waiting = true;
        }
        result
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Coalesced<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_arrives_within_a_millisecond_is_read_at_once() {
        let (mut peer, io) = duplex(64);
        let mut socket = Coalesced::new(io);
        let mut buffer = [0; 32];
        peer.write_all(b"first").await.unwrap();
        let start = Instant::now();
        assert_eq!(socket.read(&mut buffer).await.unwrap(), 5);
        assert_eq!(start.elapsed(), Duration::ZERO, "the first response is read at once");
        peer.write_all(b"second").await.unwrap();
        peer.write_all(b"third").await.unwrap();
        assert_eq!(socket.read(&mut buffer).await.unwrap(), 11);
        assert_eq!(start.elapsed(), READ_INTERVAL);
    }

    #[tokio::test(start_paused = true)]
    async fn a_full_buffer_is_read_on_at_once() {
        let (mut peer, io) = duplex(64);
        let mut socket = Coalesced::new(io);
        peer.write_all(&[7; 40]).await.unwrap();
        let start = Instant::now();
        let mut bytes = [0; 40];
        for chunk in bytes.chunks_mut(10) {
            assert_eq!(socket.read(chunk).await.unwrap(), 10);
        }
        assert_eq!((bytes, start.elapsed()), ([7; 40], Duration::ZERO));
    }
}
