//! The sender against a server whose frames the test controls. The time is paused, and it
//! jumps where the test waits, so that nothing here sleeps.

mod peer;
mod pooling;
mod proxy;
mod slow;
mod tls;

use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request, StatusCode};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::{Pool, Pools, Protocols, ProviderResponse, TransportError};
use crate::provider_config::BaseUrl;
use crate::providers::{Processing, RESPONSE_BYTES_MAX};
use peer::{BAD_REQUEST, OK, Peer, body};

const NO_ERROR: u32 = 0;
const PROTOCOL_ERROR: u32 = 1;
const REFUSED_STREAM: u32 = 7;
const TIME_LIMIT: Duration = Duration::from_secs(30);

struct Fixture {
    listener: TcpListener,
    pools: Pools,
    pool: Arc<Pool>,
}

async fn fixture() -> Fixture {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let pools = Pools::default();
    let pool = pool_of(&pools, &listener, "one");
    Fixture { listener, pools, pool }
}

fn pool_of(pools: &Pools, listener: &TcpListener, credential: &str) -> Arc<Pool> {
    let address = listener.local_addr().unwrap();
    let base_url = BaseUrl::parse(&format!("http://{address}")).unwrap();
    pools.get(&base_url, credential.to_owned(), None, Protocols::Http2)
}

fn request() -> Request<()> {
    let mut request = Request::new(());
    *request.method_mut() = Method::POST;
    *request.uri_mut() = "http://127.0.0.1/3/device/aa".parse().unwrap();
    request
}

async fn send(pool: Arc<Pool>) -> Result<ProviderResponse, TransportError> {
    pool.send(request, body(), Instant::now() + TIME_LIMIT).await
}

impl Fixture {
    fn send(&self) -> JoinHandle<Result<ProviderResponse, TransportError>> {
        tokio::spawn(send(Arc::clone(&self.pool)))
    }

    fn send_many(&self, count: usize) -> Vec<JoinHandle<Result<ProviderResponse, TransportError>>> {
        (0..count).map(|_| self.send()).collect()
    }

    async fn accept(&self, max_streams: u32) -> Peer {
        Peer::accept(&self.listener, Some(max_streams)).await
    }

    /// A request that has reached the peer on the first connection, and its stream.
    async fn sent(&self) -> (JoinHandle<Result<ProviderResponse, TransportError>>, Peer, u32) {
        let sent = self.send();
        let mut peer = self.accept(100).await;
        let stream = peer.request().await;
        (sent, peer, stream)
    }

    /// The peer of the first connection, once it has answered a request.
    async fn warm(&self, max_streams: u32) -> Peer {
        let warm = self.send();
        let mut peer = self.accept(max_streams).await;
        let stream = peer.request().await;
        peer.answer(stream, OK).await;
        warm.await.unwrap().unwrap();
        peer
    }
}

async fn outcome(
    sent: JoinHandle<Result<ProviderResponse, TransportError>>,
) -> (String, Processing) {
    let failure = sent.await.unwrap().unwrap_err();
    (failure.reason.into_owned(), failure.outcome)
}

#[tokio::test(start_paused = true)]
async fn streams_above_a_goaway_are_resent_and_those_below_complete() {
    let fixture = fixture().await;
    let sent = fixture.send_many(4);
    let mut first = fixture.accept(100).await;
    assert_eq!(first.requests(4).await, [1, 3, 5, 7]);
    first.goaway(3, NO_ERROR).await;
    let mut second = fixture.accept(100).await;
    assert_eq!(second.requests(2).await, [1, 3]);
    for stream in [1, 3] {
        second.answer(stream, BAD_REQUEST).await;
        first.answer(stream, OK).await;
    }
    let mut statuses = Vec::new();
    for sent in sent {
        statuses.push(sent.await.unwrap().unwrap().status.as_u16());
    }
    assert_eq!(statuses, [200, 200, 400, 400], "nothing below the id is sent twice");
}

