//! JSON schema keywords of request models, in addition to the types of their fields. The keywords have the
//! limits and patterns of validation, and use the same constants. `tests/rules/schemas.rs` compares schemas
//! and validation at every limit.

use serde_json::{Map, Value, json};

use crate::{
    ACTION_BUTTONS_MAX, APP_DEVICE_TEXT_CHARS_MAX, ATTRIBUTE_NAME_CHARS_MAX, ATTRIBUTES_MAX,
    ButtonKind, CALLER_ID_CHARS_MAX, CANARY_PERCENT_MAX, CANARY_WAIT_SECONDS_MAX,
    CANARY_WAIT_SECONDS_MIN, COLLAPSE_KEY_CHARS_MAX, CONTENT_FEEDS_MAX, CUSTOM_FEEDS_MAX,
    CampaignLayout, DEVICE_IDS_MAX, DEVICE_TEXT_CHARS_MAX, ENCODINGS_MAX, EVENTS_PER_REQUEST_MAX,
    EXTERNAL_CONTENTS_MAX, FEEDS_MAX, FEEDS_MIN, HOST_CHARS_MAX, KEY_OVERLAP_SECONDS_MAX,
    KEY_SCOPES_MAX, LATITUDE_MAX, LISTED_NAME_CHARS_MAX, LONGITUDE_MAX, NAME_CHARS_MAX,
    NOTIFICATION_COUNT_MAX, OPTION_CHARS_MAX, ORIGIN_CHARS_MAX, PER_MINUTE_MAX, POLL_ANSWERS_MAX,
    POLL_ANSWERS_MIN, PUSH_TOKEN_CHARS_MAX, PollLayout, RECIPIENT_ID_CHARS_MAX,
    RELEVANCE_SCORE_MAX, SEND_AT_MS_MIN, StringName, TAG_NAME_CHARS_MAX, TAGS_MAX,
    TAGS_PER_REQUEST_MAX, TIMESTAMP_MS_MAX, TITLE_CHARS_MAX, TTL_SECONDS_MAX, URL_CHARS_MAX,
    USER_IDS_MAX, USER_TOKEN_CHARS_MAX, USER_TOKEN_SECONDS_MAX, USER_TOKEN_SECONDS_MIN,
    UTC_OFFSET_CHARS_MAX, WEB_EVENTS_PER_REQUEST_MAX, WEB_LANGUAGE_CHARS_MAX, WEB_ORIGINS_MAX,
    WEB_PUSH_ACTIONS_MAX, WEB_PUSH_ACTIONS_MIN, WEB_PUSH_SERVICES_MAX, WEB_SECRET_CHARS_MAX,
    WEB_TAGS_MAX, WEBHOOK_DESCRIPTION_CHARS_MAX, WEBHOOK_EVENTS_MAX,
};

/// Keywords of the schema of a model.
pub struct ModelRules {
    /// Name of the model.
    pub model: &'static str,
    /// Keywords of fields by name; they replace those of the field's type.
    pub fields: Vec<(&'static str, Value)>,
    /// Keywords of the model itself, for rules about several fields.
    pub together: Value,
    /// The rules of `together` as a text, for readers of a schema without these keywords.
    pub about: &'static str,
}

impl ModelRules {
    fn new(model: &'static str, fields: Vec<(&'static str, Value)>) -> Self {
        Self { model, fields, together: json!({}), about: "" }
    }

    fn together(mut self, about: &'static str, keywords: Value) -> Self {
        self.about = about;
        self.together = keywords;
        self
    }
}

/// The keywords of all request models.
#[must_use]
pub fn rules() -> Vec<ModelRules> {
    let mut rules = notification_rules();
    rules.extend(device_rules());
    rules.extend(campaign_rules());
    rules.extend(small_model_rules());
    rules.extend(key_rules());
    rules.extend(web_access_rules());
    rules.push(register_app_device());
    rules
}

