//! The checks of one APNs request, in order; pure but for what its connection is bound to.

use http::{HeaderMap, Method};
use serde::Deserialize;

use super::{Reason, authorization};
use crate::sandbox::answer::Environment;
use crate::sandbox::exchange::{Call, Peer};
use crate::sandbox::scene::Scene;

/// The largest payload, in bytes.
const PAYLOAD_BYTES_MAX: usize = 4_096;

/// The same for `voip`.
const VOIP_PAYLOAD_BYTES_MAX: usize = 5_120;

/// The longest `apns-collapse-id`, in bytes.
const COLLAPSE_ID_BYTES_MAX: usize = 64;

/// The longest device token, in hex digits.
const TOKEN_DIGITS_MAX: usize = 512;

/// Push types, and what their topic ends in.
const PUSH_TYPES: [(&str, &str); 11] = [
    ("alert", ""),
    ("background", ""),
    ("voip", ".voip"),
    ("complication", ".complication"),
    ("fileprovider", ".pushkit.fileprovider"),
    ("mdm", ""),
    ("liveactivity", ".push-type.liveactivity"),
    ("location", ".location-query"),
    ("pushtotalk", ".voip-ptt"),
    ("widgets", ".push-type.widgets"),
    ("controls", ".push-type.controls"),
];

/// Headers of which a request has one at most.
const SINGLE_HEADERS: [&str; 7] = [
    "authorization",
    "apns-topic",
    "apns-push-type",
    "apns-priority",
    "apns-expiration",
    "apns-collapse-id",
    "apns-id",
];

/// Checks everything that APNs checks.
pub(super) fn check(
    scene: &Scene,
    peer: &Peer,
    (environment, path, token): (Environment, &str, &str),
    call: &Call,
) -> Result<(), Reason> {
    if call.head.method != Method::POST {
        return Err(Reason::METHOD_NOT_ALLOWED);
    }
    if !path.starts_with("/3/device/") && path != "/3/device" {
        return Err(Reason::BAD_PATH);
    }
    let headers = &call.head.headers;
    if SINGLE_HEADERS.iter().any(|name| headers.get_all(*name).iter().nth(1).is_some()) {
        return Err(Reason::DUPLICATE_HEADERS);
    }
    let mut memory = peer.apns.lock().expect("no holder of a connection's memory panics");
    authorization::check(scene, &mut memory, headers.get("authorization"))?;
    check_token(token)?;
    let push_type = check_headers(headers)?;
    let topic = check_topic(scene, headers, push_type)?;
    check_payload(call, push_type)?;

    // One app a connection, as its first request names it: Apple ties connections to a key.
    let bound = memory.topic.get_or_insert_with(|| topic.to_owned());
    if bound != topic {
        return Err(Reason::UNRELATED_KEY_ID_IN_TOKEN);
    }
    if token.bytes().all(|digit| digit == b'0') {
        // Right in its form, and of no device: what a check of credentials sends to.
        return Err(Reason::BAD_DEVICE_TOKEN);
    }
    let declared = scene.declared(token).unwrap_or_default();
    if declared.environment.is_some_and(|its| its != environment) {
        return Err(Reason::BAD_DEVICE_TOKEN);
    }
    if declared.topic.is_some_and(|its| its != topic) {
        return Err(Reason::DEVICE_TOKEN_NOT_FOR_TOPIC);
    }
    Ok(())
}

fn check_token(token: &str) -> Result<(), Reason> {
    if token.is_empty() {
        return Err(Reason::MISSING_DEVICE_TOKEN);
    }
    let is_hex = token.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !is_hex || !token.len().is_multiple_of(2) || token.len() > TOKEN_DIGITS_MAX {
        return Err(Reason::BAD_DEVICE_TOKEN);
    }
    Ok(())
}

/// Checks the headers that stand alone, and returns the push type; without one it is an alert.
fn check_headers(headers: &HeaderMap) -> Result<&'static str, Reason> {
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or("\u{fffd}"));
    if text("apns-id").is_some_and(|id| !is_apns_id(id)) {
        return Err(Reason::BAD_MESSAGE_ID);
    }
    if text("apns-expiration").is_some_and(|at| at.parse::<u64>().is_err()) {
        return Err(Reason::BAD_EXPIRATION_DATE);
    }
    // Bytes above 127 are allowed, so this one is not looked at as text.
    let collapse_id = headers.get("apns-collapse-id");
    if collapse_id.is_some_and(|id| id.is_empty() || id.len() > COLLAPSE_ID_BYTES_MAX) {
        return Err(Reason::BAD_COLLAPSE_ID);
    }
    let wanted = text("apns-push-type").unwrap_or("alert");
    let known = PUSH_TYPES.iter().find(|(push_type, _)| *push_type == wanted);
    let (push_type, _) = known.ok_or(Reason::INVALID_PUSH_TYPE)?;
    match (text("apns-priority").unwrap_or("10"), *push_type) {
        ("5", _) => Ok(push_type),
        ("10" | "1", other) if other != "background" => Ok(push_type),
        (_, _) => Err(Reason::BAD_PRIORITY),
    }
}

/// The topic without the push type's ending.
fn check_topic<'a>(
    scene: &Scene,
    headers: &'a HeaderMap,
    push_type: &str,
) -> Result<&'a str, Reason> {
    let topic = headers.get("apns-topic").ok_or(Reason::MISSING_TOPIC)?;
    let topic = topic.to_str().map_err(|_| Reason::BAD_TOPIC)?;
    let is_bundle_id = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    if topic.is_empty() || !topic.bytes().all(is_bundle_id) {
        return Err(Reason::BAD_TOPIC);
    }
    let ending = PUSH_TYPES.iter().find(|(known, _)| *known == push_type).map_or("", |of| of.1);
    let app = topic.strip_suffix(ending).ok_or(Reason::INVALID_PUSH_TYPE)?;
    if scene.apns_topics.iter().any(|known| known == app) {
        Ok(app)
    } else {
        Err(Reason::TOPIC_DISALLOWED)
    }
}

fn check_payload(call: &Call, push_type: &str) -> Result<(), Reason> {
    #[derive(Deserialize)]
    struct Payload {
        #[serde(rename = "aps")]
        _aps: serde_json::Map<String, serde_json::Value>,
    }

    let limit = if push_type == "voip" { VOIP_PAYLOAD_BYTES_MAX } else { PAYLOAD_BYTES_MAX };
    if call.body.len() > limit {
        return Err(Reason::PAYLOAD_TOO_LARGE);
    }
    // APNs has no reason of its own for what is no JSON object with an `aps` object.
    serde_json::from_slice::<Payload>(&call.body).map_err(|_| Reason::PAYLOAD_EMPTY)?;
    Ok(())
}

/// Whether it is a UUID of the form 8-4-4-4-12 in lower case.
pub(super) fn is_apns_id(id: &str) -> bool {
    let is_lower = !id.bytes().any(|byte| byte.is_ascii_uppercase());
    is_lower && id.len() == 36 && uuid::Uuid::try_parse(id).is_ok()
}
