//! `POST /v1/notifications` and `POST /v1/notifications/notify`.

use notify_core::{
    CampaignRef, Content, CreateNotification, DeviceId, LocalTime, Notification, Platform,
    Priority, ReportNotification, Request, Schedule, Target, Timestamp,
};
use serde_json::{Value, json};

use crate::support::{NOW, changed, check, check_types, errors_of};

const PLATFORMS: &str = "android, ios, web, fb-messenger, chatapp";
pub(crate) const CAMPAIGN: &str = "0197f9a0-0000-7000-8000-000000000001";
const AHEAD_MAX: i64 = NOW.0 + 366 * 86_400_000;

pub(crate) fn minimal() -> Value {
    json!({"text": "hi", "platforms": ["ios"]})
}

pub(crate) fn full() -> Value {
    json!({
        "text": "hi", "platforms": ["android", "ios", "web", "fb-messenger", "chatapp", "ios"],
        "tags": ["vip"], "url": "myapp://x", "image_url": "https://x.example/i.png",
        "campaign_id": CAMPAIGN, "custom_json_key": "order", "custom_json_value": {"b": 1, "a": 2},
        "android_json": {"a": 1}, "ios_json": {"aps": {"alert": 1, "badge": null, "sound": ""}},
        "android_settings": {"title": "t", "sound": "s"},
        "ios_settings": {"badge": 0, "sound": "default"},
        "web_push_settings": {"actions": [
            {"title": "a", "icon": "http://x.example/i", "action": "action-2", "url": "tel:1"},
            {"title": "b"},
        ]},
        "social_messenger_settings": {"view_button": "Open"},
        "ios_options": {"subtitle": "s", "thread_id": "t", "category": "c",
            "interruption_level": "passive", "relevance_score": 0.5, "mutable_content": true},
        "android_options": {"channel_id": "c", "icon": "i", "color": "#12aBeF",
            "notification_count": 3, "visibility": "secret", "analytics_label": "l",
            "direct_boot_ok": true},
        "web_options": {"icon": "https://x.example/i.png", "badge": "https://x.example/b.png",
            "require_interaction": true, "silent": false, "renotify": true},
        "ttl_seconds": 0, "priority": "normal", "collapse_key": "k", "send_at": AHEAD_MAX,
    })
}

pub(crate) fn parse(body: &Value) -> Notification {
    CreateNotification::parse(body.to_string().as_bytes(), NOW).unwrap()
}

#[test]
fn fields_have_one_type() {
    let strings = [
        "/text",
        "/url",
        "/image_url",
        "/campaign_id",
        "/custom_json_key",
        "/priority",
        "/collapse_key",
        "/android_settings/title",
        "/android_settings/sound",
        "/ios_settings/sound",
        "/social_messenger_settings/view_button",
        "/ios_options/subtitle",
        "/ios_options/thread_id",
        "/ios_options/category",
        "/ios_options/interruption_level",
        "/android_options/channel_id",
        "/android_options/icon",
        "/android_options/color",
        "/android_options/visibility",
        "/android_options/analytics_label",
        "/web_options/icon",
        "/web_options/badge",
    ];
    for pointer in strings {
        check_types::<CreateNotification>(&full(), &[(pointer, "a string")]);
    }
    check_types::<CreateNotification>(&minimal(), &[("/send_at_local", "a string")]);
    for pointer in ["/platforms", "/android_device_ids", "/ios_device_ids", "/device_ids", "/tags"]
    {
        check_types::<CreateNotification>(&full(), &[(pointer, "a list")]);
    }
    for pointer in [
        "/custom_json_value",
        "/android_json",
        "/ios_json",
        "/android_settings",
        "/ios_settings",
        "/web_push_settings",
        "/social_messenger_settings",
        "/ios_options",
        "/android_options",
        "/web_options",
        "/poll",
    ] {
        check_types::<CreateNotification>(&full(), &[(pointer, "an object")]);
    }
    for pointer in
        ["/ttl_seconds", "/send_at", "/ios_settings/badge", "/android_options/notification_count"]
    {
        check_types::<CreateNotification>(&full(), &[(pointer, "a whole number")]);
    }
    for pointer in [
        "/ios_options/mutable_content",
        "/android_options/direct_boot_ok",
        "/web_options/require_interaction",
        "/web_options/silent",
        "/web_options/renotify",
    ] {
        check_types::<CreateNotification>(&full(), &[(pointer, "true or false")]);
    }
    check_types::<CreateNotification>(&full(), &[("/ios_options/relevance_score", "a number")]);
}

