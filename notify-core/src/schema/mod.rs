//! JSON schema keywords of request models, in addition to the types of their fields: the limits and
//! patterns of validation, from the same constants. `tests/rules/schemas.rs` compares schemas and
//! validation at every limit.

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

/// Keywords of the schema of a model.
pub struct ModelRules {
    /// Name of the model.
    pub model: &'static str,
    /// Keywords of fields by name; they replace those of the field's type.
    pub fields: Vec<(&'static str, Value)>,
    /// Keywords of the model itself, for rules about several fields.
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

/// The keywords of all request models.
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
        ModelRules::new("SetTags", vec![("tags", max_items(TAGS_PER_REQUEST_MAX))]),
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
            vec![("name", required_up_to(NAME_CHARS_MAX)), ("language", up_to(NAME_CHARS_MAX))],
        ),
        ModelRules::new(
            "UpdateApp",
            vec![
                ("name", up_to(NAME_CHARS_MAX)),
                ("language", up_to(NAME_CHARS_MAX)),
                ("status", optional_one_of("AppStatus")),
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

/// An optional text of limited length.
fn up_to(chars_max: usize) -> Value {
    json!({ "maxLength": chars_max })
}

/// A required text.
fn required() -> Value {
    json!({ "minLength": 1 })
}

fn required_up_to(chars_max: usize) -> Value {
    json!({ "minLength": 1, "maxLength": chars_max })
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

// Regular expressions (ECMA-262) for rules that validation implements in code. Those of urls are
// necessary conditions only: validation also refuses some texts that match.

/// An id that a caller chooses: no control characters, not `.` or `..`.
pub const CALLER_ID: &str = r"^(?!\.{1,2}$)[^\u0000-\u001f\u007f-\u009f]+$";
/// The id of a report: also none of the reserved ids.
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

/// `GMT` or `GMT±HH:MM` within ±14:00, or empty.
const TIMEZONE: &str = "^(?:GMT(?:[+-](?:(?:0[0-9]|1[0-3]):[0-5][0-9]|14:00))?)?$";
/// An integer within ±840 in Rust's syntax, or empty.
const UTC_OFFSET: &str = "^(?:[+-]?0*(?:[0-9]{1,2}|[1-7][0-9]{2}|8[0-3][0-9]|840))?$";
/// The form of a language tag, or empty.
const LANGUAGE: &str = "^[A-Za-z0-9_-]*$";
/// A recipient id on Messenger or the chat app.
const RECIPIENT_ID: &str = r"^[^\u0000-\u001f\u007f-\u009f]+$";
/// An uncompressed P-256 point: 65 bytes that start with 4, in base64url with or without padding.
const P256DH: &str = "^B[A-P][A-Za-z0-9_-]{84}[AEIMQUYcgkosw048]=?$";
/// 16 bytes in base64url, with or without padding.
const AUTH: &str = "^[A-Za-z0-9_-]{21}[AQgw]={0,2}$";
/// `YYYY-MM-DDTHH:MM`, or empty. Validation also checks that the day exists.
const LOCAL_TIME: &str =
    "^(?:[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])T(?:[01][0-9]|2[0-3]):[0-5][0-9])?$";
/// Visible ASCII, or empty.
const VISIBLE_ASCII: &str = "^[!-~]*$";
/// A key that FCM does not reserve.
const FCM_KEY: &str = r"^(?!google|gcm\.|(?:from|gcm|message_type)$)";
/// A key that FCM does not reserve and the server's payloads do not use, or empty.
const EXTRA_KEY: &str = r"^(?!google|gcm\.|(?:from|gcm|message_type|aps|notification_id|campaign_id|url|image_url|poll_id)$)";
