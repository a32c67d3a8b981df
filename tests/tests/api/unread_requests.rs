//! Responses that the server sends before it has read the body of the request. Over HTTP/1.1, the connection
//! is either kept, or the response says that it closes (RFC 9112 section 9.6).

use notify_tests::{TestServer, WAIT_MAX};
use reqwest::Method;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A body that the server reads and drops.
const SHORT: usize = 20;
/// A body that is longer than what the server reads to keep a connection.
const LONG: usize = 100_000;

/// Reads one response with a length: its head in lower case.
async fn response(stream: &mut TcpStream) -> String {
    let reading = async {
        let mut bytes = Vec::new();
        let end = loop {
            if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
                break at + 4;
            }
            let read = stream.read_buf(&mut bytes).await.unwrap();
            assert!(read > 0, "no response: {}", String::from_utf8_lossy(&bytes));
        };
        let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
        let length = head.split_once("content-length: ").unwrap().1;
        let length: usize = length.split("\r\n").next().unwrap().parse().unwrap();
        while bytes.len() < end + length {
            assert!(stream.read_buf(&mut bytes).await.unwrap() > 0, "{head}");
        }
        assert_eq!(bytes.len(), end + length, "one response: {head}");
        head
    };
    tokio::time::timeout(WAIT_MAX, reading).await.expect("a response")
}

async fn is_closed(stream: &mut TcpStream) {
    let mut rest = Vec::new();
    let read = tokio::time::timeout(WAIT_MAX, stream.read_to_end(&mut rest)).await;
    // A reset ends a connection too.
    let _ = read.expect("the server closes the connection");
    assert!(rest.is_empty(), "{}", String::from_utf8_lossy(&rest));
}

/// Sends a request after the response to an earlier one, on the same connection.
async fn is_kept(stream: &mut TcpStream, case: &str) {
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
    let next = response(stream).await;
    assert!(next.starts_with("http/1.1 200 "), "{case}: {next}");
}

/// A request line, a key, and the status that comes before the body is read.
async fn cases(server: &TestServer) -> Vec<(String, u16)> {
    let app = server.app_id;
    let path = format!("/admin/v1/apps/{app}/keys");
    let reader = server.admin().post(&path, &json!({"scopes": ["read"]})).await.ok();
    let reader = reader["api_key"].as_str().unwrap().to_owned();
    let own = server.api_key();
    let head =
        |line: &str, key: &str| format!("{line} HTTP/1.1\r\nhost: a\r\nx-api-key: {key}\r\n");
    vec![
        (head("POST /v1/notifications", "nk_wrong"), 401),
        (head("POST /admin/v1/apps", own), 401),
        (head("POST /device/v1/devices", "np_wrong"), 401),
        (head("POST /hooks/messenger/nobody", ""), 401),
        (head("POST /v1/notifications", &reader), 403),
        (head("POST /v1/nowhere", own), 404),
        (head("POST /nowhere", own), 404),
        (head("PATCH /v1/notifications", own), 405),
        (head("PUT /healthz", own), 405),
        (head("GET /healthz", own), 200),
        (head("DELETE /v1/devices/nobody", own), 404),
    ]
}

#[tokio::test]
async fn a_response_before_the_body_keeps_the_connection_or_says_that_it_closes() {
    let server =
        TestServer::without_providers_with(|config| config.auth_failures_per_minute = 0).await;
    for (head, status) in cases(&server).await {
        let status = format!("http/1.1 {status} ");
        let short = format!("{head}content-length: {SHORT}\r\n\r\n");
        let body = "a".repeat(SHORT);
        for is_late in [false, true] {
            let mut stream = server.connect().await;
            let first = if is_late { short.clone() } else { format!("{short}{body}") };
            stream.write_all(first.as_bytes()).await.unwrap();
            let answer = response(&mut stream).await;
            assert!(answer.starts_with(&status), "{head} {answer}");
            assert!(!answer.contains("\r\nconnection: close"), "{head} {answer}");
            if is_late {
                stream.write_all(body.as_bytes()).await.unwrap();
            }
            is_kept(&mut stream, &head).await;
        }
        let rows = [
            format!("content-length: {LONG}\r\n\r\n"),
            format!("content-length: {LONG}\r\n\r\n{}", "a".repeat(LONG)),
            "transfer-encoding: chunked\r\n\r\n".to_owned(),
            "transfer-encoding: chunked\r\n\r\n2\r\naa\r\n0\r\n\r\n".to_owned(),
            format!("expect: 100-continue\r\ncontent-length: {SHORT}\r\n\r\n"),
        ];
        for rest in rows {
            let mut stream = server.connect().await;
            stream.write_all(format!("{head}{rest}").as_bytes()).await.unwrap();
            let answer = response(&mut stream).await;
            assert!(answer.starts_with(&status), "{head}{answer}");
            assert!(answer.contains("\r\nconnection: close\r\n"), "{head}{answer}");
            is_closed(&mut stream).await;
        }
    }
}

