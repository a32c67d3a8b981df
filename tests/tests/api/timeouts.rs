//! Slow clients are disconnected, and others are served in the meantime.

use std::time::Instant;

use notify_server::config::{Config, Span};
use notify_tests::{TestServer, read_to_end};
use tokio::io::AsyncWriteExt;

use crate::PATIENCE;

fn short(config: &mut Config) {
    config.header_timeout = Span::from_secs(1);
    config.body_timeout = Span::from_secs(1);
    config.idle_timeout = Span::from_secs(2);
}

#[tokio::test]
async fn an_incomplete_head_times_out() {
    let server = TestServer::without_providers_with(short).await;
    for start in ["", "G", "GET /healthz HTTP/1.1\r\nhost: a\r\n", "PRI * HTTP/2.0\r\n\r\nSM"] {
        let mut stream = server.connect().await;
        stream.write_all(start.as_bytes()).await.unwrap();
        let began = Instant::now();
        assert_eq!(read_to_end(&mut stream).await, "", "{start}");
        assert!(began.elapsed() < PATIENCE / 2);
    }
    server.anonymous().get("/healthz").await.ok();
}

#[tokio::test]
async fn a_dripping_head_times_out() {
    let server = TestServer::without_providers_with(short).await;
    let mut stream = server.connect().await;
    let mut head = "GET /healthz HTTP/1.1\r\nhost: ".bytes().chain(std::iter::repeat(b'a'));
    let began = Instant::now();
    let mut drip = tokio::time::interval(std::time::Duration::from_millis(20));
    while began.elapsed() < PATIENCE {
        drip.tick().await;
        if stream.write_all(&[head.next().unwrap()]).await.is_err() {
            return;
        }
    }
    panic!("the server took a byte at a time for {PATIENCE:?}");
}

#[tokio::test]
async fn a_missing_body_is_400_and_closes_the_connection() {
    let server = TestServer::without_providers_with(short).await;
    let head = format!(
        "POST /v1/devices HTTP/1.1\r\nhost: a\r\nx-api-key: {}\r\ncontent-length: 100\r\n\r\n{{",
        server.api_key()
    );
    let answer = server.anonymous().exchange(head.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    assert!(answer.contains(r#"{"errors":["body: did not arrive in time"]}"#), "{answer}");
}

#[tokio::test]
async fn a_truncated_body_stores_nothing() {
    let server = TestServer::without_providers().await;
    let mut stream = server.connect().await;
    let head = format!(
        "POST /v1/notifications HTTP/1.1\r\nhost: a\r\nx-api-key: {}\r\ncontent-length: 500\r\n\r\n{}",
        server.api_key(),
        r#"{"text":"a","platforms":["android"]}"#
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
    let answer = read_to_end(&mut stream).await;
    assert!(!answer.contains(" 200 "), "{answer}");
    let listed = server.caller().get("/v1/notifications").await.ok();
    assert_eq!(listed["notifications"], serde_json::json!([]));
}

#[tokio::test]
async fn a_connection_may_pause_and_is_closed_when_idle() {
    let server = TestServer::without_providers_with(short).await;
    let mut stream = server.connect().await;
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
    let answer = read_to_end(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
}

#[tokio::test]
async fn a_client_that_does_not_read_is_disconnected() {
    let server =
        TestServer::without_providers_with(|config| config.write_timeout = Span::from_secs(1))
            .await;
    let mut stream = server.connect().await;
    let request = b"GET /openapi.json HTTP/1.1\r\nhost: a\r\n\r\n".repeat(100);
    let unread = tokio::time::timeout(PATIENCE, async {
        // Answers fill every buffer between the two; then the server waits no longer.
        while stream.write_all(&request).await.is_ok() {}
    });
    unread.await.expect("the server closes the connection");
    server.anonymous().get("/healthz").await.ok();
}

#[tokio::test]
async fn connections_over_the_limit_are_closed_until_others_end() {
    let server =
        TestServer::without_providers_with(|config| config.max_connections_per_address = 2).await;
    let (first, mut second) = (server.connect().await, server.connect().await);
    // The two are counted once the server answers on one of them.
    let request = b"GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n";
    second.write_all(request).await.unwrap();
    second.readable().await.unwrap();
    assert_eq!(server.anonymous().exchange(request).await, "", "the third has no place");
    drop(first);
    let began = Instant::now();
    loop {
        let answer = server
            .anonymous()
            .exchange(b"GET /healthz HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
            .await;
        if answer.starts_with("HTTP/1.1 200 ") {
            return;
        }
        assert!(began.elapsed() < PATIENCE, "the place is given back");
        tokio::task::yield_now().await;
    }
}
