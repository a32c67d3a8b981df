//! Whole payloads, one row for each kind of content, and the limits to the byte.

mod apns;
mod collapse;
mod fcm;
mod gapped;
mod messenger;
mod preview;
mod telegram;
mod unsupported;
mod web_push;

use notify_core::json::JsonObject;
use notify_core::{
    ActionButton, AndroidPresentation, AndroidVisibility, AnswerId, CampaignRef, Content, Extra,
    InterruptionLevel, IosAlert, IosPresentation, Message, NewAnswer, NewPoll, NotificationId,
    Platform, PollLayout, Priority, Timestamp, WebPresentation,
};
use serde_json::{Value, json};

use super::{
    RenderContext, TooLarge, apns as to_apns, check_size, fcm as to_fcm, web_push as to_browser,
};

const ID: &str = "01890a5d-ac96-774b-bcce-b302099a8057";

/// The id of a poll's answer by its number.
fn answer_id(number: u128) -> AnswerId {
    AnswerId(uuid::Uuid::from_u128(number))
}

/// A notification to render, with everything that an [`RenderContext`] borrows.
struct Given {
    id: NotificationId,
    app_name: String,
    content: Content,
    poll_answers: Vec<AnswerId>,
    priority: Priority,
    collapse_key: Option<&'static str>,
    ttl_seconds: u32,
}

