//! Rules of every field of every body, at any depth. The tests take a full body of each request, and change one
//! value after the other.

use notify_core::{
    AnswerPoll, CheckFeed, CreateApp, CreateFeed, CreateKey, CreateNotification, CreateUserToken,
    CreateWebhook, LogIn, LogInWithToken, RecoverWebhook, RegisterAppDevice, RegisterDevice,
    ReportEvents, ReportNotification, Request, SetCampaignStatus, SetTags, SetWebAccess, Subscribe,
    Template, UpdateApp, UpdateWebhook, WebReport, WebSubscribe,
};
use serde_json::{Value, json};

use crate::{
    browsers, buttons, campaigns, devices, notifications, polls,
    support::{NOW, changed, errors_of},
};

/// Objects of any content. `features/3/data/data` is the data of a button.
const FREE: [&str; 4] = ["custom_json_value", "android_json", "ios_json", "features/3/data/data"];

fn is_free(pointer: &str) -> bool {
    FREE.iter().any(|free| pointer.trim_start_matches('/').starts_with(free))
}

/// The path of a value in a violation, such as `features[2].data.url`.
fn path_of(body: &Value, pointer: &str) -> String {
    let mut path = String::new();
    let mut at = body;
    for part in pointer.split('/').skip(1) {
        match at {
            Value::Array(_) => path += &format!("[{part}]"),
            _ if path.is_empty() => path += part,
            _ => path += &format!(".{part}"),
        }
        at = at.pointer(&format!("/{part}")).unwrap_or(&Value::Null);
    }
    path
}

/// Appends each value of a body with its JSON pointer.
fn add_values(value: &Value, pointer: &str, values: &mut Vec<(String, Value)>) {
    values.push((pointer.to_owned(), value.clone()));
    match value {
        Value::Object(object) => {
            for (name, member) in object {
                add_values(member, &format!("{pointer}/{name}"), values);
            }
        }
        Value::Array(list) => {
            for (index, element) in list.iter().enumerate() {
                add_values(element, &format!("{pointer}/{index}"), values);
            }
        }
        _ => {}
    }
}

fn check_everywhere<R: Request>(body: &Value) {
    assert_eq!(errors_of::<R>(&body.to_string()), [""; 0], "{body}");
    let mut values = Vec::new();
    add_values(body, "", &mut values);
    for (pointer, value) in values.iter().filter(|(pointer, _)| !is_free(pointer)) {
        if value.is_object() {
            check_unknown::<R>(body, pointer);
        }
        if !pointer.is_empty() {
            check_type::<R>(body, pointer, value);
        }
        if value.is_string() {
            let path = path_of(body, pointer);
            let errors = errors_of::<R>(&changed(body, pointer, "\"a\\u0000\""));
            assert_eq!(errors, [format!("{path}: must not contain U+0000")]);
        }
        check_null::<R>(body, pointer);
    }
}

/// An unknown field is reported with its full path.
fn check_unknown<R: Request>(body: &Value, pointer: &str) {
    let pointer = format!("{pointer}/qqqqqq");
    let path = path_of(body, &pointer);
    let errors = errors_of::<R>(&changed(body, &pointer, "{}"));
    assert_eq!(errors, [format!("{path}: unknown field")]);
}

/// A value of another type results in one violation, at its path.
fn check_type<R: Request>(body: &Value, pointer: &str, value: &Value) {
    let expected = match value {
        Value::String(_) => "a string",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "number",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
        // A field of any type accepts null.
        Value::Null => return,
    };
    for wrong in [json!("x"), json!(true), json!(7), json!([]), json!({})] {
        if std::mem::discriminant(&wrong) == std::mem::discriminant(value) {
            continue;
        }
        let errors = errors_of::<R>(&changed(body, pointer, &wrong.to_string()));
        let begin = format!("{}: expected ", path_of(body, pointer));
        assert_eq!(errors.len(), 1, "{pointer} = {wrong}: {errors:?}");
        assert!(errors[0].starts_with(&begin) && errors[0].ends_with(expected), "{errors:?}");
    }
}

/// `null` equals an absent field; a missing field results in at most one violation, at its path.
fn check_null<R: Request>(body: &Value, pointer: &str) {
    let Some((parent, _)) = pointer.rsplit_once('/') else { return };
    if body.pointer(parent).is_some_and(Value::is_object) {
        let null = errors_of::<R>(&changed(body, pointer, "null"));
        assert_eq!(null, errors_of::<R>(&changed(body, pointer, "-")), "{pointer}");
        let begin = format!("{}: ", path_of(body, pointer));
        assert!(null.len() <= 1, "{pointer}: {null:?}");
        assert!(null.iter().all(|error| error.starts_with(&begin)), "{pointer}: {null:?}");
    }
}

