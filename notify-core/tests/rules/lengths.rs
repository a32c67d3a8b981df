//! Every text of every request has a length limit, except in requests that were accepted before.

use notify_core::{
    CheckFeed, CreateApp, CreateFeed, CreateKey, CreateNotification, CreateWebhook, ListDevices,
    LogIn, PUSH_TOKEN_CHARS_MAX, PatchAttributes, Platform, Query, RegisterDevice, ReportEvents,
    ReportNotification, Request, SetTags, SetWebAccess, Subscribe, TAG_NAME_CHARS_MAX,
    TEXT_CHARS_MAX, Target, Template,
};
use serde_json::{Value, json};

use crate::support::{NOW, errors_of};

/// Objects of any content. Only the size of the body limits their texts.
const FREE: [&str; 4] = ["custom_json_value", "android_json", "ios_json", "data.data"];

/// Appends the texts of a body, each with its JSON pointer and its path in violations.
fn add_texts(value: &Value, pointer: &str, path: &str, texts: &mut Vec<(String, String)>) {
    match value {
        Value::String(_) => texts.push((pointer.to_owned(), path.to_owned())),
        Value::Array(list) => {
            for (index, element) in list.iter().enumerate() {
                add_texts(
                    element,
                    &format!("{pointer}/{index}"),
                    &format!("{path}[{index}]"),
                    texts,
                );
            }
        }
        Value::Object(object) => {
            for (name, member) in object {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                if !FREE.iter().any(|free| path.ends_with(free)) {
                    add_texts(member, &format!("{pointer}/{name}"), &path, texts);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Checks that every text of a body has a length limit. Returns the number of texts.
fn check_lengths<R: Request>(base: &Value) -> usize {
    assert_eq!(errors_of::<R>(&base.to_string()), [""; 0], "{base}");
    let mut texts = Vec::new();
    add_texts(base, "", "", &mut texts);
    for (pointer, path) in &texts {
        let mut body = base.clone();
        let text = body.pointer_mut(pointer).unwrap();
        let beginning = text.as_str().unwrap().to_owned();
        // The longer text is valid except for its length: a number with leading zeros, a url with a long path.
        let more = if beginning.parse::<i64>().is_ok() { "0" } else { "a" };
        let more = more.repeat(TEXT_CHARS_MAX + 1 - beginning.len());
        let long = if more.starts_with('0') { more + &beginning } else { beginning + &more };
        *text = Value::String(long);
        let errors = errors_of::<R>(&body.to_string());
        let is_reported = errors.iter().any(|error| error.starts_with(&format!("{path}: ")));
        assert!(is_reported, "{path}: {errors:?}");
        assert!(errors.iter().all(|error| error.len() < 1_024), "{path} is quoted");
    }
    texts.len()
}

fn message() -> Value {
    json!({
        "text": "t", "title": "t", "platforms": ["ios"], "tags": ["vip"], "url": "a://b",
        "translations": {"de": {"text": "t", "title": "t", "url": "a://b",
            "image_url": "https://a.example/i.png"}},
        "image_url": "https://a.example/i.png", "campaign_id": "default",
        "custom_json_key": "k", "custom_json_value": {"a": "b"},
        "android_settings": {"title": "t", "sound": "s"},
        "ios_settings": {"badge": 1, "sound": "s"},
        "web_push_settings": {"actions": [{"title": "t", "icon": "https://a.example/i.png",
            "action": "a", "url": "a://b"}]},
        "social_messenger_settings": {"view_button": "v"},
        "ios_options": {"subtitle": "s", "thread_id": "t", "category": "c",
            "interruption_level": "active"},
        "android_options": {"channel_id": "c", "icon": "i", "color": "#000000",
            "visibility": "public", "analytics_label": "l"},
        "web_options": {"icon": "https://a.example/i.png", "badge": "https://a.example/b.png"},
        "send_at_local": "2026-01-02T10:00", "priority": "high", "collapse_key": "c",
    })
}

fn poll() -> Value {
    json!({"text": "?", "layout_id": "poll_text_wide_image", "image_url": "https://a.example/i.png",
        "answers": [{"text": "a", "image_url": "https://a.example/i.png"},
            {"text": "b", "image_url": "https://a.example/i.png"}]})
}

fn button(data: &Value) -> Value {
    json!({"type": "action_button", "position": 1, "data": data})
}

fn template(features: &[Value]) -> Value {
    json!({"name": "n", "layout_id": "content_with_two",
        "strings": [{"name": "share_prefix", "translations": {"def": "d"}}],
        "settings": {}, "features": features})
}

#[test]
fn notification_texts_are_limited() {
    assert_eq!(check_lengths::<CreateNotification>(&message()), 34);
    let devices = json!({"text": "t", "android_device_ids": ["a"], "ios_device_ids": ["b"],
        "device_ids": ["c"]});
    assert_eq!(check_lengths::<CreateNotification>(&devices), 4);
    let users = json!({"text": "t", "user_ids": ["a"], "audience": {"all": [{"tag": "a"},
        {"segment": "s"}, {"attribute": "plan", "in": ["a"]}, {"attribute": "plan", "below": "1"},
        {"field": "language", "is": "de"}, {"field": "app_version", "at_least": "1"}]}});
    assert_eq!(check_lengths::<CreateNotification>(&users), 12);
    assert_eq!(check_lengths::<PatchAttributes>(&json!({"plan": "pro"})), 1);
    assert_eq!(check_lengths::<LogIn>(&json!({"user_id": "u"})), 1);
    let report = json!({"id": "own", "platforms": ["ios"], "poll": poll()});
    assert_eq!(check_lengths::<ReportNotification>(&report), 9);
}

#[test]
fn campaign_and_feed_texts_are_limited() {
    let calendar = json!({"type": "cal", "start_date": 1, "end_date": 2, "description": "d",
        "title": "t", "data": {"a": "b"}});
    let custom = json!({"type": "custom", "title": "t", "icon": "i",
        "icon_url": "https://a.example/i.png", "url": "a://b"});
    let feed = json!({"type": "content_feed", "position": 1,
        "data": {"feeds": [{"url": "https://a.example/f", "name": "n"}]}});
    let widget = json!({"type": "external_content", "position": 1,
        "data": {"type": "ob_sdk", "ob_widget_id": "w"}});
    let article = json!({"url": "https://a.example", "title": "t",
        "thumb_url": "https://a.example/i.png"});
    let articles = json!({"type": "custom_feed", "position": 1,
        "data": {"articles": [article, article]}});
    for features in
        [vec![button(&calendar)], vec![button(&custom)], vec![feed], vec![widget], vec![articles]]
    {
        assert!(check_lengths::<Template>(&template(&features)) >= 6);
    }
    assert_eq!(check_lengths::<CreateFeed>(&json!({"url": "https://a.example/f", "name": "n"})), 2);
    assert_eq!(check_lengths::<CheckFeed>(&json!({"url": "https://a.example/f"})), 1);
}

#[test]
fn device_texts_are_limited() {
    let device = json!({"device_id": "d", "platform": "ios", "sdk_type": "ios_push",
        "android_id": "a", "push_token": "t", "ad_id": "a", "imei": "i", "sdk_version": "1",
        "app_version": "1", "os_version": "1", "store_identifier": "s", "timezone": "GMT+01:00",
        "country": "c", "utc_offset": "60", "language": "l", "device_description": "d",
        "ios_env": "sandbox"});
    assert_eq!(check_lengths::<RegisterDevice>(&device), 17);
    let person = json!({"platform": "chatapp", "recipient_id": "1", "device_id": "d",
        "language": "l", "timezone": "GMT", "utc_offset": "0"});
    assert_eq!(check_lengths::<Subscribe>(&person), 6);
    let tag = json!({"name": "n", "type": "bool", "value": true});
    assert_eq!(check_lengths::<SetTags>(&json!({"tags": [tag]})), 2);
}

#[test]
fn admin_and_webhook_texts_are_limited() {
    assert_eq!(check_lengths::<CreateApp>(&json!({"name": "n", "language": "de"})), 2);
    assert_eq!(check_lengths::<CreateKey>(&json!({"name": "n", "scopes": ["read"]})), 2);
    let access = json!({"allowed_origins": ["https://a.example"], "allowed_tags": ["t"],
        "push_services": ["a.example"]});
    assert_eq!(check_lengths::<SetWebAccess>(&access), 3);
    let webhook = json!({"url": "https://a.example/h", "events": ["poll.answered"],
        "description": "d"});
    assert_eq!(check_lengths::<CreateWebhook>(&webhook), 3);
    let event = json!({"type": "opened", "notification_id": "n", "device_id": "d", "at": 1});
    assert_eq!(check_lengths::<ReportEvents>(&json!({"events": [event]})), 3);
}

#[test]
fn tag_filters_have_the_length_limit_of_tags() {
    let longest = "ä".repeat(TAG_NAME_CHARS_MAX);
    let body = |tag: &str| json!({"text": "t", "platforms": ["ios"], "tags": [tag]}).to_string();
    assert_eq!(errors_of::<CreateNotification>(&body(&longest)), [""; 0]);
    let over = ["tags[0]: must be at most 255 characters"];
    assert_eq!(errors_of::<CreateNotification>(&body(&format!("{longest}a"))), over);
    let listed = |tag: String| ListDevices::parse(&[("tag".to_owned(), tag)], NOW);
    assert!(listed(longest.clone()).is_ok());
    let refused = listed(longest + "a").unwrap_err();
    assert_eq!(refused.as_slice(), ["tag: must be at most 255 characters"]);
}

#[test]
fn address_filters_have_the_length_limit_of_push_tokens() {
    let listed = |token: String| ListDevices::parse(&[("push_token".to_owned(), token)], NOW);
    let longest = "ä".repeat(PUSH_TOKEN_CHARS_MAX);
    assert_eq!(listed(longest.clone()).unwrap().push_token.as_ref(), Some(&longest));
    let refused = listed(longest + "a").unwrap_err();
    assert_eq!(refused.as_slice(), ["push_token: must be at most 4096 characters"]);
}

#[test]
fn accepted_requests_are_read_whatever_their_length() {
    let tag = "a".repeat(900_000);
    let body = json!({"text": "t".repeat(70_000), "platforms": ["ios"], "tags": [tag]}).to_string();
    assert_eq!(errors_of::<CreateNotification>(&body).len(), 2);
    let read = CreateNotification::parse_accepted(body.as_bytes(), NOW).unwrap();
    assert_eq!(read.recipients.tag.as_deref(), Some(&*tag));
    // All other rules apply.
    for broken in [r#"{"text":"t"}"#, r#"{"text":"","platforms":["ios"]}"#, "{"] {
        assert!(CreateNotification::parse_accepted(broken.as_bytes(), NOW).is_err(), "{broken}");
    }
}

/// Erasing devices and users removes their ids from accepted requests.
#[test]
fn an_accepted_request_whose_ids_were_all_erased_targets_no_device() {
    let no_device = Target::Devices { android: Vec::new(), ios: Vec::new(), any: Vec::new() };
    let no_user =
        |platforms: &[Platform]| Target::Users { ids: Vec::new(), platforms: platforms.to_vec() };
    for (lists, target) in [
        (r#""device_ids":[]"#, no_device.clone()),
        (r#""android_device_ids":[],"ios_device_ids":[]"#, no_device.clone()),
        (r#""android_device_ids":[],"platforms":["android"]"#, no_device.clone()),
        // The platforms are ignored, also those that cannot get a silent notification.
        (r#""device_ids":[],"platforms":["web"],"silent":true,"url":"a:b","text":"""#, no_device),
        (r#""user_ids":[]"#, no_user(&Platform::ALL)),
        (r#""user_ids":[],"platforms":["ios"]"#, no_user(&[Platform::Ios])),
    ] {
        let text = if lists.contains("text") { "" } else { r#""text":"t","# };
        let body = format!("{{{text}{lists}}}");
        let read = CreateNotification::parse_accepted(body.as_bytes(), NOW).unwrap();
        assert_eq!(read.recipients.target, target, "{lists}");
        assert!(!errors_of::<CreateNotification>(&body).is_empty(), "{lists}");
    }
}
