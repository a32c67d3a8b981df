//! Whole payloads and headers on Web Push.

use http::HeaderMap;
use notify_core::Priority;
use serde_json::json;

use super::{Given, ID, full, poll, with_options};
use crate::payload::web_push;

#[test]
fn web_push_shows_a_text_under_the_name_of_the_application() {
    assert_eq!(
        Given::text("Hello").web(),
        json!({"title": "Shop", "body": "Hello", "tag": ID, "data": {"notification_id": ID}})
    );
    assert_eq!(
        Given { collapse_key: Some("k"), ..Given::text("Hello") }.web(),
        json!({"title": "Shop", "body": "Hello", "tag": "k", "data": {"notification_id": ID}})
    );
}

#[test]
fn web_push_carries_every_setting() {
    assert_eq!(
        full().web(),
        json!({
            "title": "Shop",
            "body": "Läuft",
            "image": "https://i.example/1.png",
            "url": "shop://order/1",
            "actions": [
                {
                    "action": "action-1",
                    "title": "Open",
                    "icon": "https://i.example/o.png",
                    "url": "https://n.example/o",
                },
                {"action": "later", "title": "Later"},
            ],
            "tag": ID,
            "data": {
                "notification_id": ID,
                "url": "shop://order/1",
                "image_url": "https://i.example/1.png",
                "campaign_id": "default",
                "order": {"id": 7},
            },
        })
    );
}

#[test]
fn web_push_carries_every_option() {
    assert_eq!(
        Given::message(with_options()).web(),
        json!({
            "title": "Shop",
            "body": "Hi",
            "icon": "https://i.example/i.png",
            "badge": "https://i.example/b.png",
            "requireInteraction": true,
            "silent": false,
            "renotify": true,
            "tag": ID,
            "data": {"notification_id": ID},
        })
    );
}

#[test]
fn web_push_shows_a_poll_as_its_question() {
    assert_eq!(
        poll().web(),
        json!({
            "title": "Shop",
            "body": "Tea or coffee?",
            "image": "https://i.example/cup.png",
            "url": "https://n.example/p/1",
            "tag": ID,
            "data": {
                "notification_id": ID,
                "url": "https://n.example/p/1",
                "image_url": "https://i.example/cup.png",
                "poll_id": ID,
            },
        })
    );
}

#[test]
fn web_push_headers_follow_priority_time_and_collapse_key() {
    let expect = |given: &Given, ttl: &str, urgency: &str, topic: &str| {
        let mut expected = HeaderMap::new();
        expected.insert("ttl", ttl.parse().unwrap());
        expected.insert("urgency", urgency.parse().unwrap());
        expected.insert("topic", topic.parse().unwrap());
        expected.insert("content-encoding", "aes128gcm".parse().unwrap());
        expected.insert("content-type", "application/octet-stream".parse().unwrap());
        assert_eq!(web_push::render(&given.context()).unwrap().headers, expected);
    };
    // The first 32 of base64url(SHA-256(ID)): an id is longer than a topic may be.
    let hashed = "h71q2LHwBdr9PyMJmXan76iNx9FndrWK";
    let text = || Given::text("x");
    expect(&text(), "3600", "high", hashed);
    expect(&Given { priority: Priority::Normal, ..text() }, "3600", "normal", hashed);
    expect(&Given { ttl_seconds: 0, ..text() }, "0", "high", hashed);
    expect(&Given { collapse_key: Some("order-17"), ..text() }, "3600", "high", "order-17");
}
