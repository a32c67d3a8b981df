//! The answers of FCM (Google, "FCM error codes"; B39 and B40 where they differ), as one pure
//! function: `errorCode` first, then the canonical status, then the HTTP status.

use std::borrow::Cow;

use http::StatusCode;
use notify_core::Timestamp;
use serde::Deserialize;

use crate::outbound::retry_after;
use crate::providers::transport::Reply;
use crate::providers::word;
use crate::providers::{Answer, Reason, Scope};

/// The key of another push service that is stored at Google is refused; a fresh token is no help.
pub(super) const THIRD_PARTY: &str = "THIRD_PARTY_AUTH_ERROR";

/// Most details of an error that are looked at.
const DETAILS_MAX: usize = 16;

#[derive(Default, Deserialize)]
struct Success {
    name: Option<String>,
}

#[derive(Default, Deserialize)]
struct Failed {
    #[serde(default)]
    error: GoogleError,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct GoogleError {
    status: String,
    message: String,
    details: Vec<Detail>,
}

/// Any of Google's detail types; the fields of the others stay empty.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Detail {
    #[serde(rename = "errorCode")]
    error_code: String,
    #[serde(rename = "fieldViolations")]
    field_violations: Vec<FieldViolation>,
    violations: Vec<QuotaViolation>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct FieldViolation {
    field: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct QuotaViolation {
    subject: String,
}

impl GoogleError {
    fn details(&self) -> impl Iterator<Item = &Detail> {
        self.details.iter().take(DETAILS_MAX)
    }

    fn error_code(&self) -> &str {
        self.details()
            .map(|detail| detail.error_code.as_str())
            .find(|code| !code.is_empty())
            .unwrap_or_default()
    }

    /// Whether it is the registration token that is invalid, not the message.
    fn names_the_token(&self) -> bool {
        let fields = || self.details().flat_map(|detail| &detail.field_violations);
        let names_field = fields().any(|violation| violation.field == "message.token");
        names_field || (self.message.contains("registration token") && fields().next().is_none())
    }

    /// Whether a quota is a single device's or topic's, not the project's.
    fn is_quota_of_address(&self) -> bool {
        self.details().flat_map(|detail| &detail.violations).any(|violation| {
            let subject = violation.subject.to_ascii_lowercase();
            ["device", "token", "topic"].iter().any(|word| subject.contains(word))
        })
    }
}

/// What an answer means.
pub(super) fn classify(reply: &Reply, wall: Timestamp) -> Answer {
    if reply.status == StatusCode::OK {
        // A page that is no JSON did not come from FCM.
        return match serde_json::from_slice::<Success>(&reply.body) {
            Ok(success) => {
                Answer::Delivered { message_id: success.name.map(String::into_boxed_str) }
            }
            Err(_) => Answer::Unknown { reason: word(reply.status, "") },
        };
    }
    let failed: Failed = serde_json::from_slice(&reply.body).unwrap_or_default();
    let error = failed.error;
    by_error_code(&error)
        .or_else(|| by_canonical_status(reply.status, &error))
        .unwrap_or_else(|| by_http_status(reply.status, &error))
        .waiting(retry_after(&reply.headers, wall))
}

fn by_error_code(error: &GoogleError) -> Option<Answer> {
    let code = error.error_code();
    let reason = || -> Reason { Cow::Owned(code.to_owned()) };
    let answer = match code {
        "UNREGISTERED" => Answer::TokenDead { reason: reason(), ambiguous: false, since: None },
        "INVALID_ARGUMENT" => invalid_argument(error),
        "SENDER_ID_MISMATCH" => Answer::BadMessage { reason: reason() },
        THIRD_PARTY => Answer::Config { reason: Reason::Borrowed(THIRD_PARTY) },
        "QUOTA_EXCEEDED" => quota(error, reason()),
        "INTERNAL" | "UNAVAILABLE" => Answer::failed(reason()),
        "UNSPECIFIED_ERROR" => Answer::Unknown { reason: reason() },
        _ => return None,
    };
    Some(answer)
}

fn by_canonical_status(http: StatusCode, error: &GoogleError) -> Option<Answer> {
    let reason = || -> Reason { Cow::Owned(error.status.clone()) };
    let answer = match (http.as_u16(), error.status.as_str()) {
        (400, "INVALID_ARGUMENT") => invalid_argument(error),
        (401, "UNAUTHENTICATED") | (403, "PERMISSION_DENIED") | (404, "NOT_FOUND") => {
            Answer::Config { reason: reason() }
        }
        (429, "RESOURCE_EXHAUSTED") => quota(error, reason()),
        (500, "INTERNAL") | (503, "UNAVAILABLE") => Answer::failed(reason()),
        _ => return None,
    };
    Some(answer)
}

/// Answers without Google's words: pages of an edge server, or of something that is not FCM.
fn by_http_status(http: StatusCode, error: &GoogleError) -> Answer {
    let reason = word(http, &error.status);
    match http.as_u16() {
        // A wrong project or endpoint, never a dead token (B40).
        401 | 404 => Answer::Config { reason },
        413 => Answer::BadMessage { reason },
        429 => quota(error, reason),
        408 | 500..=599 => Answer::failed(reason),
        _ => Answer::Unknown { reason },
    }
}

fn invalid_argument(error: &GoogleError) -> Answer {
    let reason = Reason::Borrowed("INVALID_ARGUMENT");
    if error.names_the_token() {
        Answer::TokenDead { reason, ambiguous: true, since: None }
    } else {
        Answer::BadMessage { reason }
    }
}

fn quota(error: &GoogleError, reason: Reason) -> Answer {
    let scope = if error.is_quota_of_address() { Scope::Address } else { Scope::Provider };
    Answer::Throttle { reason, after: None, scope }
}
