//! The event stream resumes where it ended, reports a cursor that it cannot resume from, and has limits.

use anyhow::{Context, Result};
use http::Method;
use notify_tests::{Caller, TestServer};
use serde_json::json;

use crate::reader::{Endpoint, Reading, get};

/// Creates a poll. Returns a call that answers it.
pub(crate) async fn poll(caller: &Caller) -> Result<String> {
    let body = json!({"platforms": ["ios"], "poll": {"text": "?", "layout_id": "poll_text",
        "answers": [{"text": "a"}, {"text": "b"}]}});
    let id = caller.post("/v1/notifications", &body).await.ok()["id"].clone();
    let id = id.as_str().context("an id")?.to_owned();
    let read = caller.get(&format!("/v1/polls/{id}")).await.ok();
    let answer = read["answers"][0]["id"].as_str().context("an id")?;
    Ok(format!("/v1/polls/{id}/answers/{answer}"))
}

#[tokio::test]
async fn a_stream_resumes_exactly_where_it_ended() -> Result<()> {
    let server = TestServer::start().await;
    let at = Endpoint { origin: server.origin(), key: server.api_key() };
    let caller = server.caller();
    let answer = poll(&caller).await?;
    let mut stream = Reading::open(at, "?types=poll.answered", None).await?;
    for _ in 0..3 {
        caller.post(&answer, &json!({})).await.ok();
    }
    let mut shown = Vec::new();
    for _ in 0..3 {
        shown.push(stream.next().await?.context("an event")?);
    }
    assert!(
        shown.iter().all(|event| event.kind == "poll.answered" && event.data["type"] == event.kind)
    );
    assert!(shown[0].data["timestamp"].as_str().context("a time")?.ends_with('Z'));
    drop(stream);
    // A reader that reconnects gets the events of the time when it was disconnected.
    caller.post(&answer, &json!({})).await.ok();
    for (query, last) in [
        ("?types=poll.answered".to_owned(), Some(shown[0].id.as_str())),
        (format!("?types=poll.answered&cursor={}", shown[0].id), None),
    ] {
        let mut stream = Reading::open(at, &query, last).await?;
        let again = [stream.next().await?, stream.next().await?];
        assert_eq!(again, [Some(shown[1].clone()), Some(shown[2].clone())]);
        let last = stream.next().await?.context("the fourth")?;
        assert!(shown.iter().all(|event| event.id != last.id), "each comes once");
    }
    let mut opened = Reading::open(at, "?types=engagement.opened", Some(&shown[0].id)).await?;
    open_one(&caller, "first").await?;
    let first = opened.next().await?.context("an event")?;
    assert_eq!(first.kind, "engagement.opened", "nothing of another type before it");
    for query in ["?types=nonsense", "?other=1"] {
        let refused = get(at, query, None).await?;
        assert_eq!(refused.status(), 400, "{query}");
    }
    drop(opened);
    server.stop().await;
    Ok(())
}

/// A client repeats the last id that it saw for as long as it lives, so an error would end its stream for ever.
#[tokio::test]
async fn an_unknown_position_is_a_reset_and_not_an_error() -> Result<()> {
    let server = TestServer::start().await;
    let at = Endpoint { origin: server.origin(), key: server.api_key() };
    let foreign_key = key_of_new_app(&server, "foreign").await?;
    let foreign_at = Endpoint { origin: server.origin(), key: &foreign_key };
    let foreign = Reading::open(foreign_at, "", None).await?.place().await?;
    let own = Reading::open(at, "", None).await?.place().await?;
    let long = "9".repeat(4_000);
    for unknown in ["nonsense", "0", "-1", "99999999999999999999", "%00", &*long, &*foreign] {
        let query = format!("?cursor={unknown}");
        // An application may have ten streams, and it takes a while to notice that one was dropped.
        let key = key_of_new_app(&server, unknown.get(..10).unwrap_or(unknown)).await?;
        let at = Endpoint { origin: server.origin(), key: &key };
        let mut rows = vec![("", Some(unknown))];
        // A query that cannot be read is an error, as everywhere.
        if unknown != "%00" && unknown.len() < long.len() {
            rows.extend([(&*query, None), (&*query, Some(""))]);
        }
        for (query, last) in rows {
            let mut stream = Reading::open(at, query, last).await?;
            let first = stream.next().await?.context("an event")?;
            assert_eq!(first.kind, "reset", "{query} {last:?}");
            assert_eq!(first.data, json!({"type": "reset"}));
        }
    }
    // The header counts before the query. Without a position, the stream begins with new events.
    let answer = poll(&server.caller()).await?;
    for (query, last) in
        [("?cursor=nonsense", Some(&*own)), ("", None), ("", Some("")), ("?cursor=", None)]
    {
        let mut stream = Reading::open(at, query, last).await?;
        server.caller().post(&answer, &json!({})).await.ok();
        let first = stream.next().await?.context("an event")?;
        assert_ne!(first.kind, "reset", "{query} {last:?}");
    }
    server.stop().await;
    Ok(())
}

