//! One attempt: a signed POST to an address that the guard for outgoing connections allows, and its
//! result. Only the status and `Retry-After` of the response are read.

use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use notify_core::{AppId, WebhookData, WebhookId};
use tokio::time::Instant;
use zeroize::Zeroizing;

use super::schedule::{self, FailedAttempt};
use super::{Deps, body};
use crate::clock::SharedClock;
use crate::outbound::{Outbound, retry_after};
use crate::providers::{
    ADDRESS_NOT_ALLOWED, CONNECT_FAILED, CONNECT_TIMED_OUT, Http1, PROXY_FAILED, TransportError,
};
use crate::secrets::{MasterKey, SecretError};
use crate::store::{ClaimedMessage, ClaimedWebhook, MessageStep, SealedSecret, WEBHOOK_GONE};

/// Longest duration of an attempt, including the connection (Standard Webhooks recommends 15 to 30
/// s).
pub(super) const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(20);

const ID: HeaderName = HeaderName::from_static("webhook-id");
const TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");
const AGENT: HeaderValue = HeaderValue::from_static(concat!("notify/", env!("CARGO_PKG_VERSION")));

/// Makes attempts.
pub(super) struct Attempts {
    clock: SharedClock,
    guard: Outbound,
    master_key: Arc<MasterKey>,
    http: Http1,
}

/// The result of an attempt.
#[derive(Debug, PartialEq)]
pub(super) struct AttemptResult {
    pub(super) step: MessageStep,
    pub(super) status: Option<u16>,
    pub(super) reason: Option<&'static str>,
    /// Whether the endpoint responded with 410, which disables the webhook.
    pub(super) is_gone: bool,
}

/// The result of a POST.
enum PostResult {
    Response {
        status: StatusCode,
        retry_after: Option<Duration>,
    },
    /// No response arrived.
    NoResponse {
        reason: &'static str,
        is_retryable: bool,
    },
}

impl Attempts {
    pub(super) fn new(deps: &Deps) -> Self {
        Self {
            clock: deps.clock.clone(),
            guard: deps.outbound.clone(),
            master_key: deps.master_key.clone(),
            http: Http1::to_users(&deps.outbound),
        }
    }

    /// Makes one attempt.
    pub(super) async fn make(
        &self,
        to: &ClaimedWebhook,
        message: &ClaimedMessage,
    ) -> AttemptResult {
        let result = self.post(to, message).await;
        decide(&result, message, &self.clock)
    }

    async fn post(&self, to: &ClaimedWebhook, message: &ClaimedMessage) -> PostResult {
        // The url was allowed when the webhook was created. The settings may have changed since.
        let Ok(url) = self.guard.webhook(&to.url) else {
            return PostResult::NoResponse { reason: ADDRESS_NOT_ALLOWED, is_retryable: false };
        };
        let Ok(secrets) = self.secrets(to) else {
            return PostResult::NoResponse {
                reason: "secret_cannot_be_opened",
                is_retryable: true,
            };
        };
        let body = body(message.at, message.data.clone());
        let id = message.id.to_string();
        // The wall clock, because receivers compare this time with their own.
        let seconds = self.clock.wall().as_seconds();
        let secret_bytes = secrets.iter().map(|secret| secret.as_slice());
        let signature = signature_header(secret_bytes, &id, seconds, &body);
        let headers = headers(&id, seconds, &signature);
        let deadline = Instant::now() + ATTEMPT_TIMEOUT;
        match self.send(url.as_str(), headers, body, deadline).await {
            Ok((status, headers)) => {
                let retry_after = retry_after(&headers, self.clock.wall());
                PostResult::Response { status, retry_after }
            }
            Err(result) => result,
        }
    }

    async fn send(
        &self,
        url: &str,
        headers: HeaderMap,
        body: Bytes,
        deadline: Instant,
    ) -> Result<(StatusCode, HeaderMap), PostResult> {
        self.http.post_for_head(url, headers, body, deadline).await.map_err(|failure| {
            PostResult::NoResponse { reason: reason_of(failure), is_retryable: true }
        })
    }

    /// The secrets to sign with: the current one, and the previous one while it is still valid.
    fn secrets(&self, to: &ClaimedWebhook) -> Result<Vec<Zeroizing<Vec<u8>>>, SecretError> {
        let sealed = [Some(&to.sealed), to.previous_sealed.as_ref()];
        let open = |sealed: &Vec<u8>| self.master_key.open_webhook(to.app, to.id, sealed);
        sealed.into_iter().flatten().map(open).collect()
    }
}

/// The reason why there was no response. Only fixed reasons are shown: a text of the peer or of a name server could
/// reveal the network behind the server.
fn reason_of(failure: TransportError) -> &'static str {
    if let Some(problem) = failure.tls_problem() {
        return problem.reason();
    }
    match failure.redacted().reason.as_ref() {
        "timeout" => "timeout",
        CONNECT_FAILED | CONNECT_TIMED_OUT => CONNECT_FAILED,
        PROXY_FAILED => PROXY_FAILED,
        _ => "connection_cut",
    }
}

