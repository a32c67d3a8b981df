//! How the pool opens, shares, fills and retires connections.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use tokio::net::TcpListener;
use tokio::time::Instant;

use super::peer::{self, BAD_REQUEST, OK, Peer};
use super::{Fixture, NO_ERROR, fixture, outcome, pool_of, send};
use crate::providers::Processing;
use crate::providers::transport::{MIN_RESPONSES_FOR_HEALTHY, STREAMS_MAX};

#[tokio::test(start_paused = true)]
async fn many_requests_share_one_connection() {
    let fixture = fixture().await;
    let sent = fixture.send_many(50);
    let mut peer = fixture.accept(100).await;
    for stream in peer.requests(50).await {
        peer.answer_with(stream, BAD_REQUEST, stream.to_string().as_bytes(), true).await;
    }
    let mut bodies = Vec::new();
    for sent in sent {
        let reply = sent.await.unwrap().unwrap();
        assert_eq!(reply.status, StatusCode::BAD_REQUEST);
        bodies.push(String::from_utf8(reply.body.to_vec()).unwrap().parse::<u32>().unwrap());
    }
    bodies.sort_unstable();
    assert_eq!(bodies, (0..50).map(|n| n * 2 + 1).collect::<Vec<_>>());
    assert_eq!(fixture.pool.connections(), 1);
}

#[tokio::test(start_paused = true)]
async fn requests_wait_for_the_stream_limit() {
    let fixture = fixture().await;
    let sent = fixture.send_many(10);
    assert_eq!(fixture.pool.max_concurrency(), None);
    let mut peer = fixture.accept(1).await;
    let first = peer.request().await;
    assert_eq!(fixture.pool.max_concurrency(), Some(1));
    peer.answer(first, OK).await;
    peer.settings(Some(1_000)).await;
    for stream in peer.requests(9).await {
        peer.answer(stream, OK).await;
    }
    for sent in sent {
        assert_eq!(sent.await.unwrap().unwrap().status, StatusCode::OK);
    }
    assert_eq!(fixture.pool.max_concurrency(), Some(1_000));
    assert_eq!(fixture.pool.connections(), 1, "an APNs that begins with one stream is waited for");
}

#[tokio::test(start_paused = true)]
async fn a_second_connection_is_opened_when_the_streams_of_the_first_are_used_up() {
    let fixture = fixture().await;
    let mut first = fixture.warm(2).await;

    let sent = fixture.send_many(3);
    let streams = first.requests(2).await;
    let mut second = fixture.accept(2).await;
    let stream = second.request().await;
    second.answer(stream, OK).await;
    for stream in streams {
        first.answer(stream, OK).await;
    }
    for sent in sent {
        sent.await.unwrap().unwrap();
    }
    assert_eq!(fixture.pool.connections(), 2);
    assert_eq!(fixture.pool.max_concurrency(), Some(4));
}

/// A connection that begins with one stream and never answers on it must not block all other requests.
#[tokio::test(start_paused = true)]
async fn connection_without_first_response_is_not_waited_for() {
    let fixture = fixture().await;
    let silent = fixture.send();
    let mut first = fixture.accept(1).await;
    let stream = first.request().await;
    first.goaway(stream, NO_ERROR).await;
    let waiting = fixture.send();
    let asked_at = Instant::now();
    let mut second = fixture.accept(1).await;
    let stream = second.request().await;
    second.answer(stream, OK).await;
    assert_eq!(waiting.await.unwrap().unwrap().status, StatusCode::OK);
    let waited = asked_at.elapsed();
    assert!(waited < Duration::from_secs(5), "{waited:?}, and an answer has thirty seconds");
    assert_eq!(outcome(silent).await.1, Processing::Unknown);
}

