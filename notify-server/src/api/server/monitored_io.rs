//! A stream that tells its connection's [`Activity`] what comes in and whether what goes out is
//! taken. It also gives hyper's own answers to what is no request the shape of ours (B3): those
//! never pass the front.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use uuid::Uuid;

use crate::api::json_reply::{JSON_CONTENT_TYPE, NO_STORE};
use crate::api::server::connection::Activity;

/// The stream.
pub(super) struct Watched<S> {
    stream: S,
    activity: Arc<Activity>,
    /// What is written in place of an answer of hyper's.
    instead: Option<Instead>,
}

struct Instead {
    bytes: Vec<u8>,
    written: usize,
}

impl<S> Watched<S> {
    pub(super) fn new(stream: S, activity: Arc<Activity>) -> Self {
        Self { stream, activity, instead: None }
    }
}

impl<S: AsyncWrite + Unpin> Watched<S> {
    fn poll_write_all(
        &mut self,
        cx: &mut Context<'_>,
        instead: &mut Instead,
    ) -> Poll<io::Result<()>> {
        while instead.written < instead.bytes.len() {
            let rest = &instead.bytes[instead.written..];
            let written = ready!(Pin::new(&mut self.stream).poll_write(cx, rest))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            instead.written += written;
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        if buf.filled().len() > before {
            self.activity.read();
        }
        read
    }
}

/// Writes one buffer at a time: answers are small, and one of hyper's own is seen whole.
impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let instead = self.instead.take().or_else(|| instead_of(buf, &self.activity));
        let wrote = match instead {
            None => Pin::new(&mut self.stream).poll_write(cx, buf),
            Some(mut instead) => {
                let wrote = self.poll_write_all(cx, &mut instead).map_ok(|()| buf.len());
                // Asked again with the same bytes, it goes on where it stopped.
                self.instead = wrote.is_pending().then_some(instead);
                wrote
            }
        };
        match &wrote {
            Poll::Pending => self.activity.stalled(),
            Poll::Ready(Ok(bytes)) => self.activity.wrote(*bytes),
            Poll::Ready(Err(_)) => {}
        }
        wrote
    }

    /// Called once everything is written: over TLS the socket may not have taken it yet.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        match &flushed {
            Poll::Pending => self.activity.stalled(),
            Poll::Ready(_) => self.activity.flushed(),
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// What to write instead of an answer that hyper gave to what is no request. Ours always carry a
/// request id.
fn instead_of(answer: &[u8], activity: &Activity) -> Option<Instead> {
    if activity.in_flight() > 0 || !answer.starts_with(b"HTTP/1.1 4") {
        return None;
    }
    let answer = std::str::from_utf8(answer).ok()?;
    if answer.contains("x-request-id:") || !answer.ends_with("\r\n\r\n") {
        return None;
    }
    let status_line = answer.lines().next()?;
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
    Some(Instead { bytes: bytes.into_bytes(), written: 0 })
}
