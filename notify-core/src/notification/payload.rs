//! Keys that a raw payload or an extra pair must or must not have.

use serde_json::value::RawValue;

use super::Content;
use crate::json::JsonObject;
use crate::rules::REQUIRED;
use crate::violations::{Findings, Path, path};

/// Data keys that FCM keeps for itself, beside any that begin with `google` or `gcm.`.
pub const FCM_KEYS_RESERVED: [&str; 3] = ["from", "gcm", "message_type"];
const FCM_PREFIXES_RESERVED: [&str; 2] = ["google", "gcm."];
/// Keys that our own payloads use.
const KEYS_USED: [&str; 6] =
    ["aps", "notification_id", "campaign_id", "url", "image_url", "poll_id"];
/// What the `aps` of a raw payload must hold.
const APS_REQUIRED: [&str; 3] = ["alert", "badge", "sound"];

impl Content {
    /// The raw payload that overrides every other setting on Android.
    #[must_use]
    pub fn android_json(&self) -> Option<&JsonObject> {
        match self {
            Self::Message(message) => message.android_json.as_ref(),
            Self::Poll(_) => None,
        }
    }

    /// The raw payload that overrides every other setting on iOS.
    #[must_use]
    pub fn ios_json(&self) -> Option<&JsonObject> {
        match self {
            Self::Message(message) => message.ios_json.as_ref(),
            Self::Poll(_) => None,
        }
    }
}

pub(super) fn check_android(payload: &JsonObject, findings: &mut Findings) {
    for (key, _) in payload.members() {
        if is_reserved_by_fcm(&key) {
            findings.broken(&path("android_json").field(&key), "is a key that FCM reserves");
        }
    }
}

pub(super) fn check_ios(payload: &JsonObject, findings: &mut Findings) {
    let at = path("ios_json");
    let aps_path = at.field("aps");
    let Some(aps) = member(payload, "aps") else {
        findings.broken(&aps_path, REQUIRED);
        return;
    };
    let Ok(aps) = serde_json::from_str::<JsonObject>(aps.get()) else {
        findings.broken(&aps_path, "must be an object");
        return;
    };
    for key in APS_REQUIRED {
        if member(&aps, key).is_none() {
            findings.broken(&aps_path.field(key), REQUIRED);
        }
    }
}

fn member(object: &JsonObject, key: &str) -> Option<Box<RawValue>> {
    object.members().into_iter().find(|(name, _)| name == key).map(|(_, value)| value)
}

pub(super) fn check_extra_key(at: &Path<'_>, key: &str, findings: &mut Findings) {
    if KEYS_USED.contains(&key) {
        findings.broken(at, "is a key that the payload already uses");
    }
    if is_reserved_by_fcm(key) {
        findings.broken(at, "is a key that FCM reserves");
    }
}

fn is_reserved_by_fcm(key: &str) -> bool {
    FCM_KEYS_RESERVED.contains(&key)
        || FCM_PREFIXES_RESERVED.iter().any(|prefix| key.starts_with(prefix))
}
