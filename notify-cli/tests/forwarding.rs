//! `notify listen` and `notify trigger` against a mock server and a receiver, whose messages are verified as a
//! backend verifies them.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::collections::BTreeMap;

use common::{Fixture, ID, Run, response};
use notify_client::{
    notify_core::WebhookEventType,
    webhook::{Verifier, VerifyError},
};
use serde_json::{Value, json};
use wiremock::{Mock, MockServer, Request, ResponseTemplate, matchers::any};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// A receiver that answers with 204, but messages whose body contains a text with this status.
async fn receiver(refused: &'static str, status: u16) -> MockServer {
    let server = MockServer::start().await;
    let answer = move |request: &Request| {
        let is_refused = String::from_utf8_lossy(&request.body).contains(refused);
        ResponseTemplate::new(if is_refused { status } else { 204 })
            .insert_header("location", "/elsewhere")
    };
    Mock::given(any()).respond_with(answer).mount(&server).await;
    server
}

async fn received(server: &MockServer) -> Vec<Request> {
    server.received_requests().await.unwrap()
}

fn verify(secret: &str, request: &Request) -> Result<(), VerifyError> {
    Verifier::new(secret)?.verify(&request.headers, &request.body).map(|_| ())
}

fn header<'r>(request: &'r Request, name: &str) -> &'r str {
    request.headers.get(name).map_or("", |value| value.to_str().unwrap())
}

/// The JSON of an event in an order and with a field that no model of the command has.
fn event(notification: &str) -> String {
    format!(
        r#"{{"type":"notification.paused","timestamp":"2026-01-02T03:04:05.678Z","data":{{"reason":"requested","later":1,"notification_id":"{notification}"}}}}"#
    )
}

/// A connection of the stream that sends these events after a position, and ends.
fn stream(position: &str, events: &[(&str, &str)]) -> ResponseTemplate {
    let mut text = format!(":\nid: {position}\n\n");
    for (cursor, notification) in events {
        let data = event(notification);
        text.push_str(&format!("id: {cursor}\nevent: notification.paused\ndata: {data}\n\n"));
    }
    ResponseTemplate::new(200).set_body_raw(text, "text/event-stream")
}

fn revoked() -> ResponseTemplate {
    response(401, &json!({"errors": ["the key is revoked"]}))
}

