//! Firebase Cloud Messaging, HTTP v1 (firebase.google.com, "Send messages using the FCM HTTP v1
//! API"). An OAuth2 service account authenticates us. Each device gets one request with at most 4,096
//! bytes of keys and values. `UNREGISTERED`, and an `INVALID_ARGUMENT` that names the token, mean that
//! the token is permanently invalid.

mod oauth;
#[cfg(test)]
mod tests;

pub(super) use oauth::TokenSources;
#[cfg(any(test, fuzzing))]
pub(super) use oauth::check_token_response;

use std::borrow::Cow;
use std::sync::Arc;

use http::StatusCode;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use http::uri::Uri;
use notify_core::Timestamp;
use serde::Deserialize;

use self::oauth::TokenSource;
use super::transport::{Pools, ProviderResponse, Sender};
use super::{
    Address, CredentialCheck, GappedMessage, Provider, Reason, RenderedBody, RenderedMessage,
    Scope, SendResult, attempt_deadline, message_id, reason_from_status,
};
use crate::clock::SharedClock;
use crate::outbound::retry_after;
use crate::payload::{RenderContext, TooLarge, fcm as payload};
use crate::provider_config::FcmConfig;
use crate::reasons;

/// A registration token that no app can have.
const IMPOSSIBLE_TOKEN: &str = "notify-check";
/// The request of the dry run, which Google validates and does not send: the part before the token,
/// and the part after it.
const DRY_RUN_BEFORE: &str =
    r#"{"validate_only":true,"message":{"data":{"notify":"check"},"token":""#;
const DRY_RUN_AFTER: &str = r#""}}"#;

/// FCM for one application.
pub(super) struct Fcm {
    clock: SharedClock,
    token_source: Arc<TokenSource>,
    enriched_as_data: bool,
    uri: Uri,
    sender: Sender,
}

impl Fcm {
    pub(super) fn new(
        config: &FcmConfig,
        clock: SharedClock,
        pools: &Pools,
        tokens: &TokenSources,
    ) -> Self {
        let base_url = config.base_url();
        let account = &config.service_account;
        let url = format!("{base_url}/v1/projects/{}/messages:send", account.project_id);
        let trust = config.ca_certificate.clone();
        let credential = format!("fcm {}", account.client_email);
        let sender = Sender::new(pools, &base_url, credential, trust);
        Self {
            token_source: tokens.get(config, sender.http1()),
            clock,
            enriched_as_data: config.enriched_as_data,
            uri: url.parse().expect("a base url and a project id are checked"),
            sender,
        }
    }
}

#[async_trait::async_trait]
impl Provider for Fcm {
    fn render(&self, context: &RenderContext<'_>) -> Result<RenderedMessage, TooLarge> {
        let payload = payload::render(context, self.enriched_as_data)?;
        let mut headers = HeaderMap::with_capacity(4);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        // A placeholder: it reserves the entry, so that the copy of the map for each device need not
        // grow.
        headers.insert(AUTHORIZATION, HeaderValue::from_static(""));
        let body = RenderedBody::Template(payload.body);
        Ok(RenderedMessage { headers, body })
    }

    fn render_gapped(&self, context: &RenderContext<'_>, texts: usize) -> Option<GappedMessage> {
        let (before, body) = payload::render_gapped(context, self.enriched_as_data, texts);
        let mut headers = HeaderMap::with_capacity(4);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(AUTHORIZATION, HeaderValue::from_static(""));
        Some(GappedMessage { headers, before_address: Some(before), body })
    }

    async fn attempt(&self, rendered: &RenderedMessage, to: &Address) -> SendResult {
        let (Address::Fcm { token }, RenderedBody::Template(body)) = (to, &rendered.body) else {
            return SendResult::InvalidMessage {
                reason: reasons::ADDRESS_OF_ANOTHER_PROVIDER.into(),
            };
        };
        let deadline = attempt_deadline();
        let body = body.put(token);
        let mut refused: Option<HeaderValue> = None;
        loop {
            let bearer = match self.token_source.get(&self.clock, refused.as_ref(), deadline).await
            {
                Ok(bearer) => bearer,
                Err(answer) => return answer,
            };
            let headers = || {
                let mut headers = rendered.headers.clone();
                headers.insert(AUTHORIZATION, bearer.clone());
                headers
            };
            let reply = match self.sender.post(&self.uri, headers, &body, deadline).await {
                Ok(reply) => reply,
                Err(failure) => return failure.into(),
            };
            let answer = classify(&reply, self.clock.wall());
            // Google may have revoked the token early. The message was not processed, so it is sent
            // again with a new token, once. If that is refused too, our credentials are at fault.
            let is_token_refused = reply.status == StatusCode::UNAUTHORIZED
                && !matches!(&answer, SendResult::AuthRejected { reason } if *reason == THIRD_PARTY);
            if !is_token_refused || refused.is_some() {
                return answer;
            }
            refused = Some(bearer);
        }
    }