fn small_model_rules() -> Vec<ModelRules> {
    vec![
        ModelRules::new("Tag", vec![("name", required_up_to(TAG_NAME_CHARS_MAX))]),
        ModelRules::new("SetTags", vec![("tags", max_items(TAGS_PER_REQUEST_MAX))]),
        ModelRules::new("LogIn", vec![("user_id", id())]),
        ModelRules::new(
            "LogInWithToken",
            vec![("user_token", required_up_to(USER_TOKEN_CHARS_MAX))],
        ),
        ModelRules::new(
            "CreateUserToken",
            vec![(
                "ttl_seconds",
                json!({ "minimum": USER_TOKEN_SECONDS_MIN, "maximum": USER_TOKEN_SECONDS_MAX }),
            )],
        ),
        // The items are names of platforms.
        ModelRules::new("PreviewSegment", vec![("platforms", json!({ "minItems": 1 }))]),
        ModelRules::new("ReportEvents", vec![("events", counted(1, EVENTS_PER_REQUEST_MAX))]),
        ModelRules::new(
            "ReportEvent",
            vec![("notification_id", id()), ("device_id", id()), ("at", instant())],
        ),
        ModelRules::new(
            "CreateFeed",
            vec![("url", required_url()), ("name", required_visible_up_to(LISTED_NAME_CHARS_MAX))],
        ),
        ModelRules::new("CheckFeed", vec![("url", required_url())]),
        ModelRules::new(
            "CreateWebhook",
            vec![
                ("url", required_url()),
                ("events", max_items(WEBHOOK_EVENTS_MAX)),
                ("description", up_to(WEBHOOK_DESCRIPTION_CHARS_MAX)),
            ],
        ),
        ModelRules::new(
            "UpdateWebhook",
            vec![
                ("url", url()),
                ("events", max_items(WEBHOOK_EVENTS_MAX)),
                ("description", up_to(WEBHOOK_DESCRIPTION_CHARS_MAX)),
            ],
        ),
        ModelRules::new("RecoverWebhook", vec![("since", instant())]),
        ModelRules::new(
            "CreateApp",
            vec![
                ("name", required_visible_up_to(NAME_CHARS_MAX)),
                ("language", up_to(NAME_CHARS_MAX)),
            ],
        ),
        ModelRules::new(
            "UpdateApp",
            vec![
                ("name", up_to(NAME_CHARS_MAX)),
                ("language", up_to(NAME_CHARS_MAX)),
                ("status", optional_one_of("AppStatus")),
                ("on_crash", optional_one_of("OnCrash")),
            ],
        ),
    ]
}

fn key_rules() -> Vec<ModelRules> {
    vec![
        ModelRules::new(
            "CreateKey",
            vec![
                ("name", up_to(NAME_CHARS_MAX)),
                ("scopes", counted(1, KEY_SCOPES_MAX)),
                ("kind", optional_one_of("ApiKeyKind")),
                (
                    "allowed_tags",
                    json!({ "maxItems": WEB_TAGS_MAX, "items": required_up_to(TAG_NAME_CHARS_MAX) }),
                ),
                (
                    "allowed_attributes",
                    json!({
                        "maxItems": ATTRIBUTES_MAX,
                        "items": { "maxLength": ATTRIBUTE_NAME_CHARS_MAX, "pattern": ATTRIBUTE_NAME },
                    }),
                ),
                ("expires_at", instant()),
            ],
        )
        .together(
            "Only a secret key can have `scopes`. Only a publishable key can have `allowed_tags` \
                and `allowed_attributes`.",
            json!({ "anyOf": [
                {
                    "properties": {
                        "kind": { "enum": [null, "", "secret"] },
                        "allowed_tags": { "type": "null" },
                        "allowed_attributes": { "type": "null" },
                    },
                },
                {
                    "required": ["kind"],
                    "properties": {
                        "kind": { "const": "publishable" },
                        "scopes": { "type": "null" },
                    },
                },
            ] }),
        ),
        ModelRules::new(
            "RotateKey",
            vec![("overlap_seconds", json!({ "minimum": 0, "maximum": KEY_OVERLAP_SECONDS_MAX }))],
        ),
        ModelRules::new("CreateAdminKey", vec![("name", up_to(NAME_CHARS_MAX))]),
        ModelRules::new("RenameKey", vec![("name", required_visible_up_to(NAME_CHARS_MAX))]),
    ]
}

