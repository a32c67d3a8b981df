//! The answers of push services (RFC 8030 §5 and §8; Mozilla autopush, "Error Codes"; Apple,
//! "Sending web push notifications in web apps and browsers"; B39 and B40), as one pure function.
//! Who answers may be anybody, so that the status decides and of the words only known ones are kept.

use std::borrow::Cow;

use http::StatusCode;
use http::header::LOCATION;
use notify_core::Timestamp;
use serde::Deserialize;

use crate::outbound::retry_after;
use crate::providers::transport::Reply;
use crate::providers::word;
use crate::providers::{Answer, Reason, Scope};

/// Apple's word for a token that it does not take, whatever is wrong with it.
pub(super) const BAD_JWT_TOKEN: &str = "BadJwtToken";

/// Longest id of a message that is kept, in bytes.
const MESSAGE_ID_BYTES_MAX: usize = 512;

/// Words by which Apple and Google explain a refusal.
const WORDS: [&str; 12] = [
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

/// Mozilla's numbers.
const ERRNOS: [u16; 20] = [
    101, 102, 103, 104, 105, 106, 108, 109, 110, 111, 112, 113, 114, 201, 202, 900, 901, 902, 903,
    999,
];

/// What Apple or Mozilla say; the fields of the other stay empty.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Refusal {
    reason: Option<String>,
    errno: Option<u16>,
}

/// What an answer means.
pub(super) fn classify(reply: &Reply, wall: Timestamp) -> Answer {
    let reason = || reason(reply);
    let answer = match reply.status.as_u16() {
        200 | 201 | 202 | 204 => Answer::Delivered { message_id: message_id(reply) },
        400 | 413 => Answer::BadMessage { reason: reason() },
        401 | 403 => Answer::ServiceRefused { reason: reason() },
        // A wrong path at the push service would look the same.
        404 => Answer::TokenDead { reason: reason(), ambiguous: true, since: None },
        410 => Answer::TokenDead { reason: reason(), ambiguous: false, since: None },
        // Windows' service says 406 where the others say 429.
        406 | 429 => Answer::Throttle { reason: reason(), after: None, scope: Scope::Service },
        408 | 500..=599 => Answer::failed(reason()),
        // A redirect is not followed: it would lead past the guard of addresses.
        _ => Answer::Unknown { reason: word(reply.status, "") },
    };
    answer.waiting(retry_after(&reply.headers, wall))
}

/// Whether the push service refuses the token itself, rather than the key that signed it.
pub(super) fn refuses_token(reply: &Reply) -> bool {
    match reply.status {
        StatusCode::UNAUTHORIZED => true,
        StatusCode::FORBIDDEN => known_word(reply).is_some_and(|word| word == BAD_JWT_TOKEN),
        _ => false,
    }
}

fn reason(reply: &Reply) -> Reason {
    word(reply.status, &known_word(reply).unwrap_or_default())
}

/// The service's own word, where it is one that is known.
fn known_word(reply: &Reply) -> Option<Cow<'static, str>> {
    let known = |word: &str| WORDS.into_iter().find(|known| *known == word).map(Cow::Borrowed);
    let Ok(refusal) = serde_json::from_slice::<Refusal>(&reply.body) else {
        return known(std::str::from_utf8(&reply.body).ok()?.trim());
    };
    let errno = refusal.errno.filter(|errno| ERRNOS.contains(errno));
    errno
        .map(|errno| Cow::Owned(format!("errno_{errno}")))
        .or_else(|| known(refusal.reason?.as_str()))
}

/// Where the push service keeps the message (RFC 8030 §5).
fn message_id(reply: &Reply) -> Option<Box<str>> {
    let location = reply.headers.get(LOCATION)?.to_str().ok()?;
    (location.len() <= MESSAGE_ID_BYTES_MAX).then(|| location.into())
}