#[test]
fn items_have_one_type() {
    check::<CreateNotification>(
        &full(),
        &[
            ("/platforms/1", "null", &["platforms[1]: expected a string"]),
            ("/tags/0", "7", &["tags[0]: expected a string"]),
            (
                "/web_push_settings/actions/1",
                "[]",
                &["web_push_settings.actions[1]: expected an object"],
            ),
        ],
    );
}

#[test]
fn optional_fields_can_be_absent_or_null() {
    for pointer in [
        "/tags",
        "/url",
        "/image_url",
        "/campaign_id",
        "/android_json",
        "/ios_json",
        "/android_settings",
        "/android_settings/title",
        "/android_settings/sound",
        "/ios_settings",
        "/web_push_settings",
        "/web_push_settings/actions/0/icon",
        "/web_push_settings/actions/0/action",
        "/web_push_settings/actions/0/url",
        "/social_messenger_settings",
        "/social_messenger_settings/view_button",
        "/ttl_seconds",
        "/priority",
        "/collapse_key",
        "/send_at",
    ] {
        check::<CreateNotification>(&full(), &[(pointer, "-", &[]), (pointer, "null", &[])]);
    }
    for pointer in ["/url", "/image_url", "/priority", "/collapse_key", "/android_settings/title"] {
        check::<CreateNotification>(&full(), &[(pointer, "\"\"", &[])]);
    }
}

#[test]
fn targets_are_checked() {
    let none = format!("platforms: must contain at least one of {PLATFORMS}");
    let unknown = format!("platforms[1]: must be one of {PLATFORMS}");
    let ids = |count: usize| json!(vec!["same"; count]).to_string();
    check::<CreateNotification>(
        &minimal(),
        &[
            ("/platforms", "-", &[&none]),
            ("/platforms", "null", &[&none]),
            ("/platforms", "[]", &[&none]),
            ("/platforms", "[\"web\",\"tv\"]", &[&unknown]),
            (
                "/android_device_ids",
                "[]",
                &["android_device_ids: must hold at least 1 id when it is given"],
            ),
            ("/android_device_ids", "null", &[]),
            ("/android_device_ids", "[\"a\",\"\"]", &["android_device_ids[1]: must not be empty"]),
            ("/android_device_ids", &ids(1_000), &[]),
            (
                "/android_device_ids",
                &ids(1_001),
                &["android_device_ids: must hold at most 1000 elements"],
            ),
            ("/ios_device_ids", &ids(1_000), &[]),
            ("/ios_device_ids", &ids(1_001), &["ios_device_ids: must hold at most 1000 elements"]),
            ("/device_ids", "[]", &["device_ids: must hold at least 1 id when it is given"]),
            ("/device_ids", "null", &[]),
            ("/device_ids", "[\"a\",\"\"]", &["device_ids[1]: must not be empty"]),
            ("/device_ids", &ids(1_000), &[]),
            ("/device_ids", &ids(1_001), &["device_ids: must hold at most 1000 elements"]),
            ("/tag", "[\"vip\"]", &["tag: unknown field, did you mean `tags`?"]),
            ("/tags", "[]", &[]),
            ("/tags", "[\"a\",\"b\"]", &["tags: must hold at most 1 element"]),
            ("/tags", "[\"\"]", &["tags[0]: must not be empty"]),
        ],
    );
    let both = json!({"text": "t", "android_device_ids": [], "ios_device_ids": []});
    assert_eq!(errors_of::<CreateNotification>(&both.to_string()).len(), 2);
    let ignored = json!({
        "text": "t", "platforms": ["tv"], "android_device_ids": ["a", "b", "a"],
        "ios_device_ids": [],
    });
    let ids = |ids: &[&str]| ids.iter().map(|id| DeviceId::new(*id).unwrap()).collect::<Vec<_>>();
    let target = Target::Devices { android: ids(&["a", "b"]), ios: vec![], any: vec![] };
    assert_eq!(parse(&ignored).recipients.target, target);
    // An id in several lists counts once.
    let mixed = json!({
        "text": "t", "platforms": ["tv"], "android_device_ids": ["a", "b"],
        "ios_device_ids": ["c", "b"], "device_ids": ["b", "d", "b"],
    });
    let target = Target::Devices { android: ids(&["a"]), ios: ids(&["c"]), any: ids(&["b", "d"]) };
    assert_eq!(parse(&mixed).recipients.target, target);
    let all_empty = json!({
        "text": "t", "platforms": ["ios"], "android_device_ids": [], "device_ids": [],
    });
    assert_eq!(errors_of::<CreateNotification>(&all_empty.to_string()).len(), 2);
    let one_empty = json!({"text": "t", "android_device_ids": [], "device_ids": ["a"]});
    let target = Target::Devices { android: vec![], ios: vec![], any: ids(&["a"]) };
    assert_eq!(parse(&one_empty).recipients.target, target);
    let target = Target::Platforms(Platform::ALL.to_vec());
    assert_eq!(parse(&full()).recipients.target, target);
}

