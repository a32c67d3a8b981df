//! Classifies the responses of push services (RFC 8030 §5 and §8; Mozilla autopush, "Error Codes"; Apple,
//! "Sending web push notifications in web apps and browsers"), as one pure function.
//! The peer may be anyone, so the status decides, and only known codes are kept.

use std::borrow::Cow;

use http::StatusCode;
use http::header::LOCATION;
use notify_core::Timestamp;
use serde::Deserialize;

use crate::outbound::retry_after;
use crate::providers::reason_from_status;
use crate::providers::transport::ProviderResponse;
use crate::providers::{Reason, Scope, SendResult};

/// Apple's code for any refused token.
pub(super) const BAD_JWT_TOKEN: &str = "BadJwtToken";

/// Longest id of a message that is kept, in bytes.
const MESSAGE_ID_BYTES_MAX: usize = 512;

/// Codes of Apple and Google for a refusal.
const CODES: [&str; 12] = [
    BAD_JWT_TOKEN,
    "BadPath",
    "BadWebPushTopic",
    "ExpiredToken",
    "InternalServerError",
    "InvalidTokenFormat",
    "PayloadTooLarge",
    "ServiceUnavailable",
    "TooManyRequests",
    "UnauthorizedRegistration",
    "Unregistered",
    "VapidPkHashMismatch",
];

/// Mozilla's error numbers.
const ERRNOS: [u16; 20] = [
    101, 102, 103, 104, 105, 106, 108, 109, 110, 111, 112, 113, 114, 201, 202, 900, 901, 902, 903,
    999,
];

/// The body of an error of Apple or Mozilla; the other's fields stay empty.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Refusal {
    reason: Option<String>,
    errno: Option<u16>,
}

/// Classifies a response.
pub(super) fn classify(reply: &ProviderResponse, wall: Timestamp) -> SendResult {
    let reason = || reason(reply);
    let answer = match reply.status.as_u16() {
        200 | 201 | 202 | 204 => SendResult::Delivered { message_id: message_id(reply) },
        400 | 413 => SendResult::InvalidMessage { reason: reason() },
        401 | 403 => SendResult::ServiceRefused { reason: reason() },
        // A wrong path at the push service would look the same.
        404 => SendResult::Unregistered { reason: reason(), ambiguous: true, since: None },
        410 => SendResult::Unregistered { reason: reason(), ambiguous: false, since: None },
        // The Windows service responds 406 where the others respond 429.
        406 | 429 => SendResult::Throttle { reason: reason(), after: None, scope: Scope::Service },
        408 | 500..=599 => SendResult::failed(reason()),
        // A redirect is not followed: it would lead past the guard of addresses.
        _ => SendResult::Unknown { reason: reason_from_status(reply.status, "") },
    };
    answer.with_retry_after(retry_after(&reply.headers, wall))
}

/// Whether the push service refuses the token itself, rather than the key that signed it.
pub(super) fn refuses_token(reply: &ProviderResponse) -> bool {
    match reply.status {
        StatusCode::UNAUTHORIZED => true,
        StatusCode::FORBIDDEN => known_code(reply).is_some_and(|word| word == BAD_JWT_TOKEN),
        _ => false,
    }
}

fn reason(reply: &ProviderResponse) -> Reason {
    reason_from_status(reply.status, &known_code(reply).unwrap_or_default())
}

/// The service's own code, if it is known.
fn known_code(reply: &ProviderResponse) -> Option<Cow<'static, str>> {
    let known = |word: &str| CODES.into_iter().find(|known| *known == word).map(Cow::Borrowed);
    let Ok(refusal) = serde_json::from_slice::<Refusal>(&reply.body) else {
        return known(std::str::from_utf8(&reply.body).ok()?.trim());
    };
    let errno = refusal.errno.filter(|errno| ERRNOS.contains(errno));
    errno
        .map(|errno| Cow::Owned(format!("errno_{errno}")))
        .or_else(|| known(refusal.reason?.as_str()))
}

/// The location of the message at the push service (RFC 8030 §5).
fn message_id(reply: &ProviderResponse) -> Option<Box<str>> {
    let location = reply.headers.get(LOCATION)?.to_str().ok()?;
    (location.len() <= MESSAGE_ID_BYTES_MAX).then(|| location.into())
}
