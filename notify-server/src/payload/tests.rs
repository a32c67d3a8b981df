//! Whole payloads, one row for each kind of content, and the limits to the byte.

use http::HeaderMap;
use notify_core::json::JsonObject;
use notify_core::{
    ActionButton, CampaignRef, Content, Extra, IosAlert, Message, NewAnswer, NewPoll,
    NotificationId, Platform, PollLayout, Priority, Timestamp,
};
use serde_json::{Value, json};

use super::{Outgoing, TooLarge, apns, check_size, fcm, web_push};

const ID: &str = "01890a5d-ac96-774b-bcce-b302099a8057";

/// A notification to render, with everything that an [`Outgoing`] borrows.
struct Given {
    id: NotificationId,
    app_name: String,
    content: Content,
    priority: Priority,
    collapse_key: Option<&'static str>,
    ttl_seconds: u32,
}

impl Given {
    fn content(content: Content) -> Self {
        Self {
            id: NotificationId::new(ID).unwrap(),
            app_name: "Shop".to_owned(),
            content,
            priority: Priority::High,
            collapse_key: None,
            ttl_seconds: 3_600,
        }
    }

    fn message(message: Message) -> Self {
        Self::content(Content::Message(Box::new(message)))
    }

    fn text(text: impl Into<String>) -> Self {
        Self::message(Message { text: text.into(), ..Message::default() })
    }

    fn outgoing(&self) -> Outgoing<'_> {
        Outgoing {
            id: &self.id,
            app_name: &self.app_name,
            content: &self.content,
            poll_url: matches!(self.content, Content::Poll(_)).then_some("https://n.example/p/1"),
            priority: self.priority,
            collapse_key: self.collapse_key,
            expires_at: (self.ttl_seconds > 0).then_some(Timestamp(1_700_000_000_999)),
            ttl_seconds: self.ttl_seconds,
        }
    }

    fn apns(&self) -> Value {
        serde_json::from_slice(&apns::render(&self.outgoing()).unwrap().body).unwrap()
    }

    fn fcm(&self, enriched_as_data: bool) -> Value {
        let payload = fcm::render(&self.outgoing(), enriched_as_data).unwrap();
        serde_json::from_slice(&payload.for_token("t0ken")).unwrap()
    }

    fn web(&self) -> Value {
        serde_json::from_slice(&web_push::render(&self.outgoing()).unwrap()).unwrap()
    }
}

fn object(text: &str) -> JsonObject {
    JsonObject::new(text).unwrap()
}