/// The secret that `listen` prints.
fn printed_secret(run: &Run) -> &str {
    let secret = run.stderr.split_whitespace().find(|word| word.starts_with("whsec_"));
    secret.unwrap_or_else(|| panic!("{run:?}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn listen_forwards_events_unchanged_and_continues_after_an_interruption() {
    let fixture = Fixture::with_responses(vec![
        stream("c0", &[("c1", "n-1"), ("c2", "n-2")]),
        stream("c2", &[("c3", "n-3")]),
        revoked(),
    ])
    .await;
    let backend = receiver("n-2", 500).await;
    let url = format!("{}/hooks", backend.uri());
    let types = "notification.paused,poll.answered";
    let run = fixture.run(&["listen", "--forward-to", &url, "--events", types]);

    let mut lines: Vec<_> = run.stdout.lines().collect();
    lines.sort_unstable_by_key(|line| line.find("n-").map(|at| &line[at..at + 3]));
    for (line, (notification, answer)) in
        lines.iter().zip([("n-1", "204"), ("n-2", "500 (not sent again)"), ("n-3", "204")])
    {
        let start =
            format!("2026-01-02T03:04:05Z  notification.paused     {notification}  {answer}  ");
        assert!(line.starts_with(&start) && line.ends_with(" ms"), "{line}");
    }
    assert_eq!((lines.len(), run.status), (3, 4), "the key is revoked at last: {run:?}");
    let messages: Vec<_> = run.stderr.lines().collect();
    assert_eq!(
        messages[0],
        format!("forwarding to {url}, signed with the secret {}", printed_secret(&run))
    );
    assert_eq!(messages[1], "waiting for events; Ctrl-C ends");
    assert!(messages[2].ends_with("the stream ended; connecting again in 1 s"), "{messages:?}");
    let summary = "3 events: 2 accepted, 1 not accepted; --since c3 continues from here";
    assert_eq!(messages[messages.len() - 2], summary);

    let queries: Vec<_> = fixture.received().await.into_iter().map(|(line, _)| line).collect();
    let path = |query: &str| format!("GET /v1/events/stream?{query}");
    let filter = "types=notification.paused%2Cpoll.answered";
    let after = |cursor: &str| path(&format!("{filter}&cursor={cursor}"));
    assert_eq!(queries, [path(filter), after("c2"), after("c3")]);
    let forwarded: BTreeMap<String, Request> = received(&backend)
        .await
        .into_iter()
        .map(|request| (String::from_utf8(request.body.clone()).unwrap(), request))
        .collect();
    let expected = ["n-1", "n-2", "n-3"].map(event);
    assert_eq!(forwarded.keys().collect::<Vec<_>>(), expected.iter().collect::<Vec<_>>());
    for request in forwarded.values() {
        assert_eq!(verify(printed_secret(&run), request), Ok(()), "{request:?}");
        assert_eq!(verify(SECRET, request), Err(VerifyError::Signature));
        assert_eq!(header(request, "content-type"), "application/json");
        assert_eq!(header(request, "user-agent"), concat!("notify/", env!("CARGO_PKG_VERSION")));
    }
    let ids: Vec<_> = forwarded.values().map(|request| header(request, "webhook-id")).collect();
    assert!(ids[0] != ids[1] && ids[1] != ids[2] && ids[0] != ids[2], "{ids:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn listen_without_a_url_prints_the_events() {
    for (arguments, line) in [
        (&["listen"][..], "2026-01-02T03:04:05Z  notification.paused     n-1".to_owned()),
        (&["listen", "-o", "json"], {
            let mut line: Value = serde_json::from_str(&event("n-1")).unwrap();
            line["cursor"] = json!("c1");
            line.to_string()
        }),
    ] {
        let responses = vec![stream("c0", &[("c1", "n-1")]), revoked()];
        let fixture = Fixture::with_responses(responses).await;
        let run = fixture.run(arguments);
        assert_eq!(run.stdout, format!("{line}\n"), "{run:?}");
        assert!(!run.stderr.contains("whsec_"), "nothing is signed: {run:?}");
        assert!(run.stderr.contains("1 event; --since c1 continues from here"), "{run:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn listen_in_json_has_the_answer_and_the_given_secret_is_not_printed() {
    let fixture = Fixture::with_responses(vec![stream("c0", &[("c1", "n-1")]), revoked()]).await;
    let backend = receiver("n-1", 301).await;
    let arguments = ["listen", "-o", "json", "--forward-to", &backend.uri()];
    let mut command = fixture.command(&arguments);
    command.env("NOTIFY_WEBHOOK_SECRET", SECRET);
    let run = common::finish(command);
    let line = run.json();
    assert_eq!((&line["status"], &line["error"]), (&json!(301), &Value::Null), "{line}");
    assert_eq!((&line["cursor"], &line["type"]), (&json!("c1"), &json!("notification.paused")));
    assert!(line["latency_ms"].is_u64(), "{line}");
    let received = received(&backend).await;
    assert_eq!(received.len(), 1, "it does not follow redirects: {received:?}");
    assert_eq!(header(&received[0], "webhook-id"), line["webhook_id"]);
    assert_eq!(verify(SECRET, &received[0]), Ok(()));
    assert!(!run.stderr.contains("whsec_"), "{run:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn trigger_posts_an_example_of_each_type_without_a_server() {
    let fixture = Fixture::new().await;
    let backend = receiver("nothing is refused", 500).await;
    let to = format!("{}/hooks", backend.uri());
    let arguments = ["trigger", "--all", "--to", &to, "--secret", SECRET];
    let ids = ["--device", "phone", "--user", "ada", "--notification", "n-1"];
    let run = common::finish(fixture.offline(&[&arguments[..], &ids].concat())).assert_success();
    let requests = received(&backend).await;
    assert_eq!(run.stdout.lines().count(), WebhookEventType::ALL.len());
    for ((line, request), kind) in run.stdout.lines().zip(&requests).zip(WebhookEventType::ALL) {
        assert!(line.contains(kind.as_str()) && line.contains("  204  "), "{line}");
        assert_eq!(verify(SECRET, request), Ok(()));
        let body: Value = request.body_json().unwrap();
        assert_eq!(body["type"], kind.as_str());
    }
    let unregistered = requests[3].body_json::<Value>().unwrap();
    assert_eq!(
        unregistered["data"],
        json!({"device_id": "phone", "user_id": "ada", "platform": "android",
            "reason": "UNREGISTERED"})
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn trigger_exits_with_1_if_an_event_is_not_accepted() {
    let fixture = Fixture::new().await;
    let backend = receiver("poll.answered", 503).await;
    let to = backend.uri();
    let arguments = ["trigger", "poll.answered", "notification.paused", "--webhook-id", "m-1"];
    let more = ["--to", &to, "--secret", SECRET, "-o", "json"];
    let run = common::finish(fixture.offline(&[&arguments[..], &more].concat()));
    assert_eq!((run.status, &*run.stderr), (1, "error: 1 of 2 events were not accepted\n"));
    let lines = run.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let statuses: Vec<_> = lines.map(|line| line["status"].clone()).collect();
    assert_eq!(statuses, [json!(503), json!(204)]);
    for request in received(&backend).await {
        assert_eq!(header(&request, "webhook-id"), "m-1");
    }
    // Nothing listens at this port.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let gone = ["trigger", "poll.answered", "--secret", SECRET, "--to", &free.to_string()];
    let run = common::finish(fixture.offline(&gone));
    assert_eq!(run.status, 1, "{run:?}");
    assert!(run.stdout.contains("failed: ") && run.stdout.contains("(not sent again)"), "{run:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn trigger_lets_the_server_test_each_enabled_webhook() {
    let webhook = |id: &str, enabled: bool| {
        json!({"id": id, "url": "https://a.example/hook", "events": [], "description": null,
            "enabled": enabled, "disabled_reason": null, "failing_since": null, "pending": 0,
            "dropped": 0, "previous_secret_until": null, "created_at": 1, "updated_at": 1})
    };
    let disabled = "0190a3b2-7f00-7000-8000-000000000002";
    let page = json!({"webhooks": [webhook(ID, true), webhook(disabled, false)],
        "next_cursor": null});
    let attempt = |outcome: &str, status: u16| {
        response(
            200,
            &json!({"id": ID, "event": "webhook.test", "outcome": outcome,
            "attempts": 1, "status": status, "reason": null, "latency_ms": 41, "created_at": 1,
            "last_attempt_at": 1, "next_attempt_at": null}),
        )
    };
    for (outcome, answer, status) in [("delivered", 204, 0), ("failed", 503, 1)] {
        let responses = vec![response(200, &page), attempt(outcome, answer)];
        let fixture = Fixture::with_responses(responses).await;
        let run = fixture.run(&["trigger", "webhook.test"]);
        assert_eq!(run.status, status, "{run:?}");
        let line = format!("webhook.test            https://a.example/hook  {answer}  41 ms\n");
        assert!(run.stdout.ends_with(&line), "{run:?}");
        let calls: Vec<_> = fixture.received().await.into_iter().map(|(call, _)| call).collect();
        let test = format!("POST /v1/webhooks/{ID}/test");
        assert_eq!(calls, ["GET /v1/webhooks?limit=500".to_owned(), test]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn trigger_lists_the_types_and_explains_what_is_missing() {
    let fixture = Fixture::new().await;
    let listed = common::finish(fixture.offline(&["trigger", "--list"])).assert_success().json();
    let types: Vec<_> =
        listed["types"].as_array().unwrap().iter().map(|one| &one["type"]).collect();
    assert!(
        listed["types"].as_array().unwrap().iter().all(|one| one["how"].is_string()),
        "{listed}"
    );
    assert_eq!(types, WebhookEventType::NAMES.map(|name| json!(name)).iter().collect::<Vec<_>>());
    let to = ["--to", "http://127.0.0.1:9/"];
    for (arguments, message) in [
        (&["trigger"][..], "required arguments were not provided"),
        (&["trigger", "nonsense"], "unknown type `nonsense`: give one of notification.completed"),
        (&["trigger", "poll.answered"], "--to URL posts an example of it from this machine"),
        (&["trigger", "poll.answered", to[0], to[1]], "no secret: give --secret"),
        (&["trigger", "--all"], "--to <URL>"),
        (&["trigger", "webhook.test", "--to", "ftp://a", "--secret", SECRET], "--to: `ftp://a`"),
        (&["trigger", "webhook.test", to[0], to[1], "--secret", "x!"], "--secret: a secret is"),
        (&["listen", "--events", "webhook.test"], "--events: unknown type `webhook.test`"),
        (&["listen", "--forward-to", "/hooks"], "--forward-to: `/hooks` is not a url"),
        (&["listen"], "no API key"),
    ] {
        let run = common::finish(fixture.offline(arguments));
        assert_eq!(run.status, 2, "{arguments:?}: {run:?}");
        assert!(!run.stderr.contains("0 events"), "it did not begin: {run:?}");
        assert!(run.stderr.contains(message) && run.stdout.is_empty(), "{arguments:?}: {run:?}");
    }
    assert_eq!(fixture.received().await, [], "no request is made");
}
