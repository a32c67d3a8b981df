//! Messages: urls, extra data, raw payloads and settings.

use notify_core::{Content, CreateNotification, Request};
use serde_json::{Value, json};

use crate::{
    notifications::{CAMPAIGN, full, parse},
    support::{NOW, changed, check, errors_of},
};

#[test]
fn messages_are_checked() {
    check::<CreateNotification>(
        &full(),
        &[
            ("/text", "-", &["text: is required"]),
            ("/text", "\"\"", &["text: is required"]),
            ("/campaign_id", "\"default\"", &[]),
            ("/campaign_id", "\"\"", &["campaign_id: must not be empty"]),
            (
                "/campaign_id",
                "\"spring\"",
                &["campaign_id: must be the id of a campaign, or `default`"],
            ),
            (
                "/campaign_id",
                &format!("\"{}\"", CAMPAIGN.to_uppercase()),
                &["campaign_id: must be the id of a campaign, or `default`"],
            ),
            ("/custom_json_key", "-", &["custom_json_key: is required with custom_json_value"]),
            ("/custom_json_key", "\"\"", &["custom_json_key: is required with custom_json_value"]),
            ("/custom_json_value", "-", &["custom_json_value: is required with custom_json_key"]),
            (
                "/custom_json_key",
                "\"aps\"",
                &["custom_json_key: is a key that the payload already uses"],
            ),
            ("/ios_settings/badge", "-", &["ios_settings.badge: is required"]),
            (
                "/ios_settings/badge",
                "-1",
                &["ios_settings.badge: must be a whole number without sign, fraction or exponent"],
            ),
            (
                "/ios_settings/badge",
                "1.0",
                &["ios_settings.badge: must be a whole number without sign, fraction or exponent"],
            ),
            (
                "/ios_settings/badge",
                "4294967296",
                &["ios_settings.badge: must be at most 4294967295"],
            ),
            ("/ios_settings/sound", "\"\"", &["ios_settings.sound: is required"]),
            ("/ios_settings/tone", "1", &["ios_settings.tone: unknown field"]),
        ],
    );
    for key in ["from", "gcm", "message_type", "google_x", "gcm.x"] {
        let body = changed(&full(), "/custom_json_key", &format!("\"{key}\""));
        let line = "custom_json_key: is a key that FCM reserves";
        assert_eq!(errors_of::<CreateNotification>(&body), [line]);
    }
    for key in ["notification_id", "campaign_id", "url", "image_url", "poll_id"] {
        let body = changed(&full(), "/custom_json_key", &format!("\"{key}\""));
        assert_eq!(
            errors_of::<CreateNotification>(&body),
            ["custom_json_key: is a key that the payload already uses"]
        );
    }
}

#[test]
fn json_violations_are_listed_with_all_others() {
    let body = r#"{"text":"a\u0000","url":"x","url":"y","custom_json_value":{"k":{"a":1,"\u0061":2}},
        "ios_json":{"aps":{"alert":1,"badge":1,"badge":2}},"platforms":[],"tag":"v","":1}"#;
    assert_eq!(
        errors_of::<CreateNotification>(body),
        [
            "text: must not contain U+0000",
            "url: duplicate key",
            "custom_json_value.k.a: duplicate key",
            "ios_json.aps.badge: duplicate key",
            "tag: unknown field, did you mean `tags`?",
            "\"\": unknown field",
            "platforms: must contain at least one of android, ios, web, fb-messenger, chatapp",
            "ios_json.aps.sound: is required",
            "custom_json_key: is required with custom_json_value",
        ]
    );
}

#[test]
fn raw_payloads_are_checked() {
    for key in ["from", "gcm", "message_type", "google", "google.x", "googles", "gcm.x"] {
        let body = changed(&full(), "/android_json", &json!({key: 1}).to_string());
        assert_eq!(
            errors_of::<CreateNotification>(&body),
            [format!("android_json.{key}: is a key that FCM reserves")]
        );
    }
    check::<CreateNotification>(
        &full(),
        &[
            ("/android_json", "{\"gcmx\": {\"from\": 1}}", &[]),
            ("/ios_json", "{}", &["ios_json.aps: is required"]),
            ("/ios_json/aps", "1", &["ios_json.aps: must be an object"]),
            ("/ios_json/aps", "null", &["ios_json.aps: must be an object"]),
            (
                "/ios_json/aps",
                "{\"badge\": 1}",
                &["ios_json.aps.alert: is required", "ios_json.aps.sound: is required"],
            ),
        ],
    );
    let body = r#"{"text":"t","platforms":["ios"],"android_json":{"b":1.50,"a":"\u0041"}}"#;
    let notification = CreateNotification::parse(body.as_bytes(), NOW).unwrap();
    let raw = notification.content.android_json().unwrap();
    assert_eq!(raw.as_str(), r#"{"b":1.50,"a":"\u0041"}"#, "kept as it was written");
}

#[test]
fn web_push_actions_are_limited_and_unique() {
    check::<CreateNotification>(
        &full(),
        &[
            ("/web_push_settings", "{}", &["web_push_settings.actions: is required"]),
            (
                "/web_push_settings/actions",
                "[]",
                &["web_push_settings.actions: must hold at least 1 element"],
            ),
            ("/web_push_settings/actions", "[{\"title\":\"a\"}]", &[]),
            (
                "/web_push_settings/actions",
                "[{\"title\":\"a\"},{\"title\":\"b\"},{\"title\":\"c\"}]",
                &["web_push_settings.actions: must hold at most 2 elements"],
            ),
            (
                "/web_push_settings/actions/1/title",
                "\"\"",
                &["web_push_settings.actions[1].title: is required"],
            ),
            (
                "/web_push_settings/actions/1/icon",
                "\"app:i\"",
                &["web_push_settings.actions[1].icon: must be an absolute http or https url"],
            ),
            (
                "/web_push_settings/actions/1/action",
                "\"action-2\"",
                &["web_push_settings.actions[1].action: must not be shared by two actions"],
            ),
        ],
    );
    let names = |body: &Value| {
        let Content::Message(message) = parse(body).content else { panic!("no message") };
        let actions = message.web_push_actions.into_iter();
        actions.map(|action| action.action).collect::<Vec<_>>()
    };
    assert_eq!(
        names(&full()),
        ["action-2", "action-3"],
        "a generated name is not one of the given ones"
    );
    let mut nameless = full();
    nameless["web_push_settings"]["actions"] = json!([{"title": "a"}, {"title": "b"}]);
    assert_eq!(names(&nameless), ["action-1", "action-2"]);
}