fn web_access_rules() -> Vec<ModelRules> {
    vec![
        ModelRules::new(
            "SetWebAccess",
            vec![
                (
                    "allowed_origins",
                    json!({ "minItems": 1, "maxItems": WEB_ORIGINS_MAX, "items": required_up_to(ORIGIN_CHARS_MAX) }),
                ),
                (
                    "allowed_tags",
                    json!({
                        "maxItems": WEB_TAGS_MAX,
                        "items": required_up_to(TAG_NAME_CHARS_MAX),
                    }),
                ),
                (
                    "push_services",
                    json!({
                        "maxItems": WEB_PUSH_SERVICES_MAX,
                        // `*.` can precede the host.
                        "items": required_up_to(HOST_CHARS_MAX + 2),
                    }),
                ),
            ],
        ),
        ModelRules::new("WebReport", vec![("events", counted(1, WEB_EVENTS_PER_REQUEST_MAX))]),
        ModelRules::new("WebReportEvent", vec![("notification_id", id()), ("at", instant())]),
    ]
}

// Notifications and polls.

/// The fields of a notification that a poll ignores. Only their type is checked.
pub const IGNORED_BY_POLLS: [&str; 17] = [
    "text",
    "title",
    "translations",
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
    "ios_options",
    "android_options",
    "web_options",
];

fn notification_rules() -> Vec<ModelRules> {
    vec![
        create_notification(),
        canary(),
        report_notification(),
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
        ModelRules::new(
            "Translation",
            vec![("title", up_to(TITLE_CHARS_MAX)), ("url", uri()), ("image_url", url())],
        ),
        ios_options(),
        android_options(),
        ModelRules::new("WebOptions", vec![("icon", url()), ("badge", url())]),
        create_poll(),
        ModelRules::new("CreateAnswer", vec![("image_url", url())]),
        ModelRules::new("AnswerPoll", vec![("device_id", id())]),
    ]
}

fn create_notification() -> ModelRules {
    let device_ids = || json!({ "maxItems": DEVICE_IDS_MAX, "items": id() });
    let mut fields = notification_content();
    fields.extend([
        // With device ids, platforms are ignored and may have any text.
        ("platforms", json!({ "items": { "type": "string" } })),
        ("android_device_ids", device_ids()),
        ("ios_device_ids", device_ids()),
        ("device_ids", device_ids()),
        ("user_ids", json!({ "maxItems": USER_IDS_MAX, "items": id() })),
        ("send_at", json!({ "minimum": SEND_AT_MS_MIN, "maximum": TIMESTAMP_MS_MAX })),
        ("send_at_local", json!({ "pattern": LOCAL_TIME })),
        ("ttl_seconds", json!({ "minimum": 0, "maximum": TTL_SECONDS_MAX })),
        ("priority", optional_one_of("Priority")),
        ("per_minute", json!({ "minimum": 1, "maximum": PER_MINUTE_MAX })),
        ("collapse_key", json!({ "maxLength": COLLAPSE_KEY_CHARS_MAX, "pattern": VISIBLE_ASCII })),
    ]);
    const DEVICE_LISTS: [&str; 3] = ["android_device_ids", "ios_device_ids", "device_ids"];
    let ids = |name: &str, absent: &[&str]| {
        let mut properties = Map::new();
        properties.insert(name.to_owned(), json!({ "type": "array", "minItems": 1 }));
        properties.extend(absent.iter().map(|name| ((*name).to_owned(), absent_list())));
        json!({ "required": [name], "properties": properties })
    };
    let mut platforms = to_platforms();
    for name in DEVICE_LISTS.into_iter().chain(["user_ids"]) {
        platforms["properties"][name] = absent_list();
    }
    let mut users = ids("user_ids", &DEVICE_LISTS);
    users["properties"]["platforms"] =
        json!({ "type": ["array", "null"], "minItems": 1, "items": platform() });
    let [android, ios, any] = DEVICE_LISTS.map(|name| ids(name, &["user_ids"]));
    let target = json!({ "anyOf": [platforms, android, ios, any, users] });
    ModelRules::new("CreateNotification", fields).together(
        "Exactly one target is given: `platforms` alone; device ids, in one or more of the three \
            lists; or `user_ids`, with or without `platforms`. `tags` and `topics` are the same and \
            exclude each other. A message has `text`, a poll has `poll`, and a silent notification has \
            neither. `custom_json_key` and `custom_json_value` require each other. With `poll`, the \
            fields that only a message has are ignored.",
        json!({ "allOf": [target, content(Some(silent_message()))] }),
    )
}

