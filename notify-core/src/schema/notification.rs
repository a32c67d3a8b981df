//! Notifications and polls.

use serde_json::{Map, Value, json};

use super::{
    ModelRules, counted, given, id, optional_one_of, required, required_up_to, unset, uri, url,
};
use crate::schema::{CAMPAIGN_REF, EXTRA_KEY, FCM_KEY, LOCAL_TIME, REPORT_ID, VISIBLE_ASCII};
use crate::{
    CALLER_ID_CHARS_MAX, COLLAPSE_KEY_CHARS_MAX, DEVICE_IDS_MAX, POLL_ANSWERS_MAX,
    POLL_ANSWERS_MIN, PollLayout, TAG_NAME_CHARS_MAX, TAGS_MAX, TIMESTAMP_MS_MAX, TTL_SECONDS_MAX,
    WEB_PUSH_ACTIONS_MAX, WEB_PUSH_ACTIONS_MIN,
};

/// Fields of a notification that are ignored with a poll: only their type is checked.
pub const IGNORED_BY_POLLS: [&str; 12] = [
    "text",
    "url",
    "image_url",
    "campaign_id",
    "custom_json_key",
    "custom_json_value",
    "android_json",
    "ios_json",
    "android_settings",
    "ios_settings",
    "web_push_settings",
    "social_messenger_settings",
];

pub(super) fn rules() -> Vec<ModelRules> {
    vec![
        create(),
        report(),
        ModelRules::new(
            "IosSettings",
            vec![
                ("badge", json!({ "format": "int64", "minimum": 0, "maximum": u32::MAX })),
                ("sound", required()),
            ],
        ),
        ModelRules::new(
            "WebPushSettings",
            vec![("actions", counted(WEB_PUSH_ACTIONS_MIN, WEB_PUSH_ACTIONS_MAX))],
        ),
        ModelRules::new(
            "WebPushAction",
            vec![("title", required()), ("icon", url()), ("url", uri())],
        ),
        poll(),
        ModelRules::new("CreateAnswer", vec![("image_url", url())]),
        ModelRules::new("AnswerPoll", vec![("device_id", id())]),
    ]
}

fn create() -> ModelRules {
    let device_ids = || json!({ "maxItems": DEVICE_IDS_MAX, "items": id() });
    let mut fields = content();
    fields.extend([
        // With device ids, platforms are ignored and may have any text.
        ("platforms", json!({ "items": { "type": "string" } })),
        ("android_device_ids", device_ids()),
        ("ios_device_ids", device_ids()),
        ("device_ids", device_ids()),
        ("send_at", json!({ "minimum": 0, "maximum": TIMESTAMP_MS_MAX })),
        ("send_at_local", json!({ "pattern": LOCAL_TIME })),
        ("ttl_seconds", json!({ "minimum": 0, "maximum": TTL_SECONDS_MAX })),
        ("priority", optional_one_of("Priority")),
        ("collapse_key", json!({ "maxLength": COLLAPSE_KEY_CHARS_MAX, "pattern": VISIBLE_ASCII })),
    ]);
    let ids = |name: &str| {
        let mut properties = Map::new();
        properties.insert(name.to_owned(), json!({ "type": "array", "minItems": 1 }));
        json!({ "required": [name], "properties": properties })
    };
    let mut platforms = to_platforms();
    platforms["properties"]["android_device_ids"] = json!({ "type": "null" });
    platforms["properties"]["ios_device_ids"] = json!({ "type": "null" });
    platforms["properties"]["device_ids"] = json!({ "type": "null" });
    let target = json!({ "anyOf": [
        platforms,
        ids("android_device_ids"),
        ids("ios_device_ids"),
        ids("device_ids"),
    ] });
    let schedule = json!({ "anyOf": [
        { "properties": { "send_at": { "type": "null" } } },
        { "properties": { "send_at_local": unset() } },
    ] });
    ModelRules::new("CreateNotification", fields)
        .together(json!({ "allOf": [target, schedule, message_or_poll()] }))
}

fn report() -> ModelRules {
    let mut fields = content();
    fields.extend([
        ("id", json!({ "minLength": 1, "maxLength": CALLER_ID_CHARS_MAX, "pattern": REPORT_ID })),
        ("platforms", json!({ "items": { "type": "string" } })),
    ]);
    ModelRules::new("ReportNotification", fields)
        .together(json!({ "allOf": [to_platforms(), message_or_poll()] }))
}

fn to_platforms() -> Value {
    let platform = "#/components/schemas/Platform";
    json!({
        "required": ["platforms"],
        "properties": {
            "platforms": { "type": "array", "minItems": 1, "items": { "$ref": platform } },
        },
    })
}

fn content() -> Vec<(&'static str, Value)> {
    vec![
        ("tags", json!({ "maxItems": TAGS_MAX, "items": required_up_to(TAG_NAME_CHARS_MAX) })),
        ("url", uri()),
        ("image_url", url()),
        ("campaign_id", json!({ "pattern": CAMPAIGN_REF })),
        ("custom_json_key", json!({ "pattern": EXTRA_KEY })),
        ("android_json", json!({ "propertyNames": { "pattern": FCM_KEY } })),
        (
            "ios_json",
            json!({
                "required": ["aps"],
                "properties": { "aps": {
                    "type": "object",
                    "required": ["alert", "badge", "sound"],
                } },
            }),
        ),
    ]
}

/// A poll, or a message that satisfies the rules of its settings. The server's document moves the
/// keywords of [`IGNORED_BY_POLLS`] here.
fn message_or_poll() -> Value {
    json!({ "anyOf": [
        {
            "title": "message",
            "required": ["text"],
            "properties": { "text": given(), "poll": { "type": "null" } },
            // Key and value require each other.
            "anyOf": [
                {
                    "required": ["custom_json_key", "custom_json_value"],
                    "properties": {
                        "custom_json_key": given(),
                        "custom_json_value": { "type": "object" },
                    },
                },
                { "properties": {
                    "custom_json_key": unset(),
                    "custom_json_value": { "type": "null" },
                } },
            ],
        },
        {
            "title": "poll",
            "required": ["poll"],
            "properties": { "poll": { "type": "object" } },
        },
    ] })
}

fn poll() -> ModelRules {
    let fields = vec![
        ("text", required()),
        ("image_url", url()),
        ("answers", counted(POLL_ANSWERS_MIN, POLL_ANSWERS_MAX)),
    ];
    let of = |layout: PollLayout| {
        let needed = [("text", layout.needs_text()), ("image_url", layout.needs_image())];
        let needed: Vec<&str> =
            needed.into_iter().filter(|(_, is_needed)| *is_needed).map(|(name, _)| name).collect();
        let properties: Map<String, Value> =
            needed.iter().map(|name| ((*name).to_owned(), given())).collect();
        json!({ "properties": {
            "layout_id": { "const": layout.as_str() },
            "answers": { "items": { "required": needed, "properties": properties } },
        } })
    };
    ModelRules::new("CreatePoll", fields).together(json!({ "anyOf": PollLayout::ALL.map(of) }))
}
