//! The event stream: it goes on where it was, says where it cannot, and ends when it has to.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use http::Method;
use notify_tests::{Caller, TestServer};
use serde_json::{Value, json};
use tokio::time::timeout;

/// Longest wait for what is to come next.
const WAIT: Duration = Duration::from_secs(20);

/// An event as it is read.
#[derive(Debug, Clone, PartialEq)]
struct Shown {
    id: String,
    kind: String,
    data: Value,
}

/// One stream.
struct Reading {
    response: reqwest::Response,
    text: String,
}

impl Reading {
    async fn open(server: &TestServer, query: &str, last: Option<&str>) -> Result<Self> {
        let response = get(server, server.api_key(), query, last).await?;
        ensure!(response.status() == 200, "{}", response.status());
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Ok(Self { response, text: String::new() })
    }

    /// The next event; `None` when the stream ended.
    async fn next(&mut self) -> Result<Option<Shown>> {
        loop {
            if let Some((block, rest)) = self.text.split_once("\n\n") {
                let (block, rest) = (block.to_owned(), rest.to_owned());
                self.text = rest;
                let field = |name: &str| {
                    let line = block.lines().find_map(|line| line.strip_prefix(name));
                    line.unwrap_or_default().to_owned()
                };
                if block.starts_with(':') {
                    continue;
                }
                let data = serde_json::from_str(&field("data: "))?;
                return Ok(Some(Shown { id: field("id: "), kind: field("event: "), data }));
            }
            match timeout(WAIT, self.response.chunk()).await.context("nothing comes")? {
                Ok(Some(piece)) => self.text.push_str(std::str::from_utf8(&piece)?),
                Ok(None) | Err(_) => return Ok(None),
            }
        }
    }
}

async fn get(
    server: &TestServer,
    key: &str,
    query: &str,
    last: Option<&str>,
) -> Result<reqwest::Response> {
    let url = format!("{}/v1/events/stream{query}", server.origin());
    let mut request = reqwest::Client::new().get(url).header("x-api-key", key);
    if let Some(last) = last {
        request = request.header("last-event-id", last);
    }
    Ok(request.send().await?)
}

/// Makes a poll; a call that answers it.
async fn poll(caller: &Caller) -> Result<String> {
    let body = json!({"platforms": ["ios"], "poll": {"text": "?", "layout_id": "poll_text",
        "answers": [{"text": "a"}, {"text": "b"}]}});
    let id = caller.post("/v1/notifications", &body).await?["id"].clone();
    let id = id.as_str().context("an id")?.to_owned();
    let read = caller.get(&format!("/v1/polls/{id}")).await?;
    let answer = read["answers"][0]["id"].as_str().context("an id")?;
    Ok(format!("/v1/polls/{id}/answers/{answer}"))
}

#[tokio::test]
async fn a_stream_goes_on_exactly_where_it_was() -> Result<()> {
    let server = TestServer::start().await?;
    let caller = server.caller()?;
    let answer = poll(&caller).await?;
    let mut stream = Reading::open(&server, "?types=poll.answered", None).await?;
    for _ in 0..3 {
        caller.post(&answer, &json!({})).await?;
    }
    let mut shown = Vec::new();
    for _ in 0..3 {
        shown.push(stream.next().await?.context("an event")?);
    }
    assert!(shown.iter().all(|one| one.kind == "poll.answered" && one.data["type"] == one.kind));
    assert!(shown[0].data["timestamp"].as_str().context("a time")?.ends_with('Z'));
    drop(stream);
    // What happens while nobody reads is there for who comes back.
    caller.post(&answer, &json!({})).await?;
    for (query, last) in [
        ("?types=poll.answered".to_owned(), Some(shown[0].id.as_str())),
        (format!("?types=poll.answered&cursor={}", shown[0].id), None),
    ] {
        let mut stream = Reading::open(&server, &query, last).await?;
        let again = [stream.next().await?, stream.next().await?];
        assert_eq!(again, [Some(shown[1].clone()), Some(shown[2].clone())]);
        let last = stream.next().await?.context("the fourth")?;
        assert!(shown.iter().all(|one| one.id != last.id), "each comes once");
    }
    let mut none = Reading::open(&server, "?types=engagement.opened", Some(&shown[0].id)).await?;
    let quiet = timeout(Duration::from_millis(300), none.next()).await;
    assert!(quiet.is_err(), "nothing of another type: {quiet:?}");
    for query in ["?cursor=nonsense", "?types=nonsense", "?other=1"] {
        let refused = get(&server, server.api_key(), query, None).await?;
        assert_eq!(refused.status(), 400, "{query}");
    }
    drop(none);
    server.stop().await
}

#[tokio::test]
async fn streams_are_bounded_and_end_with_their_key_and_with_the_server() -> Result<()> {
    let server = TestServer::start().await?;
    let admin = server.admin()?;
    let keys = format!("/admin/v1/apps/{}/keys", server.app_id);
    let made = admin.post(&keys, &json!({})).await?;
    let key = made["api_key"].as_str().context("a key")?;
    let mut revoked = Reading { response: get(&server, key, "", None).await?, text: String::new() };
    let mut streams = Vec::new();
    for _ in 0..9 {
        streams.push(Reading::open(&server, "", None).await?);
    }
    let refused = get(&server, server.api_key(), "", None).await?;
    assert_eq!(refused.status(), 429);
    let path = format!("{keys}/{}", made["id"].as_str().context("an id")?);
    admin.send(&Method::DELETE, &path, "").await?.ok()?;
    let since = Instant::now();
    assert_eq!(revoked.next().await?, None, "a revoked key shows nothing more");
    assert!(since.elapsed() < Duration::from_secs(5), "{:?}", since.elapsed());
    let since = Instant::now();
    server.stop().await?;
    assert!(since.elapsed() < Duration::from_secs(10), "{:?}", since.elapsed());
    for stream in &mut streams {
        assert_eq!(stream.next().await?, None, "a server that stops ends its streams");
    }
    Ok(())
}