#[test]
fn schedules_are_checked() {
    const FORM: &str = "send_at_local: must be a date and time as YYYY-MM-DDTHH:MM";
    check::<CreateNotification>(
        &minimal(),
        &[
            ("/send_at", &AHEAD_MAX.to_string(), &[]),
            (
                "/send_at",
                &(AHEAD_MAX + 1).to_string(),
                &["send_at: must be at most 366 days ahead"],
            ),
            (
                "/send_at",
                "9999999999999999999",
                &["send_at: must be unix milliseconds within the years 1970 to 9999"],
            ),
            (
                "/send_at",
                "1.5e12",
                &["send_at: must be a whole number without sign, fraction or exponent"],
            ),
            ("/send_at", "1000000000000", &[]),
            (
                "/send_at",
                "999999999999",
                &["send_at: must be unix milliseconds: is 999999999999 in seconds?"],
            ),
            (
                "/send_at",
                "1767323045",
                &["send_at: must be unix milliseconds: is 1767323045 in seconds?"],
            ),
            ("/send_at", "0", &["send_at: must be unix milliseconds: is 0 in seconds?"]),
            ("/send_at_local", "\"2027-01-02T00:00\"", &[]),
            (
                "/send_at_local",
                "\"2027-01-02T00:01\"",
                &["send_at_local: must be at most 366 days ahead"],
            ),
            (
                "/send_at_local",
                "\"9999-12-31T23:59\"",
                &["send_at_local: must be at most 366 days ahead"],
            ),
            ("/send_at_local", "\"0000-01-01T00:00\"", &[]),
            ("/send_at_local", "\"\"", &[]),
            ("/send_at_local", "\"2026-02-30T09:00\"", &[FORM]),
            ("/send_at_local", "\"2026-02-03T24:00\"", &[FORM]),
            ("/send_at_local", "\"2026-02-03 09:00\"", &[FORM]),
            ("/send_at_local", "\"2026-02-03T09:00:00\"", &[FORM]),
            ("/send_at_local", "\"2026-02-03T09:00Z\"", &[FORM]),
        ],
    );
}

#[test]
fn a_notification_has_one_schedule() {
    let mut both = minimal();
    both["send_at"] = json!(NOW.0 + 1);
    check::<CreateNotification>(
        &both,
        &[(
            "/send_at_local",
            "\"2026-01-02T00:00\"",
            &["send_at_local: must not be combined with send_at"],
        )],
    );
    let due = |body: &Value| {
        let notification = parse(body);
        (notification.schedule, notification.passed_send_at)
    };
    assert_eq!(due(&both), (Schedule::At(Timestamp(NOW.0 + 1)), None));
    both["send_at"] = json!(NOW.0);
    assert_eq!(due(&both), (Schedule::Now, Some(NOW)), "a time in the past means now");
    let local = json!({"text": "t", "platforms": ["ios"], "send_at_local": "2026-01-01T09:30"});
    let wall_clock = LocalTime(NOW.0 + (9 * 60 + 30) * 60_000);
    assert_eq!(parse(&local).schedule, Schedule::Local(wall_clock));
}

