//! One connection: TLS, HTTP/1 or HTTP/2, watched until it ends.

use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use super::activity::{Activity, Verdict};
use super::executor::StreamExecutor;
use super::places::{Place, Places};
use super::stream::Watched;
use super::transfer::Transfers;
use super::{Builder, Limits, Serving};
use crate::api::front::{HEADER_BYTES_MAX, HEADERS_MAX};

/// How long answers that wait for their client may take once the server stops: as long as the body of
/// a caller with a key.
const STOPPING_WAIT: Duration = Duration::from_secs(5);
/// Part of the write timeout after which an HTTP/2 client that sends nothing gets a ping; the rest is
/// the time for its answer.
const HTTP2_PING_PART: u32 = 3;
/// Shortest and longest time between two looks at what a connection does.
const WATCH_MIN: Duration = Duration::from_millis(20);
const WATCH_MAX: Duration = Duration::from_secs(1);
/// How many times our own limits the parser takes, so that the front can answer in our form.
const PARSER_SLACK: usize = 4;

/// An accepted connection.
pub(super) struct Connection {
    pub(super) stream: TcpStream,
    pub(super) peer: IpAddr,
    pub(super) place: Place,
}

/// hyper's builder with our limits; timeouts count only where a timer is set.
pub(super) fn builder(limits: &Limits) -> Builder {
    let mut builder = Builder::new(StreamExecutor);
    let ping_every = limits.write_timeout / HTTP2_PING_PART;
    builder
        .http1()
        .timer(TokioTimer::new())
        // Ours is `Activity`, which tells an idle connection from a slow head.
        .header_read_timeout(None)
        .max_buf_size(HEADER_BYTES_MAX * PARSER_SLACK)
        .max_headers(HEADERS_MAX * PARSER_SLACK)
        .keep_alive(true);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(u32::try_from(HEADER_BYTES_MAX * PARSER_SLACK).unwrap_or(u32::MAX))
        .keep_alive_interval(ping_every)
        .keep_alive_timeout(limits.write_timeout.saturating_sub(ping_every));
    builder
}

impl Connection {
    /// Serves it until it ends.
    pub(super) async fn run(self, serving: &Arc<Serving>, builder: &Builder, places: &Places) {
        let Self { stream, peer, place } = self;
        match &serving.tls {
            None => drive(stream, peer, serving, (builder, places)).await,
            Some(acceptor) => {
                let handshake = acceptor.accept(stream);
                let limit = serving.limits.header_timeout;
                match tokio::time::timeout(limit, handshake).await {
                    Ok(Ok(stream)) => drive(stream, peer, serving, (builder, places)).await,
                    Ok(Err(error)) => tracing::debug!(%error, "no TLS"),
                    Err(_) => tracing::debug!("TLS took too long"),
                }
            }
        }
        drop(place);
    }
}

async fn drive<S>(
    stream: S,
    peer: IpAddr,
    serving: &Arc<Serving>,
    (builder, places): (&Builder, &Places),
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let limits = &serving.limits;
    let activity = Arc::new(Activity::new(limits));
    let is_shared = limits.trusted_proxies.contains(peer.to_canonical());
    let transfers = Transfers::new(activity.clone(), limits.write_timeout, is_shared);
    let transfers = Arc::new(transfers);
    let io = TokioIo::new(Watched::new(stream, activity.clone()));
    let service = service_fn(|request: http::Request<hyper::body::Incoming>| {
        let (front, activity) = (serving.front.clone(), activity.clone());
        let is_http2 = request.version() == http::Version::HTTP_2;
        activity.request_begins(is_http2);
        let guard = InFlight(activity);
        let token = serving.requests.token();
        // HTTP/1 answers one request after the other, and the socket shows who does not read.
        let transfers = is_http2.then(|| transfers.clone());
        async move {
            let Ok(mut answer) = front.answer(request, peer).await;
            let body = answer.body_mut();
            if let Some(transfers) = transfers {
                body.watch(transfers.begin());
            }
            body.hold((guard, token));
            Ok::<_, std::convert::Infallible>(answer)
        }
    });
    let mut builder = builder.clone();
    builder.http2().max_concurrent_streams(places.streams_max(peer, is_shared));
    let mut connection = pin!(builder.serve_connection(io, service));
    // A quarter of the shortest limit is close enough, and cheap.
    let shortest = limits.header_timeout.min(limits.idle_timeout).min(limits.write_timeout);
    let mut watch = tokio::time::interval((shortest / 4).clamp(WATCH_MIN, WATCH_MAX));
    let mut is_retiring = false;
    let mut cut_off = pin!(async {
        serving.stopping.cancelled().await;
        tokio::time::sleep(STOPPING_WAIT).await;
    });
    let mut is_cut_off = false;
    loop {
        tokio::select! {
            ended = connection.as_mut() => {
                if let Err(error) = ended {
                    tracing::debug!(error, "a connection ended early");
                }
                return;
            }
            () = serving.closing.cancelled(), if !is_retiring => {
                connection.as_mut().graceful_shutdown();
                is_retiring = true;
            }
            () = cut_off.as_mut(), if !is_cut_off => {
                transfers.end_all();
                is_cut_off = true;
            }
            _ = watch.tick() => match activity.verdict(limits, places.idle_timeout(limits)) {
                Verdict::Cut => return,
                _ if transfers.end_stuck() => return,
                Verdict::Fine => {}
                Verdict::Retire if is_retiring => {}
                Verdict::Retire => {
                    connection.as_mut().graceful_shutdown();
                    is_retiring = true;
                }
            },
        }
    }
}

/// A request being answered; dropped with it, also when the client went away.
struct InFlight(Arc<Activity>);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.request_ends();
    }
}