fn canary() -> ModelRules {
    let range = |min: u32, max: u32| json!({ "minimum": min, "maximum": max });
    ModelRules::new(
        "Canary",
        vec![
            ("percent", json!({ "minimum": 1, "maximum": CANARY_PERCENT_MAX })),
            ("wait_seconds", range(CANARY_WAIT_SECONDS_MIN, CANARY_WAIT_SECONDS_MAX)),
            ("max_failed_percent", range(0, 100)),
            ("then", optional_one_of("CanaryThen")),
        ],
    )
}

/// A notification that shows nothing. The server's OpenAPI document adds the keywords of the fields in
/// [`IGNORED_BY_POLLS`]. The rules about its platforms, its data and its options for Android are left
/// out: with them, tools that generate requests from the document do not find one.
fn silent_message() -> Value {
    let null = || json!({ "type": "null" });
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
    properties.extend(ABSENT.map(|name| (name.to_owned(), null())));
    json!({ "title": "silent", "required": ["silent"], "properties": properties })
}

fn report_notification() -> ModelRules {
    let mut fields = notification_content();
    fields.extend([
        ("id", json!({ "minLength": 1, "maxLength": CALLER_ID_CHARS_MAX, "pattern": REPORT_ID })),
        ("platforms", json!({ "items": { "type": "string" } })),
    ]);
    ModelRules::new("ReportNotification", fields).together(
        "`tags` and `topics` are the same and exclude each other. A message has `text`, and a poll has \
            `poll`. `custom_json_key` and `custom_json_value` require each other. With `poll`, the \
            fields that only a message has are ignored.",
        json!({ "allOf": [to_platforms(), content(None)] }),
    )
}

fn ios_options() -> ModelRules {
    let option_text = || up_to(OPTION_CHARS_MAX);
    ModelRules::new(
        "IosOptions",
        vec![
            ("subtitle", option_text()),
            ("thread_id", option_text()),
            ("category", option_text()),
            ("interruption_level", optional_one_of("InterruptionLevel")),
            ("relevance_score", json!({ "minimum": 0, "maximum": RELEVANCE_SCORE_MAX })),
        ],
    )
}

fn android_options() -> ModelRules {
    let option_text = || up_to(OPTION_CHARS_MAX);
    let count = json!({ "format": "int64", "minimum": 0, "maximum": NOTIFICATION_COUNT_MAX });
    ModelRules::new(
        "AndroidOptions",
        vec![
            ("channel_id", option_text()),
            ("icon", option_text()),
            ("color", json!({ "pattern": COLOR })),
            ("notification_count", count),
            ("visibility", optional_one_of("AndroidVisibility")),
            ("analytics_label", option_text()),
        ],
    )
}

fn to_platforms() -> Value {
    json!({
        "required": ["platforms"],
        "properties": { "platforms": { "type": "array", "minItems": 1, "items": platform() } },
    })
}

fn platform() -> Value {
    json!({ "$ref": "#/components/schemas/Platform" })
}

fn absent_list() -> Value {
    json!({ "type": "null" })
}

fn notification_content() -> Vec<(&'static str, Value)> {
    vec![
        ("tags", json!({ "maxItems": TAGS_MAX, "items": required_up_to(TAG_NAME_CHARS_MAX) })),
        ("topics", json!({ "maxItems": TAGS_MAX, "items": required_up_to(TAG_NAME_CHARS_MAX) })),
        ("title", up_to(TITLE_CHARS_MAX)),
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

/// A poll, a message that satisfies the rules of its settings, or a silent message. The server's OpenAPI
/// document moves the keywords of the fields in [`IGNORED_BY_POLLS`] here.
fn content(silent_message: Option<Value>) -> Value {
    let mut message = json!({
        "title": "message",
        "required": ["text"],
        "properties": { "text": given_text(), "poll": { "type": "null" } },
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
        { "properties": {
            "custom_json_key": unset(),
            "custom_json_value": { "type": "null" },
        } },
    ] })
}

fn create_poll() -> ModelRules {
    let fields = vec![
        ("text", required()),
        ("image_url", url()),
        ("answers", counted(POLL_ANSWERS_MIN, POLL_ANSWERS_MAX)),
    ];
    let variant = |layout: PollLayout| {
        let needed = [("text", layout.needs_text()), ("image_url", layout.needs_image())];
        let needed: Vec<&str> =
            needed.into_iter().filter(|(_, is_needed)| *is_needed).map(|(name, _)| name).collect();
        let properties: Map<String, Value> =
            needed.iter().map(|name| ((*name).to_owned(), given_text())).collect();
        json!({ "properties": {
            "layout_id": { "const": layout.as_str() },
            "answers": { "items": { "required": needed, "properties": properties } },
        } })
    };
    ModelRules::new("CreatePoll", fields).together(
        "In the layout `poll_text`, each answer has `text`; in `poll_images`, `image_url`; in \
            `poll_text_wide_image`, both.",
        json!({ "anyOf": PollLayout::ALL.map(variant) }),
    )
}

// Devices, subscriptions and browsers.

/// The optional texts of a device that have no pattern.
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

fn device_rules() -> Vec<ModelRules> {
    vec![
        register_device(),
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
                ("supportedContentEncodings", max_items(ENCODINGS_MAX)),
            ],
        ),
        ModelRules::new(
            "PushKeys",
            vec![("p256dh", json!({ "pattern": P256DH })), ("auth", json!({ "pattern": AUTH }))],
        ),
        web_subscribe(),
    ]
}

