//! Parsing of blocks, and servers that interrupt, hang or reject a stream.

use notify_core::WebhookData;
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

/// The blocks of a stream, which arrives in pieces of `size` bytes.
fn read(stream: &[u8], size: usize) -> Vec<Block> {
    let mut reader = BlockReader::new(EVENT_BYTES_MAX);
    let mut blocks = Vec::new();
    for piece in stream.chunks(size) {
        reader.read(piece, &mut blocks).unwrap();
    }
    blocks
}

/// The only block of a stream.
fn read_one(stream: &str) -> Option<Block> {
    let mut blocks = read(stream.as_bytes(), stream.len());
    assert!(blocks.len() <= 1, "{blocks:?}");
    blocks.pop()
}

#[test]
fn a_block_is_an_event_a_cursor_or_a_comment() {
    let Some(Block::Event { cursor, event, body }) = read_one(EVENT) else { panic!("an event") };
    assert_eq!((cursor.as_str(), event.data.kind()), ("c1", "x.y"));
    assert!(EVENT.contains(&format!("\ndata: {body}\n")), "unchanged: {body}");
    assert_eq!(read_one("event: reset\ndata: {}\n\n"), Some(Block::Reset));
    assert_eq!(read_one(": \n\n"), None);
    for block in [":\nid: c1\n\n", "id: c1\n\n", "id: c0\nid:c1\n\n", "\u{feff}id: c1\n\n"] {
        assert_eq!(read_one(block), Some(Block::Cursor("c1".to_owned())), "{block}");
    }
    for block in ["id: c1\nevent: x\ndata: {\n\n", "id: c1\nevent: x\n\n"] {
        assert_eq!(read_one(block), Some(Block::Undecodable("c1".to_owned())), "{block}");
    }
    assert_eq!(read_one("id: c1\n"), None, "the block has not ended");
}

#[test]
fn any_line_end_and_any_division_into_pieces_gives_the_same_blocks() {
    let stream = format!(":\n\n{EVENT}\nid: c2\n\nevent: reset\ndata\n\nid: c3");
    let expected = read(stream.as_bytes(), stream.len());
    assert_eq!(expected.len(), 3);
    let in_lines = EVENT.replace(",\"timestamp", ",\ndata:\"timestamp");
    let event_of = |stream: &str| match read_one(stream) {
        Some(Block::Event { event, .. }) => event,
        other => panic!("{other:?}"),
    };
    assert_eq!(event_of(&in_lines), event_of(EVENT), "data in several lines");
    for line_end in ["\n", "\r\n", "\r"] {
        let stream = stream.replace('\n', line_end);
        for size in 1..=stream.len() {
            assert_eq!(read(stream.as_bytes(), size), expected, "{line_end:?}, {size} bytes");
        }
    }
}

#[test]
fn the_size_of_a_block_is_limited_in_any_division_into_pieces() {
    let stream = b"id: c1\n\nid: 12345678901\n\nid: c2\n\n";
    for (bytes_max, expected) in [(14, Err(TooLarge)), (15, Ok(()))] {
        for size in 1..=stream.len() {
            let mut reader = BlockReader::new(bytes_max);
            let mut blocks = Vec::new();
            let result = stream.chunks(size).try_for_each(|piece| reader.read(piece, &mut blocks));
            assert_eq!(result, expected, "{bytes_max}, {size} bytes");
            assert_eq!(blocks.len(), if result.is_ok() { 3 } else { 1 });
        }
    }
}

#[test]
fn an_event_whose_data_cannot_be_decoded_is_kept_as_json() {
    let block = EVENT.replace("x.y", "poll.answered").replace("{}}", "{\"new\":1}}");
    let Some(Block::Event { cursor, event, .. }) = read_one(&block) else { panic!("an event") };
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
async fn interruptions_are_reported_and_the_body_is_that_of_the_last_event() {
    let text = |text: &str| ResponseTemplate::new(200).set_body_raw(text, "text/event-stream");
    let server = serve(vec![ResponseTemplate::new(503), text(":\nid: c0\n\n"), text(EVENT)]).await;
    let (observed, interruptions) = std::sync::mpsc::channel();
    let mut stream = client(&server.uri()).stream(StreamQuery::default()).on_interruption(
        move |error, delay| observed.send((error.status(), delay.as_secs())).unwrap(),
    );
    stream.connect().await.unwrap();
    assert_eq!(interruptions.try_iter().collect::<Vec<_>>(), [(Some(503), 1)]);
    assert_eq!(stream.body(), None, "no event yet");
    let item = stream.next().await;
    assert!(matches!(item, Some(Ok(StreamItem::Event { .. }))), "{item:?}");
    assert!(EVENT.contains(stream.body().unwrap()), "{:?}", stream.body());
    assert_eq!(interruptions.try_iter().collect::<Vec<_>>(), [(None, 1)], "the first one ended");
}

#[tokio::test]
async fn a_rejected_stream_ends_when_it_connects() {
    let server = serve(vec![ResponseTemplate::new(401)]).await;
    let mut stream = client(&server.uri()).stream(StreamQuery::default());
    let refused = stream.connect().await;
    assert!(matches!(refused, Err(Error::Unauthorized { .. })), "{refused:?}");
    assert!(stream.next().await.is_none(), "it has ended");
    assert!(stream.connect().await.is_ok(), "nothing is left to connect");
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
