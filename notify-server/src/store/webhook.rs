//! Webhooks, and the messages on their way to them.

use async_trait::async_trait;
use notify_core::{
    AppId, NewWebhook, Success, Timestamp, Webhook, WebhookAttempt, WebhookChange, WebhookData,
    WebhookId, WebhookMessageId, WebhookRecovered,
};
use serde::{Deserialize, Serialize};

use super::{AppNo, Done, Once, Page, PageRequest, StoreError};

/// Most webhooks of an application.
pub const WEBHOOKS_MAX: u64 = 20;
/// Most messages that wait for one webhook. Further events stay in the log, up to its bounds.
pub const MESSAGES_PENDING_MAX: i64 = 1_000;
/// How long a message that is over is kept, in milliseconds: 7 days.
pub const MESSAGES_KEPT_MS: i64 = 7 * 86_400_000;
/// Why the messages of a webhook end that is disabled.
pub const WEBHOOK_DISABLED: &str = "webhook_disabled";
/// Why a webhook is disabled whose endpoint answered 410.
pub const WEBHOOK_GONE: &str = "gone";
/// Why a webhook is disabled that failed for too long.
pub const WEBHOOK_FAILING: &str = "failing";
/// Why a message ends that is about what was erased meanwhile.
pub const MESSAGE_ERASED: &str = "erased";

/// Number of a webhook.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WebhookNo(pub i64);

/// Number of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MessageNo(pub i64);

/// A webhook and a sealed secret of it: what is kept for a repeat of the request that made it, and
/// never shown as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealedSecret {
    /// The webhook.
    pub id: WebhookId,
    /// Its secret, sealed.
    pub sealed: Vec<u8>,
}

/// A message that is to be tried, as it is kept for a repeat of the request that made it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageMade {
    /// Its id.
    pub id: WebhookMessageId,
}

/// What there is to do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WebhookWork {
    /// Webhooks that have something due, or events to be told of.
    pub ready: Vec<WebhookNo>,
    /// When the next message can be claimed that cannot yet.
    pub next_at: Option<Timestamp>,
}

/// Asks for messages of one webhook.
#[derive(Debug, Clone)]
pub struct WebhookClaim {
    /// Which.
    pub webhook: WebhookNo,
    /// The instant now.
    pub now: Timestamp,
    /// Until when nobody else gets them.
    pub lease_until: Timestamp,
    /// Tells this claim from others, of other processes too.
    pub claim: i64,
    /// Most messages.
    pub limit: u32,
    /// Ids for messages that are made of events.
    pub ids: Vec<WebhookMessageId>,
}

/// Messages of one webhook, and what it takes to send them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimedWebhook {
    /// The application, which its secrets are bound to.
    pub app: AppId,
    /// The webhook.
    pub id: WebhookId,
    /// Where it is.
    pub url: String,
    /// Its secret, sealed.
    pub sealed: Vec<u8>,
    /// The secret before it, sealed, where that still signs.
    pub previous_sealed: Option<Vec<u8>>,
    /// Messages.
    pub messages: Vec<ClaimedMessage>,
}

/// A message to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimedMessage {
    /// Inside number.
    pub no: MessageNo,
    /// Its `webhook-id`.
    pub id: WebhookMessageId,
    /// When the event was written.
    pub at: Timestamp,
    /// What it tells.
    pub data: WebhookData,
    /// How often it was tried.
    pub attempts: u32,
    /// What its schedule counts from.
    pub started_at: Timestamp,
}

/// How a message goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageStep {
    /// The endpoint took it.
    Delivered,
    /// It is tried again then.
    Again {
        /// When.
        due_at: Timestamp,
    },
    /// It is over.
    Failed,
}

/// What an attempt came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptOutcome {
    /// The webhook.
    pub webhook: WebhookNo,
    /// The message.
    pub message: MessageNo,
    /// The claim that it was tried under.
    pub claim: i64,
    /// How it goes on.
    pub step: MessageStep,
    /// Status of the answer.
    pub status: Option<u16>,
    /// Why it failed, a word.
    pub reason: Option<&'static str>,
    /// How long it took, in milliseconds.
    pub latency_ms: u64,
    /// When it was tried.
    pub at: Timestamp,
    /// Where it was sent. What another address than the webhook's own said counts for the message
    /// alone.
    pub url: String,
    /// Whether the endpoint wants nothing more (410): the webhook is disabled.
    pub is_gone: bool,
    /// A failure disables a webhook that has been failing since then or for longer.
    pub failing_before: Timestamp,
}