/// The id and the secret of a device, which require each other.
fn id_with_secret() -> Value {
    json!({ "anyOf": [
        { "properties": { "device_id": { "type": "null" }, "device_secret": unset() } },
        {
            "required": ["device_id", "device_secret"],
            "properties": { "device_id": given(), "device_secret": given() },
        },
    ] })
}

fn register_device() -> ModelRules {
    let mut fields = vec![
        ("device_id", id()),
        ("user_id", id()),
        ("push_token", up_to(PUSH_TOKEN_CHARS_MAX)),
        ("timezone", json!({ "pattern": TIMEZONE })),
        ("utc_offset", json!({ "maxLength": UTC_OFFSET_CHARS_MAX, "pattern": UTC_OFFSET })),
        ("ios_env", optional_one_of("IosEnv")),
    ];
    fields.extend(TEXTS.map(|name| (name, up_to(DEVICE_TEXT_CHARS_MAX))));
    let variant = |platform: &str, sdk_type: &str, ios_env: Value| {
        json!({ "properties": {
            "platform": { "const": platform },
            "sdk_type": { "const": sdk_type },
            "ios_env": ios_env,
        } })
    };
    ModelRules::new("RegisterDevice", fields).together(
        "`sdk_type` is `android_push` on `android` and `ios_push` on `ios`. Only an iOS device can have \
            `ios_env`.",
        json!({ "anyOf": [
            variant("android", "android_push", unset()),
            variant("ios", "ios_push", json!(true)),
        ] }),
    )
}

fn register_app_device() -> ModelRules {
    let ModelRules { fields, together, .. } = register_device();
    let mut fields: Vec<_> = fields.into_iter().filter(|(name, _)| *name != "user_id").collect();
    for (name, rule) in &mut fields {
        if TEXTS.contains(name) {
            *rule = up_to(APP_DEVICE_TEXT_CHARS_MAX);
        }
    }
    fields.push(("device_secret", up_to(WEB_SECRET_CHARS_MAX)));
    let platforms = together["anyOf"].clone();
    ModelRules::new("RegisterAppDevice", fields).together(
        "`sdk_type` is `android_push` on `android` and `ios_push` on `ios`. Only an iOS device can have \
            `ios_env`. `device_id` and `device_secret` require each other.",
        json!({ "allOf": [{ "anyOf": platforms }, id_with_secret()] }),
    )
}

fn subscribe() -> ModelRules {
    let person = |platform: &str, recipient_id: &str| {
        json!({
            "required": ["recipient_id"],
            "properties": {
                "platform": { "const": platform },
                "recipient_id": { "type": "string", "pattern": recipient_id },
                "subscription": { "type": "null" },
            },
        })
    };
    let fields = vec![
        ("recipient_id", up_to(RECIPIENT_ID_CHARS_MAX)),
        ("device_id", id()),
        ("user_id", id()),
        ("language", up_to(DEVICE_TEXT_CHARS_MAX)),
        ("timezone", json!({ "pattern": TIMEZONE })),
        ("utc_offset", json!({ "maxLength": UTC_OFFSET_CHARS_MAX, "pattern": UTC_OFFSET })),
    ];
    ModelRules::new("Subscribe", fields).together(
        "On `web`, `subscription` is required and `recipient_id` must be absent; on the other \
            platforms, it is the other way round.",
        json!({ "anyOf": [
            {
                "required": ["subscription"],
                "properties": {
                    "platform": { "const": "web" },
                    "subscription": { "type": "object" },
                    "recipient_id": unset(),
                },
            },
            person("fb-messenger", &format!(r"^\s*{PERSON_ID}{RECIPIENT_SCRIPT}\s*$")),
            person("chatapp", &format!(r"^\s*(?:{CHAT_ID}{RECIPIENT_SCRIPT}|{CHAT_NAME})\s*$")),
        ] }),
    )
}