#[tokio::test(start_paused = true)]
async fn lowered_stream_limit_is_respected() {
    let fixture = fixture().await;
    let sent = fixture.send_many(100);
    let mut peer = fixture.accept(100).await;
    let streams = peer.requests(100).await;
    peer.settings(Some(1)).await;
    // Two further requests must wait until the others are done, and are then sent one by one.
    for stream in &streams[..99] {
        peer.answer(*stream, OK).await;
    }
    let late = fixture.send_many(2);
    peer.answer(streams[99], OK).await;
    for sent in sent {
        sent.await.unwrap().unwrap();
    }
    assert_eq!(fixture.pool.max_concurrency(), Some(1));
    let stream = peer.request().await;
    peer.answer(stream, OK).await;
    let stream = peer.request().await;
    peer.answer(stream, OK).await;
    for late in late {
        late.await.unwrap().unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn timed_out_request_releases_its_stream() {
    let fixture = fixture().await;
    let sent = fixture.send();
    let mut peer = fixture.accept(1).await;
    let stream = peer.request().await;
    sent.abort();
    let next = fixture.send();
    let again = peer.request().await;
    assert_ne!(stream, again);
    peer.answer(again, OK).await;
    next.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn failing_origin_is_retried_once_a_second_across_pools() {
    let fixture = fixture().await;
    let other = pool_of(&fixture.pools, &fixture.listener, "two");
    let address = fixture.listener.local_addr().unwrap();
    let (pools, pool) = (fixture.pools, fixture.pool);
    drop(fixture.listener);
    let began = Instant::now();
    for _ in 0..3 {
        for pool in [&pool, &other] {
            let failure = send(Arc::clone(pool)).await.unwrap_err();
            assert!(failure.reason.starts_with("connect_failed: "), "{}", failure.reason);
            assert_eq!(failure.outcome, Processing::NotProcessed);
        }
    }
    assert_eq!(began.elapsed().as_secs(), 5, "six tries of one origin, a second apart");

    let listener = TcpListener::bind(address).await.unwrap();
    let sent = tokio::spawn(send(Arc::clone(&pool)));
    let mut peer = Peer::accept(&listener, None).await;
    let stream = peer.request().await;
    peer.answer(stream, OK).await;
    sent.await.unwrap().unwrap();
    assert_eq!(pool.max_concurrency(), Some(STREAMS_MAX), "no limit is our own limit");
    drop(pools);
}

/// A server may replace a connection after a number of requests. At full speed that happens within
/// the second in which the end of a connection counts as a failure.
#[tokio::test(start_paused = true)]
async fn established_connection_is_replaced_at_once_others_after_a_second() {
    for (answers, waited_ms) in
        [(MIN_RESPONSES_FOR_HEALTHY, 0), (MIN_RESPONSES_FOR_HEALTHY - 1, 1_000)]
    {
        let fixture = fixture().await;
        let sent = fixture.send_many(answers);
        let mut first = fixture.accept(STREAMS_MAX as u32).await;
        for stream in first.requests(answers).await {
            first.answer(stream, OK).await;
        }
        for sent in sent {
            sent.await.unwrap().unwrap();
        }
        let ended = Instant::now();
        first.goaway(0, NO_ERROR).await;
        drop(first);
        let next = fixture.send();
        let mut second = fixture.accept(100).await;
        let stream = second.request().await;
        assert_eq!(ended.elapsed().as_millis() / 10 * 10, waited_ms, "after {answers} answers");
        second.answer(stream, OK).await;
        next.await.unwrap().unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn one_failed_connection_fails_all_its_waiters() {
    let fixture = fixture().await;
    let Fixture { listener, pools: _pools, pool } = fixture;
    drop(listener);
    let began = Instant::now();
    let sent: Vec<_> = (0..500).map(|_| tokio::spawn(send(Arc::clone(&pool)))).collect();
    for sent in sent {
        assert_eq!(outcome(sent).await.1, Processing::NotProcessed);
    }
    assert!(began.elapsed() < Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn missing_settings_time_out() {
    let fixture = fixture().await;
    let sent = fixture.send();
    let (silent, _) = fixture.listener.accept().await.unwrap();
    assert_eq!(outcome(sent).await, ("settings_timeout".to_owned(), Processing::NotProcessed));
    drop(silent);
}

#[tokio::test(start_paused = true)]
async fn pools_are_shared_by_credential_and_dropped_with_their_last_user() {
    let fixture = fixture().await;
    let same = pool_of(&fixture.pools, &fixture.listener, "one");
    let other = pool_of(&fixture.pools, &fixture.listener, "two");
    assert!(Arc::ptr_eq(&fixture.pool, &same));
    assert!(!Arc::ptr_eq(&fixture.pool, &other));

    let sent = fixture.send();
    let mut peer = fixture.accept(100).await;
    let stream = peer.request().await;
    peer.answer(stream, OK).await;
    sent.await.unwrap().unwrap();
    drop((fixture.pool, same));
    while let Some(frame) = peer.frame().await {
        let goes = frame.kind == peer::GOAWAY || frame.kind == peer::SETTINGS;
        assert!(goes, "only a goodbye comes after the last user, not {}", frame.kind);
    }
}

#[tokio::test(start_paused = true)]
async fn a_retired_connection_ends_its_requests_and_takes_no_more() {
    let fixture = fixture().await;
    let sent = fixture.send();
    let mut first = fixture.accept(100).await;
    let stream = first.request().await;
    fixture.pool.retire(1);
    let next = fixture.send();
    let mut second = fixture.accept(100).await;
    let on_second = second.request().await;
    second.answer(on_second, OK).await;
    first.answer(stream, OK).await;
    assert_eq!(sent.await.unwrap().unwrap().connection, 1);
    assert_eq!(next.await.unwrap().unwrap().connection, 2);
}