#[tokio::test(start_paused = true)]
async fn goaway_with_an_error_still_separates_processed_streams() {
    let fixture = fixture().await;
    let sent = fixture.send_many(2);
    let mut first = fixture.accept(100).await;
    first.requests(2).await;
    first.goaway(1, PROTOCOL_ERROR).await;
    drop(first);
    let mut second = fixture.accept(100).await;
    let stream = second.request().await;
    second.answer(stream, OK).await;
    let mut sent = sent.into_iter();
    assert_eq!(
        outcome(sent.next().unwrap()).await,
        ("connection_cut".to_owned(), Processing::Unknown)
    );
    assert_eq!(sent.next().unwrap().await.unwrap().unwrap().status, StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn constant_goaway_ends_as_not_processed() {
    let fixture = fixture().await;
    let sent = fixture.send();
    for _ in 0..3 {
        let mut peer = fixture.accept(100).await;
        peer.request().await;
        peer.goaway(0, NO_ERROR).await;
    }
    assert_eq!(outcome(sent).await, ("goaway".to_owned(), Processing::NotProcessed));
}

#[tokio::test(start_paused = true)]
async fn refused_stream_is_resent_at_once() {
    let fixture = fixture().await;
    let (sent, mut peer, stream) = fixture.sent().await;
    peer.reset(stream, REFUSED_STREAM).await;
    let again = peer.request().await;
    assert_ne!(stream, again);
    peer.answer(again, OK).await;
    assert_eq!(sent.await.unwrap().unwrap().status, StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn constantly_refused_stream_ends_as_not_processed() {
    let fixture = fixture().await;
    let sent = fixture.send();
    let mut peer = fixture.accept(100).await;
    for _ in 0..3 {
        let stream = peer.request().await;
        peer.reset(stream, REFUSED_STREAM).await;
    }
    assert_eq!(outcome(sent).await, ("refused_stream".to_owned(), Processing::NotProcessed));
}

#[tokio::test(start_paused = true)]
async fn any_other_reset_leaves_the_outcome_unknown() {
    let fixture = fixture().await;
    let (sent, mut peer, stream) = fixture.sent().await;
    peer.reset(stream, 2).await;
    assert_eq!(outcome(sent).await, ("reset: INTERNAL_ERROR".to_owned(), Processing::Unknown));
}

#[tokio::test(start_paused = true)]
async fn a_cut_after_the_body_leaves_the_outcome_unknown() {
    let fixture = fixture().await;
    let sent = fixture.send_many(3);
    let mut peer = fixture.accept(100).await;
    peer.requests(3).await;
    drop(peer);
    for sent in sent {
        assert_eq!(outcome(sent).await, ("connection_cut".to_owned(), Processing::Unknown));
    }
}

#[tokio::test(start_paused = true)]
async fn a_broken_frame_ends_the_connection_with_an_unknown_outcome() {
    let fixture = fixture().await;
    let (sent, mut peer, stream) = fixture.sent().await;
    peer.send(peer::HEADERS, 5, stream, &[0xff; 40]).await;
    let (reason, certainty) = outcome(sent).await;
    assert!(reason.starts_with("protocol_error: "), "{reason}");
    assert_eq!(certainty, Processing::Unknown);
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_is_never_answered_ends_after_thirty_seconds() {
    let fixture = fixture().await;
    let began = Instant::now();
    let sent = fixture.send();
    let mut peer = fixture.accept(100).await;
    peer.request().await;
    let silence = tokio::spawn(async move { peer.only_pong().await });
    assert_eq!(outcome(sent).await, ("timeout".to_owned(), Processing::Unknown));
    assert_eq!(began.elapsed().as_secs(), 30);
    assert_eq!(fixture.pool.connections(), 1, "a connection that answers pings stays");
    silence.abort();
}

#[tokio::test(start_paused = true)]
async fn dead_peer_is_detected_by_ping() {
    let fixture = fixture().await;
    let mut peer = fixture.warm(100).await;
    tokio::time::advance(Duration::from_secs(10)).await;

    let began = Instant::now();
    let sent = fixture.send();
    peer.request().await;
    let silence = tokio::spawn(async move { peer.fall_silent().await });
    assert_eq!(outcome(sent).await, ("connection_cut".to_owned(), Processing::Unknown));
    let waited = began.elapsed().as_secs_f64().round();
    assert_eq!(waited, 20.0, "a ping at 15 s and 15 s for its answer");
    assert_eq!(fixture.pool.connections(), 0);
    silence.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn idle_connection_is_pinged_once_an_hour() {
    let fixture = fixture().await;
    let mut peer = fixture.warm(100).await;
    let began = Instant::now();
    while let Some(frame) = peer.frame().await {
        if frame.kind == peer::PING {
            break;
        }
    }
    let waited = began.elapsed().as_secs_f64().round() as u64;
    assert!((3_600..3_630).contains(&waited), "{waited}");
}

#[tokio::test(start_paused = true)]
async fn endless_response_is_read_up_to_the_limit_and_cancelled() {
    let fixture = fixture().await;
    let (sent, mut peer, stream) = fixture.sent().await;
    // `content-length: 1000000000`, literal, by its index in the static table.
    let mut head = vec![BAD_REQUEST, 0x0f, 0x0d, 10];
    head.extend(b"1000000000");
    peer.send(peer::HEADERS, 4, stream, &head).await;
    for _ in 0..3 {
        peer.send(peer::DATA, 0, stream, &[b'x'; 16_384]).await;
    }
    // The window is a byte short of the fourth.
    while peer.frame().await.is_some_and(|frame| frame.kind != peer::WINDOW_UPDATE) {}
    peer.send(peer::DATA, 0, stream, &[b'x'; 16_384]).await;
    let reply = sent.await.unwrap().unwrap();
    assert_eq!((reply.status.as_u16(), reply.body.len()), (400, RESPONSE_BYTES_MAX));
    while let Some(frame) = peer.frame().await {
        if frame.kind == peer::RST_STREAM {
            assert_eq!(frame.stream, stream);
            return;
        }
    }
    panic!("the stream was not cancelled");
}

#[tokio::test(start_paused = true)]
async fn response_with_truncated_body_keeps_its_status() {
    let fixture = fixture().await;
    let (sent, mut peer, stream) = fixture.sent().await;
    peer.answer_with(stream, BAD_REQUEST, b"{\"reas", false).await;
    peer.reset(stream, 2).await;
    let reply = sent.await.unwrap().unwrap();
    assert_eq!(reply.status, StatusCode::BAD_REQUEST);
}
