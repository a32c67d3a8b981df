//! The rules about several fields of notifications, as keywords of JSON schemas.

use serde_json::{Map, Value, json};

use crate::schema::{Together, given, given_text, reference, unset};

const DEVICE_LISTS: [&str; 3] = ["android_device_ids", "ios_device_ids", "device_ids"];

pub(super) fn created() -> Together {
    let ids = |name: &str, others: &[&str]| {
        let mut properties = Map::new();
        properties.insert(name.to_owned(), json!({ "type": "array", "minItems": 1 }));
        properties.extend(others.iter().map(|name| ((*name).to_owned(), absent())));
        json!({ "required": [name], "properties": properties })
    };
    let mut platforms = to_platforms();
    for name in DEVICE_LISTS.into_iter().chain(["user_ids"]) {
        platforms["properties"][name] = absent();
    }
    let mut users = ids("user_ids", &DEVICE_LISTS);
    users["properties"]["platforms"] =
        json!({ "type": ["array", "null"], "minItems": 1, "items": reference("Platform") });
    let [android, ios, any] = DEVICE_LISTS.map(|name| ids(name, &["user_ids"]));
    let target = json!({ "anyOf": [platforms, android, ios, any, users] });
    Together {
        about: "Exactly one target is given: `platforms` alone; device ids, in one or more of the three \
            lists; or `user_ids`, with or without `platforms`. `tags` and `topics` are the same and \
            exclude each other. A message has `text`, a poll has `poll`, and a silent notification has \
            neither. `custom_json_key` and `custom_json_value` require each other. With `poll`, the \
            fields that only a message has are ignored.",
        keywords: json!({
            // With device ids, platforms are ignored and may have any text.
            "properties": { "platforms": { "items": { "type": "string" } } },
            "allOf": [target, content(Some(silent_message()))],
        }),
    }
}

pub(super) fn reported() -> Together {
    Together {
        about: "`tags` and `topics` are the same and exclude each other. A message has `text`, and a poll has \
            `poll`. `custom_json_key` and `custom_json_value` require each other. With `poll`, the \
            fields that only a message has are ignored.",
        keywords: json!({ "allOf": [content(None)] }),
    }
}

fn absent() -> Value {
    json!({ "type": "null" })
}

fn to_platforms() -> Value {
    json!({
        "required": ["platforms"],
        "properties": {
            "platforms": { "type": "array", "minItems": 1, "items": reference("Platform") },
        },
    })
}

/// A notification that shows nothing. The rules about its platforms, its data and its options for Android are
/// left out: with them, tools that generate requests from the document do not find one.
fn silent_message() -> Value {
    let mut properties = Map::new();
    properties.insert("silent".to_owned(), json!({ "const": true }));
    properties.extend(["text", "title", "image_url"].map(|name| (name.to_owned(), unset())));
    const ABSENT: [&str; 10] = [
        "translations",
        "poll",
        "android_json",
        "ios_json",
        "android_settings",
        "ios_settings",
        "web_push_settings",
        "social_messenger_settings",
        "ios_options",
        "web_options",
    ];
    properties.extend(ABSENT.map(|name| (name.to_owned(), absent())));
    json!({ "title": "silent", "required": ["silent"], "properties": properties })
}

/// A poll, a message that satisfies the rules of its settings, or a silent message. The document of the API
/// moves the keywords of the fields that polls ignore here.
fn content(silent_message: Option<Value>) -> Value {
    let mut message = json!({
        "title": "message",
        "required": ["text"],
        "properties": { "text": given_text(), "poll": absent() },
        "allOf": [extra_pair()],
    });
    let mut poll = json!({
        "title": "poll",
        "required": ["poll"],
        "properties": { "poll": { "type": "object" } },
    });
    if silent_message.is_some() {
        for kind in [&mut message, &mut poll] {
            kind["properties"]["silent"] = json!({ "enum": [null, false] });
        }
    }
    let kinds: Vec<Value> = [message, poll].into_iter().chain(silent_message).collect();
    json!({ "anyOf": kinds })
}

/// The key and the value of extra data, which require each other.
fn extra_pair() -> Value {
    json!({ "anyOf": [
        {
            "required": ["custom_json_key", "custom_json_value"],
            "properties": {
                "custom_json_key": given(),
                "custom_json_value": { "type": "object" },
            },
        },
        { "properties": { "custom_json_key": unset(), "custom_json_value": absent() } },
    ] })
}
