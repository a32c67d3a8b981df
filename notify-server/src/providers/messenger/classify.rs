//! Classifies the responses of the Send API (Meta, "Error Codes"; deviations are noted below), as one pure
//! function: code and subcode of the Graph error first, then the HTTP status.

use http::StatusCode;
use notify_core::Timestamp;
use serde::Deserialize;

use crate::outbound::retry_after;
use crate::providers::reason_from_status;
use crate::providers::transport::ProviderResponse;
use crate::providers::{Processing, Reason, Scope, SendResult};

/// The person's last message is too old for the page to write.
pub(super) const OUTSIDE_WINDOW: &str = "outside_messaging_window";

#[derive(Deserialize)]
struct Success {
    message_id: Option<String>,
}

#[derive(Deserialize)]
struct Failed {
    error: GraphError,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct GraphError {
    code: u64,
    error_subcode: u64,
}

/// The class of a row of the table.
#[derive(Clone, Copy)]
enum ErrorClass {
    Retry,
    Throttle,
    AuthRejected,
    NotPermitted,
    Unregistered,
    InvalidMessage,
}

/// The subcodes that a row matches.
enum SubcodeMatch {
    Is(u64),
    None,
    Any,
}

/// Code, subcode, class and reason. The first matching row decides.
///
/// Of all errors about a person who cannot be reached, only "no such user" disables the device.
/// A blocked page (551, 200/1545041) and a person who cannot receive messages
/// (10/2018108) fail the delivery and keep the device, however often: the person can revert either
/// without notice, and the 24-hour window ends the attempts soon.
const ROWS: &[(u64, SubcodeMatch, ErrorClass, &str)] = &[
    (1200, SubcodeMatch::Any, ErrorClass::Retry, "temporarily_unavailable"),
    // Also reported for some people who blocked the page. Retries end within a day; an outage lasts hours.
    (2, SubcodeMatch::Any, ErrorClass::Retry, "service_unavailable"),
    (1, SubcodeMatch::Is(99), ErrorClass::AuthRejected, "permission_missing"),
    (1, SubcodeMatch::Any, ErrorClass::Retry, "unknown_error"),
    (4, SubcodeMatch::Is(2_018_022), ErrorClass::Throttle, "phone_number_limit"),
    (4, SubcodeMatch::Any, ErrorClass::Throttle, "app_limit"),
    (17, SubcodeMatch::Any, ErrorClass::Throttle, "user_limit"),
    (32, SubcodeMatch::Any, ErrorClass::Throttle, "page_limit"),
    // The messages bother this person: no retry.
    (613, SubcodeMatch::Is(1_893_016), ErrorClass::NotPermitted, "abuse_warning"),
    (613, SubcodeMatch::Any, ErrorClass::Throttle, "custom_limit"),
    (80_006, SubcodeMatch::Any, ErrorClass::Throttle, "messenger_limit"),
    (10, SubcodeMatch::Is(2_018_278), ErrorClass::NotPermitted, OUTSIDE_WINDOW),
    (10, SubcodeMatch::Is(2_018_065), ErrorClass::NotPermitted, OUTSIDE_WINDOW),
    (10, SubcodeMatch::Is(2_018_108), ErrorClass::NotPermitted, "person_cannot_receive"),
    (10, SubcodeMatch::None, ErrorClass::AuthRejected, "permission_missing"),
    (551, SubcodeMatch::Any, ErrorClass::NotPermitted, "person_not_available"),
    (200, SubcodeMatch::Is(1_545_041), ErrorClass::NotPermitted, "person_not_available"),
    (200, SubcodeMatch::Is(2_018_028), ErrorClass::AuthRejected, "app_not_live"),
    (200, SubcodeMatch::Is(2_018_027), ErrorClass::AuthRejected, "permission_missing"),
    (200, SubcodeMatch::Is(2_018_021), ErrorClass::AuthRejected, "permission_missing"),
    (200, SubcodeMatch::None, ErrorClass::AuthRejected, "permission_missing"),
    (230, SubcodeMatch::Any, ErrorClass::AuthRejected, "permission_missing"),
    (100, SubcodeMatch::Is(2_018_001), ErrorClass::Unregistered, "no_such_user"),
    (100, SubcodeMatch::Is(2_018_109), ErrorClass::InvalidMessage, "attachment_too_large"),
    (100, SubcodeMatch::Is(2_018_034), ErrorClass::InvalidMessage, "message_empty"),
    (100, SubcodeMatch::Any, ErrorClass::InvalidMessage, "invalid_parameter"),
    (190, SubcodeMatch::Any, ErrorClass::AuthRejected, "access_token_refused"),
    (368, SubcodeMatch::Any, ErrorClass::AuthRejected, "blocked_for_policy"),
];

/// Classifies a response.
pub(super) fn classify(reply: &ProviderResponse, wall: Timestamp) -> SendResult {
    if reply.status == StatusCode::OK {
        return match serde_json::from_slice::<Success>(&reply.body) {
            Ok(success) => {
                SendResult::Delivered { message_id: success.message_id.map(String::into_boxed_str) }
            }
            // Meta may have accepted it before the response broke off, and it
            // would not recognise a repeat.
            Err(_) => SendResult::Retry {
                reason: reason_from_status(reply.status, ""),
                after: None,
                outcome: Processing::Unknown,
            },
        };
    }
    let failed: Option<Failed> = serde_json::from_slice(&reply.body).ok();
    let answer = match &failed {
        Some(Failed { error }) => {
            by_code(error).unwrap_or_else(|| by_unknown_code(reply.status, error))
        }
        None => by_http_status(reply.status),
    };
    answer.with_retry_after(retry_after(&reply.headers, wall))
}

fn by_code(error: &GraphError) -> Option<SendResult> {
    let (_, _, class, word) = ROWS.iter().find(|(code, sub, _, _)| {
        let is_sub = match sub {
            SubcodeMatch::Is(sub) => error.error_subcode == *sub,
            SubcodeMatch::None => error.error_subcode == 0,
            SubcodeMatch::Any => true,
        };
        error.code == *code && is_sub
    })?;
    let reason: Reason = match error.error_subcode {
        0 => format!("{word} ({})", error.code).into(),
        subcode => format!("{word} ({}/{subcode})", error.code).into(),
    };
    Some(match class {
        ErrorClass::Retry => SendResult::failed(reason),
        ErrorClass::Throttle => {
            SendResult::Throttle { reason, after: None, scope: Scope::Provider }
        }
        ErrorClass::AuthRejected => SendResult::AuthRejected { reason },
        ErrorClass::NotPermitted => SendResult::NotPermitted { reason },
        // The ids of people belong to a page: another page's token knows none of them.
        ErrorClass::Unregistered => {
            SendResult::Unregistered { reason, ambiguous: true, since: None }
        }
        ErrorClass::InvalidMessage => SendResult::InvalidMessage { reason },
    })
}

/// A Graph error that is not in the table.
fn by_unknown_code(http: StatusCode, error: &GraphError) -> SendResult {
    let reason = reason_from_status(http, &format!("code_{}_{}", error.code, error.error_subcode));
    match http.as_u16() {
        429 => SendResult::Throttle { reason, after: None, scope: Scope::Provider },
        408 | 500..=599 => SendResult::failed(reason),
        _ => SendResult::Unknown { reason },
    }
}

/// Responses without Meta's codes: pages of an edge server, or of something that is not Meta.
fn by_http_status(http: StatusCode) -> SendResult {
    let reason = reason_from_status(http, "");
    match http.as_u16() {
        // A wrong endpoint, never a dead address.
        401 | 404 => SendResult::AuthRejected { reason },
        413 => SendResult::InvalidMessage { reason },
        429 => SendResult::Throttle { reason, after: None, scope: Scope::Provider },
        408 | 500..=599 => SendResult::failed(reason),
        _ => SendResult::Unknown { reason },
    }
}
