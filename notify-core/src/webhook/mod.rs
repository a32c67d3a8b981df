//! Webhooks: where an application wants to be told what happened, and what became of it.

mod event;
mod request;

pub use event::*;
pub use request::*;

use serde::{Deserialize, Serialize};

use crate::{Timestamp, WebhookId, WebhookMessageId};

/// A webhook as read back; its secrets are never shown again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Webhook {
    /// Id.
    pub id: WebhookId,
    /// Where its messages go.
    pub url: String,
    /// The types it is told of; empty is every type.
    pub events: Vec<WebhookEventType>,
    /// What it is for.
    pub description: Option<String>,
    /// Whether messages are sent.
    pub enabled: bool,
    /// Why the server disabled it: `gone` (it answered 410) or `failing` (nothing went well for 120
    /// hours).
    pub disabled_reason: Option<String>,
    /// Since when every attempt failed; null after one that went well.
    pub failing_since: Option<Timestamp>,
    /// Messages that wait for their next attempt.
    pub pending: u64,
    /// Events that were dropped since it was created, because the endpoint did not keep up.
    pub dropped: u64,
    /// Until when the secret before the last rotation signs too.
    pub previous_secret_until: Option<Timestamp>,
    /// Creation.
    pub created_at: Timestamp,
    /// Last change.
    pub updated_at: Timestamp,
}

/// Answer of `GET /v1/webhooks`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WebhookList {
    /// One page, oldest first.
    pub webhooks: Vec<Webhook>,
    /// Where the next page begins; null at the end.
    pub next_cursor: Option<String>,
}

/// Answer of `POST /v1/webhooks` and `POST /v1/webhooks/:id/rotate`: the only time that the secret
/// is shown.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WebhookCreated {
    /// Id of the webhook.
    pub id: WebhookId,
    /// The secret: `whsec_` and the base64 of 32 random bytes.
    pub secret: String,
}

impl std::fmt::Debug for WebhookCreated {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WebhookCreated").field("id", &self.id).finish_non_exhaustive()
    }
}

/// What became of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum WebhookOutcome {
    /// It is to be tried, for the first time or again.
    Pending,
    /// The endpoint took it.
    Delivered,
    /// It is not tried any more.
    Failed,
}

impl WebhookOutcome {
    /// Every outcome.
    pub const ALL: [Self; 3] = [Self::Pending, Self::Delivered, Self::Failed];

    /// The word on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Delivered => "delivered",
            Self::Failed => "failed",
        }
    }
}

/// A message to a webhook, with what its last attempt came to. Nothing that the endpoint said is
/// shown beyond its status.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WebhookAttempt {
    /// Id of the message, which is its `webhook-id` on every attempt.
    pub id: WebhookMessageId,
    /// What it tells.
    pub event: WebhookEventType,
    /// What became of it.
    pub outcome: WebhookOutcome,
    /// How often it was tried, since it was made or redelivered.
    pub attempts: u32,
    /// Status of the last answer; null where there was none.
    pub status: Option<u16>,
    /// Why the last attempt failed.
    pub reason: Option<String>,
    /// How long the last attempt took, in milliseconds.
    pub latency_ms: Option<u64>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last tried.
    pub last_attempt_at: Option<Timestamp>,
    /// When it is tried next; null once it is over.
    pub next_attempt_at: Option<Timestamp>,
}

/// Answer of `POST /v1/webhooks/:id/recover`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WebhookRecovered {
    /// How many messages are tried now.
    pub recovered: u64,
    /// Whether there are more, for which there was no room among those that wait: ask again.
    pub more: bool,
}

/// Answer of `GET /v1/webhooks/:id/attempts`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WebhookAttemptList {
    /// One page, newest first.
    pub attempts: Vec<WebhookAttempt>,
    /// Where the next page begins; null at the end.
    pub next_cursor: Option<String>,
}