fn headers(id: &str, seconds: i64, signature: &str) -> HeaderMap {
    let value = |text: &str| HeaderValue::from_str(text).expect("ids, digits and base64 are ASCII");
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(USER_AGENT, AGENT);
    headers.insert(ID, value(id));
    headers.insert(TIMESTAMP, value(&seconds.to_string()));
    headers.insert(SIGNATURE, value(signature));
    headers
}

/// The retry policy. A 2xx status is a success. A 410 disables the webhook. Everything else is a
/// failure that is retried until the schedule ends. A test message is sent only once.
fn decide(result: &PostResult, message: &ClaimedMessage, clock: &SharedClock) -> AttemptResult {
    let status = result.status();
    let status_code = status.map(|status| status.as_u16());
    let result_of = |step, reason| AttemptResult {
        step,
        status: status_code,
        reason,
        is_gone: status == Some(StatusCode::GONE),
    };
    if status.is_some_and(|status| status.is_success()) {
        return result_of(MessageStep::Delivered, None);
    }
    let is_test = matches!(message.data, WebhookData::WebhookTest(_));
    let step = if result.is_retryable() && !is_test {
        let failed = FailedAttempt {
            attempts: message.attempts + 1,
            started_at: message.started_at,
            now: clock.now(),
            is_backpressure: result.is_backpressure(),
            retry_after: result.retry_after(),
        };
        schedule::next_attempt(failed, fastrand::f64() * 2.0 - 1.0)
    } else {
        MessageStep::Failed
    };
    result_of(step, Some(result.reason()))
}

impl PostResult {
    fn status(&self) -> Option<StatusCode> {
        match self {
            Self::Response { status, .. } => Some(*status),
            Self::NoResponse { .. } => None,
        }
    }

    fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Response { retry_after, .. } => *retry_after,
            Self::NoResponse { .. } => None,
        }
    }

    /// The reason of a failure.
    fn reason(&self) -> &'static str {
        match self {
            Self::Response { status: StatusCode::GONE, .. } => WEBHOOK_GONE,
            Self::Response { status, .. } if status.is_redirection() => "redirected",
            Self::Response { .. } => "status",
            Self::NoResponse { reason, .. } => reason,
        }
    }

    fn is_retryable(&self) -> bool {
        match self {
            Self::Response { status, .. } => *status != StatusCode::GONE,
            Self::NoResponse { is_retryable, .. } => *is_retryable,
        }
    }

    /// Whether the endpoint was too slow, or requested fewer messages.
    fn is_backpressure(&self) -> bool {
        match self {
            Self::Response { status, .. } => matches!(status.as_u16(), 429 | 502 | 504),
            Self::NoResponse { reason, .. } => *reason == "timeout",
        }
    }
}

// Signatures of Standard Webhooks 1.0.0, over id, time and body.

/// The value of the header `webhook-signature`: a signature for each secret, separated by spaces,
/// the newest first.
fn signature_header<'s>(
    secrets: impl IntoIterator<Item = &'s [u8]>,
    id: &str,
    seconds: i64,
    body: &[u8],
) -> String {
    let signatures: Vec<String> =
        secrets.into_iter().map(|secret| sign_v1(secret, id, seconds, body)).collect();
    signatures.join(" ")
}

/// A signature of version 1: HMAC-SHA256 over id, time and body.
fn sign_v1(secret: &[u8], id: &str, seconds: i64, body: &[u8]) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
    let mut signing = hmac::Context::with_key(&key);
    signing.update(format!("{id}.{seconds}.").as_bytes());
    signing.update(body);
    format!("v1,{}", BASE64.encode(signing.sign()))
}

// The secrets of webhooks. The server generates them, seals them with the master key and shows them
// once.

/// Prefix of every secret (Standard Webhooks 1.0.0).
const PREFIX: &str = "whsec_";
/// Random bytes of a secret. Standard Webhooks requires 24 to 64.
const SECRET_BYTES: usize = 32;

/// Generates and seals a secret for a webhook.
pub(crate) fn make_secret(key: &MasterKey, app: AppId, id: WebhookId) -> SealedSecret {
    let mut secret = Zeroizing::new([0; SECRET_BYTES]);
    aws_lc_rs::rand::fill(secret.as_mut_slice()).expect("the operating system gives random bytes");
    SealedSecret { id, sealed: key.seal_webhook(app, id, secret.as_slice()) }
}

/// The secret in the form that the webhook's owner sees.
pub(crate) fn open_secret(
    key: &MasterKey,
    app: AppId,
    secret: &SealedSecret,
) -> Result<String, SecretError> {
    let bytes = key.open_webhook(app, secret.id, &secret.sealed)?;
    Ok(format!("{PREFIX}{}", BASE64.encode(bytes.as_slice())))
}

#[cfg(test)]
mod tests;
