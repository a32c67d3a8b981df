//! `silent`: nothing shows, only on Android and iOS.

use notify_core::{Content, CreateNotification, Platform, ReportNotification, Request, Target};
use serde_json::{Value, json};

use crate::notifications::parse;
use crate::support::{check, errors_of};

fn silent() -> Value {
    json!({"silent": true, "platforms": ["ios", "android"], "url": "a://b", "campaign_id": "default",
        "custom_json_key": "k", "custom_json_value": {"a": 1},
        "android_options": {"analytics_label": "l", "direct_boot_ok": true}})
}

#[test]
fn a_silent_notification_has_data_and_shows_nothing() {
    const NEEDS: &str = "silent: requires url, campaign_id or custom_json_key";
    assert!(parse(&silent()).content.is_silent());
    for absent in ["url", "campaign_id", "custom_json_key"] {
        let mut body = silent();
        let object = body.as_object_mut().unwrap();
        object.remove(absent);
        if absent == "custom_json_key" {
            object.remove("custom_json_value");
        }
        assert!(parse(&body).content.is_silent(), "the others suffice without {absent}");
    }
    let bare = json!({"silent": true, "platforms": ["ios"], "url": ""});
    assert_eq!(errors_of::<CreateNotification>(&bare.to_string()), [NEEDS]);
    for (name, value) in [
        ("text", json!("hi")),
        ("title", json!("hi")),
        ("translations", json!({"de": {"url": "a://c"}})),
        ("image_url", json!("https://x.example/i.png")),
        ("android_json", json!({"a": 1})),
        ("ios_json", json!({"aps": {"alert": 1, "badge": 1, "sound": 1}})),
        ("android_settings", json!({})),
        ("ios_settings", json!({"badge": 1, "sound": "s"})),
        ("web_push_settings", json!({"actions": [{"title": "a"}]})),
        ("social_messenger_settings", json!({})),
        ("ios_options", json!({})),
        ("web_options", json!({})),
        (
            "poll",
            json!({"text": "?", "layout_id": "poll_text",
            "answers": [{"text": "a"}, {"text": "b"}]}),
        ),
    ] {
        let mut body = silent();
        body[name] = value;
        let expected =
            format!("{name}: must be absent from a silent notification, which shows nothing");
        assert_eq!(errors_of::<CreateNotification>(&body.to_string()), [expected]);
    }
    for (name, value) in [
        ("channel_id", json!("c")),
        ("icon", json!("i")),
        ("color", json!("#000000")),
        ("notification_count", json!(0)),
        ("visibility", json!("public")),
    ] {
        let mut body = silent();
        body["android_options"][name] = value;
        let expected = format!(
            "android_options.{name}: must be absent from a silent notification, which shows nothing"
        );
        assert_eq!(errors_of::<CreateNotification>(&body.to_string()), [expected]);
    }
    check::<CreateNotification>(
        &silent(),
        &[
            ("/text", "\"\"", &[]),
            ("/silent", "1", &["silent: expected true or false"]),
            ("/silent", "false", &["text: is required"]),
            ("/silent", "null", &["text: is required"]),
        ],
    );
}

#[test]
fn a_silent_notification_goes_to_phones_alone() {
    let refused = |index: usize| {
        format!(
            "platforms[{index}]: cannot get a silent notification, which goes to android and ios alone"
        )
    };
    let errors = |platforms: Value, users: bool| {
        let mut body = silent();
        body["platforms"] = platforms;
        if users {
            body["user_ids"] = json!(["u"]);
        }
        errors_of::<CreateNotification>(&body.to_string())
    };
    for users in [false, true] {
        assert_eq!(errors(json!(["ios", "web"]), users), [refused(1)]);
        assert_eq!(errors(json!(["chatapp", "fb-messenger"]), users), [refused(0), refused(1)]);
    }
    let mut body = silent();
    body.as_object_mut().unwrap().remove("platforms");
    body["user_ids"] = json!(["u"]);
    let Target::Users { platforms, .. } = parse(&body).recipients.target else { panic!("users") };
    assert_eq!(platforms, [Platform::Android, Platform::Ios], "the other devices are left out");
    body["platforms"] = json!(["web"]);
    body["user_ids"] = Value::Null;
    body["android_device_ids"] = json!(["d"]);
    assert!(parse(&body).content.is_silent(), "device ids ignore platforms");
}

#[test]
fn a_report_is_never_silent() {
    let report = json!({"id": "own", "silent": true, "text": "hi", "platforms": ["ios"]});
    assert_eq!(errors_of::<ReportNotification>(&report.to_string()), ["silent: unknown field"]);
    let loud = json!({"silent": false, "text": "hi", "platforms": ["web"]});
    let Content::Message(message) = parse(&loud).content else { panic!("a message") };
    assert!(!message.is_silent);
    assert!(
        CreateNotification::silent_to_platforms([Platform::Ios])
            .url("a://b")
            .validate(crate::support::NOW)
            .is_ok()
    );
}
