//! Blocks of lines, and what a stream makes of servers that break off, hang or refuse it.

use tokio::net::TcpListener;
use tokio::time::Instant;
use wiremock::{Mock, MockServer, ResponseTemplate, matchers::any};

use super::*;
use crate::builder::ANSWER_BYTES_MAX;

const EVENT: &str = "id: c1\nevent: x.y\ndata: {\"type\":\"x.y\",\
    \"timestamp\":\"2026-01-02T03:04:05Z\",\"data\":{}}\n\n";

fn client(url: &str) -> Client {
    Client::builder(url).api_key("nk_test").build().unwrap()
}

fn call() -> Call<()> {
    Call::<()>::v1(Method::GET, &["events", "stream"])
}

/// A server that gives these answers in turn.
async fn giving(answers: Vec<ResponseTemplate>) -> MockServer {
    let server = MockServer::start().await;
    for answer in answers {
        Mock::given(any()).respond_with(answer).up_to_n_times(1).mount(&server).await;
    }
    server
}

#[test]
fn blocks_are_events_places_or_nothing() {
    let Some(Shown::Streamed(Streamed::Event { cursor, event })) = shown(EVENT) else {
        panic!("an event")
    };
    assert_eq!((cursor.as_str(), event.data.kind()), ("c1", "x.y"));
    let reset = Some(Shown::Streamed(Streamed::Reset));
    assert_eq!(shown("event: reset\ndata: {}\n\n"), reset);
    assert_eq!(shown(": \n\n"), None);
    for block in [":\nid: c1\n\n", "id: c1\n\n"] {
        assert_eq!(shown(block), Some(Shown::Place("c1".to_owned())), "{block}");
    }
    for block in ["id: c1\nevent: x\ndata: {\n\n", "id: c1\nevent: x\n\n"] {
        assert_eq!(shown(block), Some(Shown::Unreadable("c1".to_owned())), "{block}");
    }
}

#[test]
fn an_event_of_a_known_type_that_cannot_be_read_is_shown_as_it_is() {
    let block = EVENT.replace("x.y", "poll.answered").replace("{}}", "{\"new\":1}}");
    let Some(Shown::Streamed(Streamed::Event { cursor, event })) = shown(&block) else {
        panic!("an event")
    };
    let WebhookData::Other { kind, data } = event.data else { panic!("{event:?}") };
    assert_eq!((&*cursor, &*kind, data["new"].as_i64()), ("c1", "poll.answered", Some(1)));
}

#[test]
fn it_connects_again_when_the_server_asks_for_it() {
    let refused = |retry_after: Option<u64>| Error::Rejected {
        status: 429,
        errors: Vec::new(),
        request_id: None,
        retry_after: retry_after.map(Duration::from_secs),
    };
    for (attempts, asked, seconds) in [
        (0, None, 1),
        (3, None, 8),
        (9, None, 30),
        (0, Some(10), 10),
        (9, Some(10), 30),
        (0, Some(86_400), 3_600),
    ] {
        assert_eq!(delay(attempts, &refused(asked)).as_secs(), seconds, "{attempts} {asked:?}");
    }
}

#[tokio::test]
async fn who_was_cut_before_the_first_event_goes_on_where_it_was() {
    let text = |text: &str| ResponseTemplate::new(200).set_body_raw(text, "text/event-stream");
    let broken = "id: c1\nevent: x\ndata: {\n\n";
    let server = giving(vec![text(":\nid: c0\n\n"), text(&format!("{broken}{EVENT}"))]).await;
    let mut stream = client(&server.uri()).stream(StreamQuery::default());
    let unreadable = stream.next().await;
    assert!(matches!(unreadable, Some(Err(Error::Decode { .. }))), "{unreadable:?}");
    assert_eq!(stream.cursor(), Some("c1"), "it goes on behind it");
    let shown = stream.next().await;
    assert!(matches!(shown, Some(Ok(Streamed::Event { .. }))), "{shown:?}");
    let asked = server.received_requests().await.unwrap();
    let queries: Vec<_> = asked.iter().map(|request| request.url.query()).collect();
    assert_eq!(queries, [None, Some("cursor=c0")]);
}

#[tokio::test]
async fn the_body_of_a_refusal_is_bounded() {
    let large = ResponseTemplate::new(400).set_body_bytes(vec![b' '; ANSWER_BYTES_MAX + 1]);
    let server = giving(vec![large]).await;
    let opened = client(&server.uri()).open(&call(), LIFE_MAX).await;
    assert!(matches!(opened, Err(Error::Transport { .. })), "{opened:?}");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_says_nothing_is_left() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let since = Instant::now();
    let opened = client(&url).open(&call(), LIFE_MAX).await;
    assert!(opened.is_err_and(|error| error.is_retryable()));
    assert!(since.elapsed() <= SILENCE_MAX, "{:?}", since.elapsed());
}
