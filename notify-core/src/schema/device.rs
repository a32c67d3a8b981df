//! Devices, subscriptions and browsers.

use serde_json::{Value, json};

use super::{ModelRules, given, id, max_items, optional_one_of, unset, up_to};
use crate::schema::{AUTH, HTTPS_URL, LANGUAGE, P256DH, RECIPIENT_ID, TIMEZONE, UTC_OFFSET};
use crate::{
    DEVICE_TEXT_CHARS_MAX, PUSH_TOKEN_CHARS_MAX, RECIPIENT_ID_CHARS_MAX, URL_CHARS_MAX,
    UTC_OFFSET_CHARS_MAX, WEB_LANGUAGE_CHARS_MAX, WEB_SECRET_CHARS_MAX, WEB_TAGS_MAX,
};

/// The optional texts of a device without a pattern.
const TEXTS: [&str; 10] = [
    "android_id",
    "ad_id",
    "imei",
    "sdk_version",
    "app_version",
    "os_version",
    "store_identifier",
    "country",
    "language",
    "device_description",
];

pub(super) fn rules() -> Vec<ModelRules> {
    vec![
        register(),
        subscribe(),
        ModelRules::new(
            "PushSubscription",
            vec![
                (
                    "endpoint",
                    json!({ "minLength": 1, "maxLength": URL_CHARS_MAX, "pattern": HTTPS_URL }),
                ),
                // A DOMHighResTimeStamp, which may have a fraction.
                ("expirationTime", json!({ "type": ["number", "null"], "format": "double" })),
            ],
        ),
        ModelRules::new(
            "PushKeys",
            vec![("p256dh", json!({ "pattern": P256DH })), ("auth", json!({ "pattern": AUTH }))],
        ),
        browser(),
    ]
}

fn register() -> ModelRules {
    let mut fields = vec![
        ("device_id", id()),
        ("push_token", up_to(PUSH_TOKEN_CHARS_MAX)),
        ("timezone", json!({ "pattern": TIMEZONE })),
        ("utc_offset", json!({ "maxLength": UTC_OFFSET_CHARS_MAX, "pattern": UTC_OFFSET })),
        ("ios_env", optional_one_of("IosEnv")),
    ];
    fields.extend(TEXTS.map(|name| (name, up_to(DEVICE_TEXT_CHARS_MAX))));
    let of = |platform: &str, sdk_type: &str, ios_env: Value| {
        json!({ "properties": {
            "platform": { "const": platform },
            "sdk_type": { "const": sdk_type },
            "ios_env": ios_env,
        } })
    };
    ModelRules::new("RegisterDevice", fields).together(json!({ "anyOf": [
        of("android", "android_push", unset()),
        of("ios", "ios_push", json!(true)),
    ] }))
}

fn subscribe() -> ModelRules {
    let person = |platform: &str| {
        json!({
            "required": ["recipient_id"],
            "properties": {
                "platform": { "const": platform },
                "recipient_id": given(),
                "subscription": { "type": "null" },
            },
        })
    };
    let fields = vec![
        (
            "recipient_id",
            json!({ "maxLength": RECIPIENT_ID_CHARS_MAX, "pattern": format!("^$|{RECIPIENT_ID}") }),
        ),
        ("device_id", id()),
        ("language", up_to(DEVICE_TEXT_CHARS_MAX)),
        ("timezone", json!({ "pattern": TIMEZONE })),
        ("utc_offset", json!({ "maxLength": UTC_OFFSET_CHARS_MAX, "pattern": UTC_OFFSET })),
    ];
    ModelRules::new("Subscribe", fields).together(json!({ "anyOf": [
        {
            "required": ["subscription"],
            "properties": {
                "platform": { "const": "web" },
                "subscription": { "type": "object" },
                "recipient_id": unset(),
            },
        },
        person("fb-messenger"),
        person("chatapp"),
    ] }))
}

fn browser() -> ModelRules {
    let fields = vec![
        ("device_id", id()),
        ("device_secret", up_to(WEB_SECRET_CHARS_MAX)),
        ("language", json!({ "maxLength": WEB_LANGUAGE_CHARS_MAX, "pattern": LANGUAGE })),
        ("timezone", json!({ "pattern": TIMEZONE })),
        ("utc_offset", json!({ "maxLength": UTC_OFFSET_CHARS_MAX, "pattern": UTC_OFFSET })),
        ("tags", max_items(WEB_TAGS_MAX)),
    ];
    ModelRules::new("WebSubscribe", fields).together(json!({ "anyOf": [
        { "properties": { "device_id": { "type": "null" }, "device_secret": unset() } },
        {
            "required": ["device_id", "device_secret"],
            "properties": { "device_id": given(), "device_secret": given() },
        },
    ] }))
}
