//! The answers of the Bot API (Telegram, "Making requests"; B39 and B40 where they differ), as one
//! pure function. Its errors have no codes beyond the HTTP status: the description tells.

use std::time::Duration;

use http::StatusCode;
use notify_core::Timestamp;
use serde::Deserialize;

use crate::outbound::retry_after;
use crate::providers::transport::Reply;
use crate::providers::word;
use crate::providers::{Answer, Certainty, Reason, Scope};

/// Added to what Telegram asks for, since it counts whole seconds.
const WAIT_MORE: Duration = Duration::from_secs(1);
/// Longest wait that Telegram is granted, in seconds (B39).
const WAIT_SECONDS_MAX: u64 = 86_400;

/// What an answer means.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    /// Its meaning.
    pub(super) answer: Answer,
    /// Whether only the photo or the markup was refused, so that a plain text may pass.
    pub(super) is_about_looks: bool,
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

/// What a description comes to.
#[derive(Clone, Copy)]
enum Class {
    Dead,
    /// Dead, unless the token is another bot's: that one knows none of our chats.
    DeadOrOtherBot,
    Bad,
    /// Bad for its photo or its markup.
    BadLooks,
}

/// Status, a part of the description in lower case, what it comes to, and a word for it.
const ROWS: &[(u16, &str, Class, &str)] = &[
    (403, "bot was blocked by the user", Class::Dead, "bot_was_blocked"),
    (403, "user is deactivated", Class::Dead, "user_is_deactivated"),
    (403, "bot was kicked", Class::Dead, "bot_was_kicked"),
    (403, "bot is not a member", Class::Dead, "bot_is_not_a_member"),
    (403, "group chat was deleted", Class::Dead, "chat_was_deleted"),
    (403, "bot can't initiate conversation", Class::DeadOrOtherBot, "chat_was_never_started"),
    (400, "chat not found", Class::DeadOrOtherBot, "chat_not_found"),
    (400, "message text is empty", Class::Bad, "text_is_empty"),
    (400, "message is too long", Class::Bad, "text_is_too_long"),
    (400, "caption is too long", Class::BadLooks, "caption_is_too_long"),
    (400, "can't parse", Class::BadLooks, "cannot_parse"),
    (400, "button_url_invalid", Class::Bad, "button_url_is_invalid"),
    (400, "reply markup is too long", Class::Bad, "reply_markup_is_too_long"),
    (400, "wrong type of the web page content", Class::BadLooks, "photo_is_no_image"),
    (400, "failed to get http url content", Class::BadLooks, "photo_cannot_be_fetched"),
    (400, "wrong file identifier/http url", Class::BadLooks, "photo_cannot_be_fetched"),
    (400, "webpage_curl_failed", Class::BadLooks, "photo_cannot_be_fetched"),
    (400, "webpage_media_empty", Class::BadLooks, "photo_is_no_image"),
    (400, "image_process_failed", Class::BadLooks, "photo_is_no_image"),
    (400, "photo_invalid_dimensions", Class::BadLooks, "photo_has_wrong_dimensions"),
];

/// What an answer means.
pub(super) fn classify(reply: &Reply, wall: Timestamp) -> Verdict {
    let body: Option<Body> = serde_json::from_slice(&reply.body).ok();
    let Some(body) = body else {
        return plain(by_http_status(reply.status).waiting(retry_after(&reply.headers, wall)));
    };
    if body.ok {
        let id = body.result.and_then(|sent| sent.message_id);
        return plain(Answer::Delivered { message_id: id.map(|id| id.to_string().into()) });
    }
    if let Some(to) = body.parameters.migrate_to_chat_id {
        return plain(Answer::Moved { to: to.to_string().into() });
    }
    let code = body.error_code.unwrap_or(reply.status.as_u16());
    if let Some(verdict) = by_description(code, &body.description) {
        return verdict;
    }
    let status = StatusCode::from_u16(code).unwrap_or(reply.status);
    let asked = body.parameters.retry_after;
    let asked = asked.map(|seconds| Duration::from_secs(seconds.min(WAIT_SECONDS_MAX)));
    let asked = asked.or_else(|| retry_after(&reply.headers, wall));
    let answer = by_status(status);
    plain(match answer {
        Answer::Throttle { .. } => answer.waiting(asked.map(|asked| asked + WAIT_MORE)),
        answer => answer.waiting(asked),
    })
}

fn plain(answer: Answer) -> Verdict {
    Verdict { answer, is_about_looks: false }
}

fn by_description(code: u16, description: &str) -> Option<Verdict> {
    let description = description.to_ascii_lowercase();
    let (_, _, class, word) =
        ROWS.iter().find(|(of, part, _, _)| *of == code && description.contains(part))?;
    let reason = Reason::Borrowed(word);
    let dead = |ambiguous| Answer::TokenDead { reason: reason.clone(), ambiguous, since: None };
    let answer = match class {
        Class::Dead => dead(false),
        Class::DeadOrOtherBot => dead(true),
        Class::Bad | Class::BadLooks => Answer::BadMessage { reason },
    };
    Some(Verdict { answer, is_about_looks: matches!(class, Class::BadLooks) })
}

/// Answers of Telegram that are told by their status.
fn by_status(status: StatusCode) -> Answer {
    let reason = word(status, "");
    match status.as_u16() {
        // A revoked or malformed token; a method that is not there is an endpoint that is not
        // Telegram's.
        401 | 404 => Answer::Config { reason },
        413 => Answer::BadMessage { reason },
        429 => Answer::Throttle { reason, after: None, scope: Scope::Address },
        // Two readers of updates are in each other's way, which is no matter of sending.
        408 | 409 | 500..=599 => Answer::failed(reason),
        _ => Answer::Unknown { reason },
    }
}

/// Answers without Telegram's words: pages of an edge server, or of something that is not Telegram.
fn by_http_status(status: StatusCode) -> Answer {
    let reason = word(status, "");
    match status.as_u16() {
        // Telegram may have taken it before something between us broke the answer off, and it
        // would not know a repeat (B39).
        200 => Answer::Retry { reason, after: None, outcome: Certainty::Unknown },
        429 => Answer::Throttle { reason, after: None, scope: Scope::Provider },
        _ => by_status(status),
    }
}
