//! Servers that hang, answer slowly or do not read (T5). In each case a request ends after at most
//! thirty seconds, and its stream is free again.

use std::time::Duration;

use http::{HeaderMap, StatusCode};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpListener;
use tokio::time::Instant;

use super::peer::{self, BAD_REQUEST, OK};
use super::{TIME_LIMIT, body, fixture, outcome, request, send};
use crate::outbound::Outbound;
use crate::provider_config::{BaseUrl, ExtraRoots};
use crate::providers::Processing;
use crate::providers::transport::dial::TlsConfigs;
use crate::providers::transport::{Http1, Pools, Protocols};
use notify_sandbox::{Provider, Rule, Sandbox, SandboxConfig, ScriptedResponse};

/// The time between two bytes of a slow server.
const BYTE_EVERY: Duration = Duration::from_secs(10);

/// Otherwise an accepted message would be sent again until it expires, because its answer
/// never ends.
#[tokio::test(start_paused = true)]
async fn slow_body_is_read_for_thirty_seconds_and_status_counts() {
    let fixture = fixture().await;
    for (status, code) in [(OK, StatusCode::OK), (BAD_REQUEST, StatusCode::BAD_REQUEST)] {
        let began = Instant::now();
        let sent = fixture.send();
        let mut peer = fixture.accept(1).await;
        let stream = peer.request().await;
        peer.answer_with(stream, status, b"{", false).await;
        peer.send(peer::DATA, 0, stream, b"\"").await;
        let dawdling = tokio::spawn(async move {
            peer.dawdle(stream, BYTE_EVERY).await;
            peer
        });
        let reply = sent.await.unwrap().unwrap();
        assert_eq!(reply.status, code);
        assert!(reply.body.starts_with(b"{\"") && reply.body.len() <= 6, "{:?}", reply.body);
        assert_eq!(began.elapsed().as_secs(), TIME_LIMIT.as_secs());
        assert_eq!(fixture.pools.connections("one"), [0, 1], "its stream is free");
        let _peer = dawdling.await.unwrap();
        fixture.pool.retire(reply.connection);
    }
}

#[tokio::test(start_paused = true)]
async fn a_window_that_stays_closed_ends_the_request_after_thirty_seconds() {
    let fixture = fixture().await;
    let mut peer = fixture.warm(100).await;
    peer.close_windows().await;
    let began = Instant::now();
    let sent = fixture.send_many(3);
    let silence = tokio::spawn(async move { peer.only_pong().await });
    for sent in sent {
        assert_eq!(outcome(sent).await, ("timeout".to_owned(), Processing::Unknown));
    }
    assert_eq!(began.elapsed().as_secs(), TIME_LIMIT.as_secs());
    assert_eq!(fixture.pools.connections("one"), [0, 1], "all streams are free");
    silence.abort();
}

#[tokio::test(start_paused = true)]
async fn silent_listener_times_out_after_ten_seconds() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base_url = format!("https://localhost:{}", listener.local_addr().unwrap().port());
    let base_url = BaseUrl::parse(&base_url).unwrap();
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let roots = Some(ExtraRoots::parse(&made.cert.pem()).unwrap());
    let pools = Pools::default();
    let pool = pools.get(&base_url, "one".to_owned(), roots, Protocols::Http2);
    let began = Instant::now();
    let sent = tokio::spawn(async move { send(pool).await });
    let (mut io, _) = listener.accept().await.unwrap();
    let mut hello = [0; 1];
    io.read_exact(&mut hello).await.unwrap();
    assert_eq!(outcome(sent).await, ("tls_timeout".to_owned(), Processing::NotProcessed));
    assert_eq!(began.elapsed().as_secs(), 10);
    assert_eq!(pools.connections("one"), [0, 0]);
}

/// One silent stream in a hundred does not delay the others.
#[tokio::test(start_paused = true)]
async fn silent_stream_delays_no_other() {
    let fixture = fixture().await;
    let mut peer = fixture.warm(200).await;
    let began = Instant::now();
    let sent = fixture.send_many(200);
    let streams = peer.requests(200).await;
    for stream in streams.iter().filter(|stream| *stream % 100 != 3) {
        peer.answer(*stream, OK).await;
    }
    let silence = tokio::spawn(async move { peer.only_pong().await });
    let (mut answered, mut silent) = (0, 0);
    for sent in sent {
        match sent.await.unwrap() {
            Ok(_) => answered += 1,
            Err(failure) => {
                assert_eq!(failure.reason, "timeout");
                silent += 1;
            }
        }
    }
    assert_eq!((answered, silent), (196, 4));
    assert_eq!(began.elapsed().as_secs(), TIME_LIMIT.as_secs());
    silence.abort();
}

/// The same over HTTP/1.1: the token endpoint, and endpoints without TLS. A client that read on
/// past its limit would wait an hour for the next byte.
#[tokio::test]
async fn over_http1_no_more_than_the_limit_is_read() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let sandbox = Sandbox::start(listener, SandboxConfig::default()).await.unwrap();
    let rule = Rule::on(Provider::Oauth, ScriptedResponse::status(500))
        .body(&"x".repeat(crate::providers::RESPONSE_BYTES_MAX))
        .more_bytes(1_000, 3_600_000);
    sandbox.add_rule(rule).unwrap();
    let roots = Some(ExtraRoots::parse(sandbox.ca_certificate()).unwrap());
    let http1 = Http1::new(&TlsConfigs::default(), &roots, &Outbound::new(true));
    let url = format!("{}/token", sandbox.origin());
    let deadline = Instant::now() + TIME_LIMIT;
    let reply = http1.post(&url, HeaderMap::new(), body(), deadline).await.unwrap();
    assert_eq!(reply.body.len(), crate::providers::RESPONSE_BYTES_MAX);
    assert!(Instant::now() < deadline);
    let base_url = BaseUrl::parse(&sandbox.origin()).unwrap();
    let pool = Pools::default().get(&base_url, "one".to_owned(), roots, Protocols::Http2);
    let to_token = || {
        let mut request = request();
        *request.uri_mut() = url.parse().unwrap();
        request
    };
    let reply = pool.send(to_token, body(), deadline).await.unwrap();
    assert_eq!(reply.body.len(), crate::providers::RESPONSE_BYTES_MAX);
    assert!(Instant::now() < deadline);
}