async fn key_of_new_app(server: &TestServer, name: &str) -> Result<String> {
    let (app, _) = server.create_app(name).await;
    let key = server.admin().post(&format!("/admin/v1/apps/{app}/keys"), &json!({})).await.ok();
    Ok(key["api_key"].as_str().context("a key")?.to_owned())
}

/// nginx holds a response back until its buffer is full, unless the response forbids it.
#[tokio::test]
async fn no_proxy_may_hold_back_or_change_a_stream() -> Result<()> {
    let server = TestServer::start().await;
    let at = Endpoint { origin: server.origin(), key: server.api_key() };
    let mut answer = get(at, "", None).await?;
    assert_eq!(answer.headers()["x-accel-buffering"], "no");
    assert_eq!(answer.headers()["cache-control"], "no-store, no-transform");
    let first = answer.chunk().await?.context("a comment at once")?;
    assert!(first.starts_with(b":\nid: "), "{first:?}");
    drop(answer);
    server.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_reader_disconnected_before_the_first_event_misses_nothing() -> Result<()> {
    let server = TestServer::start().await;
    let at = Endpoint { origin: server.origin(), key: server.api_key() };
    let caller = server.caller();
    let answer = poll(&caller).await?;
    let mut stream = Reading::open(at, "?types=engagement.opened", None).await?;
    let place = stream.place().await?;
    drop(stream);
    // First comes an event of another type, then the event that the reader waits for.
    caller.post(&answer, &json!({})).await.ok();
    open_one(&caller, "while away").await?;
    let mut stream = Reading::open(at, "?types=engagement.opened", Some(&place)).await?;
    let shown = stream.next().await?.context("an event")?;
    assert_eq!(shown.data["data"]["notification_id"], "while away");
    drop(stream);
    server.stop().await;
    Ok(())
}

/// Makes a device open a notification.
async fn open_one(caller: &Caller, notification: &str) -> Result<()> {
    let phone = json!({"device_id": "phone", "platform": "android", "sdk_type": "android_push"});
    caller.post("/v1/devices", &phone).await.ok();
    let own = json!({"id": notification, "text": "t", "platforms": ["android"]});
    caller.post("/v1/notifications/notify", &own).await.ok();
    let event = json!({"type": "opened", "notification_id": notification, "device_id": "phone"});
    caller.post("/v1/events", &json!({"events": [event]})).await.ok();
    Ok(())
}

#[tokio::test]
async fn a_vote_on_the_poll_page_is_one_event_without_a_device() -> Result<()> {
    let server = TestServer::start().await;
    let at = Endpoint { origin: server.origin(), key: server.api_key() };
    let caller = server.caller();
    let call = poll(&caller).await?;
    let [.., poll, _, answer] = call.split('/').collect::<Vec<_>>()[..] else {
        anyhow::bail!("{call}")
    };
    let url = caller.get(&format!("/v1/polls/{poll}")).await.ok()["url"].clone();
    let url = url.as_str().context("a url")?;
    let votes = format!("{}/votes", &url[url.find("/polls/").context("a page")?..]);
    let mut stream = Reading::open(at, "?types=poll.answered", None).await?;
    for visitor in ["A", "A", "Q"] {
        let form = format!("answer={answer}&visitor={visitor}AAAAAAAAAAAAAAAAAAAAA");
        let voted = caller.send(&Method::POST, &votes, form).await?;
        assert_eq!(voted.status, 303, "{}", voted.text);
    }
    caller.post(&call, &json!({})).await.ok();
    let data = json!({"poll_id": poll, "answer_id": answer, "device_id": null, "user_id": null});
    for _ in 0..3 {
        assert_eq!(stream.next().await?.context("an event")?.data["data"], data);
    }
    let read = caller.get(&format!("/v1/polls/{poll}")).await.ok();
    assert_eq!(read["answers"][0]["clicks"], 3, "as many as events were sent");
    drop(stream);
    server.stop().await;
    Ok(())
}

#[tokio::test]
async fn streams_are_bounded_and_end_with_their_key_and_with_the_server() -> Result<()> {
    let server = TestServer::start().await;
    let admin = server.admin();
    let keys = format!("/admin/v1/apps/{}/keys", server.app_id);
    let made = admin.post(&keys, &json!({})).await.ok();
    let key = made["api_key"].as_str().context("a key")?;
    let at = Endpoint { origin: server.origin(), key: server.api_key() };
    let mut revoked = Reading::open(Endpoint { origin: server.origin(), key }, "", None).await?;
    let mut streams = Vec::new();
    for _ in 0..9 {
        streams.push(Reading::open(at, "", None).await?);
    }
    let refused = get(at, "", None).await?;
    assert_eq!(refused.status(), 429);
    let path = format!("{keys}/{}", made["id"].as_str().context("an id")?);
    admin.send(&Method::DELETE, &path, "").await?.ok();
    assert_eq!(revoked.next().await?, None, "a revoked key shows nothing more");
    server.stop().await;
    for stream in &mut streams {
        assert_eq!(stream.next().await?, None, "a server that stops ends its streams");
    }
    Ok(())
}
