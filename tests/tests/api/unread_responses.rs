//! HTTP/2 responses that a client does not read: the stream is reset, whatever the windows are, and
//! other streams continue.

use std::time::Duration;

use bytes::Bytes;
use h2::client::{Builder, SendRequest};
use h2::{Reason, RecvStream};
use http::Request;
use notify_server::config::Span;
use notify_tests::TestServer;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinHandle;

use crate::PATIENCE;
use crate::fixtures::android;

const WRITE_TIMEOUT: Span = Span::from_secs(1);
/// Room for everything that a test leaves unread.
const CONNECTION_WINDOW: u32 = 16_777_216;
/// Time between two bytes that a slow reader takes.
const DRIP_EVERY: Duration = Duration::from_millis(20);

async fn impatient() -> TestServer {
    TestServer::without_providers_with(|config| config.write_timeout = WRITE_TIMEOUT).await
}

/// An HTTP/2 connection whose streams have that window. It answers pings.
struct Http2 {
    requests: SendRequest<Bytes>,
    driver: JoinHandle<Result<(), h2::Error>>,
    api_key: String,
}

impl Http2 {
    async fn connect(server: &TestServer, window: u32) -> Self {
        let mut builder = Builder::new();
        builder.initial_window_size(window).initial_connection_window_size(CONNECTION_WINDOW);
        let (requests, connection) = builder.handshake(server.connect().await).await.unwrap();
        let driver = tokio::spawn(connection);
        Self { requests, driver, api_key: server.api_key().to_owned() }
    }

    /// The body of an answer of 200.
    async fn get(&mut self, path: &str) -> RecvStream {
        let request = Request::get(format!("http://a{path}")).header("x-api-key", &self.api_key);
        let mut requests = self.requests.clone().ready().await.unwrap();
        let (response, _) = requests.send_request(request.body(()).unwrap(), true).unwrap();
        let response = response.await.unwrap();
        assert_eq!(response.status(), 200, "{path}");
        response.into_body()
    }
}

/// Why a body ended before its end. What comes is not acknowledged.
async fn reset(body: &mut RecvStream) -> Reason {
    let ended = async {
        loop {
            match body.data().await {
                Some(Ok(_)) => {}
                Some(Err(error)) => return error.reason().unwrap(),
                None => panic!("the body ended well"),
            }
        }
    };
    tokio::time::timeout(PATIENCE, ended).await.expect("the stream is ended")
}

#[tokio::test]
async fn streams_without_a_window_are_reset_and_the_connection_stays_open() {
    let server = impatient().await;
    let mut http2 = Http2::connect(&server, 0).await;
    for path in ["/openapi.json", "/metrics", "/healthz", "/docs/swagger-ui-bundle.js"] {
        let mut body = http2.get(path).await;
        assert_eq!(reset(&mut body).await, Reason::CANCEL, "{path}");
    }
    assert!(!http2.driver.is_finished());
}

#[tokio::test]
async fn an_unread_stream_is_reset_while_others_continue() {
    let server = impatient().await;
    let mut http2 = Http2::connect(&server, 65_535).await;
    let mut unread = http2.get("/openapi.json").await;
    let mut resetting = Box::pin(reset(&mut unread));
    let mut read = 0;
    let reason = loop {
        tokio::select! {
            reason = &mut resetting => break reason,
            mut body = http2.get("/healthz") => {
                assert_eq!(body.data().await.unwrap().unwrap(), r#"{"success":true}"#);
                read += 1;
            }
        }
    };
    assert_eq!(reason, Reason::CANCEL);
    assert!(read > 0, "other requests got responses in the meantime");
    let mut body = http2.get("/healthz").await;
    assert!(body.data().await.unwrap().is_ok(), "and afterwards");
}

#[tokio::test]
async fn a_dripping_window_does_not_count_as_reading() {
    let server = impatient().await;
    let mut http2 = Http2::connect(&server, 16).await;
    let mut body = http2.get("/openapi.json").await;
    let mut drip = tokio::time::interval(DRIP_EVERY);
    let dripping = async {
        loop {
            match body.data().await {
                Some(Ok(part)) => {
                    drip.tick().await;
                    body.flow_control().release_capacity(part.len()).unwrap();
                }
                ended => return ended.expect("the body is not whole").unwrap_err().reason(),
            }
        }
    };
    let reason = tokio::time::timeout(PATIENCE, dripping).await.expect("the stream is ended");
    assert_eq!(reason, Some(Reason::CANCEL));
}

#[tokio::test]
async fn a_response_blocked_by_its_stream_closes_the_connection() {
    let server = impatient().await;
    // A window of a byte: the stream has its whole answer, and the client fifteen bytes less.
    let mut http2 = Http2::connect(&server, 1).await;
    let _body = http2.get("/healthz").await;
    let ended = tokio::time::timeout(PATIENCE, http2.driver).await;
    drop(ended.expect("the connection is closed"));
    server.anonymous().get("/healthz").await.ok();
}

#[tokio::test]
async fn on_a_shared_connection_only_the_blocked_response_ends() {
    let server = TestServer::without_providers_with(|config| {
        config.write_timeout = WRITE_TIMEOUT;
        config.trusted_proxies = "127.0.0.1".parse().unwrap();
    })
    .await;
    let mut http2 = Http2::connect(&server, 1).await;
    let mut body = http2.get("/healthz").await;
    assert_eq!(reset(&mut body).await, Reason::CANCEL);
    assert!(!http2.driver.is_finished());
}

#[tokio::test]
async fn an_event_stream_may_be_idle_beyond_the_write_timeout() {
    let server = impatient().await;
    let mut http2 = Http2::connect(&server, 65_535).await;
    let mut events = http2.get("/v1/events/stream").await;
    let mut unread = http2.get("/openapi.json").await;
    assert_eq!(reset(&mut unread).await, Reason::CANCEL, "longer than the timeout went by");
    server.caller().post("/v1/devices", &android("d1")).await.ok();
    server
        .caller()
        .post("/v1/notifications", &json!({"text": "t", "platforms": ["ios"]}))
        .await
        .ok();
    let seen = async {
        let mut text = String::new();
        while !text.contains("event: notification.") {
            text += std::str::from_utf8(&events.data().await.unwrap().unwrap()).unwrap();
        }
    };
    tokio::time::timeout(PATIENCE, seen).await.expect("the stream lives");
}

#[tokio::test]
async fn a_client_that_answers_no_ping_is_disconnected_within_the_write_timeout() {
    let server = impatient().await;
    let mut stream = server.connect().await;
    // The preface, then empty SETTINGS and the acknowledgement of the server's.
    let hello = [
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".as_slice(),
        &[0, 0, 0, 4, 0, 0, 0, 0, 0],
        &[0, 0, 0, 4, 1, 0, 0, 0, 0],
    ];
    stream.write_all(&hello.concat()).await.unwrap();
    let mut sent = Vec::new();
    let closed = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut sent)).await;
    // A connection that is idle lives for longer than the test waits.
    drop(closed.expect("the connection is closed"));
    assert!(sent.windows(5).any(|frame| frame == [0, 0, 8, 6, 0]), "it got a ping");
}