#[test]
fn every_field_is_strict() {
    check_everywhere::<CreateNotification>(&notifications::full());
    let mut to_devices = notifications::full();
    to_devices["android_device_ids"] = json!(["a", "b"]);
    to_devices["ios_device_ids"] = json!(["c"]);
    to_devices["device_ids"] = json!(["d", "e"]);
    check_everywhere::<CreateNotification>(&to_devices);
    let mut to_users = notifications::full();
    to_users["user_ids"] = json!(["a", "b"]);
    check_everywhere::<CreateNotification>(&to_users);
    let mut report = notifications::full();
    for field in ["ttl_seconds", "priority", "collapse_key", "send_at"] {
        report.as_object_mut().unwrap().remove(field);
    }
    report["id"] = json!("own");
    check_everywhere::<ReportNotification>(&report);
    let answer = json!({"text": "a", "image_url": "https://x.example/a.png"});
    let mut poll = polls::poll("poll_text_wide_image", &answer);
    poll["text"] = json!("hi");
    check_everywhere::<CreateNotification>(&poll);
    check_everywhere::<Template>(&campaigns::full());
    for data in [
        json!({"type": "cal", "start_date": 5, "end_date": 6, "description": "d", "lat": 0.5}),
        json!({"type": "nav", "lat": 90, "lng": -180.0, "icon_url": "https://x.example/i"}),
        json!({"type": "url", "url": "tel:1", "title": "t"}),
    ] {
        check_everywhere::<Template>(&buttons::button(&data));
    }
    let mut device = devices::full();
    device["user_id"] = json!("u");
    check_everywhere::<RegisterDevice>(&device);
    let mut web = devices::web();
    for (field, value) in
        [("device_id", "d"), ("user_id", "u"), ("language", "en"), ("utc_offset", "-60")]
    {
        web[field] = json!(value);
    }
    web["subscription"]["expirationTime"] = json!(1);
    check_everywhere::<Subscribe>(&web);
    check_everywhere::<Subscribe>(&json!({"platform": "chatapp", "recipient_id": "1"}));
    check_everywhere::<SetTags>(&json!({"tags": [{"name": "a", "type": "bool", "value": true}]}));
    check_everywhere::<LogIn>(&json!({"user_id": "u"}));
    check_everywhere::<CheckFeed>(&json!({"url": "https://x.example/rss"}));
    check_everywhere::<CreateFeed>(&json!({"url": "https://x.example/rss", "name": "n"}));
    check_everywhere::<SetCampaignStatus>(&json!({"status": "active"}));
    let event = json!({"type": "opened", "notification_id": "n", "device_id": "d", "at": 1});
    check_everywhere::<ReportEvents>(&json!({"events": [event]}));
    check_everywhere::<AnswerPoll>(&json!({"device_id": "d"}));
    check_everywhere::<CreateApp>(&json!({"name": "n", "language": "de"}));
    check_everywhere::<UpdateApp>(&json!({"name": "n", "language": "de", "status": "active"}));
    check_everywhere::<CreateKey>(
        &json!({"name": "n", "scopes": ["read"], "expires_at": NOW.0 + 1}),
    );
    check_everywhere::<CreateKey>(&json!({"kind": "publishable"}));
    check_everywhere::<RegisterAppDevice>(&json!({"platform": "ios", "sdk_type": "ios_push",
        "device_id": "d", "device_secret": "s", "push_token": "t", "language": "en"}));
    check_everywhere::<CreateUserToken>(&json!({"ttl_seconds": 60}));
    check_everywhere::<LogInWithToken>(&json!({"user_token": "nu_x"}));
    check_everywhere::<SetWebAccess>(&browsers::access());
    check_everywhere::<WebSubscribe>(&browsers::subscribe());
    check_everywhere::<WebReport>(&browsers::report());
    let webhook = json!({"url": "https://a.example", "events": ["poll.answered"],
        "description": "d"});
    check_everywhere::<CreateWebhook>(&webhook);
    check_everywhere::<UpdateWebhook>(&webhook);
    check_everywhere::<RecoverWebhook>(&json!({"since": 1}));
}

#[test]
fn rules_of_one_field_and_of_several_are_reported_together() {
    let template = |features: &str, strings: &str| {
        let start = r#"{"name":"n","layout_id":"content_with_two","settings":{},"#;
        let body = format!("{start}\"strings\":[{strings}],\"features\":[{features}]}}");
        errors_of::<Template>(&body)
    };
    let feed = r#"{"type":"content_feed","position":1,"data":{"feeds":[{"url":"x"}]}}"#;
    let nameless = r#"{"translations":{"def":"a"}},{"translations":{"def":"b"}}"#;
    let personal =
        r#"{"text":"{{a}}","personalize":true,"platforms":["ios"],"ttl_seconds":2419201}"#;
    let person = r#"{"platform":"fb-messenger","recipient_id":"a/b","utc_offset":"x"}"#;
    for (errors, paths) in [
        (errors_of::<CreateNotification>(personal), ["ttl_seconds", "text"]),
        (errors_of::<Subscribe>(person), ["utc_offset", "recipient_id"]),
        (template(feed, ""), ["features[0].data.feeds[0].url", "features[0].data.feeds[0].name"]),
        // Two missing names are not the same name.
        (template("", nameless), ["strings[0].name", "strings[1].name"]),
    ] {
        let found: Vec<_> = errors.iter().map(|error| error.split(": ").next().unwrap()).collect();
        assert_eq!(found, paths, "{errors:?}");
    }
}
