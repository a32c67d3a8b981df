//! The answers of the Send API (Meta, "Error Codes"; B39 and B40 where they differ), as one pure
//! function: code and subcode of the Graph error first, then the HTTP status.

use http::StatusCode;
use notify_core::Timestamp;
use serde::Deserialize;

use crate::outbound::retry_after;
use crate::providers::transport::Reply;
use crate::providers::word;
use crate::providers::{Answer, Certainty, Reason, Scope};

/// The person wrote too long ago for the page to write first.
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

/// What a row of the table comes to.
#[derive(Clone, Copy)]
enum Class {
    Retry,
    Throttle,
    Config,
    Policy,
    Dead,
    Bad,
}

/// Which subcodes a row is for.
enum Sub {
    Is(u64),
    None,
    Any,
}

/// Code, subcode, what it comes to, and a word for it. The first row that fits decides.
///
/// Of what Meta may mean by a person who cannot be reached, B40 disables the device for no such
/// user alone. A blocked page (551, 200/1545041) and a person who cannot receive messages
/// (10/2018108) fail the delivery and keep the device, however often: the person takes either back
/// without a word to us, and the 24-hour window ends the tries soon enough.
const ROWS: &[(u64, Sub, Class, &str)] = &[
    (1200, Sub::Any, Class::Retry, "temporarily_unavailable"),
    // Said of some who blocked the page, too. B39 ends it within a day; an outage lasts hours.
    (2, Sub::Any, Class::Retry, "service_unavailable"),
    (1, Sub::Is(99), Class::Config, "permission_missing"),
    (1, Sub::Any, Class::Retry, "unknown_error"),
    (4, Sub::Is(2_018_022), Class::Throttle, "phone_number_limit"),
    (4, Sub::Any, Class::Throttle, "app_limit"),
    (17, Sub::Any, Class::Throttle, "user_limit"),
    (32, Sub::Any, Class::Throttle, "page_limit"),
    // What is sent bothers this person: no more of it, and no retry.
    (613, Sub::Is(1_893_016), Class::Policy, "abuse_warning"),
    (613, Sub::Any, Class::Throttle, "custom_limit"),
    (80_006, Sub::Any, Class::Throttle, "messenger_limit"),
    (10, Sub::Is(2_018_278), Class::Policy, OUTSIDE_WINDOW),
    (10, Sub::Is(2_018_065), Class::Policy, OUTSIDE_WINDOW),
    (10, Sub::Is(2_018_108), Class::Policy, "person_cannot_receive"),
    (10, Sub::None, Class::Config, "permission_missing"),
    (551, Sub::Any, Class::Policy, "person_not_available"),
    (200, Sub::Is(1_545_041), Class::Policy, "person_not_available"),
    (200, Sub::Is(2_018_028), Class::Config, "app_not_live"),
    (200, Sub::Is(2_018_027), Class::Config, "permission_missing"),
    (200, Sub::Is(2_018_021), Class::Config, "permission_missing"),
    (200, Sub::None, Class::Config, "permission_missing"),
    (230, Sub::Any, Class::Config, "permission_missing"),
    (100, Sub::Is(2_018_001), Class::Dead, "no_such_user"),
    (100, Sub::Is(2_018_109), Class::Bad, "attachment_too_large"),
    (100, Sub::Is(2_018_034), Class::Bad, "message_empty"),
    (100, Sub::Any, Class::Bad, "invalid_parameter"),
    (190, Sub::Any, Class::Config, "access_token_refused"),
    (368, Sub::Any, Class::Config, "blocked_for_policy"),
];

/// What an answer means.
pub(super) fn classify(reply: &Reply, wall: Timestamp) -> Answer {
    if reply.status == StatusCode::OK {
        return match serde_json::from_slice::<Success>(&reply.body) {
            Ok(success) => {
                Answer::Delivered { message_id: success.message_id.map(String::into_boxed_str) }
            }
            // Meta may have taken it before something between us broke the answer off, and it
            // would not know a repeat (B39).
            Err(_) => Answer::Retry {
                reason: word(reply.status, ""),
                after: None,
                outcome: Certainty::Unknown,
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
    answer.waiting(retry_after(&reply.headers, wall))
}

fn by_code(error: &GraphError) -> Option<Answer> {
    let (_, _, class, word) = ROWS.iter().find(|(code, sub, _, _)| {
        let is_sub = match sub {
            Sub::Is(sub) => error.error_subcode == *sub,
            Sub::None => error.error_subcode == 0,
            Sub::Any => true,
        };
        error.code == *code && is_sub
    })?;
    let reason: Reason = match error.error_subcode {
        0 => format!("{word} ({})", error.code).into(),
        subcode => format!("{word} ({}/{subcode})", error.code).into(),
    };
    Some(match class {
        Class::Retry => Answer::failed(reason),
        Class::Throttle => Answer::Throttle { reason, after: None, scope: Scope::Provider },
        Class::Config => Answer::Config { reason },
        Class::Policy => Answer::Policy { reason },
        // The ids of people belong to a page: another page's token knows none of them.
        Class::Dead => Answer::TokenDead { reason, ambiguous: true, since: None },
        Class::Bad => Answer::BadMessage { reason },
    })
}

/// A Graph error that is not in the table.
fn by_unknown_code(http: StatusCode, error: &GraphError) -> Answer {
    let reason = word(http, &format!("code_{}_{}", error.code, error.error_subcode));
    match http.as_u16() {
        429 => Answer::Throttle { reason, after: None, scope: Scope::Provider },
        408 | 500..=599 => Answer::failed(reason),
        _ => Answer::Unknown { reason },
    }
}

/// Answers without Meta's words: pages of an edge server, or of something that is not Meta.
fn by_http_status(http: StatusCode) -> Answer {
    let reason = word(http, "");
    match http.as_u16() {
        // A wrong endpoint, never a dead address.
        401 | 404 => Answer::Config { reason },
        413 => Answer::BadMessage { reason },
        429 => Answer::Throttle { reason, after: None, scope: Scope::Provider },
        408 | 500..=599 => Answer::failed(reason),
        _ => Answer::Unknown { reason },
    }
}
