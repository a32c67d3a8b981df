//! Reads and checks `POST /v1/subscriptions`. Whether a point lies on the curve and whether
//! an endpoint is a private address is for the server to see.

use base64::{
    Engine, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};

use super::{
    DEVICE_TEXT_CHARS_MAX, DeviceDetails, Endpoint, PushKeys, PushSubscription,
    RECIPIENT_ID_CHARS_MAX, Subscribe, Subscription, WebSubscription, register,
};
use crate::device::{self, Elsewhere, check_platform};
use crate::json::{Body, Object};
use crate::request::request;
use crate::rules::REQUIRED;
use crate::violations::{Findings, Path, path};
use crate::{DeviceId, Platform, Timestamp};

request!(Subscribe => Subscription, Body::Required, read, check_subscription);

/// Platforms that subscribe instead of registering.
pub(super) const PLATFORMS: [Platform; 3] =
    [Platform::Web, Platform::FbMessenger, Platform::ChatApp];
const REGISTER: Elsewhere =
    Elsewhere { route: "POST /v1/devices", platforms: &register::PLATFORMS };
/// Length of an uncompressed P-256 point, in bytes.
const P256DH_BYTES: usize = 65;
/// First byte of an uncompressed point (SEC 1, section 2.3.3).
const UNCOMPRESSED: u8 = 4;
/// Length of the authentication secret, in bytes (RFC 8291, section 3.2).
const AUTH_BYTES: usize = 16;

/// base64url as browsers write it, with or without padding; written without.
const BASE64URL: GeneralPurpose = GeneralPurpose::new(
    &alphabet::URL_SAFE,
    GeneralPurposeConfig::new()
        .with_encode_padding(false)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

fn read(object: &mut Object<'_, '_>) -> Subscribe {
    Subscribe {
        platform: object.required_string("platform"),
        subscription: object.object("subscription", read_subscription),
        recipient_id: object.string("recipient_id"),
        device_id: object.string("device_id"),
        language: object.string("language"),
        timezone: object.string("timezone"),
        utc_offset: object.string("utc_offset"),
    }
}

/// A browser's subscription, as `/v1/subscriptions` and `/web/v1` read it.
pub(crate) fn read_subscription(object: &mut Object<'_, '_>) -> PushSubscription {
    object.require("keys");
    PushSubscription {
        endpoint: object.required_string("endpoint"),
        keys: object.object("keys", read_keys).unwrap_or_default(),
        // A DOMHighResTimeStamp: browsers may write a fraction.
        #[expect(clippy::cast_possible_truncation, reason = "the fraction is not of interest")]
        expiration_time: object.float("expirationTime").map(|ms| ms as i64),
    }
}

fn read_keys(object: &mut Object<'_, '_>) -> PushKeys {
    PushKeys { p256dh: object.required_string("p256dh"), auth: object.required_string("auth") }
}

/// The rules of a subscription.
pub(crate) fn check_subscription(
    request: Subscribe,
    _now: Timestamp,
    findings: &mut Findings,
) -> Option<Subscription> {
    let Subscribe { platform, subscription, recipient_id, .. } = request;
    let platform = check_platform(&platform, &PLATFORMS, REGISTER, findings);
    let endpoint = platform.and_then(|platform| {
        check_endpoint(platform, subscription, recipient_id.as_deref(), findings)
    });
    let device_id =
        findings.optional_id(&path("device_id"), request.device_id.as_deref(), DeviceId::new);
    let details = DeviceDetails {
        language: findings.text_up_to(&path("language"), request.language, DEVICE_TEXT_CHARS_MAX),
        timezone: request.timezone.filter(|text| !text.is_empty()),
        utc_offset: request.utc_offset.filter(|text| !text.is_empty()),
        ..DeviceDetails::default()
    };
    let utc_offset_minutes =
        device::minutes(details.timezone.as_deref(), details.utc_offset.as_deref(), findings);
    Some(Subscription { device_id, endpoint: endpoint?, utc_offset_minutes, details })
}

fn check_endpoint(
    platform: Platform,
    subscription: Option<PushSubscription>,
    recipient_id: Option<&str>,
    findings: &mut Findings,
) -> Option<Endpoint> {
    if platform == Platform::Web {
        if recipient_id.is_some_and(|id| !id.is_empty()) {
            findings.broken(&path("recipient_id"), "must be absent for platform web");
        }
        let Some(subscription) = subscription else {
            findings.broken(&path("subscription"), "is required for platform web");
            return None;
        };
        return Some(Endpoint::Web(check_web(&subscription, findings)));
    }
    if subscription.is_some() {
        let what = format_args!("must be absent for platform {platform}");
        findings.broken(&path("subscription"), what);
    }
    let Some(recipient_id) = recipient_id else {
        let what = format_args!("is required for platform {platform}");
        findings.broken(&path("recipient_id"), what);
        return None;
    };
    let recipient_id =
        findings.optional_id(&path("recipient_id"), Some(recipient_id), check_recipient)?;
    match platform {
        Platform::FbMessenger => Some(Endpoint::FbMessenger { recipient_id }),
        Platform::ChatApp => Some(Endpoint::ChatApp { recipient_id }),
        Platform::Android | Platform::Ios | Platform::Web => None,
    }
}

fn check_recipient(id: &str) -> Result<String, &'static str> {
    if id.chars().nth(RECIPIENT_ID_CHARS_MAX).is_some() {
        return Err("must be at most 255 characters");
    }
    if id.chars().any(char::is_control) {
        return Err("must not contain control characters");
    }
    Ok(id.to_owned())
}

fn check_web(subscription: &PushSubscription, findings: &mut Findings) -> WebSubscription {
    let at = path("subscription");
    let endpoint = findings.required_http_url(&at.field("endpoint"), subscription.endpoint.clone());
    if !endpoint.is_empty() && !endpoint.to_ascii_lowercase().starts_with("https://") {
        findings.broken(&at.field("endpoint"), "must be an https url");
    }
    let keys = at.field("keys");
    let p256dh = check_key(&keys.field("p256dh"), &subscription.keys.p256dh, findings, |bytes| {
        let is_point = bytes.len() == P256DH_BYTES && bytes[0] == UNCOMPRESSED;
        is_point.then_some(()).ok_or("must be an uncompressed P-256 point, 65 bytes in base64url")
    });
    let auth = check_key(&keys.field("auth"), &subscription.keys.auth, findings, |bytes| {
        (bytes.len() == AUTH_BYTES).then_some(()).ok_or("must be 16 bytes in base64url")
    });
    WebSubscription { endpoint, p256dh, auth }
}

/// Gives the key without padding, so that equal keys are equal texts.
fn check_key(
    at: &Path<'_>,
    text: &str,
    findings: &mut Findings,
    check: impl FnOnce(&[u8]) -> Result<(), &'static str>,
) -> String {
    if text.is_empty() {
        findings.broken(at, REQUIRED);
        return String::new();
    }
    let Ok(bytes) = BASE64URL.decode(text) else {
        findings.broken(at, "must be base64url");
        return String::new();
    };
    if let Err(rule) = check(&bytes) {
        findings.broken(at, rule);
    }
    BASE64URL.encode(&bytes)
}
