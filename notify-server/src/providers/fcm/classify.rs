//! Classifies the responses of FCM (Google, "FCM error codes"; deviations are noted below), as one pure
//! function: `errorCode` first, then the canonical status, then the HTTP status.

use std::borrow::Cow;

use http::StatusCode;
use notify_core::Timestamp;
use serde::Deserialize;

use crate::outbound::retry_after;
use crate::providers::reason_from_status;
use crate::providers::transport::ProviderResponse;
use crate::providers::{Reason, Scope, SendResult};

/// A key of another push service that is stored at Google was refused; a new token would not help.
pub(super) const THIRD_PARTY: &str = "THIRD_PARTY_AUTH_ERROR";

/// Most details of an error that are read.
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

/// Classifies a response.
pub(super) fn classify(reply: &ProviderResponse, wall: Timestamp) -> SendResult {
    if reply.status == StatusCode::OK {
        // A body that is not JSON did not come from FCM.
        return match serde_json::from_slice::<Success>(&reply.body) {
            Ok(success) => {
                SendResult::Delivered { message_id: success.name.map(String::into_boxed_str) }
            }
            Err(_) => SendResult::Unknown { reason: reason_from_status(reply.status, "") },
        };
    }
    let failed: Failed = serde_json::from_slice(&reply.body).unwrap_or_default();
    let error = failed.error;
    by_error_code(&error)
        .or_else(|| by_canonical_status(reply.status, &error))
        .unwrap_or_else(|| by_http_status(reply.status, &error))
        .with_retry_after(retry_after(&reply.headers, wall))
}

fn by_error_code(error: &GoogleError) -> Option<SendResult> {
    let code = error.error_code();
    let reason = || -> Reason { Cow::Owned(code.to_owned()) };
    let answer = match code {
        "UNREGISTERED" => {
            SendResult::Unregistered { reason: reason(), ambiguous: false, since: None }
        }
        "INVALID_ARGUMENT" => invalid_argument(error),
        "SENDER_ID_MISMATCH" => SendResult::InvalidMessage { reason: reason() },
        THIRD_PARTY => SendResult::AuthRejected { reason: Reason::Borrowed(THIRD_PARTY) },
        "QUOTA_EXCEEDED" => quota(error, reason()),
        "INTERNAL" | "UNAVAILABLE" => SendResult::failed(reason()),
        "UNSPECIFIED_ERROR" => SendResult::Unknown { reason: reason() },
        _ => return None,
    };
    Some(answer)
}

fn by_canonical_status(http: StatusCode, error: &GoogleError) -> Option<SendResult> {
    let reason = || -> Reason { Cow::Owned(error.status.clone()) };
    let answer = match (http.as_u16(), error.status.as_str()) {
        (400, "INVALID_ARGUMENT") => invalid_argument(error),
        (401, "UNAUTHENTICATED") | (403, "PERMISSION_DENIED") | (404, "NOT_FOUND") => {
            SendResult::AuthRejected { reason: reason() }
        }
        (429, "RESOURCE_EXHAUSTED") => quota(error, reason()),
        (500, "INTERNAL") | (503, "UNAVAILABLE") => SendResult::failed(reason()),
        _ => return None,
    };
    Some(answer)
}

/// Responses without Google's codes: pages of an edge server, or of something that is not FCM.
fn by_http_status(http: StatusCode, error: &GoogleError) -> SendResult {
    let reason = reason_from_status(http, &error.status);
    match http.as_u16() {
        // A wrong project or endpoint, never an unregistered token.
        401 | 404 => SendResult::AuthRejected { reason },
        413 => SendResult::InvalidMessage { reason },
        429 => quota(error, reason),
        408 | 500..=599 => SendResult::failed(reason),
        _ => SendResult::Unknown { reason },
    }
}

fn invalid_argument(error: &GoogleError) -> SendResult {
    let reason = Reason::Borrowed("INVALID_ARGUMENT");
    if error.names_the_token() {
        SendResult::Unregistered { reason, ambiguous: true, since: None }
    } else {
        SendResult::InvalidMessage { reason }
    }
}

fn quota(error: &GoogleError, reason: Reason) -> SendResult {
    let scope = if error.is_quota_of_address() { Scope::Address } else { Scope::Provider };
    SendResult::Throttle { reason, after: None, scope }
}
