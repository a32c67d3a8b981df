//! Bodies of webhook calls: read only after the head has been checked, and bounded.

use std::time::Instant;

use notify_tests::TestServer;
use tokio::io::AsyncWriteExt;

use super::{APP_SECRET, WEBHOOK_SECRET, call, from_meta, from_telegram, hooked, signature};
use crate::PATIENCE;

const BODY_BYTES_MAX: usize = 262_144;
/// Bodies of the largest size that one client may have under way.
const BODIES_MAX: usize = 8;
/// A small body, and more than those leave over.
const SMALL_BYTES: usize = 1_000;
const UNKNOWN_ID: &str = "0190a7c0-0000-7000-8000-00000000ffff";

/// The head of a call whose body the server has to ask for.
fn head(path: &str, header: &str, length: usize) -> String {
    format!(
        "POST /hooks/{path} HTTP/1.1\r\nhost: a\r\n{header}\r\ncontent-length: {length}\r\n\
         expect: 100-continue\r\nconnection: close\r\n\r\n"
    )
}

#[tokio::test]
async fn the_body_is_not_read_when_the_head_is_invalid() {
    let (server, app) = hooked().await;
    let signed = format!("x-hub-signature-256: {}", signature(APP_SECRET, b""));
    let secret = format!("x-telegram-bot-api-secret-token: {WEBHOOK_SECRET}");
    for (path, header) in [
        (format!("messenger/{UNKNOWN_ID}"), &*signed),
        ("messenger/x".to_owned(), &signed),
        (format!("messenger/{app}"), "x-nothing: a"),
        (format!("messenger/{app}"), "x-hub-signature-256: sha256="),
        (format!("messenger/{app}"), "x-hub-signature-256: sha1=00"),
        (format!("messenger/{app}"), &secret),
        (format!("telegram/{UNKNOWN_ID}"), &secret),
        ("telegram/%00".to_owned(), &secret),
        (format!("telegram/{app}"), "x-nothing: a"),
        (format!("telegram/{app}"), "x-telegram-bot-api-secret-token: another"),
        (format!("telegram/{app}"), &signed),
    ] {
        let answer = server.anonymous().exchange(head(&path, header, 1_000).as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 401 "), "{path} {header}: {answer}");
        assert!(answer.contains("missing or invalid signature"), "{path} {header}: {answer}");
    }
}

#[tokio::test]
async fn bodies_over_256_kib_are_413() {
    let (server, app) = hooked().await;
    let large = vec![b' '; BODY_BYTES_MAX + 1];
    from_meta(&server, &app, large.clone()).await.is(413);
    from_telegram(&server, &app, large).await.is(413);
    let mut largest = call(&[]).into_bytes();
    largest.resize(BODY_BYTES_MAX, b' ');
    from_meta(&server, &app, largest.clone()).await.ok();
    from_telegram(&server, &app, largest).await.ok();
}

/// Whether a call with a small body is answered by 503 now.
async fn is_busy(server: &TestServer, app: &str) -> bool {
    let answer = from_meta(server, app, " ".repeat(SMALL_BYTES)).await;
    assert!(matches!(answer.status, 200 | 503), "{answer:?}");
    if answer.status == 503 {
        answer.rejected(503, &["the server is busy"]);
        assert_eq!(answer.header("retry-after"), "2");
    }
    answer.status == 503
}

#[tokio::test]
async fn the_bodies_of_one_client_are_bounded_together() {
    let (server, app) = hooked().await;
    // Any client can send such a header: the signature is that of the body.
    let signed = format!("x-hub-signature-256: {}", signature(APP_SECRET, b""));
    let head = head(&format!("messenger/{app}"), &signed, BODY_BYTES_MAX);
    let mut held = Vec::new();
    for _ in 0..BODIES_MAX {
        let mut stream = server.connect().await;
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(&[b' '; BODY_BYTES_MAX - 1]).await.unwrap();
        held.push(stream);
    }
    let began = Instant::now();
    while !is_busy(&server, &app).await {
        assert!(began.elapsed() < PATIENCE, "the server reads what was sent");
    }
    // Callers with a key have a limit of their own, and so have callers that are authenticated by
    // the head.
    from_telegram(&server, &app, " ".repeat(SMALL_BYTES)).await.ok();
    server.caller().post("/v1/devices", &crate::fixtures::android("d1")).await.ok();
    drop(held);
    while is_busy(&server, &app).await {
        assert!(began.elapsed() < PATIENCE, "the room is given back");
    }
}
