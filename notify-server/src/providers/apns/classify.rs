//! Classifies the responses of APNs (Apple, "Handling notification responses from APNs"; deviations are
//! noted below), as one pure function.

use std::borrow::Cow;

use http::{HeaderMap, StatusCode};
use notify_core::Timestamp;
use serde::Deserialize;

use crate::outbound::retry_after;
use crate::providers::reason_from_status;
use crate::providers::{Reason, Scope, SendResult};

/// A problem on our side that the response reports, apart from the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Nothing.
    None,
    /// The provider token is too old.
    TokenExpired,
    /// The provider token changes too often.
    TooManyTokens,
    /// The connection belongs to another key.
    WrongConnection,
    /// The connection is about to end.
    ConnectionEnds,
}

/// The body of an error.
#[derive(Default, Deserialize)]
struct Body<'a> {
    #[serde(borrow, default)]
    reason: Option<Cow<'a, str>>,
    #[serde(default)]
    timestamp: Option<serde_json::Value>,
}

/// Classifies a response.
pub(super) fn classify(
    status: &StatusCode,
    headers: &HeaderMap,
    body: &[u8],
    wall: Timestamp,
) -> (SendResult, Refusal) {
    if *status == StatusCode::OK {
        let id = headers.get(crate::payload::apns::ID).and_then(|id| id.to_str().ok());
        return (SendResult::Delivered { message_id: id.map(Box::from) }, Refusal::None);
    }
    let body: Body<'_> = serde_json::from_slice(body).unwrap_or_default();
    let reason = body.reason.as_deref().unwrap_or_default();
    let refusal = refusal(status.as_u16(), reason);
    let answer = known(status.as_u16(), reason, body.timestamp.as_ref(), wall)
        .unwrap_or_else(|| by_status(*status, reason));
    (answer.with_retry_after(retry_after(headers, wall)), refusal)
}

fn refusal(status: u16, reason: &str) -> Refusal {
    match (status, reason) {
        (403, "ExpiredProviderToken") => Refusal::TokenExpired,
        (
            403,
            "UnrelatedKeyIdInToken" | "BadEnvironmentKeyIdInToken" | "BadEnvironmentKeyInToken",
        ) => Refusal::WrongConnection,
        (429, "TooManyProviderTokenUpdates") => Refusal::TooManyTokens,
        (400, "IdleTimeout") | (503, "Shutdown") => Refusal::ConnectionEnds,
        _ => Refusal::None,
    }
}

/// Apple's table.
fn known(
    status: u16,
    reason: &str,
    timestamp: Option<&serde_json::Value>,
    wall: Timestamp,
) -> Option<SendResult> {
    let owned = |reason: &str| -> Reason { Cow::Owned(reason.to_owned()) };
    let answer = match (status, reason) {
        (400, "BadDeviceToken") => {
            SendResult::Unregistered { reason: owned(reason), ambiguous: true, since: None }
        }
        (410, "Unregistered" | "ExpiredToken") => {
            let since = timestamp.and_then(|timestamp| since(timestamp, wall));
            SendResult::Unregistered { reason: owned(reason), ambiguous: false, since }
        }
        (400, "MissingTopic" | "BadTopic" | "TopicDisallowed")
        | (
            403,
            "ExpiredProviderToken"
            | "InvalidProviderToken"
            | "MissingProviderToken"
            | "BadCertificate"
            | "BadCertificateEnvironment"
            | "Forbidden"
            | "UnrelatedKeyIdInToken"
            | "BadEnvironmentKeyIdInToken"
            | "BadEnvironmentKeyInToken",
        ) => SendResult::AuthRejected { reason: owned(reason) },
        (
            400,
            "DeviceTokenNotForTopic"
            | "BadCollapseId"
            | "BadExpirationDate"
            | "BadMessageId"
            | "BadPriority"
            | "InvalidPushType"
            | "DuplicateHeaders"
            | "PayloadEmpty"
            | "MissingDeviceToken",
        )
        | (404, "BadPath")
        | (405, "MethodNotAllowed")
        | (413, "PayloadTooLarge") => SendResult::InvalidMessage { reason: owned(reason) },
        (400, "IdleTimeout")
        | (500, "InternalServerError")
        | (503, "ServiceUnavailable" | "Shutdown") => SendResult::failed(owned(reason)),
        (429, "TooManyRequests") => {
            SendResult::Throttle { reason: owned(reason), after: None, scope: Scope::Address }
        }
        (429, "TooManyProviderTokenUpdates") => {
            SendResult::Throttle { reason: owned(reason), after: None, scope: Scope::Provider }
        }
        _ => return None,
    };
    Some(answer)
}

/// Responses that are not in the table: pages of an edge server, or a newer APNs.
fn by_status(status: StatusCode, reason: &str) -> SendResult {
    let reason = reason_from_status(status, reason);
    match status.as_u16() {
        413 => SendResult::InvalidMessage { reason },
        429 => SendResult::Throttle { reason, after: None, scope: Scope::Provider },
        408 | 500..=599 => SendResult::failed(reason),
        _ => SendResult::Unknown { reason },
    }
}

/// When the token became invalid. A time ahead of ours counts as now: it must not disable a device that
/// registers in between.
fn since(timestamp: &serde_json::Value, wall: Timestamp) -> Option<Timestamp> {
    let ms = timestamp.as_i64().filter(|ms| *ms >= 0);
    ms.map(|ms| Timestamp(ms).min(wall))
}
