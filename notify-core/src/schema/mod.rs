//! What the schemas of requests say beside the types of their models: the bounds and the patterns that
//! validation holds, from the same constants. `tests/rules/schemas.rs` compares both at every bound.

mod campaign;
mod device;
mod notification;

use serde_json::{Value, json};

pub use self::notification::IGNORED_BY_POLLS;
use crate::{
    CALLER_ID_CHARS_MAX, EVENTS_PER_REQUEST_MAX, HOST_CHARS_MAX, LISTED_NAME_CHARS_MAX,
    NAME_CHARS_MAX, ORIGIN_CHARS_MAX, TAG_NAME_CHARS_MAX, TAGS_PER_REQUEST_MAX, TIMESTAMP_MS_MAX,
    URL_CHARS_MAX, WEB_EVENTS_PER_REQUEST_MAX, WEB_ORIGINS_MAX, WEB_PUSH_SERVICES_MAX,
    WEB_TAGS_MAX, WEBHOOK_DESCRIPTION_CHARS_MAX, WEBHOOK_EVENTS_MAX,
};

/// What the schema of a model says beside the types of its fields.
pub struct ModelRules {
    /// Name of the model.
    pub model: &'static str,
    /// Keywords of fields, by name; they replace those that the type gave.
    pub fields: Vec<(&'static str, Value)>,
    /// Keywords of the model itself: what its fields must be together.
    pub together: Value,
}

impl ModelRules {
    fn new(model: &'static str, fields: Vec<(&'static str, Value)>) -> Self {
        Self { model, fields, together: json!({}) }
    }

    fn together(mut self, keywords: Value) -> Self {
        self.together = keywords;
        self
    }
}

/// The rules of every model of a request.
#[must_use]
pub fn rules() -> Vec<ModelRules> {
    let mut rules = notification::rules();
    rules.extend(device::rules());
    rules.extend(campaign::rules());
    rules.extend(small());
    rules.extend(browsers());
    rules
}

fn small() -> Vec<ModelRules> {
    vec![
        ModelRules::new("Tag", vec![("name", required_up_to(TAG_NAME_CHARS_MAX))]),
        ModelRules::new("SetTags", vec![("tags", at_most(TAGS_PER_REQUEST_MAX))]),
        ModelRules::new("ReportEvents", vec![("events", counted(1, EVENTS_PER_REQUEST_MAX))]),
        ModelRules::new(
            "ReportEvent",
            vec![("notification_id", id()), ("device_id", id()), ("at", instant())],
        ),
        ModelRules::new(
            "CreateFeed",
            vec![("url", required_url()), ("name", required_up_to(LISTED_NAME_CHARS_MAX))],
        ),
        ModelRules::new("CheckFeed", vec![("url", required_url())]),
        ModelRules::new(
            "CreateWebhook",
            vec![
                ("url", required_url()),
                ("events", at_most(WEBHOOK_EVENTS_MAX)),
                ("description", up_to(WEBHOOK_DESCRIPTION_CHARS_MAX)),
            ],
        ),
        ModelRules::new(
            "UpdateWebhook",
            vec![
                ("url", url()),
                ("events", at_most(WEBHOOK_EVENTS_MAX)),
                ("description", up_to(WEBHOOK_DESCRIPTION_CHARS_MAX)),
            ],
        ),
        ModelRules::new("RecoverWebhook", vec![("since", instant())]),
        ModelRules::new(
            "CreateApp",
            vec![("name", required_up_to(NAME_CHARS_MAX)), ("language", up_to(NAME_CHARS_MAX))],
        ),
        ModelRules::new(
            "UpdateApp",
            vec![
                ("name", up_to(NAME_CHARS_MAX)),
                ("language", up_to(NAME_CHARS_MAX)),
                ("status", optional_word("AppStatus")),
            ],
        ),
        ModelRules::new("CreateKey", vec![("name", up_to(NAME_CHARS_MAX))]),
    ]
}

fn browsers() -> Vec<ModelRules> {
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
                        // `*.` stands before the host of a whole domain.
                        "items": required_up_to(HOST_CHARS_MAX + 2),
                    }),
                ),
            ],
        ),
        ModelRules::new("WebReport", vec![("events", counted(1, WEB_EVENTS_PER_REQUEST_MAX))]),
        ModelRules::new("WebReportEvent", vec![("notification_id", id()), ("at", instant())]),
    ]
}

/// A text that is at most so long; empty equals absent.
fn up_to(chars_max: usize) -> Value {
    json!({ "maxLength": chars_max })
}

/// A text that must not be empty.
fn required() -> Value {
    json!({ "minLength": 1 })
}

fn required_up_to(chars_max: usize) -> Value {
    json!({ "minLength": 1, "maxLength": chars_max })
}

/// An id that a caller makes.
fn id() -> Value {
    json!({ "minLength": 1, "maxLength": CALLER_ID_CHARS_MAX, "pattern": CALLER_ID })
}

