//! Another application's ids are exactly as unknown as ones that never existed (B7).

use reqwest::Method;
use serde_json::{Value, json};

use crate::kit::{Answer, Caller, TestServer, android, template, to_android};

struct Owned {
    notification: String,
    poll: String,
    answer: String,
    campaign: String,
    feed: String,
}

async fn fill(caller: &Caller) -> Owned {
    caller.post("/v1/devices", &android("d1")).await.ok();
    let tags = json!({"tags": [{"name": "t", "type": "bool", "value": true}]});
    caller.post("/v1/devices/d1/tags", &tags).await.ok();
    let poll = json!({"platforms": ["ios"], "poll": {"text": "?", "layout_id": "poll_text",
        "answers": [{"text": "a"}, {"text": "b"}]}});
    let poll = caller.post("/v1/notifications", &poll).await.id();
    let read = caller.get(&format!("/v1/polls/{poll}")).await.ok();
    let mut scheduled = to_android();
    scheduled["send_at"] = json!(crate::kit::NOW.0 + 3_600_000);
    Owned {
        answer: read["answers"][0]["id"].as_str().unwrap().to_owned(),
        poll,
        notification: caller.post("/v1/notifications", &scheduled).await.id(),
        campaign: caller.post("/v1/campaigns", &template("c")).await.id(),
        feed: caller
            .post("/v1/feeds", &json!({"url": "https://a.example/f", "name": "f"}))
            .await
            .id(),
    }
}

/// Every route with an id, as it is asked for with ids of that owner.
fn routes(owned: &Owned) -> Vec<(Method, String, Value)> {
    let Owned { notification, poll, answer, campaign, feed } = owned;
    let none = Value::Null;
    let tags = json!({"tags": [{"name": "t", "type": "bool", "value": false}]});
    vec![
        (Method::GET, format!("/v1/notifications/{notification}"), none.clone()),
        (Method::DELETE, format!("/v1/notifications/{notification}"), none.clone()),
        (Method::GET, format!("/v1/polls/{poll}"), none.clone()),
        (Method::POST, format!("/v1/polls/{poll}/answers/{answer}"), json!({})),
        (Method::GET, "/v1/devices/d1".to_owned(), none.clone()),
        (Method::POST, "/v1/devices/d1/tags".to_owned(), tags),
        (Method::DELETE, "/v1/devices/d1/tags/t".to_owned(), none.clone()),
        (Method::DELETE, "/v1/devices/d1".to_owned(), none.clone()),
        (Method::GET, format!("/v1/enrichments/{campaign}"), none.clone()),
        (Method::GET, format!("/v1/campaigns/{campaign}"), none.clone()),
        (Method::PUT, format!("/v1/campaigns/{campaign}"), template("stolen")),
        (Method::PUT, format!("/v1/campaigns/{campaign}/status"), json!({"status": "disabled"})),
        (Method::DELETE, format!("/v1/campaigns/{campaign}"), none.clone()),
        (Method::DELETE, format!("/v1/feeds/{feed}"), none),
    ]
}

async fn ask(caller: &Caller, (method, path, body): &(Method, String, Value)) -> (u16, Value) {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let answer = Answer::of(caller.request(method.clone(), path).body(body)).await;
    (answer.status, answer.json())
}

#[tokio::test]
async fn ids_of_another_application_are_unknown_on_every_route() {
    let server = TestServer::start().await;
    let owner = server.caller();
    let (_, stranger) = server.another_app().await;
    let owned = fill(&owner).await;
    let nobodys = Owned {
        notification: "0190a7c0-0000-7000-8000-000000000000".into(),
        poll: "0190a7c0-0000-7000-8000-000000000001".into(),
        answer: "0190a7c0-0000-7000-8000-000000000002".into(),
        campaign: "0190a7c0-0000-7000-8000-000000000003".into(),
        feed: "0190a7c0-0000-7000-8000-000000000004".into(),
    };
    for (theirs, never) in routes(&owned).iter().zip(&routes(&nobodys)) {
        let answer = ask(&stranger, theirs).await;
        assert_eq!(answer, ask(&stranger, never).await, "{theirs:?}");
        assert!(matches!(answer.0, 400 | 404), "{theirs:?} {answer:?}");
    }
    for (list, name) in [
        ("/v1/notifications", "notifications"),
        ("/v1/devices", "devices"),
        ("/v1/campaigns?status=all", "campaigns"),
        ("/v1/feeds", "feeds"),
        ("/v1/tags", "tags"),
    ] {
        assert_eq!(stranger.get(list).await.ok()[name], json!([]), "{list}");
        assert_ne!(owner.get(list).await.ok()[name], json!([]), "{list}");
    }
    assert_eq!(stranger.get("/v1/statistics/devices").await.ok()["total"], 0);
    // Nothing of what the stranger tried did anything.
    for route in routes(&owned) {
        assert_eq!(ask(&owner, &route).await.0, 200, "{route:?}");
    }
}

#[tokio::test]
async fn bodies_cannot_name_what_another_application_owns() {
    let server = TestServer::start().await;
    let owned = fill(&server.caller()).await;
    let (_, stranger) = server.another_app().await;
    let mut body = to_android();
    body["campaign_id"] = json!(owned.campaign);
    stranger.post("/v1/notifications", &body).await.is(400);
    let mut campaign = template("c");
    campaign["features"] = json!([{"type": "content_feed", "position": 1,
        "data": {"feeds": [{"id": owned.feed}]}}]);
    stranger.post("/v1/campaigns", &campaign).await.is(400);
    let event = json!({"events": [{"type": "opened", "notification_id": owned.notification,
        "device_id": "d1"}]});
    assert_eq!(stranger.post("/v1/events", &event).await.ok()["accepted"], 0);
    let same_id = json!({"id": owned.notification, "text": "a", "platforms": ["ios"]});
    stranger.post("/v1/notifications/notify", &same_id).await.ok();
}