#[test]
fn ttl_priority_and_collapse_key_are_checked() {
    check::<CreateNotification>(
        &minimal(),
        &[
            ("/ttl_seconds", "0", &[]),
            ("/ttl_seconds", "2419200", &[]),
            ("/ttl_seconds", "2419201", &["ttl_seconds: must be at most 2419200"]),
            ("/ttl_seconds", "4294967296", &["ttl_seconds: must be at most 2419200"]),
            ("/priority", "\"high\"", &[]),
            ("/priority", "\"low\"", &["priority: must be one of high, normal"]),
            ("/collapse_key", &format!("\"{}\"", "k".repeat(64)), &[]),
            (
                "/collapse_key",
                &format!("\"{}\"", "k".repeat(65)),
                &["collapse_key: must be 1 to 64 visible ASCII characters"],
            ),
            (
                "/collapse_key",
                "\"a b\"",
                &["collapse_key: must be 1 to 64 visible ASCII characters"],
            ),
        ],
    );
    let plain = parse(&minimal());
    assert_eq!(plain.schedule, Schedule::Now);
    assert_eq!((plain.ttl_seconds, plain.priority), (2_419_200, Priority::High));
}

#[test]
fn polls_ignore_other_settings_except_their_types() {
    let poll = json!({
        "platforms": ["ios"], "url": "no url", "image_url": "x", "campaign_id": "none",
        "custom_json_key": "aps", "ios_json": {}, "android_json": {"from": 1}, "ios_settings": {},
        "web_push_settings": {"actions": []},
        "poll": {"text": "?", "layout_id": "poll_text", "answers": [{"text": "a"}, {"text": "b"}]},
    });
    let none = format!("platforms: must contain at least one of {PLATFORMS}");
    check::<CreateNotification>(
        &poll,
        &[
            ("/url", "7", &["url: expected a string"]),
            ("/ios_settings/badge", "-1.5", &[]),
            ("/ios_settings/badge", "4294967296", &[]),
            ("/ios_settings/badge", "\"1\"", &["ios_settings.badge: expected a number"]),
            ("/ios_settings/x", "7", &["ios_settings.x: unknown field"]),
            ("/platforms", "[]", &[&none]),
            ("/tags", "[\"a\",\"b\"]", &["tags: must hold at most 1 element"]),
            ("/ttl_seconds", "2419201", &["ttl_seconds: must be at most 2419200"]),
            ("/text", "\"x\"", &[]),
        ],
    );
    assert!(matches!(parse(&poll).content, Content::Poll(_)));
}

#[test]
fn reports_have_an_id_but_no_devices_or_schedule() {
    let base = json!({"id": "own", "text": "t", "platforms": ["web"], "campaign_id": "default"});
    check::<ReportNotification>(
        &base,
        &[
            ("/id", "-", &["id: is required"]),
            ("/id", "\"\"", &["id: is required"]),
            ("/id", "7", &["id: expected a string"]),
            ("/id", "\"notify\"", &["id: must not be `notify` or `preview`"]),
            ("/id", "\"preview\"", &["id: must not be `notify` or `preview`"]),
            ("/id", "\".\"", &["id: must not be `.` or `..`"]),
            ("/text", "-", &["text: is required"]),
            (
                "/ios_settings",
                "{}",
                &["ios_settings.badge: is required", "ios_settings.sound: is required"],
            ),
        ],
    );
    for field in [
        "android_device_ids",
        "ios_device_ids",
        "device_ids",
        "send_at",
        "send_at_local",
        "ttl_seconds",
        "priority",
        "collapse_key",
    ] {
        let body = changed(&base, &format!("/{field}"), "1");
        let errors = errors_of::<ReportNotification>(&body);
        assert_eq!(errors.len(), 1);
        assert!(errors[0].starts_with(&format!("{field}: unknown field")), "{errors:?}");
    }
    let report = ReportNotification::parse(base.to_string().as_bytes(), NOW).unwrap();
    assert_eq!(report.content.campaign(), Some(CampaignRef::Default));
}