impl Given {
    fn content(content: Content) -> Self {
        Self {
            id: NotificationId::new(ID).unwrap(),
            app_name: "Shop".to_owned(),
            poll_answers: match &content {
                Content::Message(_) => Vec::new(),
                Content::Poll(poll) => (1..).take(poll.answers.len()).map(answer_id).collect(),
            },
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

    fn context(&self) -> RenderContext<'_> {
        RenderContext {
            id: &self.id,
            app_name: &self.app_name,
            content: &self.content,
            poll_answers: &self.poll_answers,
            poll_url: matches!(self.content, Content::Poll(_)).then_some("https://n.example/p/1"),
            priority: self.priority,
            collapse_key: self.collapse_key,
            expires_at: (self.ttl_seconds > 0).then_some(Timestamp(1_700_000_000_999)),
            ttl_seconds: self.ttl_seconds,
        }
    }

    fn apns(&self) -> Value {
        serde_json::from_slice(&to_apns::render(&self.context()).unwrap().body).unwrap()
    }

    fn fcm(&self, enriched_as_data: bool) -> Value {
        let payload = to_fcm::render(&self.context(), enriched_as_data).unwrap();
        serde_json::from_slice(&payload.body.put("t0ken")).unwrap()
    }

    fn web(&self) -> Value {
        serde_json::from_slice(&to_browser::render(&self.context()).unwrap().body).unwrap()
    }
}

fn object(text: &str) -> JsonObject {
    JsonObject::new(text).unwrap()
}

fn full() -> Given {
    Given::message(full_message())
}

fn full_message() -> Message {
    Message {
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
    }
}

/// A message with every option.
fn with_options() -> Message {
    Message {
        text: "Hi".to_owned(),
        ios: IosPresentation {
            subtitle: Some("Soon".to_owned()),
            thread_id: Some("orders".to_owned()),
            category: Some("ORDER".to_owned()),
            interruption_level: Some(InterruptionLevel::TimeSensitive),
            relevance_score: Some(0.25),
            mutable_content: Some(true),
        },
        android: AndroidPresentation {
            channel_id: Some("orders".to_owned()),
            icon: Some("parcel".to_owned()),
            color: Some("#0a0B0c".to_owned()),
            notification_count: Some(12),
            visibility: Some(AndroidVisibility::Private),
            analytics_label: Some("spring".to_owned()),
            direct_boot_ok: Some(false),
        },
        web: WebPresentation {
            icon: Some("https://i.example/i.png".to_owned()),
            badge: Some("https://i.example/b.png".to_owned()),
            require_interaction: Some(true),
            silent: Some(false),
            renotify: Some(true),
        },
        ..Message::default()
    }
}

/// A silent message with all data.
fn silent() -> Given {
    let Message { url, campaign, extra, .. } = full_message();
    let android = AndroidPresentation {
        analytics_label: Some("spring".to_owned()),
        direct_boot_ok: Some(true),
        ..AndroidPresentation::default()
    };
    Given::message(Message { is_silent: true, url, campaign, extra, android, ..Message::default() })
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
        ios: with_options().ios,
        android: with_options().android,
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
fn every_limit_holds_to_the_last_byte() {
    let filled = |text_len: usize| Given::text("x".repeat(text_len));
    let apns_rest = to_apns::render(&filled(1).context()).unwrap().body.len() - 1;
    let fcm_rest = to_fcm::render(&filled(1).context(), false).unwrap().counted_bytes - 1;
    let web_rest = to_browser::render(&filled(1).context()).unwrap().body.len() - 1;
    let rows = [
        (Platform::Ios, 4_096, apns_rest),
        (Platform::Android, 4_096, fcm_rest),
        (Platform::Web, 3_993, web_rest),
        (Platform::FbMessenger, 2_000, 0),
        (Platform::ChatApp, 4_096, 0),
    ];
    for (platform, limit, rest) in rows {
        let check = |len: usize| check_size(&filled(len).context(), &[platform], false);
        assert_eq!(check(limit - rest), Ok(()), "{platform}");
        let broken = vec![TooLarge { platform, bytes: limit + 1, limit }];
        assert_eq!(check(limit - rest + 1), Err(broken), "{platform}");
    }
    let all = check_size(&filled(5_000).context(), &Platform::ALL, false).unwrap_err();
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
    assert_eq!(to_fcm::render(&given.context(), false).unwrap().counted_bytes, expected);
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
        check_size(&given.context(), &[Platform::Ios, Platform::Android], false).unwrap_err();
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
    assert!(to_apns::render(&given.context()).unwrap().body.len() <= 4_096);
    assert!(given.web()["title"].as_str().unwrap().ends_with('…'));
    let hopeless = Given { app_name: "ä".repeat(3_000), ..Given::text("x".repeat(4_000)) };
    assert!(to_apns::render(&hopeless.context()).unwrap_err().bytes > 10_000);
}

#[test]
fn fcm_counts_the_options_that_the_device_receives() {
    let size = |message: Message| {
        to_fcm::render(&Given::message(message).context(), false).unwrap().counted_bytes
    };
    let plain = Message { text: "Hi".to_owned(), ..Message::default() };
    let received = "channel_idorders".len()
        + "iconparcel".len()
        + "color#0a0B0c".len()
        + "notification_count12".len()
        + "visibilityPRIVATE".len();
    assert_eq!(size(with_options()) - size(plain), received);
}

#[test]
fn the_title_stands_in_for_the_name_of_the_application() {
    let message =
        || Message { text: "Hi".to_owned(), title: Some("Sale".to_owned()), ..Message::default() };
    let given = Given::message(message());
    assert_eq!(given.apns()["aps"]["alert"], json!({"title": "Sale", "body": "Hi"}));
    assert_eq!(given.fcm(false)["message"]["notification"], json!({"title": "Sale", "body": "Hi"}));
    assert_eq!(given.web()["title"], "Sale");
    let android = Message { android_title: Some("Droid".to_owned()), ..message() };
    let given = Given::message(android);
    assert_eq!(given.fcm(false)["message"]["notification"]["title"], "Droid", "Android's own wins");
    assert_eq!(given.web()["title"], "Sale");
    for platform in [Platform::FbMessenger, Platform::ChatApp] {
        let notes = super::unsupported(&given.context(), platform);
        assert_eq!(notes, ["the title is left out: messages have none here"]);
    }
}

#[test]
fn the_page_about_apps_lists_every_key_that_an_app_receives() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/apps.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (_, table) = page.split_once("| key | value |\n").unwrap();
    let rows = table.lines().take_while(|line| line.starts_with('|'));
    let keys: Vec<&str> = rows.filter_map(|row| row.split('|').nth(1)).collect();
    let keys = keys.concat();
    for given in [full(), poll(), silent()] {
        let ios = given.apns();
        let android = given.fcm(true);
        let data = android["message"]["data"].as_object().unwrap();
        for key in ios.as_object().unwrap().keys().chain(data.keys()) {
            // The key of the extra pair is the caller's.
            let is_known = keys.contains(&format!("`{key}`"));
            assert!(is_known || ["aps", "order"].contains(&key.as_str()), "missing: {key}");
        }
    }
}
