//! `Idempotency-Key`. Concurrent requests with one key are tested in
//! `tests/crash/repeats.rs`, the scope of keys in `tests/isolation.rs`.

use std::time::Duration;

use notify_tests::TestServer;
use serde_json::json;

use crate::fixtures::{android, template, to_android};

#[tokio::test]
async fn every_post_under_v1_is_replayed_and_happens_once() {
    let server = TestServer::without_providers().await;
    let caller = server.caller();
    caller.post("/v1/devices", &android("d0")).await.ok();
    let bodies = [
        ("/v1/notifications", to_android()),
        ("/v1/notifications/preview", to_android()),
        ("/v1/notifications/notify", json!({"id": "r", "text": "a", "platforms": ["ios"]})),
        ("/v1/devices", android("d1")),
        ("/v1/devices/d0/tags", json!({"tags": [{"name": "t", "type": "bool", "value": true}]})),
        ("/v1/subscriptions", json!({"platform": "chatapp", "recipient_id": "7"})),
        ("/v1/campaigns", template("c")),
        ("/v1/feeds", json!({"url": "https://a.example/feed", "name": "f"})),
        (
            "/v1/events",
            json!({"events": [{"type": "opened", "notification_id": "r", "device_id": "d0"}]}),
        ),
    ];
    for (path, body) in &bodies {
        let first = caller.post_once(path, "key-1", body).await;
        assert_eq!(first.header("idempotency-replayed"), "", "{path}");
        let again = caller.post_once(path, "key-1", body).await;
        assert_eq!(again.header("idempotency-replayed"), "true", "{path}");
        assert_eq!(first.ok(), again.ok(), "{path}");
        let mut other = body.clone();
        other["surprise"] = json!(1);
        let words = ["Idempotency-Key: was already used for a request with another body"];
        caller.post_once(path, "key-1", &other).await.rejected(409, &words);
    }
    assert_eq!(
        caller.get("/v1/notifications").await.ok()["notifications"].as_array().unwrap().len(),
        2
    );
    assert_eq!(caller.get("/v1/campaigns").await.ok()["campaigns"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_replay_survives_a_restart_and_expires_after_a_day() {
    let mut server = TestServer::without_providers().await;
    let first = server.caller().post_once("/v1/notifications", "k", &to_android()).await.id();
    server.restart().await;
    let again = server.caller().post_once("/v1/notifications", "k", &to_android()).await;
    assert_eq!((again.id(), again.header("idempotency-replayed")), (first.clone(), "true"));
    server.clock().advance(Duration::from_secs(24 * 3_600 + 1));
    let later = server.caller().post_once("/v1/notifications", "k", &to_android()).await;
    assert_ne!(later.id(), first);
}

#[tokio::test]
async fn failures_are_not_replayed() {
    let server = TestServer::without_providers().await;
    let caller = server.caller();
    caller.post_once("/v1/notifications", "k", &json!({"text": "a"})).await.is(400);
    caller.post_once("/v1/notifications", "k", &to_android()).await.id();
}

#[tokio::test]
async fn keys_are_1_to_255_visible_characters() {
    let server = TestServer::without_providers().await;
    let longest = "k".repeat(255);
    for (key, status) in
        [("k", 200), (&*longest, 200), ("", 400), ("a b", 400), (&"k".repeat(256), 400)]
    {
        server.caller().post_once("/v1/notifications", key, &to_android()).await.is(status);
    }
}

#[tokio::test]
async fn the_admin_api_ignores_idempotency_keys() {
    let server = TestServer::without_providers().await;
    let apps = server.admin().get("/admin/v1/apps").await.ok();
    let path = format!("/admin/v1/apps/{}/keys", apps["apps"][0]["id"].as_str().unwrap());
    let first = server.admin().post_once(&path, "k", &json!({})).await.ok();
    let again = server.admin().post_once(&path, "k", &json!({})).await;
    assert_eq!(again.header("idempotency-replayed"), "");
    assert_ne!(first["api_key"], again.ok()["api_key"]);
}
