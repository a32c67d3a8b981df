//! The field names and types of an FCM message. Google checks them when it maps JSON to protobuf,
//! before FCM sees the message.

use serde_json::Value;

use super::Failure;

/// The type of a field. Every value is JSON; the comments give the protobuf meaning.
enum Kind {
    Text,
    Flag,
    Whole,
    Real,
    /// `google.protobuf.Duration`.
    Duration,
    /// An enum, by its type name and its values. The case of a value does not matter.
    Enum(&'static str, &'static [&'static str]),
    /// A map of strings to strings.
    TextMap,
    /// Any JSON object.
    AnyObject,
    /// A list of strings.
    TextList,
    Message(&'static [Field]),
}

type Field = (&'static str, Kind);

const FCM_OPTIONS: Field = ("fcm_options", Kind::Message(&[("analytics_label", Kind::Text)]));

const NOTIFICATION: &[Field] =
    &[("title", Kind::Text), ("body", Kind::Text), ("image", Kind::Text)];

const ANDROID_NOTIFICATION: &[Field] = &[
    ("title", Kind::Text),
    ("body", Kind::Text),
    ("icon", Kind::Text),
    ("color", Kind::Text),
    ("sound", Kind::Text),
    ("tag", Kind::Text),
    ("click_action", Kind::Text),
    ("body_loc_key", Kind::Text),
    ("body_loc_args", Kind::TextList),
    ("title_loc_key", Kind::Text),
    ("title_loc_args", Kind::TextList),
    ("channel_id", Kind::Text),
    ("ticker", Kind::Text),
    ("sticky", Kind::Flag),
    ("event_time", Kind::Text),
    ("local_only", Kind::Flag),
    (
        "notification_priority",
        Kind::Enum(
            "AndroidNotification.NotificationPriority",
            &[
                "PRIORITY_UNSPECIFIED",
                "PRIORITY_MIN",
                "PRIORITY_LOW",
                "PRIORITY_DEFAULT",
                "PRIORITY_HIGH",
                "PRIORITY_MAX",
            ],
        ),
    ),
    ("default_sound", Kind::Flag),
    ("default_vibrate_timings", Kind::Flag),
    ("default_light_settings", Kind::Flag),
    ("vibrate_timings", Kind::TextList),
    (
        "visibility",
        Kind::Enum(
            "AndroidNotification.Visibility",
            &["VISIBILITY_UNSPECIFIED", "PRIVATE", "PUBLIC", "SECRET"],
        ),
    ),
    ("notification_count", Kind::Whole),
    (
        "light_settings",
        Kind::Message(&[
            (
                "color",
                Kind::Message(&[
                    ("red", Kind::Real),
                    ("green", Kind::Real),
                    ("blue", Kind::Real),
                    ("alpha", Kind::Real),
                ]),
            ),
            ("light_on_duration", Kind::Duration),
            ("light_off_duration", Kind::Duration),
        ]),
    ),
    ("image", Kind::Text),
    ("bypass_proxy_notification", Kind::Flag),
    (
        "proxy",
        Kind::Enum(
            "AndroidNotification.Proxy",
            &["PROXY_UNSPECIFIED", "ALLOW", "DENY", "IF_PRIORITY_LOWERED"],
        ),
    ),
];

const ANDROID: &[Field] = &[
    ("collapse_key", Kind::Text),
    ("priority", Kind::Enum("AndroidConfig.AndroidMessagePriority", &["NORMAL", "HIGH"])),
    ("ttl", Kind::Duration),
    ("restricted_package_name", Kind::Text),
    ("data", Kind::TextMap),
    ("notification", Kind::Message(ANDROID_NOTIFICATION)),
    FCM_OPTIONS,
    ("direct_boot_ok", Kind::Flag),
    ("bandwidth_constrained_ok", Kind::Flag),
    ("restricted_satellite_ok", Kind::Flag),
];

const MESSAGE: &[Field] = &[
    ("name", Kind::Text),
    ("data", Kind::TextMap),
    ("notification", Kind::Message(NOTIFICATION)),
    ("android", Kind::Message(ANDROID)),
    (
        "webpush",
        Kind::Message(&[
            ("headers", Kind::TextMap),
            ("data", Kind::TextMap),
            ("notification", Kind::AnyObject),
            (
                "fcm_options",
                Kind::Message(&[("link", Kind::Text), ("analytics_label", Kind::Text)]),
            ),
        ]),
    ),
    (
        "apns",
        Kind::Message(&[
            ("headers", Kind::TextMap),
            ("payload", Kind::AnyObject),
            ("live_activity_token", Kind::Text),
            (
                "fcm_options",
                Kind::Message(&[("analytics_label", Kind::Text), ("image", Kind::Text)]),
            ),
        ]),
    ),
    FCM_OPTIONS,
    ("token", Kind::Text),
    ("topic", Kind::Text),
    ("condition", Kind::Text),
];

const REQUEST: &[Field] = &[("message", Kind::Message(MESSAGE)), ("validate_only", Kind::Flag)];

/// Checks the names and types of all fields of a request.
pub(super) fn check(request: &Value) -> Result<(), Failure> {
    check_fields("", REQUEST, request)
}

/// The field with this name, which is in snake case. The message may spell the name in camel case. A
/// null field counts as absent.
pub(super) fn field<'a>(message: &'a Value, name: &str) -> Option<&'a Value> {
    let (_, value) = message.as_object()?.iter().find(|(key, _)| snake_case(key) == name)?;
    (!value.is_null()).then_some(value)
}

fn check_fields(at: &str, fields: &[Field], value: &Value) -> Result<(), Failure> {
    let Some(object) = value.as_object() else {
        return Err(wrong(at, "Message", value));
    };
    for (key, value) in object {
        let Some((name, kind)) = fields.iter().find(|(name, _)| *name == snake_case(key)) else {
            let place = if at.is_empty() { String::new() } else { format!(" at '{at}'") };
            let text = format!(
                "Invalid JSON payload received. Unknown name \"{key}\"{place}: Cannot find field."
            );
            return Err(Failure::bad_field(at, text));
        };
        let inner = if at.is_empty() { (*name).to_owned() } else { format!("{at}.{name}") };
        // Protobuf's JSON mapping treats null as an absent field.
        if !value.is_null() {
            check_kind(&inner, kind, value)?;
        }
    }
    Ok(())
}

fn check_kind(at: &str, kind: &Kind, value: &Value) -> Result<(), Failure> {
    let (is_valid, type_name) = match kind {
        Kind::Text => (value.is_string(), "TYPE_STRING"),
        Kind::Flag => (value.is_boolean(), "TYPE_BOOL"),
        Kind::Whole => (value.is_i64(), "TYPE_INT32"),
        Kind::Real => (value.is_number(), "TYPE_FLOAT"),
        Kind::AnyObject => (value.is_object(), "type.googleapis.com/google.protobuf.Struct"),
        Kind::Duration => (
            value.as_str().is_some_and(is_duration),
            "type.googleapis.com/google.protobuf.Duration",
        ),
        Kind::Enum(type_name, names) => {
            let is_name = |text: &str| names.iter().any(|name| name.eq_ignore_ascii_case(text));
            (value.as_str().is_some_and(is_name), *type_name)
        }
        Kind::TextList => return check_each(at, &Kind::Text, value),
        Kind::TextMap => return check_strings(at, value),
        Kind::Message(fields) => return check_fields(at, fields, value),
    };
    if is_valid { Ok(()) } else { Err(wrong(at, type_name, value)) }
}

fn check_each(at: &str, kind: &Kind, value: &Value) -> Result<(), Failure> {
    let list = value.as_array().ok_or_else(|| wrong(at, "Array", value))?;
    for (index, item) in list.iter().enumerate() {
        check_kind(&format!("{at}[{index}]"), kind, item)?;
    }
    Ok(())
}

fn check_strings(at: &str, value: &Value) -> Result<(), Failure> {
    let map = value.as_object().ok_or_else(|| wrong(at, "Map", value))?;
    for (index, item) in map.values().enumerate() {
        if !item.is_string() {
            return Err(wrong(&format!("{at}[{index}].value"), "TYPE_STRING", item));
        }
    }
    Ok(())
}

fn wrong(at: &str, type_name: &str, value: &Value) -> Failure {
    Failure::bad_field(at, format!("Invalid value at '{at}' ({type_name}), {value}"))
}

/// Whether `text` is a protobuf duration in JSON: seconds with up to nine decimals, then `s`.
fn is_duration(text: &str) -> bool {
    let Some(number) = text.strip_suffix('s') else { return false };
    let number = number.strip_prefix('-').unwrap_or(number);
    let (whole, decimals) = number.split_once('.').unwrap_or((number, "0"));
    let is_digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    is_digits(whole) && is_digits(decimals) && decimals.len() <= 9
}

fn snake_case(name: &str) -> String {
    let mut snake = String::with_capacity(name.len() + 4);
    for character in name.chars() {
        if character.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(character.to_ascii_lowercase());
    }
    snake
}