fn web_subscribe() -> ModelRules {
    let fields = vec![
        ("device_id", id()),
        ("device_secret", up_to(WEB_SECRET_CHARS_MAX)),
        ("language", json!({ "maxLength": WEB_LANGUAGE_CHARS_MAX, "pattern": LANGUAGE })),
        ("timezone", json!({ "pattern": TIMEZONE })),
        ("utc_offset", json!({ "maxLength": UTC_OFFSET_CHARS_MAX, "pattern": UTC_OFFSET })),
        ("tags", max_items(WEB_TAGS_MAX)),
    ];
    ModelRules::new("WebSubscribe", fields)
        .together("`device_id` and `device_secret` require each other.", id_with_secret())
}

// Templates of campaigns.

/// Most features of all types together.
const FEATURES_MAX: usize =
    CONTENT_FEEDS_MAX + EXTERNAL_CONTENTS_MAX + ACTION_BUTTONS_MAX + CUSTOM_FEEDS_MAX;

fn campaign_rules() -> Vec<ModelRules> {
    let articles = CampaignLayout::ALL.map(CampaignLayout::articles);
    let (fewest, most) = (articles.iter().min(), articles.iter().max());
    vec![
        ModelRules::new(
            "Template",
            vec![
                ("name", required_visible_up_to(LISTED_NAME_CHARS_MAX)),
                ("strings", max_items(StringName::ALL.len())),
                ("features", max_items(FEATURES_MAX)),
            ],
        ),
        ModelRules::new("Translations", vec![("def", required())]),
        ModelRules::new(
            "Feature",
            vec![("position", json!({ "format": "int64", "minimum": 1, "maximum": u32::MAX }))],
        ),
        ModelRules::new("ContentFeed", vec![("feeds", counted(FEEDS_MIN, FEEDS_MAX))]),
        template_feed(),
        ModelRules::new("ExternalContent", vec![("ob_widget_id", given_text())]),
        ModelRules::new(
            "CustomFeed",
            vec![("articles", json!({ "minItems": fewest, "maxItems": most }))],
        ),
        ModelRules::new(
            "Article",
            vec![("url", required_url()), ("title", required()), ("thumb_url", required_url())],
        ),
        template_button(),
    ]
}

fn template_feed() -> ModelRules {
    let fields = vec![
        ("id", json!({ "format": "uuid", "pattern": SERVER_ID })),
        ("url", url()),
        ("name", up_to(LISTED_NAME_CHARS_MAX)),
    ];
    ModelRules::new("TemplateFeed", fields).together(
        "`url` requires `name`.",
        json!({ "anyOf": [
            { "required": ["id"], "properties": { "id": given(), "url": unset() } },
            {
                "required": ["url", "name"],
                "properties": { "id": { "type": "null" }, "url": given(), "name": given_text() },
            },
        ] }),
    )
}

fn template_button() -> ModelRules {
    let fields = vec![
        ("url", uri()),
        ("start_date", instant()),
        ("end_date", instant()),
        ("icon_url", url()),
    ];
    let variants: Vec<Value> = ButtonKind::ALL.into_iter().flat_map(button_variants).collect();
    ModelRules::new("TemplateButton", fields).together(
        "`cal` requires `start_date`, `end_date` and `description`; `video` and `url` require `url`; \
            `nav` requires `lat` and `lng`; `custom` requires `title` and at least one of `icon` and \
            `icon_url`.",
        json!({ "anyOf": variants }),
    )
}

