//! Whole bodies on FCM.

use notify_core::{CampaignRef, Priority};
use serde_json::{Value, json};

use super::{Given, ID, full, poll, raw, silent, with_options};
use crate::payload::fcm;

#[test]
fn fcm_shows_a_text_under_the_name_of_the_application() {
    assert_eq!(
        Given::text("Hello").fcm(false),
        json!({"message": {
            "token": "t0ken",
            "notification": {"title": "Shop", "body": "Hello"},
            "data": {"notification_id": ID},
            "android": {"priority": "HIGH", "ttl": "3600s", "notification": {"tag": ID}},
        }})
    );
}

#[test]
fn fcm_carries_every_setting() {
    assert_eq!(
        full().fcm(false),
        json!({"message": {
            "token": "t0ken",
            "notification": {
                "title": "Order", "body": "Läuft", "image": "https://i.example/1.png",
            },
            "data": {
                "notification_id": ID,
                "url": "shop://order/1",
                "image_url": "https://i.example/1.png",
                "campaign_id": "default",
                "order": "{\"id\": 7}",
            },
            "android": {
                "priority": "HIGH",
                "ttl": "3600s",
                "notification": {"sound": "ding", "tag": ID},
            },
        }})
    );
}

#[test]
fn fcm_sends_enriched_notifications_as_data_when_configured() {
    let given = Given { collapse_key: Some("k"), ..full() };
    assert_eq!(
        given.fcm(true),
        json!({"message": {
            "token": "t0ken",
            "data": {
                "notification_id": ID,
                "url": "shop://order/1",
                "image_url": "https://i.example/1.png",
                "campaign_id": "default",
                "order": "{\"id\": 7}",
                "title": "Order",
                "body": "Läuft",
            },
            "android": {"collapse_key": "k", "priority": "HIGH", "ttl": "3600s"},
        }})
    );
    let plain = Given::text("not enriched");
    assert_eq!(plain.fcm(true), plain.fcm(false));
    assert_eq!(
        poll().fcm(true),
        json!({"message": {
            "token": "t0ken",
            "data": {
                "notification_id": ID,
                "url": "https://n.example/p/1",
                "image_url": "https://i.example/cup.png",
                "poll_id": ID,
                "title": "Shop",
                "body": "Tea or coffee?",
            },
            "android": {"priority": "HIGH", "ttl": "3600s"},
        }})
    );
}

#[test]
fn fcm_carries_every_option() {
    assert_eq!(
        Given::message(with_options()).fcm(false),
        json!({"message": {
            "token": "t0ken",
            "notification": {"title": "Shop", "body": "Hi"},
            "data": {"notification_id": ID},
            "android": {
                "priority": "HIGH",
                "ttl": "3600s",
                "direct_boot_ok": false,
                "notification": {
                    "tag": ID,
                    "channel_id": "orders",
                    "icon": "parcel",
                    "color": "#0a0B0c",
                    "notification_count": 12,
                    "visibility": "PRIVATE",
                },
                "fcm_options": {"analytics_label": "spring"},
            },
        }})
    );
    let mut enriched = with_options();
    enriched.campaign = Some(CampaignRef::Default);
    assert_eq!(
        Given::message(enriched).fcm(true)["message"]["android"],
        json!({
            "priority": "HIGH",
            "ttl": "3600s",
            "direct_boot_ok": false,
            "fcm_options": {"analytics_label": "spring"},
        }),
        "a message of data alone has no place for what is shown"
    );
}

#[test]
fn fcm_shows_a_poll_as_its_question() {
    assert_eq!(
        poll().fcm(false),
        json!({"message": {
            "token": "t0ken",
            "notification": {
                "title": "Shop", "body": "Tea or coffee?", "image": "https://i.example/cup.png",
            },
            "data": {
                "notification_id": ID,
                "url": "https://n.example/p/1",
                "image_url": "https://i.example/cup.png",
                "poll_id": ID,
            },
            "android": {"priority": "HIGH", "ttl": "3600s", "notification": {"tag": ID}},
        }})
    );
}

#[test]
fn fcm_sends_raw_payload_as_string_data_unchanged() {
    let given = Given { priority: Priority::Normal, ttl_seconds: 0, ..raw() };
    assert_eq!(
        given.fcm(true),
        json!({"message": {
            "token": "t0ken",
            "data": {
                "b": "text ä",
                "a": "{\"x\" : 1}",
                "n": "1.50",
                "t": "true",
                "z": "null",
                "l": "[1, \"2\"]",
            },
            "android": {"priority": "NORMAL", "ttl": "0s"},
        }})
    );
}

#[test]
fn fcm_sends_a_silent_message_as_data_alone() {
    for as_data in [false, true] {
        let given = Given { collapse_key: Some("k"), priority: Priority::Normal, ..silent() };
        assert_eq!(
            given.fcm(as_data),
            json!({"message": {
                "token": "t0ken",
                "data": {
                    "notification_id": ID,
                    "url": "shop://order/1",
                    "campaign_id": "default",
                    "order": "{\"id\": 7}",
                },
                "android": {
                    "collapse_key": "k",
                    "priority": "NORMAL",
                    "ttl": "3600s",
                    "direct_boot_ok": true,
                    "fcm_options": {"analytics_label": "spring"},
                },
            }})
        );
    }
}

#[test]
fn token_is_escaped_as_a_json_string() {
    let given = Given::text("x");
    let payload = fcm::render(&given.context(), false).unwrap();
    for token in ["abc:APA91b-_", "quo\"te", "back\\slash", "ünïcode \u{1}"] {
        let body = payload.body.put(token);
        let body: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(body["message"]["token"], token);
    }
}
