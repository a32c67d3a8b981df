//! The body of a request on its connection, and what happens to the part that the server did not read.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, header};
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio_util::sync::CancellationToken;

/// The longest unread body for which the connection is kept, in bytes. A new connection costs the client
/// more than the rest of such a body.
const DISCARDED_BYTES_MAX: u64 = 65_536;
/// How long an unread body may arrive on a connection that is kept.
const DISCARD_TIMEOUT: Duration = Duration::from_secs(5);
/// How long an unread body is read before the connection is closed. A connection that is closed while the
/// client sends is reset, and the client may lose the response (RFC 9112 section 9.6).
const LINGER_TIMEOUT: Duration = Duration::from_secs(1);

/// The body of a request, as it arrives.
pub(crate) struct RequestStream {
    incoming: Incoming,
    /// Whether the server began to read it, so that the client was asked for it.
    was_polled: bool,
    has_ended: bool,
}

impl RequestStream {
    pub(super) fn new(incoming: Incoming) -> Self {
        Self { incoming, was_polled: false, has_ended: false }
    }

    /// Decides about the unread rest of the body when the response is known. The response gets
    /// `Connection: close` if the connection will be closed. The returned future reads the rest. The
    /// connection reads its next request after that, or closes if the future ends before the body.
    pub(super) fn discard(
        self,
        is_http2: bool,
        request_expects_continue: bool,
        response: &mut HeaderMap,
    ) -> Option<impl Future<Output = ()> + Send + 'static> {
        // HTTP/2 resets the stream alone.
        if is_http2 || self.is_end_stream() {
            return None;
        }
        let is_short = self.size_hint().upper().is_some_and(|rest| rest <= DISCARDED_BYTES_MAX);
        let is_kept =
            is_short && !request_expects_continue && !response.contains_key(header::CONNECTION);
        if !is_kept {
            response.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        let timeout = if is_kept { DISCARD_TIMEOUT } else { LINGER_TIMEOUT };
        let Self { mut incoming, was_polled, .. } = self;
        // Reading would ask the client for a body that it has not begun to send.
        (was_polled || !request_expects_continue).then_some(async move {
            let rest = async { while let Some(Ok(_)) = incoming.frame().await {} };
            let _ = tokio::time::timeout(timeout, rest).await;
        })
    }
}

/// Whether the client sends the body only after `100 Continue` (RFC 9110 section 10.1.1).
pub(super) fn expects_continue(request: &HeaderMap) -> bool {
    request.contains_key(header::EXPECT)
}

/// Runs `discarding` until it ends or the server closes its connections.
pub(super) async fn until_closing(
    discarding: impl Future<Output = ()>,
    closing: &CancellationToken,
) {
    tokio::select! {
        () = discarding => {}
        () = closing.cancelled() => {}
    }
}

impl Body for RequestStream {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        self.was_polled = true;
        let frame = ready!(Pin::new(&mut self.incoming).poll_frame(cx));
        self.has_ended = !matches!(frame, Some(Ok(_)));
        Poll::Ready(frame)
    }

    /// A chunked body has ended after its last frame, which [`Incoming`] does not remember.
    fn is_end_stream(&self) -> bool {
        self.has_ended || self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}
