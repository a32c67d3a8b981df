//! FCM's own rules for a message whose names and types are right.

use serde_json::Value;

use super::errors::{Failure, INVALID_TOKEN};
use super::schema::{self, field};

/// The most bytes of keys and values to a device.
const PAYLOAD_BYTES_MAX: usize = 4_096;

/// The same to a topic or condition.
const TOPIC_PAYLOAD_BYTES_MAX: usize = 2_048;

/// The longest `ttl`: four weeks, in seconds.
const TTL_S_MAX: f64 = 2_419_200.0;

/// The longest registration token.
const TOKEN_BYTES_MAX: usize = 4_096;

/// A message that FCM takes.
#[derive(Debug)]
pub(super) struct Accepted {
    /// The token, topic or condition.
    pub(super) target: String,
    pub(super) validate_only: bool,
}

/// Checks a whole request.
pub(super) fn check(request: &Value) -> Result<Accepted, Failure> {
    schema::check(request)?;
    let message = field(request, "message")
        .ok_or_else(|| Failure::invalid("message", "Message is not set."))?;
    let (kind, target) = check_target(message)?;
    check_data(message)?;
    check_ttl(message)?;
    let limit = if kind == "token" { PAYLOAD_BYTES_MAX } else { TOPIC_PAYLOAD_BYTES_MAX };
    if payload_bytes(message) > limit {
        return Err(Failure::invalid("message", "Message is too big."));
    }
    if kind == "token" && !is_token(target) {
        return Err(Failure::invalid("message.token", INVALID_TOKEN));
    }
    let validate_only = field(request, "validate_only").and_then(Value::as_bool);
    Ok(Accepted { target: target.to_owned(), validate_only: validate_only.unwrap_or(false) })
}

/// What a request names as its target, checked or not.
pub(super) fn target_of(request: &Value) -> Option<String> {
    let message = field(request, "message")?;
    let target = ["token", "topic", "condition"].into_iter().find_map(|kind| field(message, kind));
    Some(target?.as_str()?.to_owned())
}

fn check_target(message: &Value) -> Result<(&'static str, &str), Failure> {
    let mut found: Option<(&'static str, &str)> = None;
    for kind in ["token", "topic", "condition"] {
        let Some(target) = field(message, kind).and_then(Value::as_str) else { continue };
        if let Some((first, _)) = found {
            let text = format!(
                "Invalid value at 'message' (oneof), oneof field 'target' is already set by \
                 '{first}'. Cannot set '{kind}'"
            );
            return Err(Failure::bad_field("message", text));
        }
        found = Some((kind, target));
    }
    let missing = || Failure::invalid("message", "Recipient of the message is not set.");
    found.filter(|(_, target)| !target.is_empty()).ok_or_else(missing)
}

fn check_data(message: &Value) -> Result<(), Failure> {
    let android = field(message, "android").and_then(|android| field(android, "data"));
    for (at, data) in [("message.data", field(message, "data")), ("message.android.data", android)]
    {
        let keys = data.and_then(Value::as_object).into_iter().flat_map(|map| map.keys());
        for (index, key) in keys.enumerate() {
            if is_reserved(key) {
                let text = format!("Invalid data payload key: {key}");
                return Err(Failure::invalid(&format!("{at}[{index}].key"), text));
            }
        }
    }
    Ok(())
}

fn is_reserved(key: &str) -> bool {
    let names = ["from", "gcm", "message_type"];
    names.contains(&key) || key.starts_with("google") || key.starts_with("gcm.")
}

fn check_ttl(message: &Value) -> Result<(), Failure> {
    let ttl = field(message, "android").and_then(|android| field(android, "ttl"));
    let Some(ttl) = ttl.and_then(Value::as_str) else { return Ok(()) };
    let seconds = ttl.strip_suffix('s').and_then(|number| number.parse::<f64>().ok());
    if seconds.is_some_and(|seconds| (0.0..=TTL_S_MAX).contains(&seconds)) {
        return Ok(());
    }
    let text = "Invalid time to live: it must be between 0 and 2419200 seconds.";
    Err(Failure::invalid("message.android.ttl", text))
}

/// Keys and values of the data and of the notification, as an Android device gets them.
fn payload_bytes(message: &Value) -> usize {
    let android = field(message, "android");
    let blocks = [
        field(message, "data"),
        android.and_then(|android| field(android, "data")),
        field(message, "notification"),
    ];
    let pairs = blocks.into_iter().flatten().filter_map(Value::as_object).flatten();
    pairs.map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum()
}

fn is_token(token: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_:".contains(&byte);
    token.len() <= TOKEN_BYTES_MAX && token.bytes().all(allowed)
}