/// Texts without a visible character, as JSON.
const BLANK: [&str; 6] =
    ["\" \"", "\"\\n\\t\"", "\"\u{a0}\"", "\"\u{200b}\"", "\"\u{2800}\"", "\"\u{3000}\\u2028\""];

#[test]
fn a_required_text_has_a_visible_character() {
    for blank in BLANK {
        check::<CreateNotification>(&minimal(), &[("/text", blank, &["text: is required"])]);
        let answers = json!([{"text": "a"}, {"text": "b"}]);
        let poll = json!({"platforms": ["ios"],
            "poll": {"text": "?", "layout_id": "poll_text", "answers": answers}});
        check::<CreateNotification>(
            &poll,
            &[
                ("/poll/text", blank, &["poll.text: is required"]),
                (
                    "/poll/answers/1/text",
                    blank,
                    &["poll.answers[1].text: is required for layout poll_text"],
                ),
            ],
        );
    }
    // A title or a translated text of blanks equals an absent one.
    let body = json!({"text": "t", "title": " ", "platforms": ["ios"],
        "translations": {"de": {"text": "\u{a0}", "title": "T"}}});
    let Content::Message(message) = parse(&body).content else { panic!("a message") };
    assert_eq!((message.title, message.translations[0].text.as_deref()), (None, None));
}

#[test]
fn topics_are_another_name_of_tags() {
    let tagged = |more: Value| {
        let mut body = minimal();
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        parse(&body).recipients.tag
    };
    let poll =
        json!({"text": "?", "layout_id": "poll_text", "answers": [{"text": "a"}, {"text": "b"}]});
    for (more, tag) in [
        (json!({"topics": ["vip"]}), Some("vip")),
        (json!({"topics": ["vip"], "poll": poll}), Some("vip")),
        (json!({"topics": ["vip"], "tags": null}), Some("vip")),
        (json!({"topics": null, "tags": ["vip"]}), Some("vip")),
        (json!({"topics": []}), None),
    ] {
        assert_eq!(tagged(more.clone()).as_deref(), tag, "{more}");
    }
    let mut both = minimal();
    both["tags"] = json!([]);
    const BOTH: &[&str] = &["topics: must not be combined with tags"];
    check::<CreateNotification>(
        &minimal(),
        &[
            ("/topics", "[\"a\", \"b\"]", &["topics: must hold at most 1 element"]),
            ("/topics", "\"a\"", &["topics: expected a list"]),
        ],
    );
    check::<CreateNotification>(&both, &[("/topics", "[\"vip\"]", BOTH), ("/topics", "[]", BOTH)]);
    let report = json!({"id": "n", "text": "t", "platforms": ["ios"], "topics": ["vip"]});
    let report = ReportNotification::parse(report.to_string().as_bytes(), NOW).unwrap();
    assert_eq!(report.tag.as_deref(), Some("vip"));
}

#[test]
fn urls_are_percent_encoded_for_messages() {
    let body = json!({"text": "t", "platforms": ["web"], "url": "https://e.org/käse kuchen?q=ä b",
        "image_url": "https://e.org/a b.png",
        "translations": {"de": {"url": "app://kitchen/kü che", "image_url": "https://e.org/ä.png"}},
        "web_push_settings": {"actions": [{"title": "a", "url": "https://e.org/1 2"}]}});
    let Content::Message(message) = parse(&body).content else { panic!("a message") };
    let urls = [
        message.url.as_deref(),
        message.image_url.as_deref(),
        message.translations[0].url.as_deref(),
        message.translations[0].image_url.as_deref(),
        message.web_push_actions[0].url.as_deref(),
    ];
    let expected = [
        "https://e.org/k%C3%A4se%20kuchen?q=%C3%A4%20b",
        "https://e.org/a%20b.png",
        "app://kitchen/k%C3%BC%20che",
        "https://e.org/%C3%A4.png",
        "https://e.org/1%202",
    ];
    assert_eq!(urls, expected.map(Some));
}
