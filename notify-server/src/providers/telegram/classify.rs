//! Classifies the responses of the Bot API (Telegram, "Making requests"; deviations are noted below), as one
//! pure function. Its errors have no codes beyond the HTTP status, so descriptions are matched.

use std::time::Duration;

use http::StatusCode;
use notify_core::Timestamp;
use serde::Deserialize;

use crate::outbound::retry_after;
use crate::providers::reason_from_status;
use crate::providers::transport::ProviderResponse;
use crate::providers::{Processing, Reason, Scope, SendResult};

/// Added to the wait that Telegram requests, since it counts whole seconds.
const WAIT_MORE: Duration = Duration::from_secs(1);
/// Longest wait requested by Telegram that is honoured, in seconds.
const WAIT_SECONDS_MAX: u64 = 86_400;

/// Classifies a response.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Classification {
    /// The classified result.
    pub(super) answer: SendResult,
    /// Whether only the photo or the markup was refused, so that a plain text may be accepted.
    pub(super) is_formatting: bool,
}

#[derive(Deserialize)]
struct Body {
    ok: bool,
    result: Option<Sent>,
    error_code: Option<u16>,
    #[serde(default)]
    description: String,
    #[serde(default)]
    parameters: Parameters,
}

#[derive(Deserialize)]
struct Sent {
    message_id: Option<i64>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Parameters {
    retry_after: Option<u64>,
    migrate_to_chat_id: Option<i64>,
}

/// The class of a description.
#[derive(Clone, Copy)]
enum ErrorClass {
    Unregistered,
    /// Unregistered, unless the token is another bot's, which knows none of our chats.
    UnregisteredOrOtherBot,
    InvalidMessage,
    /// The photo or the markup is invalid.
    InvalidFormatting,
}

/// Status, a part of the description in lower case, class and reason.
const ROWS: &[(u16, &str, ErrorClass, &str)] = &[
    (403, "bot was blocked by the user", ErrorClass::Unregistered, "bot_was_blocked"),
    (403, "user is deactivated", ErrorClass::Unregistered, "user_is_deactivated"),
    (403, "bot was kicked", ErrorClass::Unregistered, "bot_was_kicked"),
    (403, "bot is not a member", ErrorClass::Unregistered, "bot_is_not_a_member"),
    (403, "group chat was deleted", ErrorClass::Unregistered, "chat_was_deleted"),
    (
        403,
        "bot can't initiate conversation",
        ErrorClass::UnregisteredOrOtherBot,
        "chat_was_never_started",
    ),
    (400, "chat not found", ErrorClass::UnregisteredOrOtherBot, "chat_not_found"),
    (400, "message text is empty", ErrorClass::InvalidMessage, "text_is_empty"),
    (400, "message is too long", ErrorClass::InvalidMessage, "text_is_too_long"),
    (400, "caption is too long", ErrorClass::InvalidFormatting, "caption_is_too_long"),
    (400, "can't parse", ErrorClass::InvalidFormatting, "cannot_parse"),
    (400, "button_url_invalid", ErrorClass::InvalidMessage, "button_url_is_invalid"),
    (400, "reply markup is too long", ErrorClass::InvalidMessage, "reply_markup_is_too_long"),
    (400, "wrong type of the web page content", ErrorClass::InvalidFormatting, "photo_is_no_image"),
    (
        400,
        "failed to get http url content",
        ErrorClass::InvalidFormatting,
        "photo_cannot_be_fetched",
    ),
    (
        400,
        "wrong file identifier/http url",
        ErrorClass::InvalidFormatting,
        "photo_cannot_be_fetched",
    ),
    (400, "webpage_curl_failed", ErrorClass::InvalidFormatting, "photo_cannot_be_fetched"),
    (400, "webpage_media_empty", ErrorClass::InvalidFormatting, "photo_is_no_image"),
    (400, "image_process_failed", ErrorClass::InvalidFormatting, "photo_is_no_image"),
    (400, "photo_invalid_dimensions", ErrorClass::InvalidFormatting, "photo_has_wrong_dimensions"),
];

/// Classifies a response.
pub(super) fn classify(reply: &ProviderResponse, wall: Timestamp) -> Classification {
    let body: Option<Body> = serde_json::from_slice(&reply.body).ok();
    let Some(body) = body else {
        return plain(
            by_http_status(reply.status).with_retry_after(retry_after(&reply.headers, wall)),
        );
    };
    if body.ok {
        let id = body.result.and_then(|sent| sent.message_id);
        return plain(SendResult::Delivered { message_id: id.map(|id| id.to_string().into()) });
    }
    if let Some(to) = body.parameters.migrate_to_chat_id {
        return plain(SendResult::AddressChanged { to: to.to_string().into() });
    }
    let code = body.error_code.unwrap_or(reply.status.as_u16());
    if let Some(classification) = by_description(code, &body.description) {
        return classification;
    }
    let status = StatusCode::from_u16(code).unwrap_or(reply.status);
    let requested = body.parameters.retry_after;
    let requested = requested.map(|seconds| Duration::from_secs(seconds.min(WAIT_SECONDS_MAX)));
    let requested = requested.or_else(|| retry_after(&reply.headers, wall));
    let answer = by_status(status);
    plain(match answer {
        SendResult::Throttle { .. } => {
            answer.with_retry_after(requested.map(|requested| requested + WAIT_MORE))
        }
        answer => answer.with_retry_after(requested),
    })
}

fn plain(answer: SendResult) -> Classification {
    Classification { answer, is_formatting: false }
}

fn by_description(code: u16, description: &str) -> Option<Classification> {
    let description = description.to_ascii_lowercase();
    let (_, _, class, word) =
        ROWS.iter().find(|(of, part, _, _)| *of == code && description.contains(part))?;
    let reason = Reason::Borrowed(word);
    let dead =
        |ambiguous| SendResult::Unregistered { reason: reason.clone(), ambiguous, since: None };
    let answer = match class {
        ErrorClass::Unregistered => dead(false),
        ErrorClass::UnregisteredOrOtherBot => dead(true),
        ErrorClass::InvalidMessage | ErrorClass::InvalidFormatting => {
            SendResult::InvalidMessage { reason }
        }
    };
    Some(Classification { answer, is_formatting: matches!(class, ErrorClass::InvalidFormatting) })
}

/// Responses of Telegram that the status decides.
fn by_status(status: StatusCode) -> SendResult {
    let reason = reason_from_status(status, "");
    match status.as_u16() {
        // A revoked or malformed token; an unknown method means that the endpoint is not
        // Telegram's.
        401 | 404 => SendResult::AuthRejected { reason },
        413 => SendResult::InvalidMessage { reason },
        429 => SendResult::Throttle { reason, after: None, scope: Scope::Address },
        // A conflict between two readers of updates, which does not affect sending.
        408 | 409 | 500..=599 => SendResult::failed(reason),
        _ => SendResult::Unknown { reason },
    }
}

/// Responses without Telegram's descriptions: pages of an edge server, or of something that is not Telegram.
fn by_http_status(status: StatusCode) -> SendResult {
    let reason = reason_from_status(status, "");
    match status.as_u16() {
        // Telegram may have accepted it before the response broke off, and it
        // would not recognise a repeat.
        200 => SendResult::Retry { reason, after: None, outcome: Processing::Unknown },
        429 => SendResult::Throttle { reason, after: None, scope: Scope::Provider },
        _ => by_status(status),
    }
}
