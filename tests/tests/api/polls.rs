//! Polls over HTTP.

use notify_tests::{NOW, TestServer};
use serde_json::{Value, json};

use crate::fixtures::android;

#[tokio::test]
async fn a_poll_has_the_id_of_its_notification_and_counts_answers() {
    let server = TestServer::without_providers_with(|config| {
        config.public_url = Some("https://push.example/".parse().unwrap());
    })
    .await;
    let caller = server.caller();
    let body = json!({"platforms": ["android"], "poll": {"text": "Tea?", "layout_id": "poll_text",
        "answers": [{"text": "yes"}, {"text": "no"}]}});
    let id = caller.post("/v1/notifications", &body).await.id();
    let path = format!("/v1/polls/{id}");
    let poll = caller.get(&path).await.ok();
    let url = poll["url"].as_str().unwrap();
    assert!(url.starts_with("https://push.example/polls/") && !url.contains(&id), "{url}");
    let answer = |place: usize| poll["answers"][place]["id"].as_str().unwrap().to_owned();
    let with = |clicks: [u64; 2], percentages: [f64; 2]| {
        json!({"id": id, "text": "Tea?", "url": url, "layout_id": "poll_text", "lang": "en",
        "created_at": NOW.0, "answers": [
            {"id": answer(0), "text": "yes", "image_url": "", "percentage": percentages[0], "clicks": clicks[0]},
            {"id": answer(1), "text": "no", "image_url": "", "percentage": percentages[1], "clicks": clicks[1]},
        ]})
    };
    assert_eq!(poll, with([0, 0], [0.0, 0.0]));

    let answers = format!("{path}/answers");
    caller.post_bytes(&format!("{answers}/{}", answer(0)), "").await.ok();
    caller.post("/v1/devices", &android("d1")).await.ok();
    for _ in 0..2 {
        let vote = json!({"device_id": "d1"});
        caller.post(&format!("{answers}/{}", answer(0)), &vote).await.ok();
    }
    caller.post(&format!("{answers}/{}", answer(1)), &json!({})).await.ok();
    assert_eq!(caller.get(&path).await.ok(), with([2, 1], [66.67, 33.33]));

    let unknown = json!({"device_id": "missing"});
    let refused = caller.post(&format!("{answers}/{}", answer(1)), &unknown).await;
    refused.rejected(400, &["device_id: no device has this id"]);
    let other = "0190a7c0-0000-7000-8000-000000000000";
    caller.post_bytes(&format!("{answers}/{other}"), "").await.is(404);
    caller.post_bytes(&format!("/v1/polls/{other}/answers/{}", answer(0)), "").await.is(404);
}

#[tokio::test]
async fn an_unknown_poll_is_400() {
    let server = TestServer::without_providers().await;
    let caller = server.caller();
    let message = caller.post("/v1/notifications", &crate::fixtures::to_android()).await.id();
    for id in ["unknown", &message, "0190a7c0-0000-7000-8000-000000000000"] {
        caller.get(&format!("/v1/polls/{id}")).await.rejected(400, &["id: no poll has this id"]);
    }
}

#[tokio::test]
async fn the_public_url_defaults_to_the_listening_address() {
    let server = TestServer::without_providers().await;
    let body = json!({"platforms": ["android"], "poll": {"text": "?", "layout_id": "poll_text",
        "answers": [{"text": "a"}, {"text": "b"}]}});
    let id = server.caller().post("/v1/notifications", &body).await.id();
    let poll: Value = server.caller().get(&format!("/v1/polls/{id}")).await.ok();
    let start = format!("http://{}/polls/", server.address());
    assert!(poll["url"].as_str().unwrap().starts_with(&start), "{poll}");
}
