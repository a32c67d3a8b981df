//! Parsing of blocks, and servers that interrupt, hang or reject a stream.

use tokio::net::TcpListener;
use tokio::time::Instant;
use wiremock::{Mock, MockServer, ResponseTemplate, matchers::any};

use super::*;
use crate::builder::RESPONSE_BYTES_MAX;

const EVENT: &str = "id: c1\nevent: x.y\ndata: {\"type\":\"x.y\",\
    \"timestamp\":\"2026-01-02T03:04:05Z\",\"data\":{}}\n\n";

fn client(url: &str) -> Client {
    Client::builder(url).api_key("nk_test").build().unwrap()
}

fn call() -> Call<()> {
    Call::<()>::v1(Method::GET, &["events", "stream"])
}

/// A server that sends these responses in turn.
async fn serve(responses: Vec<ResponseTemplate>) -> MockServer {
    let server = MockServer::start().await;
    for response in responses {
        Mock::given(any()).respond_with(response).up_to_n_times(1).mount(&server).await;
    }
    server
}

#[test]
fn a_block_is_an_event_a_cursor_or_a_comment() {
    let Some(Block::Item(StreamItem::Event { cursor, event })) = parse_block(EVENT) else {
        panic!("an event")
    };
    assert_eq!((cursor.as_str(), event.data.kind()), ("c1", "x.y"));
    let reset = Some(Block::Item(StreamItem::Reset));
    assert_eq!(parse_block("event: reset\ndata: {}\n\n"), reset);
    assert_eq!(parse_block(": \n\n"), None);
    for block in [":\nid: c1\n\n", "id: c1\n\n"] {
        assert_eq!(parse_block(block), Some(Block::Cursor("c1".to_owned())), "{block}");
    }
    for block in ["id: c1\nevent: x\ndata: {\n\n", "id: c1\nevent: x\n\n"] {
        assert_eq!(parse_block(block), Some(Block::Undecodable("c1".to_owned())), "{block}");
    }
}

#[test]
fn an_event_whose_data_cannot_be_decoded_is_kept_as_json() {
    let block = EVENT.replace("x.y", "poll.answered").replace("{}}", "{\"new\":1}}");
    let Some(Block::Item(StreamItem::Event { cursor, event })) = parse_block(&block) else {
        panic!("an event")
    };
    let WebhookData::Other { kind, data } = event.data else { panic!("{event:?}") };
    assert_eq!((&*cursor, &*kind, data["new"].as_i64()), ("c1", "poll.answered", Some(1)));
}

#[test]
fn reconnection_waits_for_backoff_and_retry_after() {
    let rejected = |retry_after: Option<u64>| Error::Rejected {
        status: 429,
        errors: Vec::new(),
        request_id: None,
        retry_after: retry_after.map(Duration::from_secs),
    };
    for (failures, retry_after, seconds) in [
        (0, None, 1),
        (3, None, 8),
        (9, None, 30),
        (0, Some(10), 10),
        (9, Some(10), 30),
        (0, Some(86_400), 3_600),
    ] {
        let delay = reconnect_delay(failures, &rejected(retry_after));
        assert_eq!(delay.as_secs(), seconds, "{failures} {retry_after:?}");
    }
}

#[tokio::test]
async fn an_interrupted_stream_continues_at_its_cursor() {
    let text = |text: &str| ResponseTemplate::new(200).set_body_raw(text, "text/event-stream");
    let invalid = "id: c1\nevent: x\ndata: {\n\n";
    let server = serve(vec![text(":\nid: c0\n\n"), text(&format!("{invalid}{EVENT}"))]).await;
    let mut stream = client(&server.uri()).stream(StreamQuery::default());
    let undecodable = stream.next().await;
    assert!(matches!(undecodable, Some(Err(Error::Decode { .. }))), "{undecodable:?}");
    assert_eq!(stream.cursor(), Some("c1"), "it continues after it");
    let item = stream.next().await;
    assert!(matches!(item, Some(Ok(StreamItem::Event { .. }))), "{item:?}");
    let requests = server.received_requests().await.unwrap();
    let queries: Vec<_> = requests.iter().map(|request| request.url.query()).collect();
    assert_eq!(queries, [None, Some("cursor=c0")]);
}

#[tokio::test]
async fn the_size_of_an_error_response_is_limited() {
    let large = ResponseTemplate::new(400).set_body_bytes(vec![b' '; RESPONSE_BYTES_MAX + 1]);
    let server = serve(vec![large]).await;
    let opened = client(&server.uri()).open(&call(), LIFETIME_MAX).await;
    assert!(matches!(opened, Err(Error::Transport { .. })), "{opened:?}");
}

#[tokio::test(start_paused = true)]
async fn a_silent_server_times_out() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let since = Instant::now();
    let opened = client(&url).open(&call(), LIFETIME_MAX).await;
    assert!(opened.is_err_and(|error| error.is_retryable()));
    assert!(since.elapsed() <= IDLE_TIMEOUT, "{:?}", since.elapsed());
}