/// The required fields of a button of the given type. There are several variants if the caller has a
/// choice, such as between two kinds of icons.
fn button_variants(kind: ButtonKind) -> Vec<Value> {
    let variant = |required: &[&str], form: Value| {
        let mut properties = Map::new();
        properties.insert("type".to_owned(), json!({ "const": kind.as_str() }));
        properties.extend(required.iter().map(|name| ((*name).to_owned(), form.clone())));
        json!({ "required": required, "properties": properties })
    };
    match kind {
        ButtonKind::Fb | ButtonKind::Wa | ButtonKind::Sms | ButtonKind::Email => {
            vec![variant(&[], json!(true))]
        }
        ButtonKind::Cal => {
            let mut cal = variant(&["start_date", "end_date"], json!({ "type": "integer" }));
            cal["required"] = json!(["start_date", "end_date", "description"]);
            cal["properties"]["description"] = given_text();
            vec![cal]
        }
        ButtonKind::Video | ButtonKind::Url => vec![variant(&["url"], given())],
        ButtonKind::Nav => {
            let within = |max: f64| json!({ "type": "number", "minimum": -max, "maximum": max });
            let mut nav = variant(&["lat", "lng"], json!(true));
            nav["properties"]["lat"] = within(LATITUDE_MAX);
            nav["properties"]["lng"] = within(LONGITUDE_MAX);
            vec![nav]
        }
        ButtonKind::Custom => {
            vec![
                variant(&["title", "icon"], given_text()),
                variant(&["title", "icon_url"], given_text()),
            ]
        }
    }
}

/// The keywords of an optional text of limited length.
fn up_to(chars_max: usize) -> Value {
    json!({ "maxLength": chars_max })
}

/// The keywords of a required text.
fn required() -> Value {
    json!({ "minLength": 1, "pattern": VISIBLE })
}

fn required_up_to(chars_max: usize) -> Value {
    json!({ "minLength": 1, "maxLength": chars_max })
}

fn required_visible_up_to(chars_max: usize) -> Value {
    json!({ "minLength": 1, "maxLength": chars_max, "pattern": VISIBLE })
}

/// An id that a caller chooses.
fn id() -> Value {
    json!({ "minLength": 1, "maxLength": CALLER_ID_CHARS_MAX, "pattern": CALLER_ID })
}

/// An optional url to fetch.
fn url() -> Value {
    json!({ "maxLength": URL_CHARS_MAX, "pattern": format!("^$|{HTTP_URL}") })
}

fn required_url() -> Value {
    json!({ "minLength": 1, "maxLength": URL_CHARS_MAX, "pattern": HTTP_URL })
}

/// An optional url to open.
fn uri() -> Value {
    json!({ "maxLength": URL_CHARS_MAX, "pattern": format!("^$|{URI}") })
}

/// An instant in unix milliseconds.
fn instant() -> Value {
    json!({ "minimum": 0, "maximum": TIMESTAMP_MS_MAX })
}

fn max_items(items_max: usize) -> Value {
    json!({ "maxItems": items_max })
}

fn counted(items_min: usize, items_max: usize) -> Value {
    json!({ "minItems": items_min, "maxItems": items_max })
}

/// An optional name of an enum.
fn optional_one_of(schema: &str) -> Value {
    let schema = format!("#/components/schemas/{schema}");
    json!({ "oneOf": [{ "type": "null" }, { "const": "" }, { "$ref": schema }] })
}

/// An absent field: missing, null or, for a text, empty.
fn unset() -> Value {
    json!({ "enum": [null, ""] })
}

/// A present text.
fn given() -> Value {
    json!({ "type": "string", "minLength": 1 })
}

/// A present text with a visible character.
fn given_text() -> Value {
    json!({ "type": "string", "minLength": 1, "pattern": VISIBLE })
}

// Regular expressions (ECMA-262) for rules that validation implements in code. The expressions for urls
// are only necessary conditions: validation also refuses some texts that match them.

/// An id that a caller chooses: no control characters, not `.` or `..`.
pub const CALLER_ID: &str = r"^(?!\.{1,2}$)[^\u0000-\u001f\u007f-\u009f]+$";
/// The id of a report: like [`CALLER_ID`], but none of the reserved ids.
const REPORT_ID: &str = r"^(?!(?:\.{1,2}|notify|preview)$)[^\u0000-\u001f\u007f-\u009f]+$";
/// An id that the server generates.
pub const SERVER_ID: &str = "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$";
/// The id of a campaign, or `default`.
pub const CAMPAIGN_REF: &str =
    "^(?:default|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})$";
/// The `Idempotency-Key` header.
pub const IDEMPOTENCY_KEY: &str = "^[!-~]+$";

