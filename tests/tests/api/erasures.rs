//! Erasing devices and users: what is left in files and stored answers. What is left in the tables is tested by
//! the contract of the store, and crashes by `tests/crash/points/erasures.rs`.

use notify_tests::{TestServer, back_up};
use serde_json::json;

use crate::fixtures::android;

/// The users that are erased. With so many, pages become free.
const USERS: usize = 120;

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

#[tokio::test]
async fn a_backup_contains_nothing_of_erased_users() {
    let server = TestServer::without_providers_on_sqlite().await;
    let caller = server.caller();
    let mut kept = android("kept-device");
    kept["user_id"] = json!("kept-user");
    caller.post("/v1/devices", &kept).await.ok();
    for number in 0..USERS {
        let mut device = android(&format!("erased-device-{number:03}"));
        device["user_id"] = json!(format!("erased-user-{number:03}"));
        caller.post("/v1/devices", &device).await.ok();
    }
    for number in 0..USERS {
        caller.delete(&format!("/v1/users/erased-user-{number:03}")).await.ok();
    }
    let file = server.data_dir().join("backup.db");
    back_up(server.data_dir(), &file).await.unwrap();
    let bytes = std::fs::read(&file).unwrap();
    for text in ["kept-user", "kept-device", "token-kept-device"] {
        assert!(contains(&bytes, text), "{text}");
    }
    for text in ["erased-user", "erased-device"] {
        assert!(!contains(&bytes, text), "{text}");
    }
}

#[tokio::test]
async fn answers_about_an_erased_device_are_not_replayed() {
    let server = TestServer::without_providers().await;
    let caller = server.caller();
    let subscription = json!({"platform": "chatapp", "recipient_id": "7"});
    let subscribe = || caller.post_once("/v1/subscriptions", "k", &subscription);
    let id = subscribe().await.id();
    let again = subscribe().await;
    assert_eq!((again.id(), again.header("idempotency-replayed")), (id.clone(), "true"));
    let tags = format!("/v1/devices/{id}/tags");
    let vip = json!({"tags": [{"name": "vip", "type": "bool", "value": true}]});
    caller.post_once(&tags, "k", &vip).await.ok();
    let preview = format!("/v1/notifications/preview?device_id={id}");
    let notification = json!({"text": "t", "platforms": ["chatapp"]});
    caller.post_once(&preview, "k", &notification).await.ok();

    caller.delete(&format!("/v1/devices/{id}")).await.ok();
    caller.post_once(&tags, "k", &vip).await.rejected(404, &["not found"]);
    caller.post_once(&preview, "k", &notification).await.rejected(404, &["not found"]);
    let later = subscribe().await;
    assert_eq!(later.header("idempotency-replayed"), "");
    assert_ne!(later.id(), id);
}
