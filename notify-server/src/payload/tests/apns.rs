//! Whole payloads and headers on APNs.

use http::HeaderMap;
use notify_core::{CampaignRef, Message, NotificationId, Priority};
use serde_json::{Value, json};

use super::{Given, ID, full, poll, raw, silent, with_options};
use crate::payload::apns;

#[test]
fn apns_shows_a_text_under_the_name_of_the_application() {
    assert_eq!(
        Given::text("Hello").apns(),
        json!({
            "aps": {"alert": {"title": "Shop", "body": "Hello"}, "sound": "default"},
            "notification_id": ID,
        })
    );
}

#[test]
fn apns_carries_every_setting() {
    assert_eq!(
        full().apns(),
        json!({
            "aps": {
                "alert": {"title": "Shop", "body": "Läuft"},
                "badge": 3,
                "sound": "ding.caf",
                "mutable-content": 1,
            },
            "notification_id": ID,
            "url": "shop://order/1",
            "image_url": "https://i.example/1.png",
            "campaign_id": "default",
            "order": {"id": 7},
        })
    );
}

#[test]
fn apns_carries_every_option() {
    assert_eq!(
        Given::message(with_options()).apns(),
        json!({
            "aps": {
                "alert": {"title": "Shop", "subtitle": "Soon", "body": "Hi"},
                "sound": "default",
                "thread-id": "orders",
                "category": "ORDER",
                "interruption-level": "time-sensitive",
                "relevance-score": 0.25,
                "mutable-content": 1,
            },
            "notification_id": ID,
        })
    );
    let mut closed = with_options();
    closed.ios.mutable_content = Some(false);
    closed.campaign = Some(CampaignRef::Default);
    assert_eq!(Given::message(closed).apns()["aps"]["mutable-content"], Value::Null);
}

#[test]
fn apns_shows_a_poll_as_its_question() {
    assert_eq!(
        poll().apns(),
        json!({
            "aps": {
                "alert": {"title": "Shop", "body": "Tea or coffee?"},
                "sound": "default",
                "mutable-content": 1,
            },
            "notification_id": ID,
            "url": "https://n.example/p/1",
            "image_url": "https://i.example/cup.png",
            "poll_id": ID,
        })
    );
}

#[test]
fn apns_wakes_the_app_for_an_image_or_a_campaign_alone() {
    let image = Message {
        text: "x".to_owned(),
        image_url: Some("https://i.example/1.png".to_owned()),
        ..Message::default()
    };
    let campaign = Message {
        text: "x".to_owned(),
        campaign: Some(CampaignRef::Default),
        ..Message::default()
    };
    let url = Message { text: "x".to_owned(), url: Some("a://b".to_owned()), ..Message::default() };
    for (message, wakes) in [(image, json!(1)), (campaign, json!(1)), (url, Value::Null)] {
        assert_eq!(Given::message(message).apns()["aps"]["mutable-content"], wakes);
    }
}

#[test]
fn apns_sends_a_raw_payload_byte_for_byte() {
    let given = raw();
    let payload = apns::render(&given.context()).unwrap();
    assert_eq!(
        payload.body,
        "{ \"zz\": 1,\n\"aps\": {\"sound\":\"s\",  \"badge\":1e0,\"alert\":\"hi\"} }"
    );
}

#[test]
fn apns_headers_follow_priority_time_and_collapse_key() {
    let headers = |given: &Given| apns::render(&given.context()).unwrap().headers;
    let expect = |given: &Given, priority: &str, expiration: &str, collapse: &str| {
        let mut expected = HeaderMap::new();
        expected.insert("apns-push-type", "alert".parse().unwrap());
        expected.insert("apns-priority", priority.parse().unwrap());
        expected.insert("apns-expiration", expiration.parse().unwrap());
        expected.insert("apns-collapse-id", collapse.parse().unwrap());
        expected.insert("apns-id", ID.parse().unwrap());
        assert_eq!(headers(given), expected);
    };
    expect(&Given::text("x"), "10", "1700000000", ID);
    expect(&Given { priority: Priority::Normal, ..Given::text("x") }, "5", "1700000000", ID);
    expect(&Given { ttl_seconds: 0, ..Given::text("x") }, "10", "0", ID);
    expect(&Given { collapse_key: Some("k!"), ..Given::text("x") }, "10", "1700000000", "k!");
    expect(&raw(), "10", "1700000000", ID);
}

#[test]
fn apns_wakes_the_app_of_a_silent_message() {
    for priority in [Priority::High, Priority::Normal] {
        let given = Given { priority, ..silent() };
        assert_eq!(
            given.apns(),
            json!({
                "aps": {"content-available": 1},
                "notification_id": ID,
                "url": "shop://order/1",
                "campaign_id": "default",
                "order": {"id": 7},
            })
        );
        let headers = apns::render(&given.context()).unwrap().headers;
        assert_eq!(
            (&headers["apns-push-type"], &headers["apns-priority"]),
            (&"background".parse().unwrap(), &"5".parse().unwrap())
        );
    }
}

#[test]
fn an_id_that_is_no_uuid_still_makes_valid_apns_headers() {
    let mut given = Given::text("x");
    given.id = NotificationId::new("ä".repeat(255)).unwrap();
    let headers = apns::render(&given.context()).unwrap().headers;
    assert_eq!(headers["apns-collapse-id"].len(), 43);
    assert!(uuid::Uuid::try_parse(headers["apns-id"].to_str().unwrap()).is_ok());
}

#[test]
fn a_delivery_id_is_the_same_on_every_try_and_differs_between_devices() {
    let notification = uuid::Uuid::try_parse(ID).unwrap();
    let first = apns::delivery_id(&notification, "aa");
    assert_eq!(first, apns::delivery_id(&notification, "aa"));
    assert_ne!(first, apns::delivery_id(&notification, "ab"));
}
