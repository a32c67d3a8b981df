//! A socket that reports reads and writes to the connection's [`ConnTimeouts`]. It also replaces
//! hyper's own error responses to malformed requests, which do not pass the pipeline, by ours.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use uuid::Uuid;

use crate::api::json_reply::JSON_CONTENT_TYPE;
use crate::api::pipeline::NO_STORE;
use crate::api::server::connection::ConnTimeouts;

/// A monitored socket.
pub(super) struct MonitoredIo<S> {
    stream: S,
    timeouts: Arc<ConnTimeouts>,
    /// What is being written instead of an error response of hyper.
    replacement: Option<ReplacementResponse>,
}

struct ReplacementResponse {
    bytes: Vec<u8>,
    written: usize,
}

impl<S> MonitoredIo<S> {
    pub(super) fn new(stream: S, timeouts: Arc<ConnTimeouts>) -> Self {
        Self { stream, timeouts, replacement: None }
    }
}

impl<S: AsyncWrite + Unpin> MonitoredIo<S> {
    fn poll_write_all(
        &mut self,
        cx: &mut Context<'_>,
        replacement: &mut ReplacementResponse,
    ) -> Poll<io::Result<()>> {
        while replacement.written < replacement.bytes.len() {
            let rest = &replacement.bytes[replacement.written..];
            let written = ready!(Pin::new(&mut self.stream).poll_write(cx, rest))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            replacement.written += written;
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for MonitoredIo<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        if buf.filled().len() > before {
            self.timeouts.bytes_read();
        }
        read
    }
}

/// Writes one buffer at a time: responses are small, and one of hyper's own is in a single buffer.
impl<S: AsyncWrite + Unpin> AsyncWrite for MonitoredIo<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let replacement = self.replacement.take().or_else(|| replacement_of(buf, &self.timeouts));
        let written = match replacement {
            None => Pin::new(&mut self.stream).poll_write(cx, buf),
            Some(mut replacement) => {
                let written = self.poll_write_all(cx, &mut replacement).map_ok(|()| buf.len());
                // hyper polls again with the same buffer, and the write continues.
                self.replacement = written.is_pending().then_some(replacement);
                written
            }
        };
        match &written {
            Poll::Pending => self.timeouts.write_stalled(),
            Poll::Ready(Ok(bytes)) => self.timeouts.bytes_written(*bytes),
            Poll::Ready(Err(_)) => {}
        }
        written
    }

    /// Called once everything is written. Over TLS the socket may not have accepted it yet.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        match &flushed {
            Poll::Pending => self.timeouts.write_stalled(),
            Poll::Ready(_) => self.timeouts.flushed(),
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// The replacement of an error response that hyper sends for a malformed request. Our own responses
/// always have a request id.
fn replacement_of(response: &[u8], timeouts: &ConnTimeouts) -> Option<ReplacementResponse> {
    if timeouts.in_flight() > 0 || !response.starts_with(b"HTTP/1.1 4") {
        return None;
    }
    let response = std::str::from_utf8(response).ok()?;
    if response.contains("x-request-id:") || !response.ends_with("\r\n\r\n") {
        return None;
    }
    let status_line = response.lines().next()?;
    let what = match status_line.get(9..12)? {
        "431" => "headers: are more than this server reads",
        "414" => "url: is longer than this server reads",
        _ => "request: is not HTTP",
    };
    let (id, body) = (Uuid::now_v7(), format!("{{\"errors\":[\"{what}\"]}}"));
    let bytes = format!(
        "{status_line}\r\ncontent-type: {JSON_CONTENT_TYPE}\r\nx-request-id: {id}\r\n\
         cache-control: {NO_STORE}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    Some(ReplacementResponse { bytes: bytes.into_bytes(), written: 0 })
}