fn full() -> Given {
    Given::message(Message {
        text: "Läuft".to_owned(),
        url: Some("shop://order/1".to_owned()),
        image_url: Some("https://i.example/1.png".to_owned()),
        campaign: Some(CampaignRef::Default),
        extra: Some(Extra { key: "order".to_owned(), value: object(r#"{"id": 7}"#) }),
        android_title: Some("Order".to_owned()),
        android_sound: Some("ding".to_owned()),
        ios_alert: Some(IosAlert { badge: 3, sound: "ding.caf".to_owned() }),
        web_push_actions: vec![
            ActionButton {
                title: "Open".to_owned(),
                icon: Some("https://i.example/o.png".to_owned()),
                action: "action-1".to_owned(),
                url: Some("https://n.example/o".to_owned()),
            },
            ActionButton {
                title: "Later".to_owned(),
                icon: None,
                action: "later".to_owned(),
                url: None,
            },
        ],
        ..Message::default()
    })
}

fn poll() -> Given {
    let answer = |text: &str| NewAnswer { text: text.to_owned(), image_url: None };
    Given::content(Content::Poll(NewPoll {
        text: "Tea or coffee?".to_owned(),
        layout_id: PollLayout::PollText,
        image_url: Some("https://i.example/cup.png".to_owned()),
        answers: vec![answer("Tea"), answer("Coffee")],
    }))
}

fn raw() -> Given {
    Given::message(Message {
        text: "unused".to_owned(),
        url: Some("https://unused.example".to_owned()),
        android_json: Some(object(
            r#"{"b": "text \u00e4", "a": {"x" : 1}, "n": 1.50, "t": true, "z": null, "l": [1, "2"]}"#,
        )),
        ios_json: Some(object(
            "{ \"zz\": 1,\n\"aps\": {\"sound\":\"s\",  \"badge\":1e0,\"alert\":\"hi\"} }",
        )),
        ..Message::default()
    })
}

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
    let payload = apns::render(&given.outgoing()).unwrap();
    assert_eq!(
        payload.body,
        "{ \"zz\": 1,\n\"aps\": {\"sound\":\"s\",  \"badge\":1e0,\"alert\":\"hi\"} }"
    );
}

#[test]
fn apns_headers_follow_priority_time_and_collapse_key() {
    let headers = |given: &Given| apns::render(&given.outgoing()).unwrap().headers;
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
fn an_id_that_is_no_uuid_still_makes_valid_apns_headers() {
    let mut given = Given::text("x");
    given.id = NotificationId::new("ä".repeat(255)).unwrap();
    let headers = apns::render(&given.outgoing()).unwrap().headers;
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
fn fcm_sends_what_is_enriched_as_data_alone_when_asked_to() {
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
    assert_eq!(poll().fcm(true)["message"]["data"]["body"], "Tea or coffee?");
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
fn fcm_sends_a_raw_payload_as_data_of_texts_with_nothing_of_ours() {
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
fn a_token_goes_in_as_a_json_string_whatever_it_holds() {
    let given = Given::text("x");
    let payload = fcm::render(&given.outgoing(), false).unwrap();
    for token in ["abc:APA91b-_", "quo\"te", "back\\slash", "ünïcode \u{1}"] {
        let body: Value = serde_json::from_slice(&payload.for_token(token)).unwrap();
        assert_eq!(body["message"]["token"], token);
    }
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
    assert_eq!(
        Given { collapse_key: Some("k"), ..Given::text("Hello") }.web(),
        json!({
            "title": "Shop", "body": "Hello", "tag": "k", "data": {"notification_id": ID},
        })
    );
}

#[test]
fn every_limit_holds_to_the_last_byte() {
    let filled = |text_len: usize| Given::text("x".repeat(text_len));
    let apns_rest = apns::render(&filled(1).outgoing()).unwrap().body.len() - 1;
    let fcm_rest = fcm::render(&filled(1).outgoing(), false).unwrap().counted - 1;
    let web_rest = web_push::render(&filled(1).outgoing()).unwrap().len() - 1;
    let rows = [
        (Platform::Ios, 4_096, apns_rest),
        (Platform::Android, 4_096, fcm_rest),
        (Platform::Web, 3_993, web_rest),
        (Platform::FbMessenger, 2_000, 0),
        (Platform::ChatApp, 4_096, 0),
    ];
    for (platform, limit, rest) in rows {
        let check = |len: usize| check_size(&filled(len).outgoing(), &[platform], false);
        assert_eq!(check(limit - rest), Ok(()), "{platform}");
        let broken = vec![TooLarge { platform, bytes: limit + 1, limit }];
        assert_eq!(check(limit - rest + 1), Err(broken), "{platform}");
    }
    let all = check_size(&filled(5_000).outgoing(), &Platform::ALL, false).unwrap_err();
    assert_eq!(all.len(), 5, "every broken limit is listed");
    assert_eq!(
        all[3].to_string(),
        "the payload for fb-messenger would be 5000 characters, 2000 are allowed"
    );
}

#[test]
fn fcm_counts_keys_and_values_of_what_the_device_receives() {
    let given = Given::message(Message {
        text: "four".to_owned(),
        android_json: None,
        android_sound: Some("ding".to_owned()),
        ..Message::default()
    });
    let expected = "titleShop".len()
        + "bodyfour".len()
        + "notification_id".len()
        + ID.len()
        + "sound".len()
        + "ding".len()
        + "tag".len()
        + ID.len();
    assert_eq!(fcm::render(&given.outgoing(), false).unwrap().counted, expected);
}

#[test]
fn raw_payloads_are_measured_too() {
    let big = "y".repeat(4_100);
    let given = Given::message(Message {
        text: "x".to_owned(),
        android_json: Some(object(&json!({"k": big}).to_string())),
        ios_json: Some(object(&json!({"aps": {}, "k": big}).to_string())),
        ..Message::default()
    });
    let broken =
        check_size(&given.outgoing(), &[Platform::Ios, Platform::Android], false).unwrap_err();
    assert_eq!(broken[1].bytes, 4_101);
    assert_eq!(broken[0].bytes, "{\"aps\":{},\"k\":\"\"}".len() + 4_100);
}

#[test]
fn a_long_title_is_shortened_to_fit_and_a_short_one_never() {
    let given = Given { app_name: "ä".repeat(3_000), ..Given::text("Hello") };
    for payload in
        [given.apns()["aps"]["alert"].clone(), given.fcm(false)["message"]["notification"].clone()]
    {
        let title = payload["title"].as_str().unwrap();
        assert!(title.starts_with('ä') && title.ends_with('…'), "{title}");
        assert!(title.chars().count() > 1_000, "no more is cut than needed");
        assert_eq!(payload["body"], "Hello");
    }
    assert!(apns::render(&given.outgoing()).unwrap().body.len() <= 4_096);
    assert!(given.web()["title"].as_str().unwrap().ends_with('…'));
    let hopeless = Given { app_name: "ä".repeat(3_000), ..Given::text("x".repeat(4_000)) };
    assert!(apns::render(&hopeless.outgoing()).unwrap_err().bytes > 10_000);
}
