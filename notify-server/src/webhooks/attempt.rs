//! One attempt: a signed POST to an address that the guard lets through, and what it came to. Of the
//! answer only the status and `Retry-After` are looked at.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use notify_core::WebhookData;
use tokio::time::Instant;
use zeroize::Zeroizing;

use super::schedule::{self, Failed};
use super::{Around, body, signature};
use crate::clock::SharedClock;
use crate::outbound::{Outbound, retry_after};
use crate::providers::{ADDRESS_NOT_ALLOWED, CONNECT_FAILED, Http1};
use crate::secrets::{MasterKey, SecretError};
use crate::store::{ClaimedMessage, ClaimedWebhook, MessageStep, WEBHOOK_GONE};

/// Longest attempt, the connection included (Standard Webhooks: 15 to 30 s).
pub(super) const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(20);

const ID: HeaderName = HeaderName::from_static("webhook-id");
const TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");
const AGENT: HeaderValue = HeaderValue::from_static(concat!("notify/", env!("CARGO_PKG_VERSION")));

/// What attempts need.
pub(super) struct Attempts {
    clock: SharedClock,
    guard: Outbound,
    master_key: Arc<MasterKey>,
    http: Http1,
}

/// What an attempt came to.
#[derive(Debug, PartialEq)]
pub(super) struct Ended {
    pub(super) step: MessageStep,
    pub(super) status: Option<u16>,
    pub(super) reason: Option<&'static str>,
    pub(super) is_gone: bool,
}

/// What came back.
enum Came {
    Answer {
        status: StatusCode,
        retry_after: Option<Duration>,
    },
    /// Nothing, and why; worth another attempt or not.
    Nothing {
        reason: &'static str,
        again: bool,
    },
}

impl Attempts {
    pub(super) fn new(around: &Around) -> Self {
        Self {
            clock: around.clock.clone(),
            guard: around.outbound.clone(),
            master_key: around.master_key.clone(),
            http: Http1::to_users(&around.outbound),
        }
    }

    /// Makes one.
    pub(super) async fn make(&self, to: &ClaimedWebhook, message: &ClaimedMessage) -> Ended {
        let came = self.post(to, message).await;
        decide(&came, message, &self.clock)
    }

    async fn post(&self, to: &ClaimedWebhook, message: &ClaimedMessage) -> Came {
        // What was allowed when it was created need not be now.
        let Ok(url) = self.guard.webhook(&to.url) else {
            return Came::Nothing { reason: ADDRESS_NOT_ALLOWED, again: false };
        };
        let Ok(secrets) = self.secrets(to) else {
            return Came::Nothing { reason: "secret_cannot_be_opened", again: true };
        };
        let body = body(message.at, message.data.clone());
        let id = message.id.to_string();
        // Receivers compare it with their wall clock.
        let seconds = self.clock.wall().as_seconds();
        let secrets = secrets.iter().map(|secret| secret.as_slice());
        let signature = signature::header(secrets, &id, seconds, &body);
        let headers = headers(&id, seconds, &signature);
        let deadline = Instant::now() + ATTEMPT_TIMEOUT;
        match self.send(url.as_str(), headers, body, deadline).await {
            Ok((status, headers)) => {
                let retry_after = retry_after(&headers, self.clock.wall());
                Came::Answer { status, retry_after }
            }
            Err(came) => came,
        }
    }

    async fn send(
        &self,
        url: &str,
        headers: HeaderMap,
        body: Bytes,
        deadline: Instant,
    ) -> Result<(StatusCode, HeaderMap), Came> {
        self.http.post_for_head(url, headers, body, deadline).await.map_err(|failure| {
            // Words of ours: what the peer or its name server said is not told.
            let reason = match failure.without_cause().reason.as_ref() {
                "timeout" => "timeout",
                CONNECT_FAILED => CONNECT_FAILED,
                _ => "connection_cut",
            };
            Came::Nothing { reason, again: true }
        })
    }

    fn secrets(&self, to: &ClaimedWebhook) -> Result<Vec<Zeroizing<Vec<u8>>>, SecretError> {
        let sealed = [Some(&to.sealed), to.previous_sealed.as_ref()];
        let open = |sealed: &Vec<u8>| self.master_key.open_webhook(to.app, to.id, sealed);
        sealed.into_iter().flatten().map(open).collect()
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

/// The one place with policy: 2xx is a success, 410 the end of the endpoint, everything else a
/// failure that is tried again while the schedule lasts; a test is tried once.
fn decide(came: &Came, message: &ClaimedMessage, clock: &SharedClock) -> Ended {
    let status = came.status();
    let told = status.map(|status| status.as_u16());
    let ended = |step, reason| Ended {
        step,
        status: told,
        reason,
        is_gone: status == Some(StatusCode::GONE),
    };
    if status.is_some_and(|status| status.is_success()) {
        return ended(MessageStep::Delivered, None);
    }
    let is_test = matches!(message.data, WebhookData::WebhookTest(_));
    let step = if came.is_worth_another() && !is_test {
        let failed = Failed {
            attempts: message.attempts + 1,
            started_at: message.started_at,
            now: clock.now(),
            is_slowed: came.is_slowed(),
            retry_after: came.retry_after(),
        };
        schedule::after(failed, fastrand::f64() * 2.0 - 1.0)
    } else {
        MessageStep::Failed
    };
    ended(step, Some(came.reason()))
}

impl Came {
    fn status(&self) -> Option<StatusCode> {
        match self {
            Self::Answer { status, .. } => Some(*status),
            Self::Nothing { .. } => None,
        }
    }

    fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Answer { retry_after, .. } => *retry_after,
            Self::Nothing { .. } => None,
        }
    }

    /// A word for a failure.
    fn reason(&self) -> &'static str {
        match self {
            Self::Answer { status: StatusCode::GONE, .. } => WEBHOOK_GONE,
            Self::Answer { status, .. } if status.is_redirection() => "redirected",
            Self::Answer { .. } => "status",
            Self::Nothing { reason, .. } => reason,
        }
    }

    fn is_worth_another(&self) -> bool {
        match self {
            Self::Answer { status, .. } => *status != StatusCode::GONE,
            Self::Nothing { again, .. } => *again,
        }
    }

    /// Whether the endpoint was too slow, or asks for less.
    fn is_slowed(&self) -> bool {
        match self {
            Self::Answer { status, .. } => matches!(status.as_u16(), 429 | 502 | 504),
            Self::Nothing { reason, .. } => *reason == "timeout",
        }
    }
}

#[cfg(test)]
mod tests;
