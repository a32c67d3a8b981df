//! An HTTP/1.1 connection. Every fault except `Silence` closes the connection, because HTTP/1.1 has no
//! other way to fail a request.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http::Response;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, Limited, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};

use super::HANDSHAKE_TIMEOUT;
use crate::handler::{ConnState, Context, Request, TransportAction, handle};
use crate::rules::TrailingBytes;
use crate::state::SandboxState;

type Body = UnsyncBoxBody<Bytes, Infallible>;

pub(super) async fn serve<S>(state: Arc<SandboxState>, number: u64, stream: S)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let conn = Arc::new(ConnState::new(number));
    let requests = Arc::new(AtomicU32::new(0));
    let service = service_fn(move |request| {
        let number = requests.fetch_add(1, Ordering::Relaxed) + 1;
        respond(Arc::clone(&state), Arc::clone(&conn), number, request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HANDSHAKE_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service);
    // An error means that a scripted fault applied or that the client closed the connection.
    let _ = connection.await;
}

async fn respond(
    state: Arc<SandboxState>,
    conn: Arc<ConnState>,
    number: u32,
    request: http::Request<Incoming>,
) -> io::Result<Response<Body>> {
    let (head, body) = request.into_parts();
    let body =
        Limited::new(body, state.body_bytes_max).collect().await.map_err(io::Error::other)?;
    let request = Request { head, body: body.to_bytes(), stream: number };
    let reaction = handle(Context { state: &state, conn: &conn, request: &request });
    if reaction.delay_ms > 0 {
        state.clock.sleep_ms(reaction.delay_ms).await;
    }
    match reaction.action {
        TransportAction::Respond(response) if reaction.trailing.count == 0 => {
            Ok(response.map(|body| Full::new(body).boxed_unsync()))
        }
        TransportAction::Respond(response) => {
            Ok(response.map(|body| with_trailing(state, body, reaction.trailing)))
        }
        TransportAction::Silence => std::future::pending().await,
        TransportAction::Reset
        | TransportAction::Refuse
        | TransportAction::Goaway { .. }
        | TransportAction::Cut => Err(io::Error::from(io::ErrorKind::ConnectionReset)),
    }
}

/// A body of `body` and the `trailing` bytes.
fn with_trailing(state: Arc<SandboxState>, body: Bytes, trailing: TrailingBytes) -> Body {
    let rest = stream::unfold((state, trailing), |(state, mut trailing)| async move {
        let length = Some(trailing.next_len()).filter(|length| *length > 0)?;
        if trailing.every_ms > 0 {
            state.clock.sleep_ms(trailing.every_ms).await;
        }
        Some((trailing.take(length), (state, trailing)))
    });
    let chunks = stream::once(async move { body }).chain(rest);
    StreamBody::new(chunks.map(|chunk| Ok(Frame::data(chunk)))).boxed_unsync()
}