/// What is fetched; empty equals absent.
fn url() -> Value {
    json!({ "maxLength": URL_CHARS_MAX, "pattern": format!("^$|{HTTP_URL}") })
}

fn required_url() -> Value {
    json!({ "minLength": 1, "maxLength": URL_CHARS_MAX, "pattern": HTTP_URL })
}

/// What a click opens; empty equals absent.
fn uri() -> Value {
    json!({ "maxLength": URL_CHARS_MAX, "pattern": format!("^$|{URI}") })
}

/// An instant.
fn instant() -> Value {
    json!({ "minimum": 0, "maximum": TIMESTAMP_MS_MAX })
}

fn at_most(items_max: usize) -> Value {
    json!({ "maxItems": items_max })
}

fn counted(items_min: usize, items_max: usize) -> Value {
    json!({ "minItems": items_min, "maxItems": items_max })
}

/// A word of a list; empty equals absent.
fn optional_word(list: &str) -> Value {
    let list = format!("#/components/schemas/{list}");
    json!({ "oneOf": [{ "type": "null" }, { "const": "" }, { "$ref": list }] })
}

/// A field that is left out: absent, null or, for a text, empty.
fn unset() -> Value {
    json!({ "enum": [null, ""] })
}

/// A text that is given.
fn given() -> Value {
    json!({ "type": "string", "minLength": 1 })
}

// Regular expressions (ECMA-262) of what validation reads by hand. Those of urls hold what can be told
// without reading the whole: what they refuse is refused, what they let through may be.

/// An id that a caller makes: no control characters, not `.` or `..`.
pub const CALLER_ID: &str = r"^(?!\.{1,2}$)[^\u0000-\u001f\u007f-\u009f]+$";
/// The same for the id of a report: not a path of its own either.
const REPORT_ID: &str = r"^(?!(?:\.{1,2}|notify|preview)$)[^\u0000-\u001f\u007f-\u009f]+$";
/// An id that the server makes.
pub const SERVER_ID: &str = "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$";
/// A campaign: its id, or the default one.
pub const CAMPAIGN_REF: &str =
    "^(?:default|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})$";
/// The `Idempotency-Key` header.
pub const IDEMPOTENCY_KEY: &str = "^[!-~]+$";

/// An absolute `http` or `https` url.
const HTTP_URL: &str =
    r"^[Hh][Tt][Tt][Pp][Ss]?://[^\u0000-\u0020\u007f-\u009f/\\][^\u0000-\u001f\u007f-\u009f]*$";
/// The same with TLS alone.
const HTTPS_URL: &str =
    r"^[Hh][Tt][Tt][Pp][Ss]://[^\u0000-\u0020\u007f-\u009f/\\][^\u0000-\u001f\u007f-\u009f]*$";
/// An absolute url of any scheme but those that are refused.
const URI: &str = r"^(?![Jj][Aa][Vv][Aa][Ss][Cc][Rr][Ii][Pp][Tt]:|[Dd][Aa][Tt][Aa]:)[A-Za-z][A-Za-z0-9+.-]*:[^\u0000-\u001f\u007f-\u009f]*$";

/// `GMT` or `GMT±HH:MM` within ±14:00, or nothing.
const TIMEZONE: &str = "^(?:GMT(?:[+-](?:(?:0[0-9]|1[0-3]):[0-5][0-9]|14:00))?)?$";
/// Whole minutes within ±840 as Rust reads a number, or nothing.
const UTC_OFFSET: &str = "^(?:[+-]?0*(?:[0-9]{1,2}|[1-7][0-9]{2}|8[0-3][0-9]|840))?$";
/// The form of a language tag, or nothing.
const LANGUAGE: &str = "^[A-Za-z0-9_-]*$";
/// An address of a person on Messenger or the chat app.
const RECIPIENT_ID: &str = r"^[^\u0000-\u001f\u007f-\u009f]+$";
/// An uncompressed P-256 point: 65 bytes that begin with 4, in base64url with or without padding.
const P256DH: &str = "^B[A-P][A-Za-z0-9_-]{84}[AEIMQUYcgkosw048]=?$";
/// 16 bytes in base64url, with or without padding.
const AUTH: &str = "^[A-Za-z0-9_-]{21}[AQgw]={0,2}$";
/// `YYYY-MM-DDTHH:MM`, or nothing. The calendar decides which days exist.
const LOCAL_TIME: &str =
    "^(?:[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])T(?:[01][0-9]|2[0-3]):[0-5][0-9])?$";
/// Visible ASCII, or nothing.
const VISIBLE_ASCII: &str = "^[!-~]*$";
/// A key that FCM does not reserve.
const FCM_KEY: &str = r"^(?!google|gcm\.|(?:from|gcm|message_type)$)";
/// A key that neither FCM reserves nor our payloads use, or nothing.
const EXTRA_KEY: &str = r"^(?!google|gcm\.|(?:from|gcm|message_type|aps|notification_id|campaign_id|url|image_url|poll_id)$)";