    /// Makes a dry run (`validate_only`) to an impossible registration token. Google checks the access
    /// token, the project and the service account's role before it checks the registration token.
    async fn check(&self) -> CredentialCheck {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let (before, after) = (DRY_RUN_BEFORE.into(), DRY_RUN_AFTER.into());
        let to = Address::Fcm { token: IMPOSSIBLE_TOKEN.into() };
        let body = RenderedBody::Template(crate::payload::BodyTemplate { before, after });
        CredentialCheck::from_result(&self.attempt(&RenderedMessage { headers, body }, &to).await)
    }

    fn clock_ahead_ms(&self, wall: Timestamp) -> Option<i64> {
        let at_token_endpoint = self.token_source.remote_time().ms_behind(wall);
        at_token_endpoint.or_else(|| self.sender.remote_time().ms_behind(wall))
    }

    fn max_concurrency(&self) -> usize {
        self.sender.max_concurrency()
    }
}

// Classification of FCM's responses (Google, "FCM error codes"; deviations are noted below). The
// `errorCode` decides first, then the canonical status, then the HTTP status.

/// Google's code if it forwards the message to another push service, such as APNs, and that service refuses
/// the key that the project has stored at Google for it. A new access token would not help.
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

/// The fields of all of Google's detail types. Fields that a detail does not have stay empty.
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

    /// The first `errorCode` of the details; empty if there is none.
    fn error_code(&self) -> &str {
        self.details()
            .map(|detail| detail.error_code.as_str())
            .find(|code| !code.is_empty())
            .unwrap_or_default()
    }

    /// Whether the error is about the registration token, and not about the message.
    fn is_about_token(&self) -> bool {
        let violations: Vec<_> =
            self.details().flat_map(|detail| &detail.field_violations).collect();
        if violations.is_empty() {
            return self.message.contains("registration token");
        }
        violations.iter().any(|violation| violation.field == "message.token")
    }

    /// Whether the exceeded quota belongs to a single device or topic, and not to the project.
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
                SendResult::Delivered { message_id: success.name.as_deref().and_then(message_id) }
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

/// Classifies an error by its `errorCode`; `None` if the code is unknown or missing.
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
        "QUOTA_EXCEEDED" => throttle_by_quota(error, reason()),
        "INTERNAL" | "UNAVAILABLE" => SendResult::failed(reason()),
        "UNSPECIFIED_ERROR" => SendResult::Unknown { reason: reason() },
        _ => return None,
    };
    Some(answer)
}

/// Classifies an error by Google's canonical status; `None` if the status is unknown or missing.
fn by_canonical_status(http: StatusCode, error: &GoogleError) -> Option<SendResult> {
    let reason = || -> Reason { Cow::Owned(error.status.clone()) };
    let answer = match (http.as_u16(), error.status.as_str()) {
        (400, "INVALID_ARGUMENT") => invalid_argument(error),
        (401, "UNAUTHENTICATED") | (403, "PERMISSION_DENIED") | (404, "NOT_FOUND") => {
            SendResult::AuthRejected { reason: reason() }
        }
        (429, "RESOURCE_EXHAUSTED") => throttle_by_quota(error, reason()),
        (500, "INTERNAL") | (503, "UNAVAILABLE") => SendResult::failed(reason()),
        _ => return None,
    };
    Some(answer)
}

/// Classifies a response without Google's codes: an edge server sent it, or the endpoint is not FCM.
fn by_http_status(http: StatusCode, error: &GoogleError) -> SendResult {
    let reason = reason_from_status(http, &error.status);
    match http.as_u16() {
        // The project or the endpoint is wrong. Without a code this never means an unregistered token.
        401 | 404 => SendResult::AuthRejected { reason },
        413 => SendResult::InvalidMessage { reason },
        429 => throttle_by_quota(error, reason),
        408 | 500..=599 => SendResult::failed(reason),
        _ => SendResult::Unknown { reason },
    }
}

/// Classifies an `INVALID_ARGUMENT`: either the registration token or the message is invalid.
fn invalid_argument(error: &GoogleError) -> SendResult {
    let reason = Reason::Borrowed("INVALID_ARGUMENT");
    if error.is_about_token() {
        SendResult::Unregistered { reason, ambiguous: true, since: None }
    } else {
        SendResult::InvalidMessage { reason }
    }
}

/// The throttle for an exceeded quota, of one address or of the whole project.
fn throttle_by_quota(error: &GoogleError, reason: Reason) -> SendResult {
    let scope = if error.is_quota_of_address() { Scope::Address } else { Scope::Provider };
    SendResult::Throttle { reason, after: None, scope }
}