/// Webhooks of applications.
#[async_trait]
pub trait WebhookStore {
    /// Makes a webhook, which is told of what happens from now on; at most [`WEBHOOKS_MAX`] of an
    /// application.
    async fn create_webhook(
        &self,
        app: AppNo,
        webhook: NewWebhook,
        secret: SealedSecret,
        at: Timestamp,
        once: Option<Once>,
    ) -> Result<Done<SealedSecret>, StoreError>;

    /// Reads a webhook.
    async fn webhook(
        &self,
        app: AppNo,
        id: WebhookId,
        now: Timestamp,
    ) -> Result<Webhook, StoreError>;

    /// Lists webhooks, oldest first.
    async fn list_webhooks(
        &self,
        app: AppNo,
        page: PageRequest,
        now: Timestamp,
    ) -> Result<Page<Webhook>, StoreError>;

    /// Changes a webhook. Disabling it ends what waits for it; enabling it again forgives its
    /// failures, and tells it of what happens from then on. Another url has not failed yet.
    async fn change_webhook(
        &self,
        app: AppNo,
        id: WebhookId,
        change: WebhookChange,
        at: Timestamp,
    ) -> Result<(), StoreError>;

    /// Deletes a webhook with its messages.
    async fn delete_webhook(&self, app: AppNo, id: WebhookId) -> Result<(), StoreError>;

    /// Gives a webhook another secret; the one before it signs beside it until then.
    async fn rotate_webhook(
        &self,
        app: AppNo,
        secret: SealedSecret,
        (at, previous_until): (Timestamp, Timestamp),
        once: Option<Once>,
    ) -> Result<Done<SealedSecret>, StoreError>;

    /// Makes a message that tests an enabled webhook, due at once.
    async fn test_webhook(
        &self,
        app: AppNo,
        id: WebhookId,
        message: MessageMade,
        at: Timestamp,
        once: Option<Once>,
    ) -> Result<Done<MessageMade>, StoreError>;

    /// Has a message tried now, by its schedule from the beginning, whether it is over or waits to be
    /// tried again. One that is being tried goes on.
    async fn redeliver_message(
        &self,
        app: AppNo,
        (webhook, message): (WebhookId, WebhookMessageId),
        at: Timestamp,
        once: Option<Once>,
    ) -> Result<Done<Success>, StoreError>;

    /// Has what failed since then, or waits to be tried again, tried now: of messages made since then,
    /// the oldest first, up to [`MESSAGES_PENDING_MAX`] that wait. Tests are left out, and messages about
    /// what was erased.
    async fn recover_messages(
        &self,
        app: AppNo,
        (webhook, since): (WebhookId, Timestamp),
        at: Timestamp,
        once: Option<Once>,
    ) -> Result<Done<WebhookRecovered>, StoreError>;

    /// Reads a message.
    async fn webhook_attempt(
        &self,
        app: AppNo,
        webhook: WebhookId,
        message: WebhookMessageId,
    ) -> Result<WebhookAttempt, StoreError>;

    /// Lists the messages of a webhook, newest first.
    async fn list_webhook_attempts(
        &self,
        app: AppNo,
        webhook: WebhookId,
        page: PageRequest,
    ) -> Result<Page<WebhookAttempt>, StoreError>;

    /// What there is to do, for enabled webhooks of active applications.
    async fn webhook_work(&self, now: Timestamp) -> Result<WebhookWork, StoreError>;

    /// Makes messages of the events that a webhook was not told of yet, up to
    /// [`MESSAGES_PENDING_MAX`] that wait, and takes at most `limit` of those due, the longest due
    /// first; until `lease_until` nobody else gets them. `None` when the webhook is gone or disabled.
    /// Messages about what was erased end.
    async fn claim_messages(
        &self,
        claim: WebhookClaim,
    ) -> Result<Option<ClaimedWebhook>, StoreError>;

    /// Gives back what a process that ended had claimed: at a start, when no other one works.
    async fn release_messages(&self) -> Result<(), StoreError>;

    /// Commits what an attempt came to, unless another claim holds the message by now or it ended.
    /// Why the webhook was disabled by it, if it was: as it stands now, not as it was claimed.
    async fn settle_message(
        &self,
        outcome: AttemptOutcome,
    ) -> Result<Option<&'static str>, StoreError>;
}