#[tokio::test]
async fn a_body_over_the_limit_closes_the_connection() {
    let server = TestServer::without_providers_with(|config| config.max_body_bytes = 2_000).await;
    let head = format!(
        "POST /v1/notifications HTTP/1.1\r\nhost: a\r\nx-api-key: {}\r\n",
        server.api_key()
    );
    let chunk = format!("{:x}\r\n{}\r\n", 3_000, "a".repeat(3_000));
    for rest in [
        format!("content-length: {LONG}\r\n\r\n"),
        format!("transfer-encoding: chunked\r\n\r\n{chunk}"),
    ] {
        let mut stream = server.connect().await;
        stream.write_all(format!("{head}{rest}").as_bytes()).await.unwrap();
        let answer = response(&mut stream).await;
        assert!(
            answer.starts_with("http/1.1 413 ") && answer.contains("\r\nconnection: close\r\n"),
            "{answer}"
        );
        is_closed(&mut stream).await;
    }
}

#[tokio::test]
async fn a_refused_rate_keeps_the_connection() {
    let server = TestServer::without_providers_with(|config| config.rate_limit = 1).await;
    let head = format!(
        "POST /v1/nowhere HTTP/1.1\r\nhost: a\r\nx-api-key: {}\r\ncontent-length: {SHORT}\r\n\r\n",
        server.api_key()
    );
    let mut stream = server.connect().await;
    let limited = async {
        loop {
            stream.write_all(head.as_bytes()).await.unwrap();
            let answer = response(&mut stream).await;
            assert!(!answer.contains("\r\nconnection: close"), "{answer}");
            stream.write_all("a".repeat(SHORT).as_bytes()).await.unwrap();
            if answer.starts_with("http/1.1 429 ") {
                break;
            }
        }
    };
    tokio::time::timeout(WAIT_MAX, limited).await.expect("the limit is reached");
    is_kept(&mut stream, "after 429").await;
}

#[tokio::test]
async fn a_body_that_was_read_keeps_the_connection() {
    let server = TestServer::without_providers().await;
    let body = json!({"device_id": "d", "platform": "android", "push_token": "t"}).to_string();
    let head =
        format!("POST /v1/devices HTTP/1.1\r\nhost: a\r\nx-api-key: {}\r\n", server.api_key());
    let chunked = format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    for rest in [
        format!("content-length: {}\r\n\r\n{body}", body.len()),
        format!("transfer-encoding: chunked\r\n\r\n{chunked}"),
        "content-length: 1\r\n\r\n{".to_owned(),
        "content-length: 0\r\n\r\n".to_owned(),
    ] {
        let mut stream = server.connect().await;
        stream.write_all(format!("{head}{rest}").as_bytes()).await.unwrap();
        let answer = response(&mut stream).await;
        assert!(!answer.contains("\r\nconnection: close"), "{rest}: {answer}");
        is_kept(&mut stream, &rest).await;
    }
}

#[tokio::test]
async fn http2_has_no_connection_header() {
    let server = TestServer::without_providers().await;
    let http = notify_tests::http_client().http2_prior_knowledge().build().unwrap();
    for _ in 0..2 {
        let url = format!("{}/v1/notifications", server.origin());
        let request = http.request(Method::POST, url).body("a".repeat(LONG));
        let answer = request.send().await.unwrap();
        assert_eq!((answer.status().as_u16(), answer.version()), (401, http::Version::HTTP_2));
        assert!(!answer.headers().contains_key("connection"));
    }
}
