//! One HTTP/1.1 connection. A fault that HTTP/1.1 cannot express closes it.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, Limited, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};

use super::HANDSHAKE_TIMEOUT;
use crate::sandbox::dress::Tail;
use crate::sandbox::exchange::{BODY_BYTES_MAX, Call, Deed, Peer, exchange};
use crate::sandbox::scene::Scene;

/// A body that goes out.
type Outgoing = UnsyncBoxBody<Bytes, Infallible>;

pub(super) async fn serve<S>(scene: Arc<Scene>, number: u64, stream: S)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let peer = Arc::new(Peer::new(number));
    let requests = Arc::new(AtomicU32::new(0));
    let service = service_fn(move |request| {
        let count = requests.fetch_add(1, Ordering::Relaxed) + 1;
        answer(Arc::clone(&scene), Arc::clone(&peer), count, request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HANDSHAKE_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service);
    // It ends with an error when a fault was wanted or the client left.
    let _ = connection.await;
}

async fn answer(
    scene: Arc<Scene>,
    peer: Arc<Peer>,
    count: u32,
    request: Request<Incoming>,
) -> io::Result<Response<Outgoing>> {
    let (head, body) = request.into_parts();
    let body = Limited::new(body, BODY_BYTES_MAX).collect().await.map_err(io::Error::other)?;
    let call = Call { head, body: body.to_bytes(), stream: count };
    let verdict = exchange(&scene, &peer, &call);
    if verdict.delay_ms > 0 {
        scene.wait_ms(verdict.delay_ms).await;
    }
    match verdict.deed {
        Deed::Answer(response) if verdict.tail.bytes == 0 => {
            Ok(response.map(|body| Full::new(body).boxed_unsync()))
        }
        Deed::Answer(response) => Ok(response.map(|body| poured(scene, body, verdict.tail))),
        Deed::Silence => std::future::pending().await,
        Deed::Reset | Deed::Refuse | Deed::Goaway { .. } | Deed::Cut => {
            Err(io::Error::from(io::ErrorKind::ConnectionReset))
        }
    }
}

/// A body and what comes after it, as slowly as is wanted.
fn poured(scene: Arc<Scene>, body: Bytes, tail: Tail) -> Outgoing {
    let rest = stream::unfold((scene, tail), |(scene, mut tail)| async move {
        let bytes = Some(tail.next_bytes()).filter(|bytes| *bytes > 0)?;
        if tail.every_ms > 0 {
            scene.wait_ms(tail.every_ms).await;
        }
        Some((tail.take(bytes), (scene, tail)))
    });
    let all = stream::once(async move { body }).chain(rest);
    StreamBody::new(all.map(|piece| Ok(Frame::data(piece)))).boxed_unsync()
}