/// An absolute `http` or `https` url.
const HTTP_URL: &str =
    r"^[Hh][Tt][Tt][Pp][Ss]?://[^\u0000-\u0020\u007f-\u009f/\\][^\u0000-\u001f\u007f-\u009f]*$";
/// An absolute `https` url.
const HTTPS_URL: &str =
    r"^[Hh][Tt][Tt][Pp][Ss]://[^\u0000-\u0020\u007f-\u009f/\\][^\u0000-\u001f\u007f-\u009f]*$";
/// An absolute url of any scheme that is not refused.
const URI: &str = r"^(?![Jj][Aa][Vv][Aa][Ss][Cc][Rr][Ii][Pp][Tt]:|[Dd][Aa][Tt][Aa]:)[A-Za-z][A-Za-z0-9+.-]*:[^\u0000-\u001f\u007f-\u009f]*$";

/// The name of a time zone, an offset from UTC within ±14:00, or empty. Validation also checks that the zone
/// exists.
const TIMEZONE: &str = "^(?:(?:GMT|UTC)(?:[+-](?:(?:0?[0-9]|1[0-3])(?::[0-5][0-9])?|14(?::00)?))?|[A-Z][A-Za-z_-]+(?:/[A-Z][A-Za-z0-9_+-]+)+)?$";
/// An integer within ±840 in Rust's syntax, or empty.
const UTC_OFFSET: &str = "^(?:[+-]?0*(?:[0-9]{1,2}|[1-7][0-9]{2}|8[0-3][0-9]|840))?$";
/// The name of an attribute.
pub const ATTRIBUTE_NAME: &str = "^[a-z][a-z0-9_]{0,63}$";
/// A language tag (RFC 5646, section 2.1), in which underscores can take the place of hyphens.
pub const LANGUAGE_TAG: &str = "^[A-Za-z][A-Za-z0-9]{0,7}(?:[-_][A-Za-z0-9]{1,8})*$";
/// The form of a language tag, or empty.
const LANGUAGE: &str = "^[A-Za-z0-9_-]*$";
/// A text with a visible character: all others are white space, control characters, or have no ink.
const VISIBLE: &str = r"[^\u0000-\u0020\u007f-\u00a0\u00ad\u034f\u061c\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180e\u2000-\u200f\u2028-\u202f\u205f-\u206f\u2800\u3000\u3164\ufeff\uffa0\ufff9-\ufffb]";
/// A page-scoped id of Messenger.
const PERSON_ID: &str = "0*[1-9][0-9]{0,19}";
/// The id of a chat of the chat app.
const CHAT_ID: &str = "[+-]?0*[1-9][0-9]{0,18}";
/// What may follow the number of a recipient: the text that selects the sandbox's answer.
const RECIPIENT_SCRIPT: &str = "(?:~[A-Za-z0-9:_~-]*|-[A-Za-z][A-Za-z0-9:_~-]*)?";
/// The name of a public chat.
const CHAT_NAME: &str = "@[A-Za-z][A-Za-z0-9_]{3,31}";
/// An uncompressed P-256 point: 65 bytes that start with 4, in base64 of either alphabet with or without
/// padding.
const P256DH: &str = "^B[A-P][A-Za-z0-9+/_-]{84}[AEIMQUYcgkosw048]=?$";
/// 16 bytes in base64 of either alphabet, with or without padding.
const AUTH: &str = "^[A-Za-z0-9+/_-]{21}[AQgw]={0,2}$";
/// `YYYY-MM-DDTHH:MM`, or empty. Validation also checks that the day exists.
const LOCAL_TIME: &str =
    "^(?:[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])T(?:[01][0-9]|2[0-3]):[0-5][0-9])?$";
/// A color as `#rrggbb`, or empty.
const COLOR: &str = "^(?:#[0-9A-Fa-f]{6})?$";
/// Visible ASCII, or empty.
const VISIBLE_ASCII: &str = "^[!-~]*$";
/// A key that FCM does not reserve.
const FCM_KEY: &str = r"^(?!google|gcm\.|(?:from|gcm|message_type)$)";
/// A key that FCM does not reserve and the server's payloads do not use, or empty.
const EXTRA_KEY: &str = r"^(?!google|gcm\.|(?:from|gcm|message_type|aps|notification_id|campaign_id|url|image_url|poll_id)$)";
